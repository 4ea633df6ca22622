// Best-first growth (`max_leaf_nodes`) of trees that grow level by level. After each level the
// priority queue of each tree chooses among the splits known so far; at the end, nodes whose splits
// were undone become leaves.
//
// A queue takes the waiting split with the largest gain (if equal, the smallest key) until it has
// taken `capacity` splits. The nodes of a new level have no children yet, so the splits taken
// in the levels before (the earlier splits) keep their order. Each new split is inserted right
// before the first split that it precedes among the splits taken after its parent's split:
//
//   gains before     9 7 8 2 5         a (gain 6) is a child of 7; b (gain 1) is a child of 8
//   after            9 7 8 a 2 5 b     splits beyond `capacity` are undone
//
//   size, tree, accepted   of the nodes of a level, see policy.cu and select_split.cu
//   key           uint64 (nodes,)     keys of the nodes' random numbers
//   gain          float64 (nodes,)    gains of the nodes' splits
//   first         int32 (1,)          place of the first node of the level in the node buffer; node
//                                     i has place *first + i, see node_buffer.cu
//   length        int32 (trees,)      number of splits that each queue has taken, zero before the
//                                     first level
//   gain_before, key_before, node_before   float64, uint64, int32 (trees, capacity)   gain, key and
//                                     place of the node of each split taken, in the order of the
//                                     queue; gain_after, ... for the new order
//   turn          int32 (trees, capacity)   entry i of a tree: position in the order of the queue
//                                     of the i-th node of the level before whose split was taken
//   parent        int32 (places,)     place of the parent, NO_PARENT for roots; NO_NODE before the
//                                     first level
//
// Launch over trees: one block of QUEUE_THREADS threads per tree. Launch over places: one thread
// per place, in blocks of QUEUE_THREADS. No dynamic shared memory.

#include "common/running_sum.cuh"

constexpr int32 QUEUE_THREADS = 256;
constexpr int32 QUEUE_BLOCKS = 2;  // per multiprocessor, at least
constexpr int32 QUEUE_WARPS = QUEUE_THREADS / WARP;
constexpr int32 NO_PARENT = -1, NO_NODE = -2;
constexpr int32 NO_SLOT = 0x7FFFFFFF;  // slot of a node without an accepted split; see take_splits
constexpr int32 GROUP = 128;  // number of earlier splits that a node can skip at once

// Gains and keys of splits, indexed by position in the order or by node.
struct SplitOrder {
    In<double> gain;
    In<uint64> key;

    // Whether split `a` precedes split `b` of `other`; false if they are equal.
    __device__ __forceinline__ bool before(int64 a, const SplitOrder& other, int64 b) const
    {
        return gain[a] > other.gain[b] || (gain[a] == other.gain[b] && key[a] < other.key[b]);
    }
};

// The first node of tree `wanted` or of a later tree, n_nodes if there is none; nodes are sorted by
// tree.
__device__ __forceinline__ int64 first_of_tree(const int32* tree, int64 n_nodes, int32 wanted)
{
    return first_not((int64)0, n_nodes, [&](int64 node) { return tree[node] < wanted; });
}

// Order of the nodes of a level: by slot (see take_splits), then by SplitOrder, then by index.
// Nodes without an accepted split are last.
struct NodeOrder {
    const int32* slot;
    SplitOrder nodes;

    __device__ __forceinline__ bool before(int64 a, int64 b) const
    {
        if (slot[a] != slot[b]) return slot[a] < slot[b];
        if (slot[a] != NO_SLOT && nodes.before(a, nodes, b)) return true;
        return a < b && (slot[a] == NO_SLOT || !nodes.before(b, nodes, a));
    }
};

// Write to worst[g] the position of the last split, by SplitOrder, of group g of GROUP earlier
// splits: a node that does not precede this split precedes none of the group. Searches begin after
// the first split, so no node skips group 0, which has no entry.
__device__ __forceinline__ void find_last_of_groups(const SplitOrder& taken, int64 n_taken,
                                                    int32* worst)
{
    for (int64 g = 1 + threadIdx.x; g * GROUP < n_taken; g += QUEUE_THREADS) {
        int64 found = g * GROUP;
        const int64 end = min(found + GROUP, n_taken);
        for (int64 at = found + 1; at < end; ++at) {
            if (taken.before(found, taken, at)) found = at;
        }
        worst[g] = (int32)found;
    }
}

// Position of the first earlier split, from position `at` on, that a node's split precedes;
// `n_taken` if there is none.
__device__ __forceinline__ int64 find_slot(const SplitOrder& nodes, int64 node,
                                           const SplitOrder& taken, int64 n_taken,
                                           const int32* worst, int64 at)
{
    while (at < n_taken) {
        if (at % GROUP == 0 && !nodes.before(node, taken, worst[at / GROUP])) at += GROUP;
        else if (nodes.before(node, taken, at)) return at;
        else ++at;
    }
    return n_taken;
}

// Sort the nodes from `begin` to `end` into the same range of the returned array, `sorted` or
// `other`: sort runs of QUEUE_THREADS nodes by counting, then merge pairs of runs by bisection.
// Every thread of the block takes part.
__device__ __forceinline__ const int32* sort_nodes(const NodeOrder& order, int64 begin, int64 end,
                                                   int32* sorted, int32* other)
{
    for (int64 node = begin + threadIdx.x; node < end; node += QUEUE_THREADS) {
        const int64 first = node - threadIdx.x, last = min(first + QUEUE_THREADS, end);
        int64 to = first;
        for (int64 each = first; each < last; ++each) to += order.before(each, node);
        sorted[to] = (int32)node;
    }
    __syncthreads();
    for (int64 width = QUEUE_THREADS; width < end - begin; width *= 2) {
        for (int64 at = begin + threadIdx.x; at < end; at += QUEUE_THREADS) {
            const int64 run = (at - begin) / width, start = begin + (run ^ 1) * width;
            const int64 low = min(start, end), high = min(start + width, end);
            const int64 ahead = first_not(low, high, [&](int64 place) {
                return order.before(sorted[place], sorted[at]);
            });
            other[at - (run % 2) * width + (ahead - low)] = sorted[at];
        }
        int32* made = other;
        other = sorted;
        sorted = made;
        __syncthreads();
    }
    return sorted;
}

// Number of sorted nodes from `begin` to `end` that are inserted before the earlier split at
// position `place`.
__device__ __forceinline__ int64 nodes_before(const int32* slot, const int32* sorted, int64 begin,
                                              int64 end, int64 place)
{
    return first_not(begin, end, [&](int64 at) { return slot[sorted[at]] <= place; }) - begin;
}

// Clear `accepted` for nodes whose splits the queue does not take, and write `turn` for nodes whose
// splits it takes. Returns the number of splits taken in the low half, and the number of nodes that
// were accepted before the call in the high half. Every thread of the block takes part.
__device__ __forceinline__ int64 mark_taken(int64 (&warp_sums)[QUEUE_WARPS], int64 begin, int64 end,
                                            int32 capacity, const int32* place, uint8* accepted,
                                            int32* turn)
{
    int64 counted = 0;
    for (int64 start = begin; start < end; start += QUEUE_THREADS) {
        const int64 node = start + threadIdx.x;
        const bool is_accepted = node < end && accepted[node] != 0;
        const bool is_taken = is_accepted && place[node] < capacity;
        const RunningSum sum = running_sum(warp_sums, ((int64)is_accepted << 32) + is_taken);
        if (is_taken) turn[(counted + sum.before) & 0xFFFFFFFFll] = place[node];
        if (is_accepted && !is_taken) accepted[node] = 0;
        counted += sum.all;
    }
    return counted;
}

// Insert the accepted splits of a level into the queues, and write the parents of its nodes. On
// return, `accepted` marks the nodes of the level whose splits were taken.
//
//   gain_before, ..., node_before   the old order; gain_after, ..., node_after: the new order
//   worst           int32 (trees, capacity / GROUP + 1)   scratch of `find_last_of_groups`
//   slot            int32 (nodes,)   scratch: number of earlier splits before each node in the new
//                                    order; NO_SLOT if its split is not accepted
//   place           int32 (nodes,)   scratch: position of each accepted node in the new order, at
//                                    most `capacity`; not a place in the node buffer
//   sorted, other   int32 (nodes,)   scratch of `sort_nodes`
//
// Launch: over trees.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
take_splits(In<int32> size, In<int32> tree, In<uint64> key, In<double> gain, Out<uint8> accepted,
            In<int32> first, int32 capacity, int32* length, In<double> gain_before,
            In<uint64> key_before, In<int32> node_before, Out<double> gain_after,
            Out<uint64> key_after, Out<int32> node_after, int32* turn, int32* worst, int32* slot,
            int32* place, int32* sorted, int32* other, Out<int32> parent)
{
    __shared__ int64 warp_sums[QUEUE_WARPS];
    const int64 own = (int64)blockIdx.x * capacity, n_taken = length[blockIdx.x];
    const int64 begin = first_of_tree(tree, *size, (int32)blockIdx.x);
    const int64 end = first_of_tree(tree, *size, (int32)blockIdx.x + 1);
    const SplitOrder nodes = {gain, key}, taken = {gain_before + own, key_before + own};

    // Find the parent and the slot of each node; pairs of children are in the order of their
    // parents.
    worst += (int64)blockIdx.x * (capacity / GROUP + 1);
    find_last_of_groups(taken, n_taken, worst);
    __syncthreads();
    for (int64 node = begin + threadIdx.x; node < end; node += QUEUE_THREADS) {
        const int64 above = *first == 0 ? -1 : turn[own + (node - begin) / 2];
        parent[*first + node] = above < 0 ? NO_PARENT : node_before[own + above];
        slot[node] = accepted[node] == 0
            ? NO_SLOT : (int32)find_slot(nodes, node, taken, n_taken, worst, above + 1);
    }
    __syncthreads();

    // Write the new order.
    const int32* in_order = sort_nodes({slot, nodes}, begin, end, sorted, other);
    for (int64 at = begin + threadIdx.x; at < end; at += QUEUE_THREADS) {
        const int32 node = in_order[at];
        if (slot[node] == NO_SLOT) continue;
        const int64 to = slot[node] + at - begin;
        place[node] = (int32)min(to, (int64)capacity);
        if (to >= capacity) continue;
        gain_after[own + to] = gain[node];
        key_after[own + to] = key[node];
        node_after[own + to] = *first + node;
    }
    for (int64 at = threadIdx.x; at < n_taken; at += QUEUE_THREADS) {
        const int64 to = at + nodes_before(slot, in_order, begin, end, at);
        if (to >= capacity) continue;
        gain_after[own + to] = gain_before[own + at];
        key_after[own + to] = key_before[own + at];
        node_after[own + to] = node_before[own + at];
    }
    __syncthreads();

    const int64 counted = mark_taken(warp_sums, begin, end, capacity, place, accepted, turn + own);
    if (threadIdx.x == 0) length[blockIdx.x] = (int32)min(n_taken + (counted >> 32),
                                                          (int64)capacity);
}

// ---- When all levels are grown -----------------------------------------------------------------

// Write is_split, uint8 (places,), zero before the launch: whether a node stays split. node:
// `node_after` of the last level. Launch: over trees.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
mark_splits(In<int32> length, In<int32> node, int32 capacity, Out<uint8> is_split)
{
    const int32* own = node + (int64)blockIdx.x * capacity;
    for (int32 at = threadIdx.x; at < length[blockIdx.x]; at += QUEUE_THREADS) {
        is_split[own[at]] = 1;
    }
}

// Place of the leaf that contains a node: the node itself or, if splits above it were undone, the
// ancestor that becomes a leaf. For a node that stays split, its own place.
__device__ __forceinline__ int32 leaf_above(int32 place, In<int32> parent, In<uint8> is_split)
{
    int32 found = place;
    for (int32 above = parent[place]; above != NO_PARENT; above = parent[above]) {
        if (is_split[above] == 0) found = above;
    }
    return found;
}

// Add the sums of a node to the sums of the leaf that contains it; sums int64 (places, n_sums).
__device__ __forceinline__ void add_to_leaf(int64* sums, int32 n_sums, int32 place, int32 leaf)
{
    for (int64 k = 0; k < n_sums; ++k) {
        add_to(sums + (int64)leaf * n_sums + k, sums[(int64)place * n_sums + k]);
    }
}

// Make leaves of the nodes of the node buffer (node_buffer.cu) whose splits were undone. Their
// descendants stay in the node buffer, but cannot be reached from the root.
//
//   leaf   int32 (places,)           see `leaf_above`; undefined for places without a node
//   sums   int64 (places, n_sums)    sums of leaves, zero for other nodes. On return, the sums of a
//                                    leaf include the sums of its former descendants. If all nodes
//                                    have sums already, n_sums is 0 and nothing is added
//
// Launch: over places.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
cut_nodes(int32 n_places, In<int32> parent, In<uint8> is_split, int32 n_sums, Out<int32> leaf,
          Out<int32> left, Out<double> gain, Out<int32> feature, int64* sums)
{
    const int32 place = (int32)(blockIdx.x * QUEUE_THREADS + threadIdx.x);
    if (place >= n_places || parent[place] == NO_NODE) return;
    const int32 found = leaf_above(place, parent, is_split);
    leaf[place] = found;
    if (found != place) {
        add_to_leaf(sums, n_sums, place, found);
    } else if (is_split[place] == 0) {
        left[place] = 0;
        gain[place] = -1.0;
        feature[place] = LEAF;
    }
}

// Give the former descendants of a leaf the number of the leaf, in number_of, int32 (places,), from
// finish_nodes. Launch: over places.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
hand_numbers(int32 n_places, In<int32> parent, In<int32> leaf, int32* number_of)
{
    const int32 place = (int32)(blockIdx.x * QUEUE_THREADS + threadIdx.x);
    if (place >= n_places || parent[place] == NO_NODE || leaf[place] == place) return;
    number_of[place] = number_of[leaf[place]];
}
