// Grows nodes with few rows to their leaves, in two launches of one kernel: nodes with more than
// WARP rows by one block each, then smaller ones by one warp each (BY_WARP).
//
//   first launch    grows the nodes that policy.cu lists, until nodes have at most WARP rows; these
//                   go to a second list
//   second launch   grows the nodes of the second list to their leaves; the subtrees of these nodes
//                   contain most nodes of a deep tree
//
// Input:
//
//   row, weight   uint32 (n_rows,)   target int32 (columns, n_rows)   rows of the level, see
//                                                                     histogram_values.cu
//   small         int32 (nodes,)   roots of the subtrees, sizes[2] of them, from policy.cu
//   tree, key, start, count        of the nodes of the level, see policy.cu
//   min_hessian, min_category, root_hessian   int64 (trees,)   see split.cu and select_split.cu
//   allowed       uint8 (trees, n_features)    features that the nodes of a tree may split on
//   tiles         uint8 (n_tiles, n_samples, tile)    a row's codes of the features of a tile are
//                                                     side by side
//   n_bins, is_categorical   int32, uint8 (n_features,)   center float64 (n_features, width - 1)
//   wide, wide_of   see sums.cu; n_columns is 0 if leaf sums are the weights of classes
//   regular, unit   see split.cu and select_split.cu
//
// The second list (the tiny nodes). The rows of its nodes are written back to global memory in
// their new order, over the rows of the subtree's root:
//
//   n_tiny      int32 (1,)                      number of nodes; zero before the first launch
//   place       int32 (tiny nodes,)             place of each node in the node buffer
//   tiny_tree, tiny_count, tiny_levels   int32 (tiny nodes,)   tree, number of rows, largest number
//                                        of levels below each node
//   tiny_start, tiny_key   int64, uint64 (tiny nodes,)   position of the first row, key of the
//                                        random numbers
//
// Output: nodes in the node buffer of subtree.cuh, in which node i of the level has place
// *first + i. n_stored is the size of the node buffer. draw is empty if no threshold is random;
// mask is empty if no feature is categorical.
//
// Launch: any number of blocks of SPLIT_THREADS threads, dynamic shared memory as in
// block_state.cuh. Blocks loop over nodes; a block grows the whole subtree of a node before it
// takes the next node. With BY_WARP, a lane holds one row and, in the search, one code that occurs
// in the node, so no array has an entry for each bin.

#include "level/split.cuh"
#include "growth/block_state.cuh"
#include "growth/subtree.cuh"

// Blocks per multiprocessor; with more, registers are spilled.
constexpr int32 SUBTREE_BLOCKS = BY_WARP ? 12 : 2;

struct TinyNodes {
    Out<int32> size;
    Out<int32> tree;
    Out<int32> place;
    Out<int32> count;
    Out<int32> levels;
    Out<int64> start;
    Out<uint64> key;

    __device__ __forceinline__ OpenNode root(int32 i) const
    {
        return {key[i], 0, count[i], levels[i], place[i]};
    }
};

// Append a node to the list of tiny nodes and write its rows back to global memory.
__device__ __forceinline__ void append_tiny(const BlockState& state, const Layout& shared,
                                            const LevelRows& rows, const TinyNodes& tiny,
                                            const OpenNode& node, int32 tree)
{
    const int64 start = rows.start + node.start;
    #pragma unroll 1
    for (int32 i = threadIdx.x; i < node.count; i += SPLIT_THREADS) {
        const int32 own = state.order[node.start + i];
        rows.row[start + i] = state.row[own];
        rows.weight[start + i] = state.weight[own];
        #pragma unroll 1
        for (int32 c = 0; c < rows.n_columns; ++c) {
            rows.target[c * rows.n_rows + start + i]
                = shared.target[c * MAX_ROWS + own];
        }
    }
    if (threadIdx.x != 0) return;
    const int32 at = atomicAdd(tiny.size, 1);
    tiny.tree[at] = tree;
    tiny.place[at] = node.place;
    tiny.count[at] = node.count;
    tiny.levels[at] = node.levels;
    tiny.start[at] = start;
    tiny.key[at] = node.key;
}

// Grow a node to its leaves or, without BY_WARP, until nodes have at most WARP rows. `turn`, 0 or
// 1, is the set of sums to use next.
__device__ __forceinline__ void grow_subtree(BlockState& state, const Layout& shared,
                                             const LevelRows& rows, const Task& task,
                                             const OpenNode& root, const Tree& tree,
                                             int32 tree_number, const TinyNodes& tiny, int32& turn)
{
    const int32 n_channels = task.limits.options.n_channels;
    load_rows(state, shared, rows, root, tree);
    __syncthreads();
    for (int32 height = 1; height > 0;) {
        --height;
        const OpenNode& node = state.stack[height];
        if (!BY_WARP && node.count <= WARP) {
            append_tiny(state, shared, rows, tiny, node, tree_number);
            continue;
        }
        const Sums before = sums_of(shared, n_channels, turn ^ 1);
        height += grow_node(state, shared, sums_of(shared, n_channels, turn), task, height);
        clear_sums(before, n_channels);
        turn ^= 1;
        __syncthreads();
    }
    if (!BY_WARP) __syncthreads();
}

// `levels`: largest number of levels below a node of the level; `first`: place of the level's first
// node.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, SUBTREE_BLOCKS)
grow_subtrees(uint32* row, uint32* weight, int32* target, int64 n_rows, In<int32> small,
           In<int32> sizes, In<int32> tree, In<uint64> key, In<int64> start, In<int64> count,
           int32 levels, In<int32> first, Out<int32> n_tiny, Out<int32> tiny_tree, Out<int32> place,
           Out<int32> tiny_count, Out<int32> tiny_levels, Out<int64> tiny_start,
           Out<uint64> tiny_key, In<int64> min_hessian, In<int64> min_category,
           In<int64> root_hessian, In<uint8> allowed, In<uint8> tiles, In<int32> n_bins,
           In<uint8> is_categorical, In<double> center, int64 n_samples, int32 tile,
           int32 n_features, int32 width, In<int64> wide, In<int32> wide_of, int32 n_columns,
           int32 n_classes, int32 draws, int32 criterion, int32 min_samples_leaf, int32 n_channels,
           int32 by_class, int32 random_thresholds, int64 smallest, int32 max_features,
           In<double> unit, double min_impurity_decrease, int32 needs_gain, In<double> regular,
           int32 has_masks, Out<int32> n_stored, Out<int32> left, Out<uint32> count_out,
           Out<int64> hessian, Out<double> gain, Out<int32> feature, Out<int16> bin,
           Out<int16> next_bin, Out<double> draw, Out<int8> missing, Out<uint32> mask,
           Out<int64> sums)
{
    DYNAMIC_SHARED(int64, memory);
    __shared__ BlockState state;
    const int32 n_nodes = BY_WARP ? *n_tiny : sizes[2];
    if ((int32)blockIdx.x >= n_nodes) return;
    const Options options = {criterion, min_samples_leaf, n_channels, by_class != 0,
                             random_thresholds != 0, regular};
    const Task task = {{tiles, n_bins, is_categorical, center, n_samples, tile, n_features, width},
                       {options, smallest, max_features,
                        {criterion, *unit, min_impurity_decrease, needs_gain != 0}},
                       {n_columns, n_classes, draws != 0},
                       {n_stored, left, count_out, hessian, gain, feature, bin, next_bin,
                        draw, missing, mask, sums, has_masks != 0}};
    const Trees trees = {min_hessian, min_category, root_hessian, allowed, wide, wide_of,
                         n_features, n_samples * n_columns};
    const Layout shared = layout(memory, options, width);
    LevelRows rows = {row, weight, target, n_rows, 0, by_class != 0 ? 1 : n_channels};
    clear_all(state, shared);
    const TinyNodes tiny = {n_tiny,      tiny_tree,  place,   tiny_count,
                            tiny_levels, tiny_start, tiny_key};
    int32 turn = 0;
    for (int32 i = blockIdx.x; i < n_nodes; i += gridDim.x) {
        const int32 own = BY_WARP ? i : small[i], of_tree = BY_WARP ? tiny_tree[i] : tree[own];
        const OpenNode root = BY_WARP
            ? tiny.root(i) : OpenNode{key[own], 0, (int32)count[own], levels, *first + own};
        rows.start = BY_WARP ? tiny_start[i] : start[own];
        grow_subtree(state, shared, rows, task, root, trees.tree(of_tree), of_tree, tiny, turn);
    }
}
