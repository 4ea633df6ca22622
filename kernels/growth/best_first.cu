// Best-first growth (`max_leaf_nodes`) of trees that grow level by level: which splits the queue of
// each tree takes, as far as its nodes are known, and at the end which nodes are leaves after all.
//
// A queue takes the waiting split with the largest gain, of equal ones the one with the smallest
// key, until it has taken `capacity` splits. The nodes of a new level have no children yet, so the
// splits taken before keep their order, and each new split is inserted right before the first split
// that was taken after its parent's and that it precedes:
//
//   taken before     9 7 8 2 5         a, of gain 6, is a child of 7; b, of gain 1, is one of 8
//   and now          9 7 8 a 2 5 b     the splits behind `capacity` are taken back
//
//   size, tree, key, accepted   of a level, see policy.cu, select_split.cu; gain float64 (nodes,)
//   first         int32 (1,)          place of the first node of the level, 0 of the roots: node i
//                                     is known by place *first + i, as in node_buffer.cu
//   length        int32 (T,)          splits that each queue has taken, zero before the first level
//   gain, key, node   float64, uint64, int32 (T, most)   of these, in order; `node` is a place
//   turn          int32 (T, most)     of the i-th node of the tree that is split in a level: its
//                                     place in that order
//   parent        int32 (places,)     place of the parent; before the first level NO_NODE
//
// Launch of kernels over trees: a block of QUEUE_THREADS threads for each; over places: one block
// of so many threads for so many. No dynamic shared memory.

#include "common/running_sum.cuh"

constexpr int32 QUEUE_THREADS = 256;
constexpr int32 QUEUE_BLOCKS = 2;  // on a multiprocessor, at least
constexpr int32 QUEUE_WARPS = QUEUE_THREADS / WARP;
constexpr int32 NO_PARENT = -1, NO_NODE = -2;
constexpr int32 NEVER = 0x7FFFFFFF;  // the slot of a node that is not split
constexpr int32 GROUP = 128;  // splits taken before that a node passes at once

// Splits by their place in the order, or by their node.
struct SplitOrder {
    In<double> gain;
    In<uint64> key;

    // Whether split `a` goes before split `b` of `other`; of equal ones neither does.
    __device__ __forceinline__ bool before(int64 a, const SplitOrder& other, int64 b) const
    {
        return gain[a] > other.gain[b] || (gain[a] == other.gain[b] && key[a] < other.key[b]);
    }
};

// The first node of a tree or of one after it; nodes lie in the order of their trees.
__device__ __forceinline__ int64 first_of_tree(const int32* tree, int64 n_nodes, int32 wanted)
{
    return first_not((int64)0, n_nodes, [&](int64 node) { return tree[node] < wanted; });
}

// The nodes of a level in the order in which they come: those that come before an earlier split
// first, then in the order of SplitOrder. Nodes that are not split are last.
struct NodeOrder {
    const int32* slot;
    SplitOrder nodes;

    __device__ __forceinline__ bool before(int64 a, int64 b) const
    {
        if (slot[a] != slot[b]) return slot[a] < slot[b];
        if (slot[a] != NEVER && nodes.before(a, nodes, b)) return true;
        return a < b && (slot[a] == NEVER || !nodes.before(b, nodes, a));
    }
};

// The last split in the order of each group of GROUP splits taken before: a node that does not
// precede it precedes none of the group. The first group is never asked for.
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

// The first of the splits taken before, from `at` on, that a node goes before.
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

// Sort the nodes from `begin` to `end` into the same places of what is returned, `sorted` or
// `other`: runs of as many as there are threads by counting, then two runs into one by halving.
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

// How many of the sorted nodes from `begin` to `end` come before the split taken in place `place`.
__device__ __forceinline__ int64 nodes_before(const int32* slot, const int32* sorted, int64 begin,
                                              int64 end, int64 place)
{
    return first_not(begin, end, [&](int64 at) { return slot[sorted[at]] <= place; }) - begin;
}

// Take the splits of a level into the queues. On return `accepted` are those that were taken.
//
//   gain_before, ..., node_before   the order before, gain_after, ..., node_after the one then
//   worst           int32 (T, most / GROUP + 1)   room for `find_last_of_groups`
//   slot, place     int32 (nodes,)   of each node the splits taken before that come before it; and
//                                    its place in the new order
//   sorted, other   int32 (nodes,)   room for `sort_nodes`
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

    // The splits taken before that come before each node: children lie in the order of parents.
    worst += (int64)blockIdx.x * (capacity / GROUP + 1);
    find_last_of_groups(taken, n_taken, worst);
    __syncthreads();
    for (int64 node = begin + threadIdx.x; node < end; node += QUEUE_THREADS) {
        const int64 above = *first == 0 ? -1 : turn[own + (node - begin) / 2];
        parent[*first + node] = above < 0 ? NO_PARENT : node_before[own + above];
        slot[node] = accepted[node] == 0
            ? NEVER : (int32)find_slot(nodes, node, taken, n_taken, worst, above + 1);
    }
    __syncthreads();

    // The new order.
    const int32* in_order = sort_nodes({slot, nodes}, begin, end, sorted, other);
    for (int64 at = begin + threadIdx.x; at < end; at += QUEUE_THREADS) {
        const int32 node = in_order[at];
        if (slot[node] == NEVER) continue;
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

    // Which nodes are split: low halves of sums count those, high halves all that could be.
    int64 counted = 0;
    for (int64 start = begin; start < end; start += QUEUE_THREADS) {
        const int64 node = start + threadIdx.x;
        const bool could = node < end && accepted[node] != 0;
        const bool is_taken = could && place[node] < capacity;
        const RunningSum sum = running_sum(warp_sums, ((int64)could << 32) + is_taken);
        if (is_taken) turn[own + ((counted + sum.before) & 0xFFFFFFFFll)] = place[node];
        if (could && !is_taken) accepted[node] = 0;
        counted += sum.all;
    }
    if (threadIdx.x == 0) length[blockIdx.x] = (int32)min(n_taken + (counted >> 32),
                                                          (int64)capacity);
}

// ---- When all levels are grown -----------------------------------------------------------------

// is_split uint8 (places,), zero before the launch: whether a node is split in the end. node: the
// order after the last level. Launch: over trees.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
mark_splits(In<int32> length, In<int32> node, int32 capacity, Out<uint8> is_split)
{
    const int32* own = node + (int64)blockIdx.x * capacity;
    for (int32 at = threadIdx.x; at < length[blockIdx.x]; at += QUEUE_THREADS) {
        is_split[own[at]] = 1;
    }
}

// The leaf that a node lies in: itself, or above it where splits were taken back; of a node that is
// split itself.
__device__ __forceinline__ int32 leaf_above(int32 place, In<int32> parent, In<uint8> is_split)
{
    int32 found = place;
    for (int32 above = parent[place]; above != NO_PARENT; above = parent[above]) {
        if (is_split[above] == 0) found = above;
    }
    return found;
}

// Add the sums of a node, int64 (places, n_sums), to those of the leaf that it lies in.
__device__ __forceinline__ void add_to_leaf(int64* sums, int32 n_sums, int32 place, int32 leaf)
{
    for (int64 k = 0; k < n_sums; ++k) {
        add_to(sums + (int64)leaf * n_sums + k, sums[(int64)place * n_sums + k]);
    }
}

// Make leaves in a store (node_buffer.cu) of nodes whose splits were taken back; those below stay
// where they are, and no node is their parent.
//
//   leaf   int32 (places,)           see `leaf_above`
//   sums   int64 (places, n_sums)    of leaves; of all others zero. On return leaves have those of
//                                    the leaves below them, too
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

// number_of int32 (places,): places get those of the leaves that they lie in. Launch: over places.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
hand_numbers(int32 n_places, In<int32> parent, In<int32> leaf, int32* number_of)
{
    const int32 place = (int32)(blockIdx.x * QUEUE_THREADS + threadIdx.x);
    if (place >= n_places || parent[place] == NO_NODE || leaf[place] == place) return;
    number_of[place] = number_of[leaf[place]];
}
