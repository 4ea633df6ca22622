// Running sums over all nodes (or pieces of rows) of a level, by many blocks.
//
//   tile     CHUNK_THREADS contiguous items, one for each thread of a block
//   chunk    contiguous tiles, the same number in each, but fewer or none in the last chunks; a
//            block processes a chunk tile by tile
//   totals   int64 (n_chunks,)    sum over each chunk, from an earlier launch
//
//   tiles     0 1 2   3 4 5   6
//   totals      a       b     c         the block of chunk 2 begins with a + b
//
// A single chunk needs no totals: if the capacity of a level is a few tiles, one launch is enough.

#include "common/running_sum.cuh"

constexpr int32 CHUNK_THREADS = 1024;
constexpr int32 CHUNK_BLOCKS = 1;  // per multiprocessor; more would leave fewer registers
constexpr int32 CHUNK_WARPS = CHUNK_THREADS / WARP;

struct Chunk {
    int64 first;
    int64 end;  // the last chunks can be empty

    __device__ __forceinline__ bool is_empty() const { return first == end; }
};

__device__ __forceinline__ Chunk chunk_of(int64 n_items, int32 chunk, int32 n_chunks)
{
    const int64 tiles = (n_items + CHUNK_THREADS - 1) / CHUNK_THREADS;
    const int64 size = (tiles + n_chunks - 1) / n_chunks * CHUNK_THREADS;
    const int64 first = min(n_items, chunk * size);
    return {first, min(n_items, first + size)};
}

// The sum over the items of the chunks before `chunk`. Every thread of the block takes part.
__device__ __forceinline__ int64 sum_before(int64 (&warp_sums)[CHUNK_WARPS],
                                            In<int64> totals, int32 chunk)
{
    if (chunk == 0) return 0;
    int64 own = 0;
    for (int32 c = threadIdx.x; c < chunk; c += CHUNK_THREADS) own += totals[c];
    return running_sum(warp_sums, own).all;
}

// Write the sum over all threads of the block. Every thread takes part.
__device__ __forceinline__ void write_total(int64 (&warp_sums)[CHUNK_WARPS], int64* total,
                                            int64 own)
{
    const RunningSum sum = running_sum(warp_sums, own);
    if (threadIdx.x == 0) *total = sum.all;
}

// Two numbers packed into one, to be summed together; each sum must fit in 31 bits.
__device__ __forceinline__ int64 packed(int64 low, int64 high) { return low | high << 32; }
__device__ __forceinline__ int32 low_of(int64 both) { return (int32)both; }
__device__ __forceinline__ int32 high_of(int64 both) { return (int32)(both >> 32); }

// Number of pieces, of at most `capacity` rows each, that contiguous rows are cut into.
__device__ __forceinline__ int64 pieces_of(int64 rows, int32 capacity)
{
    return (rows + capacity - 1) / capacity;
}
