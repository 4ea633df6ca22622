// Histograms of the nodes of a level: per node, feature and code the sums of its rows.
//
//   codes      uint8  (tiles, n, tile)        `tile` features of a row side by side
//   looked     int32  (slots, M) or (1, M)    features whose histograms are built, -1 for none; the
//                                             rows of this list are `stride` apart (0: one for all)
//   row        uint32 (r,)                    row of the matrix, those of a node side by side
//   weight     uint32 (r,)                    at most 2**31 - 1
//   target     int32  (C, r)                  values of each output; [class is 1]; or the class
//   n_pieces   int32  (1,)                    the arrays of pieces have room for more
//   slot, first, rows   int32, int64, int32 (pieces,)    what each block does, by policy.cu
//   histogram  int64  (slots, M, width, 2 + K)    weight, rows, gradients; zero before the launch
//
// Launch: grid (pieces, M / TILE, K), HISTOGRAM_THREADS threads, shared memory below. Pieces whose
// slot is not among the `n_slots` from `first_slot` on are left out.
// A block adds some rows of one node (slot) in TILE of its features and one channel of gradients.
// A warp takes 32 / TILE rows, a lane one feature:
//
//                lane 0   lane 1   ...  lane 31
//   row 7        code 3   code 9        code 3
//   adds to      [3][0]   [9][1]        [3][31]    of a plane [bin][lane]: every lane its own bank
//
// Shared memory: uint32 [plane][width][TILE]. Only 32-bit shared atomics are native, so a plane of
// weights may not wrap (the host bounds the rows of a block by the largest weight) and a gradient
// is two planes, the low half with a carry into the high one.

#ifndef TILE
#define TILE 32  // features of a block: fewer where few are looked at or shared memory is small
#endif

constexpr int32 HISTOGRAM_THREADS = 512;
constexpr int32 VALUE_PLANES = 4;        // low and high half, weight, rows if they are counted
constexpr int32 CLASS_PLANES = 2;        // weight, rows if they are counted
constexpr int32 ROWS_AHEAD = 4;          // loads in flight per lane before their additions
constexpr int32 ROW_STRIDE = HISTOGRAM_THREADS / TILE;  // rows that a block takes at once
constexpr uint32 NO_CELL = 0xffffffffu;

// What one lane adds: `weight` and `value` to the cell of its feature.
struct Entry {
    uint32 cell;
    uint32 weight;
    int64 value;
};

// The codes of one lane's feature.
struct Column {
    const uint8* codes;  // null where the lane has no feature
    int64 stride;
    int32 lane;

    __device__ __forceinline__ uint32 cell(uint32 row) const
    {
        return __ldg(codes + row * stride) * TILE + lane;
    }
};

// The list entry that a lane stands for.
__device__ __forceinline__ int32 entry_of(int32 lane) { return (int32)blockIdx.y * TILE + lane; }

__device__ __forceinline__ Column column_of(const uint8* codes, const int32* looked,
                                            int32 n_looked, int64 n_samples, int32 tile)
{
    const int32 lane = threadIdx.x % TILE, entry = entry_of(lane);
    const int32 f = entry < n_looked ? looked[entry] : -1;
    if (f < 0) return {nullptr, 0, lane};
    return {codes + (f / tile) * n_samples * tile + f % tile, tile, lane};
}

__device__ __forceinline__ void zero(uint32* cells, int32 n_cells)
{
    for (int32 i = threadIdx.x; i < n_cells; i += HISTOGRAM_THREADS) cells[i] = 0;
}

// Where a cell of shared memory goes in the histogram; null behind the end of the list.
__device__ __forceinline__ int64* output_cell(int64* histogram, int32 slot, int32 n_looked,
                                              int32 width, int32 planes, int32 cell)
{
    const int32 entry = entry_of(cell % TILE);
    if (entry >= n_looked) return nullptr;
    return histogram + (((int64)slot * n_looked + entry) * width + cell / TILE) * planes;
}

__device__ __forceinline__ void flush(int64* to, int64 sum)
{
    if (sum != 0) atomicAdd((uint64*)to, (uint64)sum);
}

// Regression, and two classes: channel blockIdx.z is the sum of weight * target[blockIdx.z].
// Channel 0 also sums weights and counts rows.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS)
histogram_values(const uint8* __restrict__ codes, const uint32* __restrict__ row,
                 const uint32* __restrict__ weight, const int32* __restrict__ target,
                 const int32* __restrict__ n_pieces, const int32* __restrict__ slot,
                 const int64* __restrict__ first, const int32* __restrict__ rows,
                 int32 first_slot, int32 n_slots, const int32* __restrict__ looked, int32 stride,
                 int32 n_looked, int64 n_samples, int32 tile, int64 n_rows, int32 width,
                 int32 counted, int64* __restrict__ histogram)
{
    DYNAMIC_SHARED(uint32, low);
    if ((int32)blockIdx.x >= *n_pieces) return;
    const int32 own = slot[blockIdx.x] - first_slot;
    if (own < 0 || own >= n_slots) return;
    const int32 cells = width * TILE, channel = blockIdx.z;
    uint32 *high = low + cells, *weights = high + cells, *counts = weights + cells;
    const bool first_channel = channel == 0, counts_rows = first_channel && counted;
    const int32 planes = counts_rows ? VALUE_PLANES : first_channel ? VALUE_PLANES - 1 : 2;

    // zero
    zero(low, planes * cells);
    __syncthreads();

    // accumulate
    const Column column = column_of(codes, looked + (int64)own * stride, n_looked, n_samples, tile);
    const int32* values = target + (int64)channel * n_rows;
    const int64 begin = first[blockIdx.x];
    const int32 end = column.codes == nullptr ? 0 : rows[blockIdx.x];
    for (int32 at = threadIdx.x / TILE; at < end; at += ROWS_AHEAD * ROW_STRIDE) {
        Entry entry[ROWS_AHEAD];
        #pragma unroll
        for (int32 j = 0; j < ROWS_AHEAD; ++j) {
            const int32 local = at + j * ROW_STRIDE;
            entry[j].cell = NO_CELL;
            if (local < end) {
                entry[j].cell = column.cell(__ldg(row + begin + local));
                entry[j].weight = __ldg(weight + begin + local);
                entry[j].value = (int64)entry[j].weight * __ldg(values + begin + local);
            }
        }
        #pragma unroll
        for (int32 j = 0; j < ROWS_AHEAD; ++j) {
            const uint32 cell = entry[j].cell;
            if (cell == NO_CELL) continue;
            if (entry[j].value != 0) add_halves(low + cell, high + cell, entry[j].value);
            if (first_channel) atomicAdd(weights + cell, entry[j].weight);
            if (counts_rows) atomicAdd(counts + cell, 1u);
        }
    }
    __syncthreads();

    // flush
    const int32 out_planes = 2 + gridDim.z;
    for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS) {
        int64* out = output_cell(histogram, own, n_looked, width, out_planes, cell);
        if (out == nullptr) continue;
        flush(out + 2 + channel, (int64)((uint64)high[cell] << 32 | low[cell]));
        if (first_channel) flush(out, weights[cell]);
        if (counts_rows) flush(out + 1, counts[cell]);
    }
}

// More than two classes: channel blockIdx.z is the weight of that class, and adds to the total.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS)
histogram_classes(const uint8* __restrict__ codes, const uint32* __restrict__ row,
                  const uint32* __restrict__ weight, const int32* __restrict__ target,
                  const int32* __restrict__ n_pieces, const int32* __restrict__ slot,
                  const int64* __restrict__ first, const int32* __restrict__ rows,
                  int32 first_slot, int32 n_slots, const int32* __restrict__ looked, int32 stride,
                  int32 n_looked, int64 n_samples, int32 tile, int32 width, int32 counted, int64* __restrict__ histogram)
{
    DYNAMIC_SHARED(uint32, weights);
    if ((int32)blockIdx.x >= *n_pieces) return;
    const int32 own = slot[blockIdx.x] - first_slot;
    if (own < 0 || own >= n_slots) return;
    const int32 cells = width * TILE, channel = blockIdx.z;
    uint32* counts = weights + cells;

    // zero
    zero(weights, (counted ? CLASS_PLANES : CLASS_PLANES - 1) * cells);
    __syncthreads();

    // accumulate
    const Column column = column_of(codes, looked + (int64)own * stride, n_looked, n_samples, tile);
    const int64 begin = first[blockIdx.x];
    const int32 end = column.codes == nullptr ? 0 : rows[blockIdx.x];
    for (int32 at = threadIdx.x / TILE; at < end; at += ROW_STRIDE) {
        if (__ldg(target + begin + at) != channel) continue;
        const uint32 cell = column.cell(__ldg(row + begin + at));
        atomicAdd(weights + cell, __ldg(weight + begin + at));
        if (counted) atomicAdd(counts + cell, 1u);
    }
    __syncthreads();

    // flush
    const int32 out_planes = 2 + gridDim.z;
    for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS) {
        int64* out = output_cell(histogram, own, n_looked, width, out_planes, cell);
        if (out == nullptr) continue;
        flush(out + 2 + channel, weights[cell]);
        flush(out, weights[cell]);
        if (counted) flush(out + 1, counts[cell]);
    }
}

// Zero the histograms of a level: those of the `n_slots` slots from `first_slot` on that there are,
// n_cells int64 numbers each. sizes[0] of policy.cu is the number of slots.
// Launch: any grid of HISTOGRAM_THREADS threads.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS)
zero_histograms(const int32* __restrict__ sizes, int32 first_slot, int32 n_slots, int64 n_cells,
                int64* __restrict__ histogram)
{
    const int64 end = (int64)min(sizes[0] - first_slot, n_slots) * n_cells;
    const int64 step = (int64)gridDim.x * HISTOGRAM_THREADS;
    for (int64 i = (int64)blockIdx.x * HISTOGRAM_THREADS + threadIdx.x; i < end; i += step) {
        histogram[i] = 0;
    }
}
