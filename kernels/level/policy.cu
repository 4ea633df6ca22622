// Policy of a level on the device: which nodes are searched, and which slots (indices) their
// histograms get; children.cu makes the next level. The host launches kernels for the largest
// possible number of nodes; kernels read the actual number from device memory.
//
//   size       int32 (1,)      number of nodes, at most the length of the arrays of nodes
//   tree       int32 (nodes,)  start, count, hessian  int64 (nodes,)
//   gradient   int64 (nodes, n_channels)
//   parent     int32 (nodes,)  slot of the parent's histogram in the level before, -1 if not kept
//
// Children come in pairs, left before right: below the roots, the sibling of node i is i ^ 1.
//
// Launch of all kernels: grid (chunks of nodes, shares), CHUNK_THREADS threads, see chunks.cuh; one
// thread per node. All blocks with the same blockIdx.x process the nodes of one chunk: each block
// counts the pieces of the nodes' rows and writes a share of the pieces; the first block also
// writes the arrays of nodes. No dynamic shared memory.

#include "common/chunks.cuh"

// `source` of a node whose histogram is summed from rows, or which has no histogram.
constexpr int32 FROM_ROWS = -1;

// Shared memory of `append_work`.
struct PieceWorkspace {
    int64 warp_sums[CHUNK_WARPS];
    int32 end[CHUNK_THREADS];   // number of pieces in the tile up to the end of each thread's node
    int32 slot[CHUNK_THREADS];  // node or slot that the pieces of each thread's node belong to
};

// ---- Work lists: the rows of nodes, cut into pieces for the blocks of a launch -----------------

struct Work {
    Out<int32> slot;   // node or slot that a piece belongs to
    Out<int64> first;  // position of a piece's first row
    Out<int32> rows;   // number of rows of a piece
    int32 capacity;    // largest number of rows of a piece
};

// Append the pieces of the rows of a tile of nodes, the first of which is node `tile`, to a list of
// `made` pieces; `pieces` is the number of pieces of this thread's node. Blocks with the same
// blockIdx.x write a share each. Returns the new length. Every thread of the block takes part.
//
//   thread        0        1   2
//   pieces     a a a a           c c       end   4 4 6
//   written by 0 1 2 3           4 5       thread i writes piece i, which belongs to the node of
//                                          the first thread whose end is larger than i
__device__ __forceinline__ int64 append_work(PieceWorkspace& space, const Work& work, int64 made,
                                             int64 tile, int32 slot, int64 pieces, In<int64> start,
                                             In<int64> count)
{
    const int32 t = threadIdx.x;
    const RunningSum sum = running_sum(space.warp_sums, pieces);
    space.end[t] = (int32)(sum.before + pieces);
    space.slot[t] = slot;
    __syncthreads();
    const int64 step = (int64)gridDim.y * CHUNK_THREADS;
    for (int64 piece = (int64)blockIdx.y * CHUNK_THREADS + t; piece < sum.all; piece += step) {
        const int32 owner
            = first_not(0, CHUNK_THREADS - 1, [&](int32 i) { return space.end[i] <= piece; });
        const int64 offset = (piece - (owner == 0 ? 0 : space.end[owner - 1])) * work.capacity;
        work.slot[made + piece] = space.slot[owner];
        work.first[made + piece] = start[tile + owner] + offset;
        work.rows[made + piece] = (int32)min((int64)work.capacity, count[tile + owner] - offset);
    }
    return made + sum.all;
}

// Write the pieces of the rows of the first level. There is one chunk, and each block processes
// all roots.
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
cut_roots(In<int32> size, In<int64> start, In<int64> count, int32 piece_rows, Out<int32> work_slot,
          Out<int64> work_first, Out<int32> work_rows, Out<int32> n_pieces)
{
    __shared__ PieceWorkspace space;
    const Work work = {work_slot, work_first, work_rows, piece_rows};
    const int64 n_nodes = *size;
    int64 made = 0;
    for (int64 tile = 0; tile < n_nodes; tile += CHUNK_THREADS) {
        const int64 node = tile + threadIdx.x;
        const int64 pieces = node < n_nodes ? pieces_of(count[node], piece_rows) : 0;
        made = append_work(space, work, made, tile, (int32)node, pieces, start, count);
    }
    if (blockIdx.y == 0 && threadIdx.x == 0) *n_pieces = (int32)made;
}

// ---- Which nodes are searched ------------------------------------------------------------------

// Limits that decide whether a node is searched.
struct NodeLimits {
    In<int64> min_hessian;  // (trees,): smallest hessian of a child
    int64 smallest;         // smallest number of rows of a node that may be split
    int64 small_rows;       // largest number of rows of the nodes that subtrees.cu grows; 0 if none
    int32 n_channels;
    int32 purity;                           // how nodes are tested for purity
    bool deeper;                            // whether the depth allows children
};

// How nodes are tested for purity: by the one channel of two classes; by the channels of more
// classes; by the ranges of the targets; not at all (gradients).
constexpr int32 TWO_CLASSES = 0, CLASSES = 1, RANGES = 2, NEVER = 3;

struct Nodes {
    In<int32> tree;
    In<int64> start;
    In<int64> count;
    In<int64> hessian;
    In<int64> gradient;
    In<int32> low;   // (nodes, n_channels): smallest target of the rows of positive weight
    In<int32> high;  // (nodes, n_channels): largest target of these rows; read only with RANGES
    In<int32> parent;
};

__device__ __forceinline__ bool is_pure(const Nodes& nodes, const NodeLimits& limits, int64 node)
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

__device__ __forceinline__ bool may_split(const Nodes& nodes, const NodeLimits& limits, int64 node)
{
    return limits.deeper && nodes.count[node] >= limits.smallest
           && nodes.hessian[node] >= 2 * limits.min_hessian[nodes.tree[node]]
           && !is_pure(nodes, limits, node);
}

__device__ __forceinline__ bool is_searched(const Nodes& nodes, const NodeLimits& limits,
                                            int64 node)
{
    return nodes.count[node] > limits.small_rows && may_split(nodes, limits, node);
}

// Whether a node has more rows than its sibling; of equal siblings, the right one counts as larger.
__device__ __forceinline__ bool is_larger(const Nodes& nodes, int64 node)
{
    const bool left = nodes.count[node & ~1ll] > nodes.count[node | 1ll];
    return left == ((node & 1) == 0);
}

// The decisions of the policy for a node.
struct Role {
    bool is_open;  // whether the node is searched in this level
    bool has_histogram;   // whether the node gets a slot
    bool by_subtraction;  // whether its histogram is the parent's minus the sibling's
    bool is_small;        // whether subtrees.cu grows the node
};

// The role of a node. Every lane of the warp takes part; siblings are in neighbouring lanes.
__device__ __forceinline__ Role role_of(const Nodes& nodes, const NodeLimits& limits, int64 node,
                                        bool inside)
{
    const bool is_open = inside && is_searched(nodes, limits, node);
    const bool sibling_is_open = __shfl_xor_sync(FULL_MASK, (int32)is_open, 1) != 0;
    const bool known = inside && nodes.parent[node] >= 0;
    const bool larger = known && is_larger(nodes, node);
    const bool is_small = inside && !is_open && nodes.count[node] <= limits.small_rows;
    return {is_open, is_open || (known && !larger && sibling_is_open), is_open && larger, is_small};
}

__device__ __forceinline__ int64 pieces_in(const Nodes& nodes, const Role& role, int64 node,
                                           int32 capacity)
{
    return role.has_histogram && !role.by_subtraction ? pieces_of(nodes.count[node], capacity) : 0;
}

// Compute sums over each chunk, which open_nodes needs if there are several chunks. Launch: one
// share.
//
//   totals   int64 (2, chunks)    number of slots packed with the number of small nodes; number of
//                                 pieces of rows to sum
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
count_open(In<int32> size, In<int32> tree, In<int64> start, In<int64> count, In<int64> hessian,
           In<int64> gradient, In<int32> low, In<int32> high, In<int32> parent,
           In<int64> min_hessian, int64 smallest, int64 small_rows, int32 n_channels, int32 purity,
           int32 deeper, int32 rows_per_piece, Out<int64> totals)
{
    __shared__ int64 warp_sums[CHUNK_WARPS];
    const Nodes nodes = {tree, start, count, hessian, gradient, low, high, parent};
    const NodeLimits limits = {min_hessian, smallest, small_rows, n_channels, purity, deeper != 0};
    const Chunk chunk = chunk_of(*size, blockIdx.x, gridDim.x);
    int64 numbers = 0, pieces = 0;
    for (int64 tile = chunk.first; tile < chunk.end; tile += CHUNK_THREADS) {
        const int64 node = tile + threadIdx.x;
        const Role role = role_of(nodes, limits, node, node < chunk.end);
        numbers += packed(role.has_histogram, role.is_small);
        pieces += pieces_in(nodes, role, node, rows_per_piece);
    }
    write_total(warp_sums, totals + blockIdx.x, numbers);
    write_total(warp_sums, totals + gridDim.x + blockIdx.x, pieces);
}

// Assign histogram slots to the nodes that need one: the open nodes, and the smaller siblings of
// open nodes whose parent's histogram was kept.
//
//   totals   from count_open; not read if there is one chunk
//   slot     int32 (nodes,)    slot of the node, -1 for none
//   node_of_slot  int32 (nodes,)    node of the slot
//   source   int32 (nodes,)    FROM_ROWS, or the slot of the parent's histogram in the level
//                              before, from which the sibling's histogram is subtracted
//   open     uint8 (nodes,)    whether the node is searched in this level
//   small    int32 (nodes,)    the nodes that subtrees.cu grows, ascending; sizes[2] entries
//   sizes    int32 (3,)        numbers of slots, of pieces of rows to sum, and of small nodes
//   work_slot, work_first, work_rows   int32, int64, int32 (pieces,)   slot, position of the first
//                                      row and number of rows of each piece to sum
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
open_nodes(In<int32> size, In<int32> tree, In<int64> start, In<int64> count, In<int64> hessian,
           In<int64> gradient, In<int32> low, In<int32> high, In<int32> parent,
           In<int64> min_hessian, int64 smallest, int64 small_rows, int32 n_channels, int32 purity,
           int32 deeper, int32 rows_per_piece, In<int64> totals, Out<int32> slot,
           Out<int32> node_of_slot, Out<int32> source, Out<uint8> open, Out<int32> small,
           Out<int32> sizes, Out<int32> work_slot, Out<int64> work_first, Out<int32> work_rows)
{
    __shared__ PieceWorkspace space;
    const Nodes nodes = {tree, start, count, hessian, gradient, low, high, parent};
    const NodeLimits limits = {min_hessian, smallest, small_rows, n_channels, purity, deeper != 0};
    const Work work = {work_slot, work_first, work_rows, rows_per_piece};
    const bool last = blockIdx.x == gridDim.x - 1, writes = blockIdx.y == 0;
    const Chunk chunk = chunk_of(*size, blockIdx.x, gridDim.x);
    if (chunk.is_empty() && !last) return;
    int64 numbers = sum_before(space.warp_sums, totals, blockIdx.x);
    int64 n_work = sum_before(space.warp_sums, totals + gridDim.x, blockIdx.x);
    for (int64 tile = chunk.first; tile < chunk.end; tile += CHUNK_THREADS) {
        const int64 node = tile + threadIdx.x;
        const bool inside = node < chunk.end;
        const Role role = role_of(nodes, limits, node, inside);
        const int64 own_numbers = packed(role.has_histogram, role.is_small);
        const RunningSum sum = running_sum(space.warp_sums, own_numbers);
        const int64 before = numbers + sum.before;
        const int32 own = role.has_histogram ? low_of(before) : -1;
        numbers += sum.all;
        const int64 pieces = pieces_in(nodes, role, node, rows_per_piece);
        n_work = append_work(space, work, n_work, tile, own, pieces, start, count);
        if (!inside || !writes) continue;
        slot[node] = own;
        if (role.has_histogram) node_of_slot[own] = (int32)node;
        source[node] = role.by_subtraction ? parent[node] : FROM_ROWS;
        open[node] = role.is_open;
        if (role.is_small) small[high_of(before)] = (int32)node;
    }
    if (last && writes && threadIdx.x == 0) {
        sizes[0] = low_of(numbers);
        sizes[1] = (int32)n_work;
        sizes[2] = high_of(numbers);
    }
}
