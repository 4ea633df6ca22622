// Numbers as keys for quantiles: a key is an integer, and keys have the order of the numbers.

#include "common/rounds.cuh"

constexpr int32 QUANTILE_PIECE = 4096;  // maximum size of a piece of a group, in numbers
constexpr uint64 SIGN = 0x8000000000000000ull;

// The key of a number: an integer in the same order; 0.0 and -0.0 have the same key.
__device__ __forceinline__ uint64 key_of(double number)
{
    const uint64 bits = (uint64)__double_as_longlong(number + 0.0);
    return (bits & SIGN) != 0 ? ~bits : bits | SIGN;
}

// The number of a key.
__device__ __forceinline__ double number_of(uint64 key)
{
    return __longlong_as_double((int64)((key & SIGN) != 0 ? key ^ SIGN : ~key));
}

// The numbers of all groups; the numbers of a piece are contiguous.
struct Numbers {
    In<uint64> key;
    In<int64> weight;
    bool weighted;

    __device__ __forceinline__ int64 weight_of(int64 at) const { return weighted ? weight[at] : 1; }
};

// Target minus raw prediction; y float64 (n_outputs, n), raw float64 (K, n). n_outputs is K, or 1
// if all columns have the same target.
struct Residuals {
    In<double> y;
    In<double> raw;
    int64 n;
    int32 n_outputs;

    __device__ __forceinline__ double of(int64 row, int64 column) const
    {
        return y[column % n_outputs * n + row] - raw[column * n + row];
    }
};
