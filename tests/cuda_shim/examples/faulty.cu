// One planted fault per kernel. All take the same arguments. The line that a report must name
// carries the comment `fault`.

extern "C" __global__ void missing_barrier(const int32* in, int32* out)
{
    __shared__ int32 s[256];
    s[threadIdx.x] = in[threadIdx.x];  // fault missing_barrier
    out[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void write_after_read(const int32* in, int32* out)
{
    __shared__ int32 s[256];
    int32 sum = 0;
    for (int k = 0; k < 4; ++k) {
        s[threadIdx.x] = in[threadIdx.x] + k;  // fault write_after_read
        __syncthreads();
        sum += s[255 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void increment_without_atomic(const int32* in, int32* out)
{
    __shared__ int32 s[8];
    if (threadIdx.x < 8) s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x & 7] += 1;  // fault increment_without_atomic
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void atomic_and_plain(const int32* in, int32* out)
{
    __shared__ int32 s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    atomicAdd(&s, 1);
    out[threadIdx.x] = s;  // fault atomic_and_plain
}
extern "C" __global__ void missing_syncwarp(const int32* in, int32* out)
{
    __shared__ int32 s[256];
    s[threadIdx.x] = in[threadIdx.x];  // fault missing_syncwarp
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void dynamic_shared_race(const int32* in, int32* out)
{
    DYNAMIC_SHARED(int32, s);
    s[threadIdx.x / 2] = in[threadIdx.x];  // fault dynamic_shared_race
    out[threadIdx.x] = 0;
}
extern "C" __global__ void blocks_write_same_place(const int32* in, int32* out)
{
    if (threadIdx.x == 0) out[0] = blockIdx.x;  // fault blocks_write_same_place
}
extern "C" __global__ void block_reads_other(const int32* in, int32* out)
{
    if (threadIdx.x == 0) out[blockIdx.x] = 1 + out[blockIdx.x ^ 1];  // fault block_reads_other
}
extern "C" __global__ void divergent_barrier(const int32* in, int32* out)
{
    if (threadIdx.x < 100) {
        __syncthreads();  // fault divergent_barrier
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}
extern "C" __global__ void return_before_barrier(const int32* in, int32* out)
{
    if (threadIdx.x >= 100) return;
    __syncthreads();  // fault return_before_barrier
    out[threadIdx.x] = 1;
}
extern "C" __global__ void return_before_vote(const int32* in, int32* out)
{
    if (threadIdx.x >= 200) return;
    out[threadIdx.x] = __ballot_sync(FULL_MASK, threadIdx.x & 1);  // fault return_before_vote
}
extern "C" __global__ void lane_not_in_mask(const int32* in, int32* out)
{
    out[threadIdx.x] = __any_sync(0x0000ffffu, threadIdx.x & 1);  // fault lane_not_in_mask
}
extern "C" __global__ void shuffle_from_outside_mask(const int32* in, int32* out)
{
    if ((threadIdx.x & 31) >= 16) return;
    out[threadIdx.x] = __shfl_sync(0xffffu, in[threadIdx.x], 20);  // fault shuffle_from_outside_mask
}
extern "C" __global__ void odd_width(const int32* in, int32* out)
{
    out[threadIdx.x] = __shfl_sync(FULL_MASK, 1, 0, 12);  // fault odd_width
}
extern "C" __global__ void beyond_static_shared(const int32* in, int32* out)
{
    __shared__ int32 s[256];
    s[threadIdx.x + 1] = 1;  // fault beyond_static_shared
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void beyond_dynamic_shared(const int32* in, int32* out)
{
    DYNAMIC_SHARED(int32, s);
    out[threadIdx.x] = s[threadIdx.x + 1];  // fault beyond_dynamic_shared
}
extern "C" __global__ void before_dynamic_shared(const int32* in, int32* out)
{
    DYNAMIC_SHARED(int32, s);
    s[(int32)threadIdx.x - 1] = 1;
    out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void beyond_array(const int32* in, int32* out)
{
    out[threadIdx.x] = in[threadIdx.x + 1];  // fault beyond_array
}
extern "C" __global__ void before_array(const int32* in, int32* out)
{
    out[threadIdx.x] = in[(int64)threadIdx.x - 1024];  // fault before_array
}
extern "C" __global__ void reads_poison(const int32* in, int32* out)
{
    __shared__ int32 fixed[256];
    DYNAMIC_SHARED(int32, dynamic);
    out[threadIdx.x] = (threadIdx.x & 1) ? fixed[threadIdx.x] : dynamic[threadIdx.x];
    __syncthreads();
    fixed[threadIdx.x] = dynamic[threadIdx.x] = 0;
}
extern "C" __global__ void endless_loop(const int32* in, int32* out)
{
    volatile int32* flag = out;
    while (flag[0] == 0) {  // fault endless_loop
    }
}
extern "C" __global__ void divides_by_zero(const int32* in, int32* out)
{
    out[threadIdx.x] = 5 / in[threadIdx.x];  // fault divides_by_zero
}
extern "C" __global__ void overflows(const int32* in, int32* out)
{
    out[threadIdx.x] = in[threadIdx.x] + 0x7fffff80;  // fault overflows
}
extern "C" __global__ void shifts_too_far(const int32* in, int32* out)
{
    out[threadIdx.x] = 1 << in[threadIdx.x];  // fault shifts_too_far
}
extern "C" __global__ void converts_out_of_range(const int32* in, int32* out)
{
    out[threadIdx.x] = (int32)(in[threadIdx.x] * 1e8);  // fault converts_out_of_range
}
extern "C" __global__ void traps(const int32* in, int32* out)
{
    if (threadIdx.x == 7) __trap();  // fault traps
}
extern "C" __global__ void fills_its_stack(const int32* in, int32* out)
{
    volatile int32 large[100000];
    for (int i = 0; i < 100000; i += 100) large[i] = in[0];
    out[threadIdx.x] = large[in[1]];
}
extern "C" __global__ void beyond_odd_dynamic_shared(const int32* in, int32* out)
{
    DYNAMIC_SHARED(uint8, s);  // of 1000 bytes, and the guard page begins 8 bytes later
    s[1000 + (threadIdx.x & 7)] = 1;
    out[threadIdx.x] = in[threadIdx.x];
}
