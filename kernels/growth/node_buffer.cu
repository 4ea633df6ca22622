// The node buffer of a batch of trees: each level is appended after it is grown, and nodes are
// numbered at the end.
//
// The arrays of the node buffer have capacity for m nodes, the largest possible number. The index
// of a node is its place; the root of tree t has place t.
//
//   left     int32 (m,)          place of the left child, directly before the right one; 0 in
//                                leaves. number_nodes replaces places by numbers in the tree
//   count    uint32 (m,)         number of rows
//   hessian  int64 (m,)          sum of the rows' hessians
//   gain     float64 (m,)        gain of the split; -1 in leaves
//   feature  int32 (m,)          feature of the split; LEAF in leaves
//   bin, next_bin, draw, missing, mask   the split, as in select_split.cu; undefined in leaves,
//                                        mask also in numeric splits
//   sums     int64 (m, n_sums)   sums of leaves; of split nodes only with `all_sums`, or after
//                                number_nodes with `adds`
//
// draw is empty if no threshold is random; mask is empty if no feature is categorical.

#include "common/running_sum.cuh"
#include "growth/node_buffer.cuh"

constexpr int32 STORE_THREADS = 256;
constexpr int32 STORE_BLOCKS = 4;  // per multiprocessor
constexpr int32 NUMBER_THREADS = 1024;
constexpr int32 NUMBER_BLOCKS = 1;  // per multiprocessor
constexpr int32 NUMBER_WARPS = NUMBER_THREADS / WARP;

// Kinds of `level_sums`: leaf sums; weights of the second of two classes; weights of all classes.
constexpr int32 LEAF_SUMS = 0, OF_SECOND_CLASS = 1, OF_CLASSES = 2;

// The sums of the nodes of a level.
struct LeafSums {
    In<int64> sums;
    In<int64> hessian;
    int32 kind;
    int32 n_sums;

    // Sum j of a node.
    __device__ __forceinline__ int64 of(int64 node, int32 j) const
    {
        if (kind != OF_SECOND_CLASS) return sums[node * n_sums + j];
        return j == 1 ? sums[node] : hessian[node] - sums[node];
    }
};

// Write the nodes of a level to the node buffer: node i to place *first + i. The children of split
// nodes get the places after all stored nodes, by the rank of their parent. Nodes with at most
// `small_rows` rows are skipped, because subtrees.cu has stored them. `all_sums`: whether the sums
// of split nodes are also written.
//
//   size, count, hessian                  of the level, see policy.cu
//   accepted, gain, ..., mask             of the level, see select_split.cu
//   rank, next_size                       of the level, see children.cu
//   level_sums  int64 (nodes, n_sums)     sums of the kind `kind`; one per node for OF_SECOND_CLASS
//   first       int32 (1,)    place of the first node of the level
//   stored      int32 (1,)    size of the node buffer with this level and the subtrees of its small
//                             nodes, without the children of the other nodes
//   following   int32 (1,)    size of the node buffer with the children of this level
//
// Launch: any number of blocks of STORE_THREADS threads, which loop over nodes with the stride of
// the grid; no shared memory.
extern "C" __global__ void __launch_bounds__(STORE_THREADS, STORE_BLOCKS)
store_level(In<int32> size, In<int64> count, In<int64> hessian, In<uint8> accepted, In<double> gain,
            In<int32> feature, In<int16> bin, In<int16> next_bin, In<double> draw, In<int8> missing,
            In<uint32> mask, In<int32> rank, In<int32> next_size, In<int64> level_sums, int32 kind,
            int32 n_sums, int32 all_sums, int64 small_rows, int32 has_draws, int32 has_masks,
            In<int32> first, In<int32> stored, Out<int32> following, Out<int32> left,
            Out<uint32> count_out, Out<int64> hessian_out, Out<double> gain_out,
            Out<int32> feature_out, Out<int16> bin_out, Out<int16> next_bin_out,
            Out<double> draw_out, Out<int8> missing_out, Out<uint32> mask_out, Out<int64> sums_out)
{
    const int64 begin = (int64)blockIdx.x * STORE_THREADS + threadIdx.x;
    const LeafSums sums = {level_sums, hessian, kind, n_sums};
    if (begin == 0) *following = *stored + *next_size;
    for (int64 node = begin; node < *size; node += (int64)gridDim.x * STORE_THREADS) {
        if (small_rows > 0 && count[node] <= small_rows) continue;
        const int64 to = *first + node;
        const bool inner = accepted[node] != 0;
        count_out[to] = (uint32)count[node];
        hessian_out[to] = hessian[node];
        left[to] = inner ? *stored + 2 * rank[node] : 0;
        gain_out[to] = inner ? gain[node] : -1.0;
        feature_out[to] = inner ? feature[node] : LEAF;
        if (!inner || all_sums != 0) {
            for (int32 j = 0; j < n_sums; ++j) sums_out[to * n_sums + j] = sums.of(node, j);
        }
        if (!inner) continue;
        bin_out[to] = bin[node];
        next_bin_out[to] = next_bin[node];
        missing_out[to] = missing[node];
        if (has_draws != 0) draw_out[to] = draw[node];
        for (int32 w = 0; has_masks != 0 && w < MASK_WORDS; ++w) {
            mask_out[to * MASK_WORDS + w] = mask[node * MASK_WORDS + w];
        }
    }
}

// ---- Numbers -----------------------------------------------------------------------------------

// The arrays of the node buffer that numbering reads and writes.
struct StoredNodes {
    int32* left;
    In<int32> feature;
    int64* sums;
    In<uint8> is_categorical;  // (F,)
    int32 n_sums;
    bool has_masks;
};

// Numbers of levels, nodes and categorical splits of a tree.
struct Numbered {
    int64 levels;
    int64 nodes;
    int64 masks;
};

// Number the nodes of the tree whose root has place `root`, breadth-first: order[i] becomes the
// place of node i in the node buffer, left the number of the left child, and category[i] (written
// only with masks) the index of the node's split among the tree's categorical splits, or -1. Level
// l ends before node ends[l]. Every thread of the block takes part.
//
//   level    a   b   c         d   e   f   g        two children for each inner node (>): a running
//   left     >   0   >    ->   a's     c's          sum of inner nodes gives their numbers
__device__ __forceinline__ Numbered number_below(int64 (&warp_sums)[NUMBER_WARPS],
                                                 const StoredNodes& stored, int32 root,
                                                 int32* order, int32* category, int32* ends)
{
    Numbered found = {0, 1, 0};
    int64 first = 0;
    if (threadIdx.x == 0) order[0] = root;  // the same thread reads it
    while (first < found.nodes) {
        const int64 end = found.nodes;
        for (int64 tile = first; tile < end; tile += NUMBER_THREADS) {
            const int64 node = tile + threadIdx.x;
            const int32 place = node < end ? order[node] : 0;
            const int32 child = node < end ? stored.left[place] : 0;
            const bool by_mask = child > 0 && stored.has_masks
                                 && stored.is_categorical[stored.feature[place]] != 0;
            // Two sums in one: inner nodes in the low bits, categorical splits in the high bits.
            const int64 own = (child > 0 ? 1 : 0) + (by_mask ? 1ll << 32 : 0);
            const RunningSum sum = running_sum(warp_sums, own);
            if (child > 0) {
                const int64 to = found.nodes + 2 * (sum.before & 0xffffffffll);
                order[to] = child;
                order[to + 1] = child + 1;
                stored.left[place] = (int32)to;
            }
            if (stored.has_masks && node < end) {
                category[node] = by_mask ? (int32)(found.masks + (sum.before >> 32)) : -1;
            }
            found.nodes += 2 * (sum.all & 0xffffffffll);
            found.masks += sum.all >> 32;
        }
        if (threadIdx.x == 0) ends[found.levels] = (int32)end;
        ++found.levels;
        first = end;
        __syncthreads();
    }
    return found;
}

// Compute the sums of inner nodes from their children, bottom-up. Every thread of the block takes
// part.
__device__ __forceinline__ void sum_children(const StoredNodes& stored, const int32* order,
                                             const int32* ends, int64 n_levels)
{
    const int32 n_sums = stored.n_sums;
    for (int64 level = n_levels - 2; level >= 0; --level) {
        const int64 first = level == 0 ? 0 : ends[level - 1], n_nodes = ends[level] - first;
        for (int64 i = threadIdx.x; i < n_nodes * n_sums; i += NUMBER_THREADS) {
            const int64 place = order[first + i / n_sums], j = i % n_sums;
            const int32 child = stored.left[place];
            if (child == 0) continue;
            const int64 own = stored.sums[(int64)order[child] * n_sums + j];
            stored.sums[place * n_sums + j]
                = own + stored.sums[(int64)order[child + 1] * n_sums + j];
        }
        __syncthreads();
    }
}

// Number the nodes of each tree. Each tree has its own part of order, category (used only with
// `has_masks`) and level_end, with the capacity given in node_buffer.cuh. Writes to the table the
// numbers of nodes and masks of each tree, which place_trees turns into indices, and the integer
// weight of its root; for a single tree, writes the indices itself. `adds`: also compute the sums
// of inner nodes from those of leaves.
//
// Launch: one block of NUMBER_THREADS threads per tree, no dynamic shared memory.
extern "C" __global__ void __launch_bounds__(NUMBER_THREADS, NUMBER_BLOCKS)
number_nodes(In<int64> start, int64 min_rows, int64 max_nodes, int32 max_levels, int32 n_trees,
             In<int64> hessian, In<int32> feature, In<uint8> is_categorical, int32 has_masks,
             int32 n_sums, int32 adds, int32* left, int64* sums, int32* order, int32* category,
             int32* level_end, Out<int64> table)
{
    __shared__ int64 warp_sums[NUMBER_WARPS];
    const int32 tree = blockIdx.x;
    const Capacities capacities = {start, min_rows, max_nodes, max_levels};
    const StoredNodes stored = {left, feature, sums, is_categorical, n_sums, has_masks != 0};
    const int64 first = capacities.first_node(tree);
    int32* ends = level_end + capacities.first_level(tree);
    int32* own = order + first;
    const Numbered found = number_below(warp_sums, stored, tree, own, category + first, ends);
    if (adds != 0) sum_children(stored, own, ends, found.levels);
    if (threadIdx.x != 0) return;
    const int64 width = n_trees + 1, to = n_trees == 1 ? 1 : tree;
    if (n_trees == 1) table[NODE_ROW * width] = table[MASK_ROW * width] = 0;
    table[NODE_ROW * width + to] = found.nodes;
    table[MASK_ROW * width + to] = found.masks;
    table[HESSIAN_ROW * width + tree] = hessian[tree];
}

// Turn the first two rows of the table into running sums: the index of each tree's first node and
// first mask among the nodes and masks of all trees, with the total at the end. Not launched for a
// single tree, whose running sums number_nodes writes.
// Launch: one block of NUMBER_THREADS threads, which loops over tiles of trees, one tree per
// thread.
extern "C" __global__ void __launch_bounds__(NUMBER_THREADS, NUMBER_BLOCKS)
place_trees(int32 n_trees, Out<int64> table)
{
    __shared__ int64 warp_sums[NUMBER_WARPS];
    const int64 width = n_trees + 1;
    for (int32 row = NODE_ROW; row <= MASK_ROW; ++row) {
        int64 before = 0;
        for (int32 tile = 0; tile < n_trees; tile += NUMBER_THREADS) {
            const int32 tree = tile + threadIdx.x;
            const int64 own = tree < n_trees ? table[row * width + tree] : 0;
            const RunningSum sum = running_sum(warp_sums, own);
            if (tree < n_trees) table[row * width + tree] = before + sum.before;
            before += sum.all;
        }
        if (threadIdx.x == 0) table[row * width + n_trees] = before;
    }
}
