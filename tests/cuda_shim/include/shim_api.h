// The seam between a compiled kernel and the runtime that executes its threads.
//
// A kernel is compiled to one shared object that includes only the headers of this folder; the
// runtime (../runtime) is a second shared object. Everything a kernel asks of the runtime passes
// through the functions below, so the runtime itself is never instrumented by a sanitizer.
#pragma once

typedef __SIZE_TYPE__ shim_size;

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace shim {

// Where a call stands in the kernel's source.
struct Place {
    const char* file;
    int line;
};

enum class Barrier { plain, any, all, count };
enum class WarpOp { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot };

// What one lane brings to a warp collective. `width` belongs to the shuffles. It is passed in two
// registers: through memory, each call would wait for its own stores.
struct Lane {
    unsigned long long value;
    unsigned mask;
    int width;
};

// The built-in variables of the block that is running.
struct BlockVariables {
    uint3 index;
    dim3 size;
    dim3 grid;
    unsigned char* dynamic_shared;
};

}  // namespace shim

extern "C" {
// The built-in variables of the running thread; changes at every switch of threads.
extern const uint3* shim_thread_index;
extern shim::BlockVariables shim_block;

// Suspends the thread until the whole block has arrived; returns the vote of all predicates.
int shim_block_barrier(shim::Barrier kind, int predicate, shim::Place place);
// Suspends the thread until every lane of the mask has arrived; returns this lane's result. A
// shuffle moves values by `argument` lanes, or from that lane.
unsigned long long shim_warp_collective(shim::WarpOp op, int argument, shim::Lane lane,
                                        shim::Place place);
// Tells the race detector of an atomic access and of a fence; no-ops in the other flavours.
void shim_note_atomic(const void* address, shim_size bytes, const void* instruction);
void shim_note_fence();
// Ends the launch with an error.
[[noreturn]] void shim_trap(shim::Place place);
}
