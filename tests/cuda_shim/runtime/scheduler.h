// Which thread of the block runs: start, suspend, resume, return, deadlock.
#pragma once
#include "launch_state.h"

namespace shim {

inline const char* name_of(const Thread& thread) {
    static const char* const barriers[] = {"__syncthreads", "__syncthreads_or", "__syncthreads_and",
                                           "__syncthreads_count"};
    static const char* const collectives[] = {"__syncwarp",      "__shfl_sync",
                                              "__shfl_up_sync",  "__shfl_down_sync",
                                              "__shfl_xor_sync", "a vote (ballot, any, all)"};
    switch (thread.waiting) {
        case Waiting::at_barrier: return barriers[static_cast<int>(thread.barrier)];
        case Waiting::at_collective: return collectives[static_cast<int>(thread.op)];
        case Waiting::exited: return "the end of the kernel";
        default: return "nothing";
    }
}

// "thread 3 at __syncthreads (scan.cu line 12)"
inline void describe_wait(const Thread& thread, char* out, size_t bytes) {
    if (thread.waiting == Waiting::exited) {
        std::snprintf(out, bytes, "thread %d has returned", thread.id);
    } else {
        std::snprintf(out, bytes, "thread %d waits at %s (%s line %d)", thread.id, name_of(thread),
                      base_name(thread.place.file), thread.place.line);
    }
}

inline bool same_wait(const Thread& a, const Thread& b) {
    return a.waiting == b.waiting && a.place.line == b.place.line && a.place.file == b.place.file;
}

// No thread can run and some have not returned: says which two differ.
[[noreturn]] inline void fail_deadlock() {
    char first[160], second[160];
    int waiting = 0;
    while (state.threads[waiting].waiting == Waiting::exited) ++waiting;
    state.current = &state.threads[waiting];  // the thread that the message will name
    describe_wait(state.threads[waiting], first, sizeof first);
    for (int i = 0; i < state.thread_count; ++i) {
        if (same_wait(state.threads[i], state.threads[waiting])) continue;
        describe_wait(state.threads[i], second, sizeof second);
        fail("deadlock: %s, %s", first, second);
    }
    fail("deadlock: %s, and so do all others: wrong mask?", first);
}

inline void run_threads();

inline void resume(Thread& next, Fiber& from) {
    state.current = &next;
    shim_thread_index = &next.index;
    if (!next.started) {
        next.started = true;
        next.fiber.stack = state.free_stacks[--state.free_stack_count];
        prepare(next.fiber, [] {
            arrived_on(state.current->fiber);
            run_threads();
        });
    }
    switch_fiber(from, next.fiber);
}

inline Thread& next_or_deadlock() {
    Thread* next = ready.pop();
    if (next == nullptr) fail_deadlock();
    return *next;
}

// Leaves the running thread suspended until somebody pushes it and its turn comes.
inline void suspend() {
    Thread& self = *state.current;
    Thread& next = next_or_deadlock();
    if (&next != &self) resume(next, self.fiber);
}

// Body of every fiber. When its thread returns, the fiber takes on threads that have not started
// yet, so a kernel without barriers runs on one stack without a switch.
inline void run_threads() {
    for (;;) {
        state.request->call(state.request->arguments);
        Thread& self = *state.current;
        self.waiting = Waiting::exited;
        state.exited[self.warp()] |= 1u << self.lane_id();
        if (--state.live == 0) switch_fiber(self.fiber, state.host);
        Thread& next = next_or_deadlock();
        if (!next.started) {
            next.started = true;
            next.fiber.stack = self.fiber.stack;
            state.current = &next;
            shim_thread_index = &next.index;
        } else {
            state.free_stacks[state.free_stack_count++] = self.fiber.stack;
            resume(next, self.fiber);
        }
    }
}

inline int barrier_result(Barrier kind, int votes) {
    switch (kind) {
        case Barrier::any: return votes > 0;
        case Barrier::all: return votes == state.thread_count;
        case Barrier::count: return votes;
        default: return 0;
    }
}

// The last thread of the block to arrive wakes all others.
inline int block_barrier(Barrier kind, int predicate, Place place) {
    Thread& self = *state.current;
    self.waiting = Waiting::at_barrier;
    self.barrier = kind;
    self.predicate = predicate != 0;
    self.place = place;
    if (++state.at_barrier < state.thread_count) {
        suspend();
        return static_cast<int>(self.result);
    }
    int votes = 0;
    for (int i = 0; i < state.thread_count; ++i) {
        const Thread& other = state.threads[i];
        if (!same_wait(other, self) || other.barrier != kind) {
            char first[160], second[160];
            describe_wait(other, first, sizeof first);
            describe_wait(self, second, sizeof second);
            fail("divergent barrier: %s, %s", first, second);
        }
        votes += other.predicate;
    }
    state.at_barrier = 0;
    ++state.epoch;
    for (int i = 0; i < state.thread_count; ++i) {
        Thread& other = state.threads[i];
        other.waiting = Waiting::no;
        other.result = barrier_result(kind, votes);
        if (&other != &self || random_order()) ready.push(i);
    }
    if (random_order()) suspend();
    return static_cast<int>(self.result);
}

}  // namespace shim
