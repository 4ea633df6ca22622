// Faults of a kernel become errors of the launch: a bad address, a division by zero, an endless
// loop. AddressSanitizer brings its own handlers, and stays in charge.
#pragma once
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "launch_state.h"

namespace shim {

constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE};
constexpr int fault_count = sizeof fault_signals / sizeof fault_signals[0];
constexpr int time_signal = SIGXCPU;

inline const char* meaning_of(int signal) {
    switch (signal) {
        case SIGFPE: return "integer division by zero";
        case time_signal: return "the kernel ran longer than its time limit: endless loop?";
        default: return "out of bounds: access to memory that is not there, or a full stack";
    }
}

inline const void* interrupted_instruction([[maybe_unused]] void* context) {
#if defined(__x86_64__)
    const auto* interrupted = static_cast<const ucontext_t*>(context);
    return reinterpret_cast<const void*>(interrupted->uc_mcontext.gregs[REG_RIP]);
#else
    return nullptr;
#endif
}

inline void on_signal(int signal, siginfo_t*, void* context) {
    if (!state.on_fiber) {  // not a kernel's fault: let it take its normal course
        if (signal != time_signal) std::signal(signal, SIG_DFL);
        return;
    }
    state.request->fault_address = relative_to_kernel(interrupted_instruction(context));
    report("%s", meaning_of(signal));
    abandon();
}

// Installed for the length of one launch.
class FaultHandlers {
public:
    FaultHandlers() {
        stack_t stack = {};
        stack.ss_sp = handler_stack_;
        stack.ss_size = sizeof handler_stack_;
        sigaltstack(&stack, &old_stack_);
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
#if !defined(CUDA_SHIM_ASAN)
        for (int i = 0; i < fault_count; ++i) sigaction(fault_signals[i], &action, &old_[i]);
#endif
        sigaction(time_signal, &action, &old_time_);
        start_timer();
    }
    ~FaultHandlers() {
        timer_delete(timer_);
        sigaction(time_signal, &old_time_, nullptr);
#if !defined(CUDA_SHIM_ASAN)
        for (int i = 0; i < fault_count; ++i) sigaction(fault_signals[i], &old_[i], nullptr);
#endif
        sigaltstack(&old_stack_, nullptr);
    }
    FaultHandlers(const FaultHandlers&) = delete;
    FaultHandlers& operator=(const FaultHandlers&) = delete;

private:
    // Counts the processor time of this thread alone, and signals this thread alone.
    void start_timer() {
        struct sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = time_signal;
#if defined(sigev_notify_thread_id)
        event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
#else
        event._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
#endif
        timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_);
        const double seconds = state.request->cpu_seconds;
        struct itimerspec limit = {};
        limit.it_value.tv_sec = static_cast<time_t>(seconds);
        limit.it_value.tv_nsec = static_cast<long>((seconds - limit.it_value.tv_sec) * 1e9);
        limit.it_interval.tv_nsec = 100 * 1000 * 1000;
        timer_settime(timer_, 0, &limit, nullptr);
    }

    static inline char handler_stack_[64 << 10];
    stack_t old_stack_ = {};
    struct sigaction old_[fault_count] = {};
    struct sigaction old_time_ = {};
    timer_t timer_ = {};
};

}  // namespace shim
