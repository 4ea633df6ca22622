// Warp collectives: the last lane of the mask to arrive computes the result of every lane.
#pragma once
#include "scheduler.h"

namespace shim {

// The lane that `lane` receives from.
inline int source_lane(WarpOp op, int lane, int argument, int width) {
    const int first = lane & ~(width - 1), end = first + width;
    int source = lane;
    switch (op) {
        case WarpOp::shuffle: source = first + (argument & (width - 1)); break;
        case WarpOp::shuffle_up: source = lane - argument; break;
        case WarpOp::shuffle_down: source = lane + argument; break;
        case WarpOp::shuffle_xor: source = lane ^ argument; break;
        default: break;
    }
    // Outside its segment a lane keeps its own value; xor may reach back into an earlier one.
    const bool reaches_back = op == WarpOp::shuffle_xor && source >= 0;
    return source >= end || (source < first && !reaches_back) ? lane : source;
}

// Lane 0 of the warp of `thread`; the warp's 32 threads follow it.
inline Thread* warp_of(const Thread& thread) {
    return &state.threads[thread.warp() * warp_lanes];
}

inline bool all_arrived(const Thread& self) {
    const unsigned mask = self.lane.mask;
    if ((state.arrived[self.warp()] & mask) != mask) return false;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
        const Thread& other = warp_of(self)[__builtin_ctz(rest)];
        if (!same_wait(other, self) || other.op != self.op || other.lane.mask != mask) return false;
    }
    return true;
}

inline unsigned count_ballot(const Thread& self) {
    unsigned votes = 0;
    for (unsigned rest = self.lane.mask; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        if (warp_of(self)[lane].lane.value != 0) votes |= 1u << lane;
    }
    return votes;
}

inline unsigned long long receive(const Thread& receiver) {
    const int lane = receiver.lane_id();
    const int source = source_lane(receiver.op, lane, receiver.argument, receiver.lane.width);
    if ((receiver.lane.mask >> source & 1u) == 0) {
        const Place& place = receiver.place;
        fail("%s (%s line %d): lane %d reads lane %d, which is outside mask %08x",
             name_of(receiver), base_name(place.file), place.line, lane, source,
             receiver.lane.mask);
    }
    return warp_of(receiver)[source].lane.value;
}

inline void check_lane(const Thread& self) {
    const unsigned mask = self.lane.mask, gone = state.exited[self.warp()] & mask;
    const Place& place = self.place;
    const int width = self.lane.width;
    if ((mask >> self.lane_id() & 1u) == 0) {
        fail("%s (%s line %d): the calling lane %d is not in mask %08x", name_of(self),
             base_name(place.file), place.line, self.lane_id(), mask);
    }
    if (gone != 0) {
        fail("%s (%s line %d): lane %d of mask %08x has returned or does not exist", name_of(self),
             base_name(place.file), place.line, __builtin_ctz(gone), mask);
    }
    if (width < 1 || width > warp_lanes || (width & (width - 1)) != 0) {
        fail("%s (%s line %d): width %d is not a power of two up to 32", name_of(self),
             base_name(place.file), place.line, width);
    }
}

inline void complete(Thread& self) {
    const unsigned mask = self.lane.mask;
    const unsigned votes = self.op == WarpOp::ballot ? count_ballot(self) : 0;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
        Thread& other = warp_of(self)[__builtin_ctz(rest)];
        other.result = self.op == WarpOp::ballot ? votes : receive(other);
        other.waiting = Waiting::no;
        if (&other != &self || random_order()) ready.push(other.id);
    }
    state.arrived[self.warp()] &= ~mask;
    // Only a __syncwarp of the whole warp orders memory; shuffles and votes do not.
    const unsigned existing = ~state.exited[self.warp()];
    if (self.op == WarpOp::sync && (mask & existing) == existing) ++state.warp_epoch[self.warp()];
}

inline unsigned long long warp_collective(WarpOp op, int argument, Lane lane, Place place) {
    Thread& self = *state.current;
    self.waiting = Waiting::at_collective;
    self.op = op;
    self.argument = argument;
    self.lane = lane;
    self.place = place;
    check_lane(self);
    state.arrived[self.warp()] |= 1u << self.lane_id();
    if (!all_arrived(self)) {
        suspend();
        return self.result;
    }
    complete(self);
    if (random_order()) suspend();
    return self.result;
}

}  // namespace shim
