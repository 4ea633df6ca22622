// Trees over codes whose nodes lie by their numbers, as keep_nodes of leaves.cu leaves them.
#ifndef GPUBOOST_PLACED_CUH
#define GPUBOOST_PLACED_CUH

//   feature, code, left   int32 (nodes,)    left is the number of the left child, the right one
//                                           follows it; 0 in leaves. code is -1 where a split is by
//                                           its mask
//   missing_left uint8 (nodes,)             mask uint32 (nodes, CODE_WORDS), read only if there are
struct PlacedNodes {
    const int32* __restrict__ feature;
    const int32* __restrict__ code;
    const int32* __restrict__ left;
    const uint8* __restrict__ missing_left;
    const uint32* __restrict__ mask;
    bool has_masks;

    // Whether a row of a code goes left.
    __device__ __forceinline__ bool goes_left(int64 node, int32 own, int32 missing_code) const
    {
        if (own == missing_code) return missing_left[node] != 0;
        if (has_masks && code[node] < 0) {
            return (mask[node * CODE_WORDS + own / WARP] >> (own % WARP) & 1) != 0;
        }
        return own <= code[node];
    }

    // The leaf of a row of codes uint8 (F, n).
    __device__ __forceinline__ int64 leaf_of(const uint8* __restrict__ codes, int64 n, int64 row,
                                             int32 missing_code, int64 root) const
    {
        int64 node = root;
        while (left[node] != 0) {
            const int32 own = __ldg(codes + feature[node] * n + row);
            node = left[node] + (goes_left(node, own, missing_code) ? 0 : 1);
        }
        return node;
    }
};

#endif  // GPUBOOST_PLACED_CUH
