// Shared memory and stacks. Shared memory is filled with a pattern before each block. Dynamic
// shared memory ends at a page that cannot be touched, and the pattern around it is checked
// after the block; each stack ends at such a page too.
#pragma once
#include <sys/mman.h>

#include "launch_state.h"

namespace shim {

constexpr unsigned char poison = 0xA5;
constexpr size_t page = 4096;
constexpr size_t dynamic_capacity = 256 << 10;
constexpr size_t stack_bytes = 128 << 10;

class Arena {
public:
    // Maps the memory on first use; false if the system has none.
    bool reserve() {
        if (base_ != nullptr) return true;
        const size_t bytes = page + dynamic_capacity + page + max_threads * (page + stack_bytes);
        void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) return false;
        base_ = static_cast<char*>(mapped);
        mprotect(dynamic_end(), page, PROT_NONE);
        for (int i = 0; i < max_threads; ++i) mprotect(stack(i) - page, page, PROT_NONE);
        return true;
    }
    char* dynamic_end() const { return base_ + page + dynamic_capacity; }
    char* stack(int i) const { return dynamic_end() + page + i * (page + stack_bytes) + page; }

private:
    char* base_ = nullptr;
};
inline Arena arena;

inline size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

inline void fill_with_poison(const Memory& memory) {
#if defined(CUDA_SHIM_ASAN)
    // Not memset: the sanitizer watches that one, and the variable includes its red zones.
    volatile char* begin = memory.begin;
    for (size_t i = 0; i < memory.bytes; ++i) begin[i] = static_cast<char>(poison);
#else
    std::memset(memory.begin, poison, memory.bytes);
#endif
}

inline void prepare_shared_memory() {
    const LaunchRequest& request = *state.request;
    char* dynamic = arena.dynamic_end() - round_up(request.dynamic_bytes);
    std::memset(dynamic - page, poison, page + round_up(request.dynamic_bytes));
    shim_block.dynamic_shared = reinterpret_cast<unsigned char*>(dynamic);
    for (int i = 0; i < request.static_count; ++i) fill_with_poison(request.static_shared[i]);
}

// The first byte that is no longer the pattern, or `end`.
inline const char* first_changed(const char* begin, const char* end) {
    const auto bytes = static_cast<size_t>(end - begin);
    if (bytes == 0) return end;
    const bool first_is_poison = static_cast<unsigned char>(*begin) == poison;
    if (first_is_poison && std::memcmp(begin, begin + 1, bytes - 1) == 0) return end;
    while (static_cast<unsigned char>(*begin) == poison) ++begin;
    return begin;
}

// A write just outside dynamic shared memory has destroyed the pattern.
inline void check_shared_memory() {
    const char* begin = reinterpret_cast<const char*>(shim_block.dynamic_shared);
    const char* end = begin + state.request->dynamic_bytes;
    const char* changed = first_changed(begin - page, begin);
    if (changed == begin) changed = first_changed(end, arena.dynamic_end());
    if (changed == arena.dynamic_end()) return;
    report("out of bounds: a write at byte %ld of %zu bytes of dynamic shared memory",
           static_cast<long>(changed - begin), state.request->dynamic_bytes);
}

inline void reset_stacks() {
    state.free_stack_count = 0;
    for (int i = state.thread_count; i-- > 0;) {
        state.free_stacks[state.free_stack_count++] = arena.stack(i);
    }
}

}  // namespace shim
