// What the kernels of a round of boosting share: for boosting.cu and leaves.cu.
#ifndef GPUBOOST_ROUNDS_CUH
#define GPUBOOST_ROUNDS_CUH

constexpr int32 BOOST_THREADS = 256;
constexpr int32 BOOST_BLOCKS = 4;  // per multiprocessor; asking for more spills registers

// Exponents: of narrow gradients and hessians, and of wide ones.
constexpr int32 NARROW_GRADIENT = 0, NARROW_HESSIAN = 1, WIDE_GRADIENT = 2, WIDE_HESSIAN = 3;

__device__ __forceinline__ int64 row_of_thread()
{
    return (int64)blockIdx.x * BOOST_THREADS + threadIdx.x;
}

#endif  // GPUBOOST_ROUNDS_CUH
