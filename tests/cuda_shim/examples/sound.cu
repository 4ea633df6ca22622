// Kernels without faults, of the kinds that the project needs. Every tool must pass them.

template <typename T>
__device__ __forceinline__ T block_scan(T value, T* warp_sums)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int step = 1; step < 32; step *= 2) {
        const T below = __shfl_up_sync(FULL_MASK, value, step);
        if (lane >= step) value += below;
    }
    if (lane == 31) warp_sums[warp] = value;
    __syncthreads();
    T before = 0;
    for (int w = 0; w < warp; ++w) before += warp_sums[w];
    return value + before;
}

// codes (n, 32), one warp per row, one lane per feature; out (256, 32).
extern "C" __global__ void __launch_bounds__(256)
histogram(In<uint8> codes, In<int32> gradients, int32 n,
          int32 rows_per_block, Out<uint64> out)
{
    DYNAMIC_SHARED(int32, sums);  // [bin][lane]
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) sums[i] = 0;
    __syncthreads();
    const int lane = threadIdx.x & 31;
    const int begin = blockIdx.x * rows_per_block, end = min(n, begin + rows_per_block);
    for (int row = begin + (int)(threadIdx.x >> 5); row < end; row += blockDim.x >> 5) {
        const int bin = codes[(int64)row * 32 + lane];
        atomicAdd(&sums[bin * 32 + lane], __ldg(gradients + row));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) {
        if (sums[i] != 0) atomicAdd(&out[i], (uint64)(int64)sums[i]);
    }
}

// Inclusive scan of 256 values per block, and each block's largest quotient in float64.
extern "C" __global__ void __launch_bounds__(256)
scan(In<int64> values, double divisor, Out<int64> sums,
     Out<double> largest)
{
    __shared__ int64 warp_sums[8];
    __shared__ double warp_best[8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int64 at = (int64)blockIdx.x * 256 + threadIdx.x;
    const int64 sum = block_scan(values[at], warp_sums);
    sums[at] = sum;
    double best = (double)sum / divisor;
    for (int step = 16; step > 0; step /= 2) {
        best = max(best, __shfl_down_sync(FULL_MASK, best, step));
    }
    if (lane == 0) warp_best[warp] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) best = max(best, warp_best[w]);
        largest[blockIdx.x] = best;
    }
}

// Values below the limit to the front, the others to the back, in whatever order the atomics give.
extern "C" __global__ void partition(In<int32> values, int32 n, int32 limit,
                                     Out<int32> out, Out<uint32> counts)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    const bool inside = i < n;
    const int32 value = inside ? values[i] : 0;
    const uint32 left = __ballot_sync(FULL_MASK, inside && value < limit);
    const uint32 right = __ballot_sync(FULL_MASK, inside && value >= limit);
    uint32 left_at = 0, right_at = 0;
    if (lane == 0) {
        left_at = atomicAdd(&counts[0], (uint32)__popc(left));
        right_at = atomicAdd(&counts[1], (uint32)__popc(right));
    }
    left_at = __shfl_sync(FULL_MASK, left_at, 0);
    right_at = __shfl_sync(FULL_MASK, right_at, 0);
    const uint32 below = (1u << lane) - 1u;
    if (!inside) return;
    if (value < limit) out[left_at + __popc(left & below)] = value;
    else out[n - 1 - (int32)(right_at + __popc(right & below))] = value;
}

// Neighbouring lanes exchange through shared memory, ordered by __syncwarp alone.
extern "C" __global__ void exchange_in_warp(const int32* in, int32* out)
{
    __shared__ int32 buffer[256];
    buffer[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = buffer[threadIdx.x ^ 1];
}

// The block that finishes last adds up what all blocks wrote.
extern "C" __global__ void last_block_sums(const int32* in, int32* partial, uint32* finished,
                                           int32* out)
{
    __shared__ int32 sum;
    __shared__ bool is_last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        int32 total = 0;
        for (uint32 b = 0; b < gridDim.x; ++b) total += partial[b];
        *out = total;
    }
}

// Block votes: out = {or, and, count} of "in is not zero".
extern "C" __global__ void vote(const int32* in, int32* out)
{
    const int any = __syncthreads_or(in[threadIdx.x]);
    const int all = __syncthreads_and(in[threadIdx.x]);
    const int count = __syncthreads_count(in[threadIdx.x]);
    if (threadIdx.x == 0) { out[0] = any; out[1] = all; out[2] = count; }
}

// Language features: templates with shared memory of their own, lambdas, if constexpr, constants.
__constant__ float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
template <int N, typename T>
__device__ T sum_of_block(T value)
{
    __shared__ T values[N];
    values[threadIdx.x] = value;
    __syncthreads();
    T sum = 0;
    for (int i = 0; i < N; ++i) sum += values[i];
    __syncthreads();
    if constexpr (sizeof(T) == 8) return sum + 1; else return sum;
}
extern "C" __global__ __launch_bounds__(2 * (16 + 16)) void language(int32* out, double* wide, uint4* vectors)
{
    auto square = [](int v) { return v * v; };
    const int32 doubled_sum = sum_of_block<64, int32>(2 * threadIdx.x);
    const int32 narrow_sum = doubled_sum - sum_of_block<64, int32>(threadIdx.x);
    const double wide_sum = sum_of_block<64, double>(threadIdx.x);
    out[threadIdx.x] = narrow_sum + square(2) + (int32)table[threadIdx.x & 3];
    wide[threadIdx.x] = wide_sum;
    vectors[threadIdx.x] = make_uint4(1u, 2u, 3u, threadIdx.x);
}

// Thread and block numbers in three dimensions.
extern "C" __global__ void numbering(int32* out)
{
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&out[block * (blockDim.x * blockDim.y * blockDim.z) + thread], block * 1000 + thread);
}
