// Copies a matrix to float64 columns, so that warps read consecutive rows of a column.
//
//   X         float32 or float64 (n, F), strides counted in values
//   columns   float64 (F, n)
//
// Launch: grid (blocks of rows, blocks of BIN_FEATURES features), BIN_THREADS threads. A block
// takes `rows_per_block` rows, BIN_THREADS at a time, through shared memory.

#include "data/tile.cuh"

extern "C" __global__ void __launch_bounds__(BIN_THREADS)
widen_columns(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int32 n_features,
              int64 rows_per_block, Out<double> columns)
{
    __shared__ Value tile[BIN_FEATURES][BIN_THREADS + 1];
    const int32 f0 = blockIdx.y * BIN_FEATURES;
    const int32 n_own = min(BIN_FEATURES, n_features - f0);
    const int64 begin = blockIdx.x * rows_per_block;
    const int64 end = min(begin + rows_per_block, n);
    for (int64 start = begin; start < end; start += BIN_THREADS) {
        const int32 n_rows = (int32)min((int64)BIN_THREADS, end - start);
        const Value* corner = X + start * row_stride + f0 * column_stride;
        load_tile(tile, corner, row_stride, column_stride, n_rows, n_own);
        __syncthreads();
        if ((int32)threadIdx.x < n_rows) {
            double* own = columns + f0 * n + start + threadIdx.x;
            for (int32 f = 0; f < n_own; ++f) own[f * n] = tile[f][threadIdx.x];
        }
        __syncthreads();
    }
}
