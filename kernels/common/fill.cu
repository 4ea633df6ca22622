// Fills arrays with one value, or with 0, step, 2 * step, ...
//
//   to      uint8, uint32 or uint64 (n,)    the array, viewed as unsigned integers of the size of
//                                           its items; int32 for count_up
//   value                                   the bits of the value, as an integer of the same size
//
// Launch: any number of blocks of FILL_THREADS threads, which loop over items with the stride of
// the grid. No shared memory.

constexpr int32 FILL_THREADS = 256;
constexpr int32 FILL_BLOCKS = 8;  // per multiprocessor

template <typename Word>
__device__ __forceinline__ void fill_items(Out<Word> to, int64 n, Word value)
{
    const int64 step = (int64)gridDim.x * FILL_THREADS;
    for (int64 i = (int64)blockIdx.x * FILL_THREADS + threadIdx.x; i < n; i += step) to[i] = value;
}

extern "C" __global__ void __launch_bounds__(FILL_THREADS, FILL_BLOCKS)
fill_bytes(Out<uint8> to, int64 n, uint8 value)
{
    fill_items(to, n, value);
}

extern "C" __global__ void __launch_bounds__(FILL_THREADS, FILL_BLOCKS)
fill_words(Out<uint32> to, int64 n, uint32 value)
{
    fill_items(to, n, value);
}

extern "C" __global__ void __launch_bounds__(FILL_THREADS, FILL_BLOCKS)
fill_longs(Out<uint64> to, int64 n, uint64 value)
{
    fill_items(to, n, value);
}

// Write 0, step, 2 * step, ... to the array.
extern "C" __global__ void __launch_bounds__(FILL_THREADS, FILL_BLOCKS)
count_up(Out<int32> to, int64 n, int32 step)
{
    const int64 stride = (int64)gridDim.x * FILL_THREADS;
    for (int64 i = (int64)blockIdx.x * FILL_THREADS + threadIdx.x; i < n; i += stride) {
        to[i] = (int32)i * step;
    }
}
