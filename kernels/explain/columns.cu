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
    const BlockPart part = {X, n, row_stride, column_stride, n_features, rows_per_block};
    visit_tiles(part, [&](const Tile& tile, int64 start, bool inside) {
        if (!inside) return;
        double* own = columns + part.first_feature() * n + start + threadIdx.x;
        for (int32 f = 0; f < part.n_own(); ++f) own[f * n] = tile[f][threadIdx.x];
    });
}
