// The histogram of one node and feature in global memory, as split.cuh reads it.

// `Plane` is int64, volatile if reads must bypass the L1 cache, which global atomics do not update.
template <class Plane>
struct GlobalHistogram {
    const Plane* first;
    int32 width;
    int32 n_channels;

    __device__ __forceinline__ int64 plane(int32 code, int32 p) const
    {
        return first[(int64)p * width + code];
    }
    __device__ __forceinline__ int64 hessian(int32 code) const { return plane(code, 0); }
    __device__ __forceinline__ int64 count(int32 code) const { return plane(code, 1); }
    __device__ __forceinline__ int64 gradient(int32 code, int32 k) const
    {
        return plane(code, 2 + k);
    }
    __device__ __forceinline__ int32 missing_code() const { return width - 1; }
};
