// Bit intrinsics, conversions and the IEEE part of the mathematics.
// Deliberately absent, so that their use does not compile: exp, log, pow and the other functions
// whose results differ between libraries, float atomics, and min and max of two different types.
#pragma once

#include "shim_api.h"

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
    return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
    const unsigned low = static_cast<unsigned>(x), high = static_cast<unsigned>(x >> 32);
    return static_cast<unsigned long long>(__brev(low)) << 32 | __brev(high);
}

// High halves of products.
inline int __mulhi(int a, int b) {
    return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
    return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

// An address in shared memory as a number.
inline shim_size __cvta_generic_to_shared(const void* address) {
    return reinterpret_cast<shim_size>(address);
}
inline void* __cvta_shared_to_generic(shim_size address) {
    return reinterpret_cast<void*>(address);
}

// Bytes of the 64-bit number y << 32 | x, one for each hexadecimal digit of `selector`.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        result |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    }
    return result;
}

template <class T>
inline T __ldg(const T* address) {
    return *address;
}

// The same bits seen as another type.
#define SHIM_SAME_BITS(name, From, To)                 \
    inline To name(From from) {                        \
        To to;                                         \
        static_assert(sizeof to == sizeof from, "");   \
        __builtin_memcpy(&to, &from, sizeof to);       \
        return to;                                     \
    }
SHIM_SAME_BITS(__float_as_int, float, int)
SHIM_SAME_BITS(__float_as_uint, float, unsigned)
SHIM_SAME_BITS(__int_as_float, int, float)
SHIM_SAME_BITS(__uint_as_float, unsigned, float)
SHIM_SAME_BITS(__double_as_longlong, double, long long)
SHIM_SAME_BITS(__longlong_as_double, long long, double)
#undef SHIM_SAME_BITS

inline int __double2hiint(double x) {
    return static_cast<int>(__double_as_longlong(x) >> 32);
}
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}

// IEEE operations rounded to nearest. g++ runs with -ffp-contract=off: none of them is fused.
#define SHIM_IEEE(T, letter)                                \
    inline T __##letter##add_rn(T a, T b) { return a + b; } \
    inline T __##letter##sub_rn(T a, T b) { return a - b; } \
    inline T __##letter##mul_rn(T a, T b) { return a * b; } \
    inline T __##letter##div_rn(T a, T b) { return a / b; }
SHIM_IEEE(float, f)
SHIM_IEEE(double, d)
#undef SHIM_IEEE
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline float __double2float_rd(double a) {
    const float nearest = static_cast<float>(a);
    return nearest > a ? __builtin_nextafterf(nearest, -__builtin_inff()) : nearest;
}
inline double __int2double_rn(int a) { return a; }
inline double __uint2double_rn(unsigned a) { return a; }
inline double __ll2double_rn(long long a) { return static_cast<double>(a); }
inline double __ull2double_rn(unsigned long long a) { return static_cast<double>(a); }
// Saturating, as in CUDA; NaN becomes the smallest value.
inline long long __double2ll_rn(double a) {
    const double limit = 9223372036854775808.0, rounded = __builtin_rint(a);
    if (rounded >= limit) return 0x7fffffffffffffffLL;
    return rounded >= -limit ? static_cast<long long>(rounded) : -0x7fffffffffffffffLL - 1;
}

#define SHIM_FLOAT_FUNCTION(name)                                  \
    inline double name(double x) { return __builtin_##name(x); }   \
    inline float name(float x) { return __builtin_##name##f(x); }  \
    inline float name##f(float x) { return __builtin_##name##f(x); }
SHIM_FLOAT_FUNCTION(sqrt)
SHIM_FLOAT_FUNCTION(floor)
SHIM_FLOAT_FUNCTION(ceil)
SHIM_FLOAT_FUNCTION(trunc)
SHIM_FLOAT_FUNCTION(rint)
SHIM_FLOAT_FUNCTION(fabs)
#undef SHIM_FLOAT_FUNCTION

inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(double x) { return __builtin_isinf(x) != 0; }
inline bool isinf(float x) { return __builtin_isinf(x) != 0; }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool signbit(double x) { return __builtin_signbit(x) != 0; }
inline double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline double ldexp(double x, int exponent) { return __builtin_ldexp(x, exponent); }
inline double fmin(double a, double b) { return __builtin_fmin(a, b); }
inline double fmax(double a, double b) { return __builtin_fmax(a, b); }
inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }

inline int abs(int x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return abs(x); }

#define SHIM_MIN_MAX(T)                                     \
    inline T min(T a, T b) { return b < a ? b : a; }        \
    inline T max(T a, T b) { return a < b ? b : a; }
SHIM_MIN_MAX(int)
SHIM_MIN_MAX(unsigned)
SHIM_MIN_MAX(long)
SHIM_MIN_MAX(unsigned long)
SHIM_MIN_MAX(long long)
SHIM_MIN_MAX(unsigned long long)
#undef SHIM_MIN_MAX
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
