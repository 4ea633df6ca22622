// Policy of a level on the device: which nodes are searched, where their histograms lie, and what
// the next level is. The host never learns how many nodes there are: it launches for as many as
// there can be, and every kernel reads the number.
//
//   size       int32 (1,)      nodes of the level; arrays of nodes have room for more
//   tree       int32 (nodes,)  key uint64 (nodes,)   start, count, hessian  int64 (nodes,)
//   gradient   int64 (nodes, K)
//   parent     int32 (nodes,)  slot of the parent's histogram in the level before, -1 if unknown
//
// Children come in pairs, left before right: below the roots the sibling of node i is i ^ 1.
//
// Launch of all kernels: one block of POLICY_THREADS threads; a thread takes a node, a tile of
// nodes at a time; no dynamic shared memory.

#include "running_sum.cuh"

constexpr int32 POLICY_THREADS = 1024;
constexpr int32 POLICY_BLOCKS = 1;  // in all; more on a multiprocessor would cost registers
constexpr int32 POLICY_WARPS = POLICY_THREADS / WARP;
constexpr int32 FROM_ROWS = -1;  // `source` of a histogram that is summed from rows

struct Workspace {
    int64 warp_sums[POLICY_WARPS];
    // Of each thread's node, for a work list: pieces up to its end, first row, rows, number.
    int64 end[POLICY_THREADS];
    int64 start[POLICY_THREADS];
    int64 count[POLICY_THREADS];
    int32 slot[POLICY_THREADS];
};

// ---- Work lists: the rows of nodes, cut into pieces for the blocks of a launch -----------------

struct Work {
    int32* __restrict__ slot;   // what a piece belongs to
    int64* __restrict__ first;  // its first row
    int32* __restrict__ rows;
};

// Append this thread's `count` rows from `start` in pieces of at most `most` rows, after those of
// the threads before it; returns the pieces there are then. Every thread of the block takes part.
//
//   thread        0        1   2
//   pieces     a a a a           c c       end   4 4 6
//   written by 0 1 2 3           4 5       each finds its owner: the first thread that ends later
__device__ __forceinline__ int64 append_work(Workspace& space, const Work& work, int64 made,
                                             int32 slot, int64 start, int64 count, int32 most)
{
    const int32 t = threadIdx.x;
    const int64 pieces = (count + most - 1) / most;
    const RunningSum sum = running_sum(space.warp_sums, pieces);
    space.end[t] = sum.before + pieces;
    space.start[t] = start;
    space.count[t] = count;
    space.slot[t] = slot;
    __syncthreads();
    for (int64 piece = t; piece < sum.all; piece += POLICY_THREADS) {
        int32 owner = 0, last = POLICY_THREADS - 1;
        while (owner < last) {
            const int32 middle = (owner + last) / 2;
            if (space.end[middle] > piece) last = middle;
            else owner = middle + 1;
        }
        const int64 before = owner == 0 ? 0 : space.end[owner - 1];
        const int64 offset = (piece - before) * most;
        work.slot[made + piece] = space.slot[owner];
        work.first[made + piece] = space.start[owner] + offset;
        work.rows[made + piece] = (int32)min((int64)most, space.count[owner] - offset);
    }
    return made + sum.all;
}

// The pieces of the rows of all nodes. Every thread of the block takes part.
__device__ __forceinline__ void cut_rows(Workspace& space, const Work& work, int64 n_nodes,
                                         const int64* start, const int64* count, int32 most,
                                         int32* n_pieces)
{
    int64 made = 0;
    for (int64 tile = 0; tile < n_nodes; tile += POLICY_THREADS) {
        const int64 node = tile + threadIdx.x;
        const bool inside = node < n_nodes;
        made = append_work(space, work, made, (int32)node, inside ? start[node] : 0,
                           inside ? count[node] : 0, most);
    }
    if (threadIdx.x == 0) *n_pieces = (int32)made;
}

// ---- Which nodes are searched ------------------------------------------------------------------

// What a node may not fall below, and what is known of the level.
struct Limits {
    const int64* __restrict__ min_hessian;  // (trees,)
    int64 smallest;                         // rows of a node that may be split
    int64 small_rows;                       // nodes of so many rows are left to small.cu
    int32 n_channels;
    int32 purity;                           // how it is known
    bool deeper;                            // whether the depth allows children
};

// `purity`: two classes in one channel; one channel for each class; targets between two bounds;
// gradients, of which no node is pure.
constexpr int32 TWO_CLASSES = 0, CLASSES = 1, RANGES = 2, NEVER = 3;

struct Nodes {
    const int32* __restrict__ tree;
    const int64* __restrict__ start;
    const int64* __restrict__ count;
    const int64* __restrict__ hessian;
    const int64* __restrict__ gradient;
    const int32* __restrict__ low;   // (nodes, K) of the targets of rows of positive weight
    const int32* __restrict__ high;
    const int32* __restrict__ parent;
};

__device__ __forceinline__ bool is_pure(const Nodes& nodes, const Limits& limits, int64 node)
{
    const int64 first = node * limits.n_channels;
    if (limits.purity == TWO_CLASSES) {
        return nodes.gradient[first] == 0 || nodes.gradient[first] == nodes.hessian[node];
    }
    for (int32 k = 0; k < limits.n_channels; ++k) {
        if (limits.purity == CLASSES && nodes.gradient[first + k] == nodes.hessian[node]) {
            return true;
        }
        if (limits.purity == RANGES && nodes.low[first + k] < nodes.high[first + k]) return false;
    }
    return limits.purity == RANGES;
}

__device__ __forceinline__ bool may_split(const Nodes& nodes, const Limits& limits, int64 node)
{
    return limits.deeper && nodes.count[node] >= limits.smallest
           && nodes.hessian[node] >= 2 * limits.min_hessian[nodes.tree[node]]
           && !is_pure(nodes, limits, node);
}

__device__ __forceinline__ bool is_open(const Nodes& nodes, const Limits& limits, int64 node)
{
    return nodes.count[node] > limits.small_rows && may_split(nodes, limits, node);
}

// Of two siblings the one that has more rows; of equals the right one.
__device__ __forceinline__ bool is_larger(const Nodes& nodes, int64 node)
{
    const bool left = nodes.count[node & ~1ll] > nodes.count[node | 1ll];
    return left == ((node & 1) == 0);
}

// Histograms of the level, one slot for each node that needs one: the open nodes, and smaller
// siblings of open nodes whose parent's histogram is known.
//
//   slot     int32 (nodes,)    the node's, -1 for none
//   node_of_slot  int32 (nodes,)    whose a slot is
//   source   int32 (nodes,)    FROM_ROWS, or the parent's slot in the level before, from which
//                              that of the sibling is subtracted
//   open     uint8 (nodes,)    whether the node is searched here
//   small    int32 (nodes,)    the nodes left to small.cu, one after the other
//   sizes    int32 (3,)        slots, pieces of work, small nodes
//   work                       the rows that are summed, by slot
extern "C" __global__ void __launch_bounds__(POLICY_THREADS, POLICY_BLOCKS)
open_nodes(const int32* __restrict__ size, const int32* __restrict__ tree,
           const int64* __restrict__ start, const int64* __restrict__ count,
           const int64* __restrict__ hessian, const int64* __restrict__ gradient,
           const int32* __restrict__ low, const int32* __restrict__ high,
           const int32* __restrict__ parent, const int64* __restrict__ min_hessian,
           int64 smallest, int64 small_rows, int32 n_channels, int32 purity, int32 deeper,
           int32 rows_per_piece, int32* __restrict__ slot, int32* __restrict__ node_of_slot,
           int32* __restrict__ source, uint8* open, int32* __restrict__ small,
           int32* __restrict__ sizes, int32* __restrict__ work_slot, int64* __restrict__ work_first,
           int32* __restrict__ work_rows)
{
    __shared__ Workspace space;
    const Nodes nodes = {tree, start, count, hessian, gradient, low, high, parent};
    const Limits limits = {min_hessian, smallest, small_rows, n_channels, purity, deeper != 0};
    const Work work = {work_slot, work_first, work_rows};
    const int64 n_nodes = *size;
    for (int64 node = threadIdx.x; node < n_nodes; node += POLICY_THREADS) {
        open[node] = is_open(nodes, limits, node);
    }
    __syncthreads();
    int64 n_slots = 0, n_work = 0, n_small = 0;
    for (int64 tile = 0; tile < n_nodes; tile += POLICY_THREADS) {
        const int64 node = tile + threadIdx.x;
        const bool inside = node < n_nodes;
        const bool opens = inside && open[node] != 0;
        const bool known = inside && parent[node] >= 0;
        const bool larger = known && is_larger(nodes, node);
        const bool helps = known && !larger && open[node ^ 1] != 0;
        const bool subtracted = opens && larger;
        const bool needs = opens || helps;

        const RunningSum slots = running_sum(space.warp_sums, needs);
        const int32 own = needs ? (int32)(n_slots + slots.before) : -1;
        n_slots += slots.all;
        const int64 rows = needs && !subtracted ? count[node] : 0;
        n_work = append_work(space, work, n_work, own, inside ? start[node] : 0, rows,
                             rows_per_piece);

        const bool left_over = inside && !opens && count[node] <= small_rows;
        const RunningSum smalls = running_sum(space.warp_sums, left_over);
        if (left_over) small[n_small + smalls.before] = (int32)node;
        n_small += smalls.all;

        if (!inside) continue;
        slot[node] = own;
        if (needs) node_of_slot[own] = (int32)node;
        source[node] = subtracted ? parent[node] : FROM_ROWS;
    }
    if (threadIdx.x == 0) {
        sizes[0] = (int32)n_slots;
        sizes[1] = (int32)n_work;
        sizes[2] = (int32)n_small;
    }
}

// ---- What the next level is --------------------------------------------------------------------

// Where the rows of the level's pieces go, those of a parent side by side, left before right.
//
//   accepted   uint8 (nodes,)    n_left int64 (nodes,)       rows of accepted nodes that go left
//   piece, first, left   int32, int64, int64 (pieces,)    node, first row and rows that go left
//   rank       int32 (nodes,)    accepted nodes before each; its children are 2 rank, 2 rank + 1
//   to         int64 (nodes,)    first row of the left child
//   left_at, right_at   int64 (pieces,)    first row of each side of a piece
//   next_size  int32 (1,)        children
extern "C" __global__ void __launch_bounds__(POLICY_THREADS, POLICY_BLOCKS)
place_rows(const int32* __restrict__ size, const int64* __restrict__ start,
           const int64* __restrict__ count, const uint8* __restrict__ accepted,
           const int64* __restrict__ n_left, const int32* __restrict__ n_pieces,
           const int32* __restrict__ piece_node, const int64* __restrict__ first,
           const int64* __restrict__ left, int32 piece_rows, int32* __restrict__ rank,
           int64* __restrict__ to, int64* __restrict__ left_at, int64* __restrict__ right_at,
           int32* __restrict__ next_size)
{
    __shared__ Workspace space;
    const int64 n_nodes = *size;
    int64 n_accepted = 0, n_rows = 0;
    for (int64 tile = 0; tile < n_nodes; tile += POLICY_THREADS) {
        const int64 node = tile + threadIdx.x;
        const bool splits = node < n_nodes && accepted[node] != 0;
        const RunningSum ranks = running_sum(space.warp_sums, splits);
        const RunningSum rows = running_sum(space.warp_sums, splits ? count[node] : 0);
        if (splits) {
            rank[node] = (int32)(n_accepted + ranks.before);
            to[node] = n_rows + rows.before;
        }
        n_accepted += ranks.all;
        n_rows += rows.all;
    }
    if (threadIdx.x == 0) *next_size = (int32)(2 * n_accepted);

    // Rows that go left before a piece of a node: those before it in all, less those before the
    // node's first piece. They wait in `right_at` until every sum has been read.
    int64 gone = 0;
    const int64 n_all = *n_pieces;
    for (int64 tile = 0; tile < n_all; tile += POLICY_THREADS) {
        const int64 piece = tile + threadIdx.x;
        const bool inside = piece < n_all && accepted[piece_node[piece]] != 0;
        const RunningSum sum = running_sum(space.warp_sums, inside ? left[piece] : 0);
        if (inside) left_at[piece] = gone + sum.before;
        gone += sum.all;
    }
    __syncthreads();
    for (int64 piece = threadIdx.x; piece < n_all; piece += POLICY_THREADS) {
        const int32 node = piece_node[piece];
        if (accepted[node] == 0) continue;
        const int64 pieces_before = (first[piece] - start[node]) / piece_rows;
        right_at[piece] = left_at[piece] - left_at[piece - pieces_before];
    }
    __syncthreads();
    for (int64 piece = threadIdx.x; piece < n_all; piece += POLICY_THREADS) {
        const int32 node = piece_node[piece];
        if (accepted[node] == 0) continue;
        const int64 before = right_at[piece];
        left_at[piece] = to[node] + before;
        right_at[piece] = to[node] + n_left[node] + (first[piece] - start[node]) - before;
    }
}

// The children of accepted nodes, and the pieces of their rows; arrays of children end in `_out`.
//
//   left_hessian int64 (nodes,)   left_gradient int64 (nodes, K)    sums of left children
extern "C" __global__ void __launch_bounds__(POLICY_THREADS, POLICY_BLOCKS)
make_children(const int32* __restrict__ size, const int32* __restrict__ tree,
              const uint64* __restrict__ key, const int64* __restrict__ count,
              const int64* __restrict__ hessian, const int64* __restrict__ gradient,
              const uint8* __restrict__ accepted, const int64* __restrict__ n_left,
              const int32* __restrict__ rank, const int64* __restrict__ to,
              const int32* __restrict__ slot, const int64* __restrict__ left_hessian,
              const int64* __restrict__ left_gradient, int32 n_channels, int32 piece_rows,
              int32* __restrict__ tree_out, uint64* __restrict__ key_out,
              int64* __restrict__ start_out, int64* __restrict__ count_out,
              int64* __restrict__ hessian_out, int64* __restrict__ gradient_out,
              int32* __restrict__ parent_out, int32* __restrict__ work_slot,
              int64* __restrict__ work_first, int32* __restrict__ work_rows,
              int32* __restrict__ n_pieces, const int32* __restrict__ next_size)
{
    __shared__ Workspace space;
    const Work work = {work_slot, work_first, work_rows};
    const int64 n_nodes = *size;
    for (int64 node = threadIdx.x; node < n_nodes; node += POLICY_THREADS) {
        if (accepted[node] == 0) continue;
        const int64 child = 2 * (int64)rank[node];
        tree_out[child] = tree_out[child + 1] = tree[node];
        key_out[child] = left_key(key[node]);
        key_out[child + 1] = right_key(key[node]);
        start_out[child] = to[node];
        start_out[child + 1] = to[node] + n_left[node];
        count_out[child] = n_left[node];
        count_out[child + 1] = count[node] - n_left[node];
        hessian_out[child] = left_hessian[node];
        hessian_out[child + 1] = hessian[node] - left_hessian[node];
        parent_out[child] = parent_out[child + 1] = slot[node];
        for (int32 k = 0; k < n_channels; ++k) {
            const int64 own = left_gradient[node * n_channels + k];
            gradient_out[child * n_channels + k] = own;
            gradient_out[(child + 1) * n_channels + k] = gradient[node * n_channels + k] - own;
        }
    }
    __syncthreads();
    cut_rows(space, work, *next_size, start_out, count_out, piece_rows, n_pieces);
}

// The pieces of the rows of the first level.
extern "C" __global__ void __launch_bounds__(POLICY_THREADS, POLICY_BLOCKS)
cut_roots(const int32* __restrict__ size, const int64* __restrict__ start,
          const int64* __restrict__ count, int32 piece_rows, int32* __restrict__ work_slot,
          int64* __restrict__ work_first, int32* __restrict__ work_rows,
          int32* __restrict__ n_pieces)
{
    __shared__ Workspace space;
    const Work work = {work_slot, work_first, work_rows};
    cut_rows(space, work, *size, start, count, piece_rows, n_pieces);
}
