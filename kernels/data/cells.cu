// Passes over the values of a matrix that count them by radix cells, see
// gpuboost/data/radix_cells.py. Each pass reads every value once, for all features together.
//
//   X        float32 or float64, strides counted in values; NaN is missing. F consecutive features
//            of n rows are counted; the first value of these is X[x_start]
//   counts   int64 (n,)    integer weights of the rows, read only if `weighted`, else each is 1;
//                          rows of weight 0 are left out
//   cell     int32 (F, n)  current cell of each value
//   start    int64 (F,)    where a feature's entries begin in tables by cell; -1: not in this pass
//   shift    uint8 (.)     by feature and cell: a value goes to cell (key >> shift) + offset
//   offset   uint32 (.)
//   n_before int32 (F,)    cells from this number on are counted
//   begin    int64 (F,)    where their weights begin
//   weight   int64 (.)     by feature and counted cell: the weights are added to it
//   slot     int64 (.)     by feature and cell: index of its keys below, or -1
//   smallest, largest  uint64 (.)  smallest and largest key of each slot
//
// Launch: grid (blocks of rows, blocks of BIN_FEATURES features), BIN_THREADS threads, no dynamic
// shared memory. A block takes `rows_per_block` rows, BIN_THREADS at a time. It copies their values
// to shared memory, then each thread has one row.

#include "data/tile.cuh"

constexpr int32 LEADING_SHIFT = 48;
constexpr uint64 SIGN_BIT = (uint64)1 << 63;
constexpr uint64 MISSING_KEY = 0xffffffffffffffffull;

// The float64 bit pattern as an integer of the same order: 0.0 and -0.0 have the same key.
__device__ __forceinline__ uint64 cell_key(Value x)
{
    if (x != x) return MISSING_KEY;
    const int64 bits = __double_as_longlong((double)x + 0.0);
    return (uint64)bits ^ ((uint64)(bits >> 63) | SIGN_BIT);
}

// Call `visit(feature, row, key)` for all values of the block's rows and features that take part.
template <typename Visit>
__device__ __forceinline__ void visit_values(const Value* X, int64 n, int64 row_stride,
                                             int64 column_stride, int32 n_features,
                                             const int64* counts, bool weighted,
                                             int64 rows_per_block, Visit visit)
{
    __shared__ Value tile[BIN_FEATURES][BIN_THREADS + 1];
    const int32 f0 = blockIdx.y * BIN_FEATURES;
    const int32 n_own = min(BIN_FEATURES, n_features - f0);
    const int64 begin = blockIdx.x * rows_per_block;
    const int64 end = min(begin + rows_per_block, n);
    for (int64 first = begin; first < end; first += BIN_THREADS) {
        const int32 n_rows = (int32)min((int64)BIN_THREADS, end - first);
        const Value* corner = X + first * row_stride + f0 * column_stride;
        load_tile(tile, corner, row_stride, column_stride, n_rows, n_own);
        __syncthreads();
        const int64 row = first + threadIdx.x;
        if ((int32)threadIdx.x < n_rows && (!weighted || counts[row] > 0)) {
            for (int32 f = 0; f < n_own; ++f) visit(f0 + f, row, cell_key(tile[f][threadIdx.x]));
        }
        __syncthreads();
    }
}

// Pass 1: find the cell of each value, and add its weight; `weight` has 2^16 entries per feature.
extern "C" __global__ void __launch_bounds__(BIN_THREADS)
count_leading_cells(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int64 x_start,
                    int32 n_features, In<int64> counts, int32 weighted, int64 rows_per_block,
                    Out<int32> cell, Out<int64> weight)
{
    const auto visit = [&](int32 f, int64 row, uint64 key) {
        const int32 own = (int32)(key >> LEADING_SHIFT);
        cell[f * n + row] = own;
        add_to(weight + ((int64)f << 16) + own, weighted ? counts[row] : 1);
    };
    visit_values(X + x_start, n, row_stride, column_stride, n_features, counts, weighted != 0,
                 rows_per_block, visit);
}

// Move each value to the cell that its key leads to, and add the weights of new cells.
extern "C" __global__ void __launch_bounds__(BIN_THREADS)
split_cells(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int64 x_start,
            int32 n_features, In<int64> counts, int32 weighted, int64 rows_per_block,
            In<int64> start, In<uint8> shift, In<uint32> offset, In<int32> n_before,
            In<int64> begin, Out<int32> cell, Out<int64> weight)
{
    const auto visit = [&](int32 f, int64 row, uint64 key) {
        if (start[f] < 0) return;
        const int64 before = start[f] + cell[f * n + row];
        const int32 own = (int32)((uint32)(key >> shift[before]) + offset[before]);
        cell[f * n + row] = own;
        if (own < n_before[f]) return;
        add_to(weight + begin[f] + (own - n_before[f]), weighted ? counts[row] : 1);
    };
    visit_values(X + x_start, n, row_stride, column_stride, n_features, counts, weighted != 0,
                 rows_per_block, visit);
}

// Find the smallest and the largest key in each slot.
extern "C" __global__ void __launch_bounds__(BIN_THREADS)
find_cell_extremes(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int64 x_start,
                   int32 n_features, In<int64> counts, int32 weighted, int64 rows_per_block,
                   In<int64> start, In<int32> cell, In<int64> slot, Out<uint64> smallest,
                   Out<uint64> largest)
{
    const auto visit = [&](int32 f, int64 row, uint64 key) {
        if (start[f] < 0) return;
        const int64 own = slot[start[f] + cell[f * n + row]];
        if (own < 0) return;
        atomicMin(smallest + own, key);
        atomicMax(largest + own, key);
    };
    visit_values(X + x_start, n, row_stride, column_stride, n_features, counts, weighted != 0,
                 rows_per_block, visit);
}
