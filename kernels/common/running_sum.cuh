// The running sum over the threads of a block, of one number per thread.

struct RunningSum {
    int64 before;  // sum over the threads before this one
    int64 all;     // sum over all threads of the block
};

// Every thread of the block takes part; `warp_sums` is shared memory, one number per warp.
template <int32 WARPS>
__device__ __forceinline__ RunningSum running_sum(int64 (&warp_sums)[WARPS], int64 own)
{
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64 value = warp_running_sum(own);
    if (WARPS == 1) return {value - own, __shfl_sync(FULL_MASK, value, WARP - 1)};
    if (lane == WARP - 1) warp_sums[warp] = value;
    __syncthreads();
    RunningSum sum = {value - own, 0};
    #pragma unroll 4  // full unrolling would need more registers than threads of a large block have
    for (int32 w = 0; w < WARPS; ++w) {
        sum.before += w < warp ? warp_sums[w] : 0;
        sum.all += warp_sums[w];
    }
    __syncthreads();
    return sum;
}
