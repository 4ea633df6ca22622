// State of a block that grows subtrees: its shared memory, rows and sums, for subtree.cuh.
//
// The rows of the subtree's root are in shared memory. Nodes below it are ranges of `order`, which
// lists places of rows in shared memory; partitions reorder it. Threads loop over rows with the
// stride of the block.
//
//   place        0   1   2   3   4   5         order   3 0 | 5 1 2 4
//   row        907  14  33  86   5  61         node      a |    b
//
// Dynamic shared memory: the gradients of one node, the sums of two nodes, the histogram of one
// feature, and the targets; see `layout`. The size is computed in backends/cuda/growth/subtrees.py.

#include "level/accept.cuh"

// Largest number of rows of a subtree's root: two for each thread (BY_WARP: one for each lane).
constexpr int32 SMALL_ROWS = 512;
constexpr int32 MAX_ROWS = BY_WARP ? WARP : SMALL_ROWS;
// Capacity of the stack: the smaller child is grown first, so log2(MAX_ROWS) + 1 suffices.
constexpr int32 STACK = BY_WARP ? 6 : 10;

// ---- State of a block --------------------------------------------------------------------------

// A node on the stack, yet to be grown.
struct OpenNode {
    uint64 key;    // of the node's random numbers
    int32 start;   // first place of its rows in `order`
    int32 count;   // number of rows
    int32 levels;  // largest number of levels below the node
    int32 place;   // place of the node in the node buffer
};

// The best split found so far for the node that is searched; see split.cu for the fields. `mask` is
// written only for a categorical feature.
struct NodeSplit {
    double score;
    double draw;
    int16 bin;
    int16 next_bin;
    int8 missing;
    uint32 mask[MASK_WORDS];
};

// Data that the nodes of a tree share.
struct Tree {
    In<uint8> allowed;  // (n_features,)
    In<int64> wide;     // (n_samples, n_columns)
    int64 min_hessian;
    int64 min_category;
    int64 root_hessian;
};

struct BlockState {
    Workspace space;
    Tree tree;
    Node searched;  // the node on top of the stack, for candidates.cuh
    OpenNode stack[STACK];
    NodeSplit split;
    uint64 warp_rank[SPLIT_WARPS];    // scratch of `next_rank`
    int32 left_of_warp[SPLIT_WARPS];  // scratch of `block_rank`
    uint32 row[MAX_ROWS];             // rows of the matrix
    uint32 weight[MAX_ROWS];
    uint16 order[MAX_ROWS];
    uint16 moved[MAX_ROWS];      // scratch of `partition`
    uint32 present[CODE_WORDS];  // codes of values in the node (BY_WARP); zero between features
    uint8 codes[SPLIT_THREADS + 1];  // codes of cells (BY_WARP): see `Feature`
};

// The binned matrix; see subtrees.cu.
struct Matrix {
    In<uint8> tiles;
    In<int32> n_bins;
    In<uint8> is_categorical;
    In<double> center;
    int64 n_samples;
    int32 tile;
    int32 n_features;
    int32 width;
};

struct SubtreeLimits {
    Options options;
    int64 smallest;  // smallest number of rows of a node that may be split
    int32 max_features;
    AcceptRule accept;
};

// The columns of `wide` whose sums are the leaf sums; if n_columns is 0, the leaf sums are the
// weights of classes.
struct LeafColumns {
    int32 n_columns;
    int32 n_classes;
    bool draws;  // whether the columns are multiplied by the weights of rows
};

// Data of all trees of the batch. `wide` consists of parts of `wide_size` numbers each; wide_of[t]
// is the index of the part of tree t.
struct Trees {
    In<int64> min_hessian;
    In<int64> min_category;
    In<int64> root_hessian;
    In<uint8> allowed;
    In<int64> wide;
    In<int32> wide_of;
    int32 n_features;
    int64 wide_size;

    __device__ __forceinline__ Tree tree(int32 t) const
    {
        const int64 part = wide_size == 0 ? 0 : wide_of[t];
        return {allowed + (int64)t * n_features, wide + part * wide_size, min_hessian[t],
                min_category[t], root_hessian[t]};
    }
};

// The arrays of the node buffer, see subtree.cuh.
struct Store {
    Out<int32> size;
    Out<int32> left;
    Out<uint32> count;
    Out<int64> hessian;
    Out<double> gain;
    Out<int32> feature;
    Out<int16> bin;
    Out<int16> next_bin;
    Out<double> draw;  // (0,) if no threshold is random
    Out<int8> missing;
    Out<uint32> mask;  // (0,) if no feature is categorical
    Out<int64> sums;
    bool masks;
};

// Data that all nodes of a launch share.
struct Task {
    Matrix matrix;
    SubtreeLimits limits;
    LeafColumns wide;
    Store store;
};

// ---- Dynamic shared memory ---------------------------------------------------------------------

// Sums in two 32-bit halves, because 64-bit atomic addition is not native in shared memory: the
// gradient of each channel, the hessian and, only in `low`, the largest place of a row of positive
// weight, plus one (0 if there is none).
struct Sums {
    uint32* low;
    uint32* high;

    __device__ __forceinline__ int64 of(int32 k) const
    {
        return (int64)((uint64)high[k] << 32 | low[k]);
    }
};

// The histogram of one feature, by cell. A cell is a code; with BY_WARP, see candidates.cuh. Planes
// have `width` entries. `counts` is null if rows are not counted. `high` is null for classes,
// because weights of classes fit in 32 bits.
struct BlockHistogram {
    uint32* weights;
    uint32* counts;
    uint32* low;
    uint32* high;
    int32 width;

    __device__ __forceinline__ int64 hessian(int32 code) const { return weights[code]; }
    __device__ __forceinline__ int64 count(int32 code) const
    {
        return counts == nullptr ? 0 : counts[code];
    }
    __device__ __forceinline__ int64 gradient(int32 code, int32 k) const
    {
        const int32 at = k * width + code;
        return (int64)((uint64)(high == nullptr ? 0 : high[at]) << 32 | low[at]);
    }
    __device__ __forceinline__ int64 plane(int32 code, int32 p) const
    {
        return p == 0 ? hessian(code) : p == 1 ? count(code) : gradient(code, p - 2);
    }
    __device__ __forceinline__ int32 missing_code() const { return width - 1; }
};

struct Layout {
    int64* gradient;  // of the node that is searched
    uint32* sums;     // of two nodes
    BlockHistogram cells;
    int32* target;    // of the rows in shared memory; columns are MAX_ROWS apart
    int32 n_words;    // of sums and cells together, which are contiguous
};

__device__ __forceinline__ Layout layout(int64* memory, const Options& options, int32 n_codes)
{
    const int32 width = BY_WARP ? WARP + 1 : n_codes;
    const int32 n_channels = options.n_channels, sums = 4 * (n_channels + 2);
    const int32 counts = options.min_samples_leaf > 1 ? width : 0;
    const int32 high = options.by_class ? 0 : n_channels * width;
    Layout made;
    made.gradient = memory;
    made.sums = (uint32*)(memory + n_channels);
    uint32* weights = made.sums + sums;
    uint32* low = weights + width + counts;
    made.cells = {weights, counts == 0 ? nullptr : weights + width, low,
                  high == 0 ? nullptr : low + n_channels * width, width};
    made.n_words = sums + width + counts + n_channels * width + high;
    made.target = (int32*)(made.sums + made.n_words);
    return made;
}

// One of the two sets of sums; nodes alternate between the sets.
__device__ __forceinline__ Sums sums_of(const Layout& shared, int32 n_channels, int32 which)
{
    uint32* low = shared.sums + which * 2 * (n_channels + 2);
    return {low, low + n_channels + 2};
}

// ---- Sums of a node ----------------------------------------------------------------------------

// Add the rows of a node to its sums, which must be zero. Warps without rows return at once.
__device__ __forceinline__ void add_rows(const BlockState& state, const Layout& shared,
                                         const Sums& sums, const OpenNode& node,
                                         const Options& options)
{
    const int32 t = threadIdx.x, n_channels = options.n_channels;
    if (t - t % WARP >= node.count) return;
    const uint16* order = state.order + node.start;
    const bool by_channel = options.by_class && n_channels > 1;
    int64 hessian = 0;
    #pragma unroll 1
    for (int32 i = t; i < node.count; i += SPLIT_THREADS) {
        const uint32 weight = state.weight[order[i]];
        hessian += weight;
        if (by_channel) atomicAdd(sums.low + shared.target[order[i]], weight);
        if (weight != 0) atomicMax(sums.low + n_channels + 1, (uint32)order[i] + 1);
    }
    hessian = warp_sum(hessian);
    if (t % WARP == 0) add_halves(sums.low + n_channels, sums.high + n_channels, hessian);
    #pragma unroll 1
    for (int32 k = 0; k < n_channels && !by_channel; ++k) {
        const int32* values = shared.target + k * MAX_ROWS;
        int64 gradient = 0;
        #pragma unroll 1
        for (int32 i = t; i < node.count; i += SPLIT_THREADS) {
            const int64 value = values[order[i]];
            gradient += GRADIENTS ? value : state.weight[order[i]] * value;
        }
        gradient = warp_sum(gradient);
        if (t % WARP == 0) add_halves(sums.low + k, sums.high + k, gradient);
    }
}

// Whether this thread found that the node is pure (with more than two classes) or that it is not
// pure (otherwise).
__device__ __forceinline__ bool knows_purity(const BlockState& state, const Layout& shared,
                                             const Sums& sums, const OpenNode& node,
                                             const Options& options)
{
    const int32 t = threadIdx.x, n_channels = options.n_channels;
    const int64 hessian = sums.of(n_channels);
    if (options.by_class) {
        if (n_channels == 1) return sums.of(0) != 0 && sums.of(0) != hessian;
        bool pure = false;
        #pragma unroll 1
        for (int32 k = t; k < n_channels; k += SPLIT_THREADS) pure |= sums.of(k) == hessian;
        return pure;
    }
    const uint32 other = sums.low[n_channels + 1] - 1;  // valid if the hessian is not 0
    bool differs = false;
    #pragma unroll 1
    for (int32 i = t; i < node.count; i += SPLIT_THREADS) {
        const int32 own = state.order[node.start + i];
        #pragma unroll 1
        for (int32 k = 0; k < n_channels && state.weight[own] != 0; ++k) {
            const int32* values = shared.target + k * MAX_ROWS;
            differs |= values[own] != values[other];
        }
    }
    return differs;
}

// Whether the node is large, shallow and impure enough to be searched; with GRADIENTS, purity is
// not tested. Every thread of the block takes part.
__device__ __forceinline__ bool is_splittable(const BlockState& state, const Layout& shared,
                                              const Sums& sums, const OpenNode& node,
                                              const SubtreeLimits& limits)
{
    const Options& options = limits.options;
    if (node.levels <= 0 || node.count < limits.smallest) return false;
    if (sums.of(options.n_channels) < 2 * state.tree.min_hessian) return false;
    if (GRADIENTS) return true;
    const bool some = __syncthreads_or(knows_purity(state, shared, sums, node, options)) != 0;
    return some != (options.by_class && options.n_channels > 1);
}

// ---- Rows --------------------------------------------------------------------------------------

// Rows of the level, see subtrees.cu; `start` is the position of one node's first row, and
// `n_columns` the number of columns of `target`.
struct LevelRows {
    uint32* row;
    uint32* weight;
    int32* target;
    int64 n_rows;
    int64 start;
    int32 n_columns;
};

// Copy the rows of a subtree's root to shared memory, and make the root the only node on the stack.
__device__ __forceinline__ void load_rows(BlockState& state, const Layout& shared,
                                          const LevelRows& rows, const OpenNode& root,
                                          const Tree& tree)
{
    #pragma unroll 1
    for (int32 i = threadIdx.x; i < root.count; i += SPLIT_THREADS) {
        state.row[i] = rows.row[rows.start + i];
        state.weight[i] = rows.weight[rows.start + i];
        state.order[i] = (uint16)i;
        #pragma unroll 1
        for (int32 c = 0; c < rows.n_columns; ++c) {
            shared.target[c * MAX_ROWS + i]
                = rows.target[c * rows.n_rows + rows.start + i];
        }
    }
    if (threadIdx.x != 0) return;
    state.stack[0] = root;
    state.tree = tree;
}

// Zero the sums, the histogram and the set of codes, and end `codes` with NO_CODE. Every thread of
// the block takes part.
__device__ __forceinline__ void clear_all(BlockState& state, const Layout& shared)
{
    const int32 t = threadIdx.x;
    #pragma unroll 1
    for (int32 i = t; i < shared.n_words; i += SPLIT_THREADS) shared.sums[i] = 0;
    if (t < CODE_WORDS) state.present[t] = 0;
    if (t == 0) state.codes[SPLIT_THREADS] = NO_CODE;
}

// Zero the set of sums that the previous node used.
__device__ __forceinline__ void clear_sums(const Sums& sums, int32 n_channels)
{
    #pragma unroll 1
    for (int32 k = threadIdx.x; k < n_channels + 2; k += SPLIT_THREADS) {
        sums.low[k] = sums.high[k] = 0;
    }
}
