// The state of the one launch in progress, the queue of threads that can run, and how a launch
// ends early. Python's interpreter lock is held during a launch, so there is never a second one.
#pragma once
#include <dlfcn.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "../include/shim_api.h"
#include "fiber.h"

namespace shim {

constexpr int max_threads = 1024;
constexpr int warp_lanes = 32;
constexpr int max_warps = max_threads / warp_lanes;
constexpr size_t message_bytes = 640;

// Fields in the order of the launcher's ctypes structure.
struct Memory {
    const char* name;
    char* begin;
    size_t bytes;
};
struct LaunchRequest {
    void (*call)(void** arguments);
    void** arguments;
    unsigned grid[3];
    unsigned block[3];
    size_t dynamic_bytes;
    const Memory* static_shared;  // the __shared__ variables of all kernels of the module
    int static_count;
    const Memory* arrays;  // the global memory the kernel was given
    int array_count;
    uint64_t order_seed;  // 0: threads and blocks in order
    double cpu_seconds;   // limit
    char* message;        // out: empty when all went well
    // out: instructions, relative to the kernel's shared object, or 0
    uint64_t fault_address;
    uint64_t other_address;
};

enum class Waiting { no, at_barrier, at_collective, exited };

struct Thread {
    uint3 index;
    int id;
    Waiting waiting;
    bool started;
    Barrier barrier;
    int predicate;
    WarpOp op;
    int argument;
    Lane lane;
    unsigned long long result;
    Place place;
    Fiber fiber;

    int warp() const { return id / warp_lanes; }
    int lane_id() const { return id % warp_lanes; }
};

struct State {
    LaunchRequest* request;
    Thread threads[max_threads];
    Thread* current;
    Fiber host;               // the launcher's own thread of execution
    bool on_fiber;            // false while the host runs
    bool failed;
    int thread_count;
    int live;                 // threads that have not returned
    int at_barrier;           // threads that wait at the block's barrier
    unsigned arrived[max_warps];  // lanes that wait at a collective
    unsigned exited[max_warps];   // lanes that have returned or do not exist
    // Epochs order memory accesses for the race detector: a barrier ends one.
    uint64_t epoch;
    unsigned warp_epoch[max_warps];
    uint64_t random;
    char* free_stacks[max_threads];
    int free_stack_count;
};
inline State state;

inline uint64_t next_random() {  // xorshift64*
    state.random ^= state.random >> 12;
    state.random ^= state.random << 25;
    state.random ^= state.random >> 27;
    return (state.random * 0x2545F4914F6CDD1DULL) >> 16;
}
inline bool random_order() { return state.request->order_seed != 0; }

// Threads that can run, first in first out, or any of them when the order is random.
class ReadyQueue {
public:
    void clear() { head_ = size_ = 0; }
    void push(int thread) { slots_[(head_ + size_++) % max_threads] = static_cast<short>(thread); }
    Thread* pop() {
        if (size_ == 0) return nullptr;
        short& front = slots_[head_ % max_threads];
        if (random_order()) {
            short& other = slots_[(head_ + (next_random() & 0xffffffffu) * size_ / (1ULL << 32)) % max_threads];
            const short chosen = other;
            other = front;
            front = chosen;
        }
        --size_;
        return &state.threads[slots_[head_++ % max_threads]];
    }

private:
    short slots_[max_threads];
    unsigned head_ = 0, size_ = 0;
};
inline ReadyQueue ready;

inline unsigned long long linear_block() {
    const BlockVariables& b = shim_block;
    return b.index.x + static_cast<unsigned long long>(b.grid.x) *
                           (b.index.y + static_cast<unsigned long long>(b.grid.y) * b.index.z);
}

inline const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

// An instruction's address relative to the kernel's shared object; 0 if it lies elsewhere.
inline uint64_t relative_to_kernel(const void* instruction) {
    Dl_info kernel, here;
    if (dladdr(reinterpret_cast<void*>(state.request->call), &kernel) == 0) return 0;
    if (dladdr(instruction, &here) == 0 || here.dli_fbase != kernel.dli_fbase) return 0;
    const auto begin = static_cast<const char*>(here.dli_fbase);
    return static_cast<uint64_t>(static_cast<const char*>(instruction) - begin);
}

// Writes the message, followed by the block and the current thread if there is one, unless a
// message is there already.
__attribute__((format(printf, 1, 0))) inline void describe_failure(const char* format,
                                                                   va_list values) {
    char* message = state.request->message;
    state.failed = true;
    if (message[0] != '\0') return;
    int used = std::vsnprintf(message, message_bytes, format, values);
    if (used < 0 || used >= static_cast<int>(message_bytes)) return;
    const uint3 block = shim_block.index;
    used += std::snprintf(message + used, message_bytes - used, " [block (%u, %u, %u)", block.x,
                          block.y, block.z);
    if (state.current != nullptr && used < static_cast<int>(message_bytes)) {
        const uint3 thread = state.current->index;
        used += std::snprintf(message + used, message_bytes - used, ", thread (%u, %u, %u)",
                              thread.x, thread.y, thread.z);
    }
    if (used < static_cast<int>(message_bytes)) {
        std::snprintf(message + used, message_bytes - used, "]");
    }
}
__attribute__((format(printf, 1, 2))) inline void report(const char* format, ...) {
    va_list values;
    va_start(values, format);
    describe_failure(format, values);
    va_end(values);
}

// Abandons every fiber of the block where it stands and goes back to the launcher.
[[noreturn]] inline void abandon() {
    switch_fiber(state.current->fiber, state.host);
    __builtin_unreachable();
}
__attribute__((format(printf, 1, 2))) [[noreturn]] inline void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    describe_failure(format, values);
    va_end(values);
    abandon();
}

}  // namespace shim
