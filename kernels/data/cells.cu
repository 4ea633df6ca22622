// Passes over the values of a matrix that count them by radix cells, see
// gpuboost/data/radix_cells.py. Each pass reads every value once, for all features together.
//
//   X        float32 or float64 (n, F), strides counted in values; NaN is missing
//   counts   int64 (n,)    integer weights of the rows, read only if `weighted`, else each is 1;
//                          rows of weight 0 are left out
//   rank     int32 (F, 2^16)  number of cells of pass 1 with values, up to each of them: the row of
//                          the tables for such a cell, plus 1
//   start    int64 (F,)    where a feature's rows begin in the tables; -1: not in this pass
//   shift    uint8 (.)     by feature and row: a value goes from a cell that is split to row
//   offset   uint32 (.)    (key >> shift) + offset. For other cells, `shift` is WHOLE, and `offset`
//                          is the index below of what is found, or NOT_COUNTED
//   weight   int64 (.)     weights of cells: the weights of their values are added
//   smallest, largest  uint64 (.)  smallest and largest keys of cells
//
// Launch: grid (blocks of rows, blocks of BIN_FEATURES features), BIN_THREADS threads, no dynamic
// shared memory. A block takes `rows_per_block` rows, BIN_THREADS at a time. It copies their values
// to shared memory, then each thread has one row.

#include "data/tile.cuh"

constexpr int32 CELL_BLOCKS = 6;  // per multiprocessor; without it, NVRTC 13.5 spills for sm_120
constexpr int32 LEADING_SHIFT = 48;
constexpr uint64 SIGN_BIT = (uint64)1 << 63;
constexpr uint8 WHOLE = 255;
constexpr uint32 NOT_COUNTED = 0xffffffffu;
constexpr uint64 MISSING_KEY = 0xffffffffffffffffull;

// The float64 bit pattern as an integer of the same order: 0.0 and -0.0 have the same key.
__device__ __forceinline__ uint64 cell_key(Value x)
{
    if (x != x) return MISSING_KEY;
    const int64 bits = __double_as_longlong((double)x + 0.0);
    return (uint64)bits ^ ((uint64)(bits >> 63) | SIGN_BIT);
}

// The index of what is found for the cell of a key. The way to it begins in its cell of pass 1 and
// leads through the cells that were split since.
__device__ __forceinline__ uint32 index_of(uint64 key, int32 f, const int32* rank,
                                           const uint8* shift, const uint32* offset)
{
    uint32 at = rank[((int64)f << 16) + (int64)(key >> LEADING_SHIFT)] - 1;
    while (shift[at] != WHOLE) at = (uint32)(key >> shift[at]) + offset[at];
    return offset[at];
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

// Add weights by the leading bits of the keys; `weight` has 2^16 entries per feature.
extern "C" __global__ void __launch_bounds__(BIN_THREADS, CELL_BLOCKS)
count_leading_cells(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int32 n_features,
                    In<int64> counts, int32 weighted, int64 rows_per_block, Out<int64> weight)
{
    const auto visit = [&](int32 f, int64 row, uint64 key) {
        const int64 own = ((int64)f << 16) + (int64)(key >> LEADING_SHIFT);
        add_to(weight + own, weighted ? counts[row] : 1);
    };
    visit_values(X, n, row_stride, column_stride, n_features, counts, weighted != 0,
                 rows_per_block, visit);
}

// Add weights by cell, for the cells that have an index.
extern "C" __global__ void __launch_bounds__(BIN_THREADS, CELL_BLOCKS)
count_cells(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int32 n_features,
            In<int64> counts, int32 weighted, int64 rows_per_block, In<int32> rank,
            In<int64> start, In<uint8> shift, In<uint32> offset, Out<int64> weight)
{
    const auto visit = [&](int32 f, int64 row, uint64 key) {
        if (start[f] < 0) return;
        const uint32 own = index_of(key, f, rank, shift + start[f], offset + start[f]);
        if (own != NOT_COUNTED) add_to(weight + own, weighted ? counts[row] : 1);
    };
    visit_values(X, n, row_stride, column_stride, n_features, counts, weighted != 0,
                 rows_per_block, visit);
}

// Find the smallest and the largest key of the cells that have an index.
extern "C" __global__ void __launch_bounds__(BIN_THREADS, CELL_BLOCKS)
find_cell_extremes(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int32 n_features,
                   In<int64> counts, int32 weighted, int64 rows_per_block, In<int32> rank,
                   In<int64> start, In<uint8> shift, In<uint32> offset, Out<uint64> smallest,
                   Out<uint64> largest)
{
    const auto visit = [&](int32 f, int64 row, uint64 key) {
        if (start[f] < 0) return;
        const uint32 own = index_of(key, f, rank, shift + start[f], offset + start[f]);
        if (own == NOT_COUNTED) return;
        atomicMin(smallest + own, key);
        atomicMax(largest + own, key);
    };
    visit_values(X, n, row_stride, column_stride, n_features, counts, weighted != 0,
                 rows_per_block, visit);
}
