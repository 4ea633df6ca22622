// Finished trees, as finish.cu leaves them, and rows that walk down them.
#ifndef GPUBOOST_TREES_CUH
#define GPUBOOST_TREES_CUH

#include "growth/node_buffer.cuh"

constexpr int32 LAST_CODE = 255;

//   table   int64 (3, trees + 1), see node_buffer.cuh
//   feature, left, category int32    code, missing_left uint8    masks uint32 (., CODE_WORDS)
//
// are of all trees, one after the other; left and category count in each tree. category and masks
// are read only if `has_masks`.
struct FinishedTrees {
    const int64* __restrict__ table;
    int32 n_trees;
    const int32* __restrict__ feature;
    const uint8* __restrict__ code;
    const uint8* __restrict__ missing_left;
    const int32* __restrict__ left;
    bool has_masks;
    const int32* __restrict__ category;
    const uint32* __restrict__ masks;

    // Whether a split is by categories, and if so whether a code of it goes left.
    __device__ __forceinline__ bool by_mask(int64 node) const
    {
        return has_masks && category[node] >= 0;
    }
    __device__ __forceinline__ bool in_mask(int64 tree, int64 node, int32 own) const
    {
        const int64 mask = table[MASK_ROW * (n_trees + 1) + tree] + category[node];
        return (masks[mask * CODE_WORDS + own / WARP] >> (own % WARP) & 1) != 0;
    }

    // The leaf of a row of codes uint8 (F, n), among the nodes of all trees.
    __device__ __forceinline__ int64 leaf_of(const uint8* __restrict__ codes, int64 n, int64 row,
                                             int32 missing_code, int64 tree) const
    {
        const int64 root = table[tree];
        int64 node = root;
        for (int32 child = left[node]; child != 0; child = left[node]) {
            const int32 own = __ldg(codes + feature[node] * n + row);
            bool to_left = own <= code[node];
            if (own == missing_code) to_left = missing_left[node] != 0;
            else if (by_mask(node)) to_left = in_mask(tree, node, own);
            node = root + child + (to_left ? 0 : 1);
        }
        return node;
    }

    // The same of a row of values, (n, F) by their strides; NaN is missing.
    template <typename Value>
    __device__ __forceinline__ int64 leaf_of(const Value* __restrict__ values,
                                             int64 column_stride,
                                             const double* __restrict__ threshold,
                                             int64 tree) const
    {
        const int64 root = table[tree];
        int64 node = root;
        for (int32 child = left[node]; child != 0; child = left[node]) {
            const double x = (double)__ldg(values + feature[node] * column_stride);
            bool to_left = x <= threshold[node];
            if (x != x) to_left = missing_left[node] != 0;
            else if (by_mask(node)) to_left = in_mask(tree, node, (int32)min(x, (double)LAST_CODE));
            node = root + child + (to_left ? 0 : 1);
        }
        return node;
    }
};

#endif  // GPUBOOST_TREES_CUH
