// Cooperative threads of execution: a stack each, and a switch that saves only what a function
// call must preserve. x86-64 has a hand-written switch (about 5 ns); others use <ucontext.h>.
#pragma once
#include <pthread.h>

#include <cstddef>
#include <cstring>

#if !defined(__x86_64__) || defined(CUDA_SHIM_UCONTEXT)
#define SHIM_USE_UCONTEXT 1
#include <ucontext.h>
#endif

#if defined(CUDA_SHIM_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* bytes);
void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
}
#endif

namespace shim {

// Where a suspended fiber goes on, and the stack it runs on.
struct Fiber {
    char* stack = nullptr;
    size_t stack_bytes = 0;
    void* fake_stack = nullptr;
#if defined(SHIM_USE_UCONTEXT)
    ucontext_t context;
#else
    void* stack_pointer = nullptr;
#endif
};

#if !defined(SHIM_USE_UCONTEXT)
extern "C" void shim_machine_switch(void** save_stack_pointer, void* next_stack_pointer);
// The System V ABI asks a callee to keep rbx, rbp and r12 to r15; they wait on the fiber's stack.
asm(R"(
    .text
    .p2align 4
    .local shim_machine_switch
    .type shim_machine_switch, @function
shim_machine_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size shim_machine_switch, . - shim_machine_switch
)");
constexpr int saved_registers = 6;
#endif

// Makes `fiber` start in `entry`, which must not return, on its empty stack.
inline void prepare(Fiber& fiber, void (*entry)()) {
#if defined(CUDA_SHIM_ASAN)
    __asan_unpoison_memory_region(fiber.stack, fiber.stack_bytes);
#endif
    fiber.fake_stack = nullptr;
#if defined(SHIM_USE_UCONTEXT)
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = fiber.stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
#else
    // From the top: a word that keeps the ABI's alignment, the return address, the registers.
    void** top = reinterpret_cast<void**>(fiber.stack + fiber.stack_bytes) - 2;
    *top = reinterpret_cast<void*>(entry);
    top -= saved_registers;
    std::memset(top, 0, saved_registers * sizeof(void*));
    fiber.stack_pointer = top;
#endif
}

inline void arrived_on([[maybe_unused]] Fiber& fiber) {
#if defined(CUDA_SHIM_ASAN)
    __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
#endif
}

// Suspends `from`, which is running, and continues `to`. Returns when something switches back.
inline void switch_fiber(Fiber& from, Fiber& to) {
#if defined(CUDA_SHIM_ASAN)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(SHIM_USE_UCONTEXT)
    swapcontext(&from.context, &to.context);
#else
    shim_machine_switch(&from.stack_pointer, to.stack_pointer);
#endif
    arrived_on(from);
}

// Describes the stack the caller runs on, which is the operating system's.
inline void adopt_current_stack([[maybe_unused]] Fiber& fiber) {
#if defined(CUDA_SHIM_ASAN)
    pthread_attr_t attributes;
    void* bottom = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &fiber.stack_bytes);
    pthread_attr_destroy(&attributes);
    fiber.stack = static_cast<char*>(bottom);
#endif
}

}  // namespace shim
