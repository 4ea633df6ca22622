// Best-first growth (`max_leaf_nodes`) of trees that grow level by level: which splits the queue of
// each tree takes, as far as its nodes are known, and at the end which nodes are leaves after all.
//
// A queue takes the split of the largest rise that waits, of equal ones that of the smallest key,
// until it has taken `most`. Nodes of a new level have no children yet, so what was taken before
// keeps its order, and each of them comes right before the first split that was taken after its
// parent's and that it is to go before:
//
//   taken before     9 7 8 2 5         a, of rise 6, is a child of 7; b, of rise 1, one of 8
//   and now          9 7 8 a 2 5 b     what comes behind `most` is taken back
//
//   size, tree, key, accepted   of a level, see policy.cu and pick.cu; rise float64 (nodes,)
//   length        int32 (T,)          splits that each queue has taken, zero before the first level
//   rise, key, node   float64, uint64, int32 (T, most)   of these, in order; `node` is a number
//   turn          int32 (T, most)     of the i-th node of the tree that is split in a level: its
//                                     place in that order
//   parent        int32 (numbers,)    number of the parent; before the first level NO_NODE
//
// Nodes of a level are numbered from `first_node` on, as in leaves.cu.
//
// Launch of kernels over trees: a block of QUEUE_THREADS threads for each; over numbers: one block
// of so many threads for so many. No dynamic shared memory. A level takes as many comparisons as
// nodes times (nodes + `most`), by all threads of the block.

#include "running_sum.cuh"

constexpr int32 QUEUE_THREADS = 256;
constexpr int32 QUEUE_BLOCKS = 2;  // on a multiprocessor, at least
constexpr int32 QUEUE_WARPS = QUEUE_THREADS / WARP;
constexpr int32 NO_PARENT = -1, NO_NODE = -2;
constexpr int32 NEVER = 0x7FFFFFFF;  // the slot of a node that is not split

// Splits by their place in the order, or by their node.
struct Ranked {
    const double* __restrict__ rise;
    const uint64* __restrict__ key;

    // Whether split `a` goes before split `b` of `other`; of equal ones neither does.
    __device__ __forceinline__ bool before(int64 a, const Ranked& other, int64 b) const
    {
        return rise[a] > other.rise[b] || (rise[a] == other.rise[b] && key[a] < other.key[b]);
    }
};

// The first node of a tree or of one after it; nodes lie in the order of their trees.
__device__ __forceinline__ int64 first_of_tree(const int32* tree, int64 n_nodes, int32 wanted)
{
    int64 low = 0, high = n_nodes;
    while (low < high) {
        const int64 middle = (low + high) / 2;
        if (tree[middle] < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
}

// How many of the nodes from `begin` to `end` come before the split taken in place `place`.
__device__ __forceinline__ int64 come_before(const int32* slot, int64 begin, int64 end, int64 place)
{
    int64 n = 0;
    for (int64 node = begin; node < end; ++node) n += slot[node] <= place;
    return n;
}

// Take the splits of a level into the queues. On return `accepted` are those that were taken.
//
//   rise_before, ..., node_before   the order before, rise_after, ..., node_after the one then
//   slot, place   int32 (nodes,)    of each node the splits taken before that come before it; and
//                                   its place in the new order
//
// parent is written only if `keeps`. Launch: over trees.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
take_splits(const int32* __restrict__ size, const int32* __restrict__ tree,
            const uint64* __restrict__ key, const double* __restrict__ rise,
            uint8* __restrict__ accepted, int32 first_node, int32 most, int32* length,
            const double* __restrict__ rise_before, const uint64* __restrict__ key_before,
            const int32* __restrict__ node_before, double* __restrict__ rise_after,
            uint64* __restrict__ key_after, int32* __restrict__ node_after, int32* turn,
            int32* slot, int32* place, int32 keeps, int32* __restrict__ parent)
{
    __shared__ int64 warp_sums[QUEUE_WARPS];
    const int64 own = (int64)blockIdx.x * most, n_taken = length[blockIdx.x];
    const int64 begin = first_of_tree(tree, *size, (int32)blockIdx.x);
    const int64 end = first_of_tree(tree, *size, (int32)blockIdx.x + 1);
    const Ranked nodes = {rise, key}, taken = {rise_before + own, key_before + own};

    // The splits taken before that come before each node: children lie in the order of parents.
    for (int64 node = begin + threadIdx.x; node < end; node += QUEUE_THREADS) {
        const int64 above = first_node == 0 ? -1 : turn[own + (node - begin) / 2];
        if (keeps != 0) {
            parent[first_node + node] = above < 0 ? NO_PARENT : node_before[own + above];
        }
        int64 at = above + 1;
        while (at < n_taken && !nodes.before(node, taken, at)) ++at;
        slot[node] = accepted[node] != 0 ? (int32)at : NEVER;
    }
    __syncthreads();

    // The new order.
    for (int64 node = begin + threadIdx.x; node < end; node += QUEUE_THREADS) {
        const int32 at = slot[node];
        int64 to = at;
        if (at == NEVER) continue;
        for (int64 other = begin; other < end; ++other) {
            const bool ahead = nodes.before(other, nodes, node)
                               || (other < node && !nodes.before(node, nodes, other));
            to += slot[other] < at || (slot[other] == at && ahead);
        }
        place[node] = (int32)min(to, (int64)most);
        if (to >= most) continue;
        rise_after[own + to] = rise[node];
        key_after[own + to] = key[node];
        node_after[own + to] = first_node + (int32)node;
    }
    for (int64 at = threadIdx.x; at < n_taken; at += QUEUE_THREADS) {
        const int64 to = at + come_before(slot, begin, end, at);
        if (to >= most) continue;
        rise_after[own + to] = rise_before[own + at];
        key_after[own + to] = key_before[own + at];
        node_after[own + to] = node_before[own + at];
    }

    // Which nodes are split: low halves of sums count those, high halves all that could be.
    int64 counted = 0;
    for (int64 start = begin; start < end; start += QUEUE_THREADS) {
        const int64 node = start + threadIdx.x;
        const bool could = node < end && accepted[node] != 0;
        const bool is_taken = could && place[node] < most;
        const RunningSum sum = running_sum(warp_sums, ((int64)could << 32) + is_taken);
        if (is_taken) turn[own + ((counted + sum.before) & 0xFFFFFFFFll)] = place[node];
        if (could && !is_taken) accepted[node] = 0;
        counted += sum.all;
    }
    if (threadIdx.x == 0) length[blockIdx.x] = (int32)min(n_taken + (counted >> 32), (int64)most);
}

// ---- When all levels are grown -----------------------------------------------------------------

// is_split uint8 (numbers,), zero before the launch: whether a node is split in the end. node: the
// order after the last level. Launch: over trees.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
mark_splits(const int32* __restrict__ length, const int32* __restrict__ node, int32 most,
            uint8* __restrict__ is_split)
{
    const int32* own = node + (int64)blockIdx.x * most;
    for (int32 at = threadIdx.x; at < length[blockIdx.x]; at += QUEUE_THREADS) {
        is_split[own[at]] = 1;
    }
}

// What became of each node.
//
//   leaf    int32 (numbers,)    the leaf that it lies in: itself, or above it where splits were
//                               taken back; of nodes that are split themselves
//   inner   uint8 (numbers,)    0 of leaves, 1 of all others
//   left    int32 (numbers,)    0 of leaves; written only if `cuts`
//   sums    int64 (numbers, n_sums)   of rows that stopped in each node; on return leaves have all
//
// Launch: over numbers.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
find_ends(int32 n_numbers, const int32* __restrict__ parent, const uint8* __restrict__ is_split,
          int32 cuts, int32 n_sums, int32* __restrict__ leaf, uint8* __restrict__ inner,
          int32* __restrict__ left, int64* sums)
{
    const int32 number = (int32)(blockIdx.x * QUEUE_THREADS + threadIdx.x);
    if (number >= n_numbers) return;
    leaf[number] = number;
    inner[number] = 1;
    if (parent[number] == NO_NODE) return;
    int32 found = number;
    for (int32 above = parent[number]; above != NO_PARENT; above = parent[above]) {
        if (is_split[above] == 0) found = above;
    }
    leaf[number] = found;
    if (found == number) {
        inner[number] = is_split[number];
        if (cuts != 0 && is_split[number] == 0) left[number] = 0;
        return;
    }
    for (int64 k = 0; k < n_sums; ++k) {
        const int64 sum = sums[(int64)number * n_sums + k];
        if (sum != 0) atomicAdd((uint64*)sums + (int64)found * n_sums + k, (uint64)sum);
    }
}

// value float64 (numbers, n_outputs): nodes get those of their leaves. Launch: over numbers.
extern "C" __global__ void __launch_bounds__(QUEUE_THREADS, QUEUE_BLOCKS)
hand_values(int32 n_numbers, const int32* __restrict__ leaf, int32 n_outputs, double* value)
{
    const int32 number = (int32)(blockIdx.x * QUEUE_THREADS + threadIdx.x);
    if (number >= n_numbers || leaf[number] == number) return;
    for (int64 k = 0; k < n_outputs; ++k) {
        value[(int64)number * n_outputs + k] = value[(int64)leaf[number] * n_outputs + k];
    }
}
