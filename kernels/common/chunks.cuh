// Running sums over all nodes (or pieces of rows) of a level, by many blocks.
//
//   tile     CHUNK_THREADS items side by side, one for each thread of a block
//   chunk    tiles side by side, as many in each; what a block goes through, tile by tile
//   totals   int64 (n_chunks,)    sum over each chunk, by a launch before
//
//   tiles     0 1 2   3 4 5   6
//   totals      a       b     c         a block begins with what the chunks before its own have
//
// Of one chunk no totals are read: where there is room for some tiles only, one launch does.

#include "common/running_sum.cuh"

constexpr int32 CHUNK_THREADS = 1024;
constexpr int32 CHUNK_BLOCKS = 1;  // on a multiprocessor; asking for more would cost registers
constexpr int32 CHUNK_WARPS = CHUNK_THREADS / WARP;

struct Chunk {
    int64 first;
    int64 end;  // of the last chunk there may be none

    __device__ __forceinline__ bool is_empty() const { return first == end; }
};

__device__ __forceinline__ Chunk chunk_of(int64 n_items, int32 chunk, int32 n_chunks)
{
    const int64 tiles = (n_items + CHUNK_THREADS - 1) / CHUNK_THREADS;
    const int64 size = (tiles + n_chunks - 1) / n_chunks * CHUNK_THREADS;
    const int64 first = min(n_items, chunk * size);
    return {first, min(n_items, first + size)};
}

// What the chunks before one have. Every thread of the block takes part.
__device__ __forceinline__ int64 sum_before(int64 (&warp_sums)[CHUNK_WARPS],
                                            const int64* __restrict__ totals, int32 chunk)
{
    if (chunk == 0) return 0;
    int64 own = 0;
    for (int32 c = threadIdx.x; c < chunk; c += CHUNK_THREADS) own += totals[c];
    return running_sum(warp_sums, own).all;
}

// The sum over all threads of the block, each of which takes part.
__device__ __forceinline__ void keep_total(int64 (&warp_sums)[CHUNK_WARPS], int64* total, int64 own)
{
    const RunningSum sum = running_sum(warp_sums, own);
    if (threadIdx.x == 0) *total = sum.all;
}

// Two numbers that are summed as one: neither sum may leave 31 bits.
__device__ __forceinline__ int64 packed(int64 low, int64 high) { return low | high << 32; }
__device__ __forceinline__ int32 low_of(int64 both) { return (int32)both; }
__device__ __forceinline__ int32 high_of(int64 both) { return (int32)(both >> 32); }

// Pieces of at most `capacity` rows that some rows are cut into.
__device__ __forceinline__ int64 pieces_of(int64 rows, int32 capacity)
{
    return (rows + capacity - 1) / capacity;
}
