// Offsets of each tree's nodes and levels in arrays of all trees, and the table of trees.

// Offsets of each tree's nodes in `order` and `category`, and of its levels in `level_end`. Each
// tree has space for its largest possible size: its leaves are limited by its rows, and its levels
// by its leaves.
//
//   start   int64 (trees,)    position of each tree's first row among the rows of all trees
//
// `min_rows`: smallest number of rows of a leaf. `max_nodes`, `max_levels`: largest numbers of
// nodes and levels of a tree, 0 if only its rows limit them.
struct Capacities {
    In<int64> start;
    int64 min_rows;
    int64 max_nodes;
    int32 max_levels;

    __device__ __forceinline__ int64 first_node(int64 tree) const
    {
        const int64 by_rows = 2 * (start[tree] / min_rows) + tree;
        return max_nodes == 0 ? by_rows : min(by_rows, tree * max_nodes);
    }
    __device__ __forceinline__ int64 first_level(int64 tree) const
    {
        const int64 by_rows = start[tree] / min_rows + tree;
        return max_levels == 0 ? by_rows : min(by_rows, tree * max_levels);
    }
};

// Rows of the table of trees, int64 (3, trees + 1): index of each tree's first node among the nodes
// of all trees, index of its first mask (both with the total at the end), and integer weight of its
// root (without an entry at the end).
constexpr int32 NODE_ROW = 0, MASK_ROW = 1, HESSIAN_ROW = 2;

// The tree of a node, given the node's index among the nodes of all trees; `first_node` is row
// NODE_ROW of the table.
__device__ __forceinline__ int32 tree_of(In<int64> first_node, int32 n_trees, int64 node)
{
    return first_not(1, n_trees, [&](int32 tree) { return first_node[tree] <= node; }) - 1;
}
