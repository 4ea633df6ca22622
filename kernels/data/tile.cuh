// Tiles of a matrix: some rows of some features, copied to shared memory by one block.

#include "common/value.cuh"

constexpr int32 BIN_THREADS = 256;
constexpr int32 BIN_BYTES = 64;  // bytes of a row that a block reads; shared memory is below 48 KiB
constexpr int32 BIN_FEATURES = BIN_BYTES / sizeof(Value);

typedef Value Tile[BIN_FEATURES][BIN_THREADS + 1];

// The rows and features of X that a block reads.
struct BlockPart {
    In<Value> X;
    int64 n, row_stride, column_stride;
    int32 n_features;
    int64 rows_per_block;

    __device__ __forceinline__ int32 first_feature() const { return blockIdx.y * BIN_FEATURES; }
    __device__ __forceinline__ int32 n_own() const
    {
        return min(BIN_FEATURES, n_features - first_feature());
    }
};

// Copy the values of the block's part to shared memory, BIN_THREADS rows at a time, and call
// visit(tile, first row of the tile, whether this thread has a row). Neighbouring threads read
// along the contiguous dimension of X. Every thread of the block takes part.
template <typename Visit>
__device__ __forceinline__ void visit_tiles(const BlockPart& part, const Visit& visit)
{
    __shared__ Tile tile;
    const bool by_row = part.column_stride == 1;
    const int64 begin = blockIdx.x * part.rows_per_block;
    const int64 end = min(begin + part.rows_per_block, part.n);
    for (int64 start = begin; start < end; start += BIN_THREADS) {
        const int32 n_rows = (int32)min((int64)BIN_THREADS, end - start);
        const Value* corner
            = part.X + start * part.row_stride + part.first_feature() * part.column_stride;
        for (int32 i = threadIdx.x; i < BIN_THREADS * BIN_FEATURES; i += BIN_THREADS) {
            const int32 r = by_row ? i / BIN_FEATURES : i % BIN_THREADS;
            const int32 f = by_row ? i % BIN_FEATURES : i / BIN_THREADS;
            if (r >= n_rows || f >= part.n_own()) continue;
            tile[f][r] = corner[r * part.row_stride + f * part.column_stride];
        }
        __syncthreads();
        visit(tile, start, (int32)threadIdx.x < n_rows);
        __syncthreads();
    }
}
