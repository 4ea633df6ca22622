// Executes a launch: blocks one after another, the threads of a block as fibers.
#include "collectives.h"
#include "memory.h"
#include "race.h"
#include "scheduler.h"
#include "signals.h"
#include "undefined.h"

extern "C" {
const uint3* shim_thread_index = nullptr;
shim::BlockVariables shim_block;

int shim_block_barrier(shim::Barrier kind, int predicate, shim::Place place) {
    return shim::block_barrier(kind, predicate, place);
}
unsigned long long shim_warp_collective(shim::WarpOp op, int argument, shim::Lane lane,
                                        shim::Place place) {
    return shim::warp_collective(op, argument, lane, place);
}
void shim_trap(shim::Place place) {
    shim::fail("__trap (%s line %d)", shim::base_name(place.file), place.line);
}
}

namespace shim {
namespace {

void prepare_threads() {
    const dim3 size = shim_block.size;
    state.thread_count = state.live = static_cast<int>(size.x * size.y * size.z);
    state.at_barrier = 0;
    ready.clear();
    for (int i = 0; i < state.thread_count; ++i) {
        Thread& thread = state.threads[i];
        const unsigned u = static_cast<unsigned>(i);
        thread.id = i;
        thread.index = {u % size.x, u / size.x % size.y, u / (size.x * size.y)};
        thread.waiting = Waiting::no;
        thread.started = false;
        thread.fiber.stack_bytes = stack_bytes;
        ready.push(i);
    }
    for (int warp = 0; warp < max_warps; ++warp) {
        const int lanes = state.thread_count - warp * warp_lanes;
        state.arrived[warp] = 0;
        state.exited[warp] = lanes >= warp_lanes ? 0u : lanes <= 0 ? ~0u : ~0u << lanes;
    }
}

void run_block(uint3 index) {
    shim_block.index = index;
    ++state.epoch;
    prepare_threads();
    reset_stacks();
    prepare_shared_memory();
    Thread& first = *ready.pop();
    state.on_fiber = true;
    resume(first, state.host);
    state.on_fiber = false;
    state.current = nullptr;
    if (!state.failed) check_shared_memory();
}

uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
    return b == 0 ? a : greatest_common_divisor(b, a % b);
}

// In order, or by a random stride that is coprime to the number of blocks.
void run_grid() {
    const dim3 grid = shim_block.grid;
    const uint64_t blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    uint64_t block = 0, stride = 1;
    if (random_order() && blocks > 1) {
        block = next_random() % blocks;
        do stride = 1 + next_random() % blocks;
        while (greatest_common_divisor(stride, blocks) != 1);
    }
    for (uint64_t i = 0; i < blocks && !state.failed; ++i) {
        run_block({static_cast<unsigned>(block % grid.x),
                   static_cast<unsigned>(block / grid.x % grid.y),
                   static_cast<unsigned>(block / (static_cast<uint64_t>(grid.x) * grid.y))});
        block = (block + stride) % blocks;
    }
}

}  // namespace
}  // namespace shim

// Returns 0, or 1 with the reason in request->message.
extern "C" int shim_launch(shim::LaunchRequest* request) {
    using namespace shim;
    state.request = request;
    state.failed = false;
    state.random = request->order_seed * 0x9E3779B97F4A7C15ULL + 1;
    request->message[0] = '\0';
    request->fault_address = request->other_address = 0;
    shim_block.grid = {request->grid[0], request->grid[1], request->grid[2]};
    shim_block.size = {request->block[0], request->block[1], request->block[2]};
    if (!arena.reserve()) {
        std::snprintf(request->message, message_bytes, "cannot map memory for the threads");
        return 1;
    }
    adopt_current_stack(state.host);
    watch_memory();
    if (!state.failed) {
        const FaultHandlers handlers;
        run_grid();
    }
    forget_memory();
    return state.failed;
}
