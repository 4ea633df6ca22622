// The highest rates of copies and of additions to shared memory, measured in the same run as the
// kernels that are compared with them.

constexpr int32 CEILING_THREADS = 512;
constexpr int32 CEILING_LANES = 32;
constexpr int32 CEILING_BINS = 256;
constexpr int32 CELLS = CEILING_BINS * CEILING_LANES;
constexpr int32 ADDS_AT_ONCE = 8;

struct __align__(16) Word {
    int64 low;
    int64 high;
};

// Copy `n` words of 16 bytes; each thread has 4 words in flight. Launch: any grid.
extern "C" __global__ void __launch_bounds__(CEILING_THREADS)
copy_words(In<int64> from, Out<int64> to, int64 n)
{
    const Word* source = reinterpret_cast<const Word*>(from);
    Word* target = reinterpret_cast<Word*>(to);
    const int64 step = (int64)gridDim.x * CEILING_THREADS;
    int64 at = (int64)blockIdx.x * CEILING_THREADS + threadIdx.x;
    for (; at + 3 * step < n; at += 4 * step) {
        const Word a = source[at], b = source[at + step];
        const Word c = source[at + 2 * step], d = source[at + 3 * step];
        target[at] = a;
        target[at + step] = b;
        target[at + 2 * step] = c;
        target[at + 3 * step] = d;
    }
    for (; at < n; at += step) target[at] = source[at];
}

// Every thread adds `value` ADDS_AT_ONCE * rounds times to pseudo-random cells of shared memory,
// each lane in a bank of its own: the additions of a histogram without its loads. The sum of a
// block's cells, added to `total` at the end, shows that none was lost. `value` is 1, but as an
// argument: for a constant 1 the compiler would choose an instruction that only counts, unlike
// histograms.
// Launch: any grid; dynamic shared memory 4 * CELLS bytes.
extern "C" __global__ void __launch_bounds__(CEILING_THREADS)
add_shared(int32 rounds, uint32 value, Out<uint32> total)
{
    DYNAMIC_SHARED(uint32, cells);
    for (int32 i = threadIdx.x; i < CELLS; i += CEILING_THREADS) cells[i] = 0;
    __syncthreads();
    const uint32 lane = threadIdx.x % CEILING_LANES;
    uint32 word = blockIdx.x * CEILING_THREADS + threadIdx.x;
    for (int32 round = 0; round < rounds; ++round) {
        word = word * 1664525u + 1013904223u;
        #pragma unroll
        for (int32 j = 0; j < ADDS_AT_ONCE; ++j) {
            const uint32 bin = ((word >> 8) + 37u * j) & (CEILING_BINS - 1);
            atomicAdd(cells + bin * CEILING_LANES + lane, value);
        }
    }
    __syncthreads();
    uint32 own = 0;
    for (int32 i = threadIdx.x; i < CELLS; i += CEILING_THREADS) own += cells[i];
    atomicAdd(total + blockIdx.x, own);
}
