// Vector types with CUDA's names, sizes and alignments.
#pragma once

#define SHIM_VECTOR_2(T, name, bytes)                              \
    struct alignas(bytes) name {                                   \
        typedef T component;                                       \
        T x, y;                                                    \
    };                                                             \
    inline name make_##name(T x, T y) { return {x, y}; }
#define SHIM_VECTOR_4(T, name, bytes)                              \
    struct alignas(bytes) name {                                   \
        typedef T component;                                       \
        T x, y, z, w;                                              \
    };                                                             \
    inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }
SHIM_VECTOR_2(signed char, char2, 2)
SHIM_VECTOR_2(unsigned char, uchar2, 2)
SHIM_VECTOR_2(short, short2, 4)
SHIM_VECTOR_2(unsigned short, ushort2, 4)
SHIM_VECTOR_2(int, int2, 8)
SHIM_VECTOR_2(unsigned, uint2, 8)
SHIM_VECTOR_2(float, float2, 8)
SHIM_VECTOR_2(long long, longlong2, 16)
SHIM_VECTOR_2(unsigned long long, ulonglong2, 16)
SHIM_VECTOR_2(double, double2, 16)
SHIM_VECTOR_4(signed char, char4, 4)
SHIM_VECTOR_4(unsigned char, uchar4, 4)
SHIM_VECTOR_4(short, short4, 8)
SHIM_VECTOR_4(unsigned short, ushort4, 8)
SHIM_VECTOR_4(int, int4, 16)
SHIM_VECTOR_4(unsigned, uint4, 16)
SHIM_VECTOR_4(float, float4, 16)
#undef SHIM_VECTOR_2
#undef SHIM_VECTOR_4
