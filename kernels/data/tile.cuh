// Tiles of a matrix: some rows of some features, copied to shared memory by one block.

#include "common/value.cuh"

constexpr int32 BIN_THREADS = 256;
constexpr int32 BIN_BYTES = 64;  // bytes of a row that a block reads; shared memory is below 48 KiB
constexpr int32 BIN_FEATURES = BIN_BYTES / sizeof(Value);

// Copy the values of `n_rows` rows and `n_own` features to shared memory; `corner` points to the
// first value. Neighbouring threads read along the contiguous dimension of X.
__device__ __forceinline__ void load_tile(Value (*tile)[BIN_THREADS + 1], const Value* corner,
                                          int64 row_stride, int64 column_stride, int32 n_rows,
                                          int32 n_own)
{
    const bool by_row = column_stride == 1;
    for (int32 i = threadIdx.x; i < BIN_THREADS * BIN_FEATURES; i += BIN_THREADS) {
        const int32 r = by_row ? i / BIN_FEATURES : i % BIN_THREADS;
        const int32 f = by_row ? i % BIN_FEATURES : i / BIN_THREADS;
        if (r < n_rows && f < n_own) tile[f][r] = corner[r * row_stride + f * column_stride];
    }
}
