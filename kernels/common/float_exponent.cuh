// Scaling of float64 by powers of two, exact unless the result is denormal or not finite.

// 2**exponent, which must be a normal float64.
__device__ __forceinline__ double power_of_two(int32 exponent)
{
    return __longlong_as_double((int64)(exponent + 1023) << 52);
}

// x times 2**exponent, which may lie far outside the range of float64.
__device__ __forceinline__ double scaled(double x, int32 exponent)
{
    return x * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2);
}

// The smallest e with x < 2**e, from the bits of x, a non-negative float64; 0 if x is 0. x may be
// denormal.
__device__ __forceinline__ int32 exponent_above(uint64 bits)
{
    const int32 field = (int32)(bits >> 52);
    if (field != 0) return field - 1022;
    return bits == 0 ? 0 : (64 - __clzll((int64)bits)) - 1074;
}
