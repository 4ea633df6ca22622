// The nodes of all trees of a batch in one store, in any order: by level, and those of subtrees.
#ifndef GPUBOOST_STORE_CUH
#define GPUBOOST_STORE_CUH

// Where each tree has room for its nodes, and for its levels, among those of the batch, when it is
// finished: no tree has more leaves than its rows allow, or more levels than its leaves.
//
//   start   int64 (trees,)    first row of each tree
//
// `min_rows` are those of a leaf; `max_nodes`, `max_levels` 0: there may be any number.
struct Capacities {
    const int64* __restrict__ start;
    int64 min_rows;
    int64 max_nodes;
    int32 max_levels;

    __device__ __forceinline__ int64 nodes(int64 tree) const
    {
        const int64 by_rows = 2 * (start[tree] / min_rows) + tree;
        return max_nodes == 0 ? by_rows : min(by_rows, tree * max_nodes);
    }
    __device__ __forceinline__ int64 levels(int64 tree) const
    {
        const int64 by_rows = start[tree] / min_rows + tree;
        return max_levels == 0 ? by_rows : min(by_rows, tree * max_levels);
    }
};

// Rows of the table of trees, int64 (3, trees + 1): the first node and the first mask of each among
// those of all, with their number at the end; and the integer weight of each root.
constexpr int32 NODE_ROW = 0, MASK_ROW = 1, HESSIAN_ROW = 2;

// The tree that a node of all of them is of.
__device__ __forceinline__ int32 tree_of(const int64* __restrict__ first_node, int32 n_trees,
                                         int64 node)
{
    return first_not(1, n_trees, [&](int32 tree) { return first_node[tree] <= node; }) - 1;
}

#endif  // GPUBOOST_STORE_CUH
