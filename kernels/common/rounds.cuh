// Definitions shared by the kernels of boosting rounds, of AdaBoost rounds and, for the exponents,
// of finished nodes.

#include "common/float_exponent.cuh"

constexpr int32 BOOST_THREADS = 256, BOOST_WARPS = BOOST_THREADS / WARP;
constexpr int32 BOOST_BLOCKS = 4;  // per multiprocessor; more would spill registers

constexpr int32 SUM_BITS = 62;   // largest number of bits of a sum of fixed-point numbers

// Indices in the exponents of a round: those of the narrow integers, by which splits are chosen,
// then those of the wide integers, from which leaf values are computed.
constexpr int32 NARROW_GRADIENT = 0, NARROW_HESSIAN = 1, WIDE_GRADIENT = 2, WIDE_HESSIAN = 3;

__device__ __forceinline__ int64 row_of_thread()
{
    return (int64)blockIdx.x * BOOST_THREADS + threadIdx.x;
}

// Raise *largest, the bit pattern of a float64, to the largest `size` of the block. Sizes must not
// be negative. Every thread of the block takes part; of_warp uint64 (BOOST_WARPS,) is shared
// memory. There is only one atomic per block, because the atomics of all blocks collide.
__device__ __forceinline__ void update_largest(uint64* of_warp, uint64* largest, double size)
{
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const uint64 bits = (uint64)__double_as_longlong(size);  // ordered like the sizes
    const uint64 own = warp_max(bits);
    __syncthreads();  // the previous call has finished reading of_warp
    if (lane == 0) of_warp[warp] = own;
    __syncthreads();
    if (warp != 0) return;
    const uint64 of_block = warp_max(lane < BOOST_WARPS ? of_warp[lane] : (uint64)0);
    if (lane == 0 && of_block != 0) atomicMax(largest, of_block);
}
