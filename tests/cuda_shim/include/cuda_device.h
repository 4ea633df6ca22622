// CUDA C++ as a kernel sees it, for g++: qualifiers, built-in variables, barriers, collectives.
//
// Modelled: one cooperative thread per CUDA thread; __syncthreads and its votes, __syncwarp,
// shuffles and votes with a mask, static and dynamic shared memory, integer atomics.
// Stricter than CUDA: a lane that has returned still counts as missing from a barrier or a mask;
// all threads of a barrier or collective must stand at the same source line; a shuffle may not
// read a lane outside the mask.
// Not modelled: blocks that run at the same time (blocks run one after another), parallel memory
// order (see race.h), floating-point atomics, textures, cooperative groups, registers per thread.
#pragma once
#include "shim_api.h"

#define CUDA_SHIM 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
// The launcher finds shared variables by their symbols: they are the static locals of functions.
#define __shared__ static
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(shim_block.dynamic_shared)

#define threadIdx (*shim_thread_index)
#define blockIdx (shim_block.index)
#define blockDim (shim_block.size)
#define gridDim (shim_block.grid)
constexpr int warpSize = 32;

// Default arguments see the line of the caller.
#define SHIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SHIM_HERE) {
    shim_block_barrier(shim::Barrier::plain, 0, {file, line});
}
inline int __syncthreads_or(int predicate, SHIM_HERE) {
    return shim_block_barrier(shim::Barrier::any, predicate, {file, line});
}
inline int __syncthreads_and(int predicate, SHIM_HERE) {
    return shim_block_barrier(shim::Barrier::all, predicate, {file, line});
}
inline int __syncthreads_count(int predicate, SHIM_HERE) {
    return shim_block_barrier(shim::Barrier::count, predicate, {file, line});
}

inline void __syncwarp(unsigned mask = 0xffffffffu, SHIM_HERE) {
    shim_warp_collective(shim::WarpOp::sync, 0, {0, mask, 32}, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SHIM_HERE) {
    const shim::Lane lane = {predicate != 0, mask, 32};
    return static_cast<unsigned>(shim_warp_collective(shim::WarpOp::ballot, 0, lane, {file, line}));
}
inline int __any_sync(unsigned mask, int predicate, SHIM_HERE) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SHIM_HERE) {
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

namespace shim {

template <class T>
inline T shuffle(WarpOp op, unsigned mask, T value, int argument, int width, Place place) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move values of 4 or 8 bytes");
    Lane lane = {0, mask, width};
    __builtin_memcpy(&lane.value, &value, sizeof value);
    const unsigned long long received = shim_warp_collective(op, argument, lane, place);
    __builtin_memcpy(&value, &received, sizeof value);
    return value;
}

}  // namespace shim

#define SHIM_SHUFFLES(T)                                                                        \
    inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, SHIM_HERE) {       \
        return shim::shuffle(shim::WarpOp::shuffle, mask, value, source, width, {file, line});  \
    }                                                                                           \
    inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, SHIM_HERE) {   \
        const int lanes = static_cast<int>(by);                                                 \
        return shim::shuffle(shim::WarpOp::shuffle_up, mask, value, lanes, width, {file, line});\
    }                                                                                           \
    inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SHIM_HERE) { \
        const int lanes = static_cast<int>(by);                                                 \
        return shim::shuffle(shim::WarpOp::shuffle_down, mask, value, lanes, width,             \
                             {file, line});                                                     \
    }                                                                                           \
    inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, SHIM_HERE) {     \
        return shim::shuffle(shim::WarpOp::shuffle_xor, mask, value, bits, width, {file, line});\
    }
SHIM_SHUFFLES(int)
SHIM_SHUFFLES(unsigned)
SHIM_SHUFFLES(long)
SHIM_SHUFFLES(unsigned long)
SHIM_SHUFFLES(long long)
SHIM_SHUFFLES(unsigned long long)
SHIM_SHUFFLES(float)
SHIM_SHUFFLES(double)
#undef SHIM_SHUFFLES

inline void __threadfence() { shim_note_fence(); }
inline void __threadfence_block() {}
[[noreturn]] inline void __trap(SHIM_HERE) { shim_trap({file, line}); }

#include "cuda_atomics.h"
#include "cuda_math.h"
#include "cuda_vectors.h"
