// Integer atomics. Threads switch only at barriers and collectives, so a plain read and write is
// atomic here; the race detector is told that the access was one.
// Floating-point atomics are deleted: their sum would depend on the order of threads.
#pragma once
#include "shim_api.h"

#if defined(CUDA_SHIM_RACE)
#define SHIM_ATOMIC __attribute__((no_sanitize_thread, noinline)) inline
#define SHIM_NOTE(address) \
    shim_note_atomic(address, sizeof *address, __builtin_return_address(0))
#else
#define SHIM_ATOMIC inline
#define SHIM_NOTE(address) static_cast<void>(0)
#endif

// One atomic of type T: the new value is computed from `old` and `value`, the old one returned.
#define SHIM_UPDATE(name, T, expression)               \
    SHIM_ATOMIC T name(T* address, T value) {          \
        SHIM_NOTE(address);                            \
        const T old = *address;                        \
        *address = static_cast<T>(expression);         \
        return old;                                    \
    }
#define SHIM_COMPARE_AND_SWAP(T)                               \
    SHIM_ATOMIC T atomicCAS(T* address, T expected, T value) { \
        SHIM_NOTE(address);                                    \
        const T old = *address;                                \
        if (old == expected) *address = value;                 \
        return old;                                            \
    }

// Sums wrap around, as in CUDA: they are formed in the unsigned type.
SHIM_UPDATE(atomicAdd, int, static_cast<unsigned>(old) + static_cast<unsigned>(value))
SHIM_UPDATE(atomicAdd, unsigned, old + value)
SHIM_UPDATE(atomicAdd, unsigned long long, old + value)
SHIM_UPDATE(atomicSub, int, static_cast<unsigned>(old) - static_cast<unsigned>(value))
SHIM_UPDATE(atomicSub, unsigned, old - value)

#define SHIM_MIN_MAX(T)                                   \
    SHIM_UPDATE(atomicMin, T, value < old ? value : old)  \
    SHIM_UPDATE(atomicMax, T, old < value ? value : old)
SHIM_MIN_MAX(int)
SHIM_MIN_MAX(unsigned)
SHIM_MIN_MAX(long long)
SHIM_MIN_MAX(unsigned long long)

#define SHIM_BITS_AND_EXCHANGE(T)              \
    SHIM_UPDATE(atomicAnd, T, old & value)     \
    SHIM_UPDATE(atomicOr, T, old | value)      \
    SHIM_UPDATE(atomicXor, T, old ^ value)     \
    SHIM_UPDATE(atomicExch, T, value)          \
    SHIM_COMPARE_AND_SWAP(T)
SHIM_BITS_AND_EXCHANGE(int)
SHIM_BITS_AND_EXCHANGE(unsigned)
SHIM_BITS_AND_EXCHANGE(unsigned long long)

float atomicAdd(float*, float) = delete;
double atomicAdd(double*, double) = delete;

#undef SHIM_ATOMIC
#undef SHIM_NOTE
#undef SHIM_UPDATE
#undef SHIM_COMPARE_AND_SWAP
#undef SHIM_MIN_MAX
#undef SHIM_BITS_AND_EXCHANGE
