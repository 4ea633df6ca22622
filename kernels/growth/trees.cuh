// Finished trees, from finish.cu, and their traversal by rows.

#include "common/goes_left.cuh"
#include "growth/node_buffer.cuh"

// The arrays of finished trees, except values, concatenated over all trees:
//
//   table   int64 (3, trees + 1), see node_buffer.cuh
//   feature, left, category int32 (nodes,)       code, missing_left uint8 (nodes,)
//   masks   uint32 (masks, CODE_WORDS)
//
// left and category are indices within each tree; left is 0 in leaves. category and masks are read
// only if `has_masks`.
struct FinishedTrees {
    In<int64> table;
    int32 n_trees;
    In<int32> feature;
    In<uint8> code;
    In<uint8> missing_left;
    In<int32> left;
    bool has_masks;
    In<int32> category;
    In<uint32> masks;

    // The split of a node for `goes_left`: the methods that splits by codes and by values share.
    // `node` is an index among the nodes of all trees.
    struct Split {
        const FinishedTrees& trees;
        int64 tree;
        int64 node;

        __device__ __forceinline__ bool missing_left() const { return trees.missing_left[node]; }
        __device__ __forceinline__ bool is_categorical() const
        {
            return trees.has_masks && trees.category[node] >= 0;
        }
        __device__ __forceinline__ bool in_set(int32 code) const
        {
            const int64 first = trees.table[MASK_ROW * (trees.n_trees + 1) + tree];
            const int64 mask = first + trees.category[node];
            return has_code(trees.masks[mask * CODE_WORDS + code / WARP], code);
        }
    };
    struct CodeSplit : Split {
        int32 missing_code;

        __device__ __forceinline__ bool is_missing(int32 x) const { return x == missing_code; }
        __device__ __forceinline__ bool at_most(int32 x) const { return x <= trees.code[node]; }
    };
    struct ValueSplit : Split {
        In<double> threshold;

        __device__ __forceinline__ bool is_missing(double x) const { return x != x; }
        __device__ __forceinline__ bool in_set(double x) const
        {
            return Split::in_set((int32)min(x, (double)LAST_CODE));
        }
        __device__ __forceinline__ bool at_most(double x) const { return x <= threshold[node]; }
    };

    // The leaf of a row in one tree, as an index among the nodes of all trees. codes uint8
    // (n_features, n): the codes of n rows.
    __device__ __forceinline__ int64 leaf_of(In<uint8> codes, int64 n, int64 row,
                                             int32 missing_code, int64 tree) const
    {
        const int64 root = table[tree];
        int64 node = root;
        for (int32 child = left[node]; child != 0; child = left[node]) {
            const int32 own = __ldg(codes + feature[node] * n + row);
            const bool left_child = goes_left(CodeSplit{*this, tree, node, missing_code}, own);
            node = root + child + (left_child ? 0 : 1);
        }
        return node;
    }

    // The leaf of a row of values, given a pointer to its first value and the stride of columns;
    // NaN is missing. threshold float64 (nodes,).
    template <typename Value>
    __device__ __forceinline__ int64 leaf_of(In<Value> values, int64 column_stride,
                                             In<double> threshold, int64 tree) const
    {
        const int64 root = table[tree];
        int64 node = root;
        for (int32 child = left[node]; child != 0; child = left[node]) {
            const double x = (double)__ldg(values + feature[node] * column_stride);
            const bool left_child = goes_left(ValueSplit{*this, tree, node, threshold}, x);
            node = root + child + (left_child ? 0 : 1);
        }
        return node;
    }
};
