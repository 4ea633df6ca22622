// The rank of a thread among the chosen threads of its block.

struct BlockRank {
    int32 before;  // chosen threads before this one
    int32 all;     // chosen threads of the block
};

// Every thread of the block takes part; `of_warp` is shared memory, one number per warp.
template <int32 WARPS>
__device__ __forceinline__ BlockRank block_rank(int32 (&of_warp)[WARPS], bool is_chosen)
{
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const uint32 votes = __ballot_sync(FULL_MASK, is_chosen);
    if (lane == 0) of_warp[warp] = __popc(votes);
    __syncthreads();
    BlockRank rank = {__popc(votes & ((1u << lane) - 1u)), 0};
    for (int32 w = 0; w < WARPS; ++w) {
        rank.before += w < warp ? of_warp[w] : 0;
        rank.all += of_warp[w];
    }
    __syncthreads();
    return rank;
}
