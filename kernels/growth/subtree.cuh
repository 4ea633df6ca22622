// Grows the subtree of a node with few rows in one block of SPLIT_THREADS threads, without
// histograms in global memory: for subtrees.cu.
//
// When a block splits a node, the children get the next two places of the node buffer in global
// memory, whose arrays have capacity for m nodes:
//
//   size      int32 (1,)          number of nodes in the node buffer, including the levels so far
//   left      int32 (m,)          place of the left child, before the right one; 0 in leaves
//   count     uint32 (m,)         number of rows
//   hessian   int64 (m,)          sum of the rows' hessians
//   gain      float64 (m,)        gain of the split; -1 in leaves
//   feature   int32 (m,)          feature of the split; LEAF in leaves
//   bin, next_bin, draw, missing, mask   the split, as in select_split.cu; undefined in leaves,
//                                        mask also in numeric splits
//   sums      int64 (m, n_sums)   leaf sums; written only for leaves
//
// Each numeric feature that could split a node costs a pass over the node's rows, whose codes are
// usually in the cache, a scan of the cells and, in a block of several warps with K channels,
// 7 + 2 K barriers (two more if rows are counted, one more if thresholds are random).

#include "common/block_rank.cuh"
#include "common/goes_left.cuh"

// ---- Search for the best split -----------------------------------------------------------------

// The codes of one feature.
struct FeatureCodes {
    In<uint8> codes;
    int64 stride;

    __device__ __forceinline__ int32 code(uint32 row) const { return __ldg(codes + row * stride); }
};

__device__ __forceinline__ FeatureCodes codes_of(const Matrix& matrix, int32 feature)
{
    const int64 tile = feature / matrix.tile;
    return {matrix.tiles + tile * matrix.n_samples * matrix.tile + feature % matrix.tile,
            matrix.tile};
}

// The next allowed feature of the tree after `last` by rank, or the first one if `last` is -1; -1
// if there is none. Every thread of the block takes part; a barrier is needed before the next call.
__device__ __forceinline__ int32 next_feature(BlockState& state, int32 n_features, uint64 key,
                                              int32 last)
{
    const uint64 minimum = last < 0 ? 0 : order_rank(key, (uint64)last) + 1;
    const uint64 rank = next_rank(state.warp_rank, state.tree.allowed, n_features, key, minimum);
    return rank == EVERY_RANK ? -1 : (int32)(rank & 0xffffffffull);
}

// Add the row at place `own` of shared memory to a cell of the histogram.
__device__ __forceinline__ void add_row(const Layout& shared, const Options& options, int32 cell,
                                        int32 own, uint32 weight)
{
    const BlockHistogram& cells = shared.cells;
    atomicAdd(cells.weights + cell, weight);
    if (cells.counts != nullptr) atomicAdd(cells.counts + cell, 1u);
    if (options.by_class && options.n_channels > 1) {
        atomicAdd(cells.low + shared.target[own] * cells.width + cell, weight);
        return;
    }
    #pragma unroll 1
    for (int32 k = 0; k < options.n_channels; ++k) {
        const int32 value = shared.target[k * MAX_ROWS + own], at = k * cells.width + cell;
        if (cells.high != nullptr) {
            add_halves(cells.low + at, cells.high + at, GRADIENTS ? value : (int64)weight * value);
        } else if (value != 0) {
            atomicAdd(cells.low + at, weight);
        }
    }
}

// Number of codes of a set that are lower than `code`.
__device__ __forceinline__ int32 codes_below(const uint32* words, int32 code)
{
    int32 below = 0;
    #pragma unroll 1
    for (int32 w = 0; w < code / WARP; ++w) below += __popc(words[w]);
    if (code % WARP != 0) below += __popc(words[code / WARP] & ((1u << (code % WARP)) - 1u));
    return below;
}

// Add the rows of a node to the histogram of a feature, one row per lane (BY_WARP). The cells of
// the histogram are the codes that occur in the node, the missing code last. Every thread of the
// block takes part.
__device__ __forceinline__ void add_to_few_cells(BlockState& state, const Layout& shared,
                                                 const OpenNode& node, const Options& options,
                                                 const FeatureCodes& column, int32 missing_code)
{
    const int32 t = threadIdx.x;
    const bool inside = t < node.count;
    const int32 own = inside ? state.order[node.start + t] : 0;
    const int32 code = inside ? column.code(state.row[own]) : missing_code;
    const uint32 bit = 1u << (code % WARP);
    const uint32 before = code == missing_code ? bit : atomicOr(state.present + code / WARP, bit);
    __syncthreads();
    if (t >= codes_below(state.present, CODE_WORDS * WARP)) state.codes[t] = NO_CODE;
    if (!inside) return;
    const int32 cell = code == missing_code ? WARP : codes_below(state.present, code);
    if ((before & bit) == 0) state.codes[cell] = (uint8)code;  // the first row of the code
    add_row(shared, options, cell, own, state.weight[own]);
}

// Add the rows of a node to the histogram of a feature. Every thread of the block takes part.
__device__ __forceinline__ void add_to_cells(BlockState& state, const Layout& shared,
                                             const OpenNode& node, const Options& options,
                                             const FeatureCodes& column, int32 missing_code)
{
    if (BY_WARP) {
        add_to_few_cells(state, shared, node, options, column, missing_code);
        return;
    }
    #pragma unroll 1
    for (int32 i = threadIdx.x; i < node.count; i += SPLIT_THREADS) {
        const int32 own = state.order[node.start + i];
        add_row(shared, options, column.code(state.row[own]), own, state.weight[own]);
    }
}

// Zero the histogram and, with BY_WARP, the set of its codes.
__device__ __forceinline__ void clear_cells(BlockState& state, const BlockHistogram& cells,
                                            int32 n_channels)
{
    if (BY_WARP && threadIdx.x < CODE_WORDS) state.present[threadIdx.x] = 0;
    #pragma unroll 1
    for (int32 cell = threadIdx.x; cell < cells.width; cell += SPLIT_THREADS) {
        if (cells.counts != nullptr) cells.counts[cell] = 0;
        if (cells.weights[cell] == 0) continue;
        cells.weights[cell] = 0;
        #pragma unroll 1
        for (int32 k = 0; k < n_channels; ++k) {
            cells.low[k * cells.width + cell] = 0;
            if (cells.high != nullptr) cells.high[k * cells.width + cell] = 0;
        }
    }
}

// The largest score of the block, from the scores of the warps that `best_position` has stored.
__device__ __forceinline__ double largest_score(const Workspace& space)
{
    double score = space.warp_score[0];
    for (int32 w = 1; w < SPLIT_WARPS; ++w) score = max(score, space.warp_score[w]);
    return score;
}

// The best feature found so far.
struct BestFeature {
    double score;  // -1 for none
    int32 feature;
    bool splittable;  // whether any feature so far has two occupied codes
};

// Whether a split by feature f is better than the one found; if scores are equal, the smaller rank
// is better.
__device__ __forceinline__ bool is_better(double score, int32 f, const BestFeature& found,
                                          uint64 key)
{
    if (score < 0.0 || score < found.score) return false;
    return score > found.score
           || order_rank(key, (uint64)f) < order_rank(key, (uint64)found.feature);
}

// Find the best split of a node by one feature; if it is better than `found`, write it to
// `state.split` and update `found`. Every thread of the block takes part; the histogram is zero
// before the call, and again after the next barrier.
__device__ __forceinline__ void evaluate_feature(BlockState& state, const Layout& shared,
                                                 const Matrix& matrix, const OpenNode& node,
                                                 const Options& options, int32 f,
                                                 BestFeature& found)
{
    const BlockHistogram& cells = shared.cells;
    const int32 t = threadIdx.x, missing_code = matrix.width - 1;
    add_to_cells(state, shared, node, options, codes_of(matrix, f), missing_code);
    __syncthreads();
    vote(state.space.occupied, t < cells.missing_code() && cells.hessian(t) > 0);
    __syncthreads();
    const int32 missing = cells.hessian(cells.missing_code()) > 0 ? 1 : 0;
    if (size_of(state.space.occupied) + missing >= 2) {
        found.splittable = true;
        const Feature feature = {f, matrix.n_bins[f], matrix.is_categorical[f] != 0, 0,
                                 matrix.center + (int64)f * missing_code,
                                 BY_WARP ? state.codes : nullptr};
        const Best best = best_split(state.space, cells, state.searched, options, feature);
        const double score = largest_score(state.space);
        if (is_better(score, f, found, node.key)) {
            NodeSplit& split = state.split;
            found.score = score;
            found.feature = f;
            write_best(best, state.space, cells, feature,
                       {&split.score, &split.bin, &split.next_bin, &split.draw, &split.missing,
                        split.mask}, 0);
        }
    }
    __syncthreads();
    clear_cells(state, cells, options.n_channels);
}

// Write the best split of a node to `state.split`, and return its score and feature; the score is
// -1 if there is no split. The first max_features features in the node's order are searched; if
// none of them has two occupied codes, also the following ones up to the first that does. If all
// features are candidates, they are searched by number, because their order only decides ties.
// Every thread of the block takes part.
__device__ __forceinline__ BestFeature find_split(BlockState& state, const Layout& shared,
                                                  const Sums& sums, const Task& task,
                                                  const OpenNode& node)
{
    const Options& options = task.limits.options;
    const int32 n_features = task.matrix.n_features;
    #pragma unroll 1
    for (int32 k = threadIdx.x; k < options.n_channels; k += SPLIT_THREADS) {
        shared.gradient[k] = sums.of(k);
    }
    if (threadIdx.x == 0) {
        const Bounds bounds = {options.regular, nullptr, nullptr};
        state.searched = {shared.gradient, sums.of(options.n_channels), node.count,
                         state.tree.min_hessian, state.tree.min_category, node.key,
                         bounds.of(0)};
    }
    const bool all = task.limits.max_features >= n_features;
    BestFeature found = {-1.0, LEAF, false};
    int32 f = -1;
    for (int32 listed = 0; listed < task.limits.max_features || !found.splittable; ++listed) {
        if (all) {
            __syncthreads();
            do ++f;
            while (f < n_features && state.tree.allowed[f] == 0);
            if (f == n_features) break;
        } else {
            f = next_feature(state, n_features, node.key, f);
            if (f < 0) break;
        }
        evaluate_feature(state, shared, task.matrix, node, options, f, found);
    }
    return found;
}

// ---- Partition ---------------------------------------------------------------------------------

// The split of a node by codes, for `goes_left`.
struct BlockSplit {
    const NodeSplit& split;
    bool categorical;
    int32 missing_code;

    __device__ __forceinline__ bool is_missing(int32 code) const { return code == missing_code; }
    __device__ __forceinline__ bool missing_left() const { return split.missing == MISSING_LEFT; }
    __device__ __forceinline__ bool is_categorical() const { return categorical; }
    __device__ __forceinline__ bool in_set(int32 code) const
    {
        return has_code(split.mask[code / WARP], code);
    }
    __device__ __forceinline__ bool at_most(int32 code) const { return code <= split.bin; }
};

// Stable partition of the rows of a node; returns the number of rows that go left. Every thread of
// the block takes part; a barrier is needed before rows are read.
//
//   order   r0 l0 r1 l1 r2      moved   l0 l1 r2 r1 r0      order   l0 l1 r0 r1 r2
__device__ __forceinline__ int32 partition(BlockState& state, const Matrix& matrix,
                                           const OpenNode& node, int32 feature)
{
    const int32 t = threadIdx.x;
    const FeatureCodes column = codes_of(matrix, feature);
    const BlockSplit split = {state.split, matrix.is_categorical[feature] != 0, matrix.width - 1};
    uint16* order = state.order + node.start;
    uint16* moved = state.moved + node.start;
    const int32 count = node.count;
    int32 n_left = 0;
    #pragma unroll 1
    for (int32 first = 0; first < count; first += SPLIT_THREADS) {
        const int32 i = first + t;
        const bool inside = i < count;
        const uint16 own = inside ? order[i] : 0;
        const bool left = inside && goes_left(split, column.code(state.row[own]));
        const BlockRank rank = block_rank(state.left_of_warp, left);
        const int32 before = n_left + rank.before;
        if (inside) moved[left ? before : count - 1 - (i - before)] = own;
        n_left += rank.all;
    }
    __syncthreads();
    #pragma unroll 1
    for (int32 i = t; i < count; i += SPLIT_THREADS) {
        order[i] = moved[i < n_left ? i : count - 1 - (i - n_left)];
    }
    return n_left;
}

// ---- Results -----------------------------------------------------------------------------------

// Write leaf sums. Without columns, threads loop over classes and write their weights. Otherwise,
// warps loop over sums, each of one column (over the rows of one class, if there are classes), and
// the lanes of a warp loop over rows.
__device__ __forceinline__ void write_sums(const BlockState& state, const Layout& shared,
                                           const Sums& sums, const OpenNode& node,
                                           const Options& options, const LeafColumns& wide,
                                           int64* to)
{
    const int32 t = threadIdx.x, n_channels = options.n_channels;
    if (wide.n_columns == 0) {
        #pragma unroll 1
        for (int32 c = t; c < wide.n_classes; c += SPLIT_THREADS) {
            to[c] = n_channels > 1 ? sums.of(c) : c == 1 ? sums.of(0) : sums.of(1) - sums.of(0);
        }
        return;
    }
    const int32 n_sums = wide.n_classes * wide.n_columns;
    #pragma unroll 1
    for (int32 j = t / WARP; j < n_sums; j += SPLIT_WARPS) {
        const int32 c = j / wide.n_columns, p = j % wide.n_columns;
        int64 sum = 0;
        #pragma unroll 1
        for (int32 i = t % WARP; i < node.count; i += WARP) {
            const int32 own = state.order[node.start + i];
            if (wide.n_classes > 1 && shared.target[own] != c) continue;
            const int64 value = state.tree.wide[state.row[own] * (int64)wide.n_columns + p];
            sum += wide.draws ? value * state.weight[own] : value;
        }
        sum = warp_sum(sum);
        if (t % WARP == 0) to[j] = sum;
    }
}

// Write a node to the node buffer, by one thread; `grow_node` writes the mask.
__device__ __forceinline__ void write_node(const BlockState& state, const Store& store,
                                           const OpenNode& node, int64 hessian, double gain,
                                           int32 feature, int32 left, const Options& options)
{
    const int32 at = node.place;
    store.left[at] = left;
    store.count[at] = node.count;
    store.hessian[at] = hessian;
    store.gain[at] = gain;
    store.feature[at] = gain < 0.0 ? LEAF : feature;
    if (gain < 0.0) return;
    store.bin[at] = state.split.bin;
    store.next_bin[at] = state.split.next_bin;
    store.missing[at] = state.split.missing;
    if (options.random_thresholds) store.draw[at] = state.split.draw;
}

// Push the children of a node onto the stack, by one thread: the larger child first.
__device__ __forceinline__ void push_children(OpenNode* top, const OpenNode& node, int32 n_left,
                                              int32 place)
{
    const OpenNode left = {left_key(node.key), node.start, n_left, node.levels - 1, place};
    const OpenNode right = {right_key(node.key), node.start + n_left, node.count - n_left,
                        node.levels - 1, place + 1};
    const bool left_first = n_left <= node.count - n_left;
    top[0] = left_first ? right : left;
    top[1] = left_first ? left : right;
}

// Search the node at index `at` of the stack. If it is split, its children replace it on the stack;
// else it is written as a leaf. Returns the number of nodes pushed, 2 or 0. `sums` must be zero.
// Every thread of the block takes part; a barrier is needed before the next node.
__device__ __forceinline__ int32 grow_node(BlockState& state, const Layout& shared,
                                           const Sums& sums, const Task& task, int32 at)
{
    const OpenNode& node = state.stack[at];
    const Options& options = task.limits.options;
    const Store& store = task.store;
    add_rows(state, shared, sums, node, options);
    __syncthreads();
    BestFeature found = {-1.0, LEAF, false};
    if (is_splittable(state, shared, sums, node, task.limits)) {
        found = find_split(state, shared, sums, task, node);
    }
    const int64 hessian = sums.of(options.n_channels);
    const double gain = task.limits.accept.gain(found.score, hessian, state.tree.root_hessian);
    if (gain < 0.0) {
        const int64 n_sums = task.wide.n_classes * max(task.wide.n_columns, 1);
        write_sums(state, shared, sums, node, options, task.wide,
                   store.sums + node.place * n_sums);
        if (threadIdx.x == 0) write_node(state, store, node, hessian, gain, LEAF, 0, options);
        return 0;
    }
    if (store.masks && task.matrix.is_categorical[found.feature] != 0) {
        for (int32 w = threadIdx.x; w < MASK_WORDS; w += SPLIT_THREADS) {
            store.mask[(int64)node.place * MASK_WORDS + w] = state.split.mask[w];
        }
    }
    const int32 n_left = partition(state, task.matrix, node, found.feature);
    if (threadIdx.x == 0) {
        const int32 place = atomicAdd(store.size, 2);
        write_node(state, store, node, hessian, gain, found.feature, place, options);
        push_children(state.stack + at, node, n_left, place);
    }
    return 2;
}
