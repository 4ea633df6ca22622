// The race detector of the flavour `race`.
//
// Kernels are compiled with -fsanitize=thread, which calls a __tsan_ function at every access to
// memory, but are linked without that sanitizer: the functions are here. Every byte of shared
// memory and of the arrays given to the kernel remembers its last write and its reads since. Two
// accesses, one of them a write, are a race unless both are atomic or something orders them:
//   - the same thread made both;
//   - in one block: a __syncthreads lies between (another epoch);
//   - in one warp: a __syncwarp of the whole warp lies between (another warp epoch);
//   - in two blocks: never, but for __threadfence, which is taken on trust: what a block wrote
//     before it fenced may be touched by a block that has fenced, too.
// Accesses are found in whatever order the threads ran, so one launch in order is enough for every
// pair of accesses it makes. Not seen: accesses a launch does not make; syncs of part of a warp.
#pragma once
#include "memory.h"

#if !defined(CUDA_SHIM_RACE)

extern "C" {
void shim_note_atomic(const void*, shim_size, const void*) {}
void shim_note_fence() {}
}
namespace shim {
inline void watch_memory() {}
inline void forget_memory() {}
}  // namespace shim

#else
#include <vector>

namespace shim {

constexpr short several = -1;
constexpr unsigned several_blocks = ~0u;

// Who touched a byte, and when. An epoch of 0 means nobody.
struct Mark {
    uint64_t epoch;
    const void* instruction;
    unsigned block;
    unsigned warp_epoch;
    short thread;  // or several
    short warp;    // or several
};
// What a byte remembers: the last plain write, and the atomics and plain reads since.
struct Cell {
    Mark write, atomic, read;
};
struct Watched {
    const char* name;
    char *begin, *end;
    Cell* cells;
    bool is_global;
};
inline std::vector<Watched> watched;
inline std::vector<uint64_t> fence_epoch;  // last fence of each block

enum class Kind { read, write, atomic };
struct Access {
    char* begin;
    size_t bytes;
    Kind kind;
    const void* instruction;
};

inline void watch(const Memory& memory, bool is_global) {
    if (memory.bytes == 0) return;
    const size_t bytes = memory.bytes * sizeof(Cell);
    void* cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) return report("no memory for the race detector");
    char* end = memory.begin + memory.bytes;
    watched.push_back({memory.name, memory.begin, end, static_cast<Cell*>(cells), is_global});
}

inline void watch_memory() {
    const LaunchRequest& request = *state.request;
    const dim3 grid = shim_block.grid;
    char* dynamic = arena.dynamic_end() - round_up(request.dynamic_bytes);
    watch({"dynamic shared memory", dynamic, request.dynamic_bytes}, false);
    for (int i = 0; i < request.static_count; ++i) watch(request.static_shared[i], false);
    for (int i = 0; i < request.array_count; ++i) watch(request.arrays[i], true);
    fence_epoch.assign(static_cast<size_t>(grid.x) * grid.y * grid.z, 0);
}

inline void forget_memory() {
    for (const Watched& memory : watched) {
        munmap(memory.cells, static_cast<size_t>(memory.end - memory.begin) * sizeof(Cell));
    }
    watched.clear();
}

inline Mark mark_of(const Access& access) {
    const Thread& self = *state.current;
    const short thread = static_cast<short>(self.id), warp = static_cast<short>(self.warp());
    const auto block = static_cast<unsigned>(linear_block());
    return {state.epoch, access.instruction, block, state.warp_epoch[warp], thread, warp};
}

inline bool ordered_by_fences(const Mark& before, const Mark& now) {
    if (before.block == several_blocks) return false;
    return fence_epoch[before.block] >= before.epoch && fence_epoch[now.block] != 0;
}

inline bool is_unordered(const Mark& before, const Mark& now, bool is_global) {
    if (before.epoch == 0) return false;
    if (before.block != now.block) return is_global && !ordered_by_fences(before, now);
    if (before.epoch != now.epoch || before.thread == now.thread) return false;
    return before.warp != now.warp || before.warp_epoch == now.warp_epoch;
}

// Joins an access to earlier ones of its kind. Those that it is ordered after are forgotten: what
// comes after it in order comes after them.
inline Mark joined(const Mark& before, Mark now, bool is_global) {
    if (before.epoch == 0) return now;
    if (before.block != now.block) {
        if (is_global && !ordered_by_fences(before, now)) now.block = several_blocks;
        return now;
    }
    if (!is_unordered(before, now, is_global)) return now;
    now.thread = several;
    if (before.warp != now.warp) now.warp = several;
    return now;
}

inline const char* name_of(Kind kind) {
    return kind == Kind::read ? "read" : kind == Kind::write ? "write" : "atomic";
}

[[noreturn]] inline void fail_race(const Watched& memory, const Access& access, char* byte,
                                   const Mark& other, Kind other_kind) {
    char who[64] = "several threads";
    if (other.block == several_blocks) {
        std::snprintf(who, sizeof who, "several blocks");
    } else if (other.block != linear_block()) {
        std::snprintf(who, sizeof who, "block %u", other.block);
    } else if (other.thread != several) {
        std::snprintf(who, sizeof who, "thread %d of the block", other.thread);
    }
    // Return addresses: the call that reported the access ends just before.
    state.request->fault_address = relative_to_kernel(access.instruction) - 1;
    state.request->other_address = relative_to_kernel(other.instruction) - 1;
    fail("race: %s of byte %ld of %s, unordered with the %s by %s", name_of(access.kind),
         static_cast<long>(byte - memory.begin), memory.name, name_of(other_kind), who);
}

inline void check_byte(const Watched& memory, const Access& access, const Mark& now, char* byte) {
    Cell& cell = memory.cells[byte - memory.begin];
    const auto check = [&](const Mark& before, Kind kind) {
        if (is_unordered(before, now, memory.is_global)) {
            fail_race(memory, access, byte, before, kind);
        }
    };
    check(cell.write, Kind::write);
    if (access.kind != Kind::atomic) check(cell.atomic, Kind::atomic);
    if (access.kind != Kind::read) check(cell.read, Kind::read);
    switch (access.kind) {
        case Kind::read: cell.read = joined(cell.read, now, memory.is_global); break;
        case Kind::atomic: cell.atomic = joined(cell.atomic, now, memory.is_global); break;
        case Kind::write: cell.write = now; break;
    }
}

inline void check_access(const Access& access) {
    if (!state.on_fiber) return;
    for (const Watched& memory : watched) {
        if (access.begin < memory.begin || access.begin >= memory.end) continue;
        const Mark now = mark_of(access);
        for (size_t i = 0; i < access.bytes; ++i) {
            check_byte(memory, access, now, access.begin + i);
        }
        return;
    }
}

}  // namespace shim

extern "C" {
void shim_note_atomic(const void* address, shim_size bytes, const void* instruction) {
    char* begin = static_cast<char*>(const_cast<void*>(address));
    shim::check_access({begin, bytes, shim::Kind::atomic, instruction});
}
void shim_note_fence() {
    shim::fence_epoch[shim::linear_block()] = shim::state.epoch;
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define SHIM_TSAN(name, bytes, kind)                                           \
    void __tsan_##name(void* address) {                                        \
        const void* from = __builtin_return_address(0);                        \
        shim::check_access({static_cast<char*>(address), bytes, kind, from});  \
    }
#define SHIM_TSAN_SIZE(bytes)                                    \
    SHIM_TSAN(read##bytes, bytes, shim::Kind::read)              \
    SHIM_TSAN(write##bytes, bytes, shim::Kind::write)            \
    SHIM_TSAN(unaligned_read##bytes, bytes, shim::Kind::read)    \
    SHIM_TSAN(unaligned_write##bytes, bytes, shim::Kind::write)
SHIM_TSAN_SIZE(1)
SHIM_TSAN_SIZE(2)
SHIM_TSAN_SIZE(4)
SHIM_TSAN_SIZE(8)
SHIM_TSAN_SIZE(16)
#undef SHIM_TSAN_SIZE
#undef SHIM_TSAN
void __tsan_read_range(void* address, size_t bytes) {
    const void* from = __builtin_return_address(0);
    shim::check_access({static_cast<char*>(address), bytes, shim::Kind::read, from});
}
void __tsan_write_range(void* address, size_t bytes) {
    const void* from = __builtin_return_address(0);
    shim::check_access({static_cast<char*>(address), bytes, shim::Kind::write, from});
}
}
#endif
