// Leaves of the trees of a round of boosting, and what they add to raw predictions; `keep_nodes` is
// for rounds of AdaBoost too.
//
//   raw         float64 (K, n)      raw predictions
//   exponents   int32 (4,)          powers of two of the integers of a round, see scale_round
//   given       float64 (4,)        l1, l2, largest value, see scale_round
//
// Nodes of a level are numbered from `first_node` on. Levels have room for more nodes than they
// have, so some numbers are left out; the root of tree t is node t.
//
// Launch unless said otherwise: one block of BOOST_THREADS threads for BOOST_THREADS rows; no
// shared memory.

#include "rounds.cuh"
#include "placed.cuh"
#include "thresholds.cuh"

constexpr int32 LAST_CODE = 255;

// ---- Leaves, as the partition leaves them ------------------------------------------------------

// place int32 (T, n): the node of each row of the nodes that were not split. row, tree, accepted
// and pieces as in sums.cu. Launch: grid (pieces).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
keep_leaves(const uint32* __restrict__ row, const int32* __restrict__ tree,
            const uint8* __restrict__ accepted, const int32* __restrict__ n_pieces,
            const int32* __restrict__ slot, const int64* __restrict__ first,
            const int32* __restrict__ rows, int64 n, int32 first_node, int32* __restrict__ place)
{
    if ((int32)blockIdx.x >= *n_pieces) return;
    const int32 node = slot[blockIdx.x];
    if (accepted[node] != 0) return;
    int32* own = place + tree[node] * n;
    const int64 begin = first[blockIdx.x];
    for (int32 at = threadIdx.x; at < rows[blockIdx.x]; at += BOOST_THREADS) {
        own[row[begin + at]] = first_node + node;
    }
}

// Steps that the sums of nodes say, sums int64 (nodes, n_outputs + n_hessians).
struct Steps {
    const int64* __restrict__ sums;
    const int32* __restrict__ exponents;
    const double* __restrict__ given;
    int32 n_outputs;
    int32 n_hessians;

    __device__ __forceinline__ double of(int64 node, int32 k) const
    {
        const int64* own = sums + node * (n_outputs + n_hessians);
        const int64 of_hessian = own[n_outputs + (n_hessians == 1 ? 0 : k)];
        const double g = ldexp((double)own[k], -exponents[WIDE_GRADIENT]);
        const double h = ldexp((double)of_hessian, -exponents[WIDE_HESSIAN]);
        const bool flat = h + given[1] <= 0.0;  // so small that they were rounded to zero
        const double step = flat ? 0.0 : newton_value(g, h, given[0], given[1]);
        return bounded(step, -given[2], given[2]);
    }
};

// What monotonic splits above it hold a node to, before the launch its parent's: float64 (nodes,).
// sign int8 (nodes,): the direction of the feature that the parent was split by.
struct Bounds {
    const int8* __restrict__ sign;
    double* __restrict__ lower;
    double* __restrict__ upper;
};

// The step of a node within bounds that are made here, as `engine.tree.in_monotonic_order` does.
__device__ __forceinline__ double hold_step(const Steps& steps, const Bounds& bounds, int64 node,
                                            int64 first_node)
{
    const int64 to = first_node + node;
    const bool is_root = first_node == 0;
    double low = is_root ? -steps.given[2] : bounds.lower[to];
    double high = is_root ? steps.given[2] : bounds.upper[to];
    const int32 sign = is_root ? 0 : bounds.sign[to];
    if (sign != 0) {
        const int64 left = node / 2 * 2;
        const double between = middle_of(bounded(steps.of(left, 0), low, high),
                                         bounded(steps.of(left + 1, 0), low, high));
        if ((sign > 0) == (node == left)) high = between;
        else low = between;
    }
    bounds.lower[to] = low;
    bounds.upper[to] = high;
    return bounded(steps.of(node, 0), low, high);
}

// value float64 (nodes, n_outputs): of the nodes of a level that were not split, the step that
// their sums say, times the learning rate. With `walks`, left int32 (nodes,) is 0 for them, see
// keep_nodes. With `held` the sums of all nodes are there, and one output; see hand_bounds.
// Launch: one block of BOOST_THREADS threads for so many nodes.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
step_leaves(const int32* __restrict__ size, const uint8* __restrict__ accepted,
            const int64* __restrict__ sums, const int32* __restrict__ exponents,
            const double* __restrict__ given, const double* __restrict__ learning_rate,
            int32 n_outputs, int32 n_hessians, int32 walks, int32 held, int32 first_node,
            double* __restrict__ value, int32* __restrict__ left, const int8* __restrict__ sign,
            double* __restrict__ lower, double* __restrict__ upper)
{
    const int64 node = row_of_thread();
    if (node >= *size || (accepted[node] != 0 && held == 0)) return;
    const Steps steps = {sums, exponents, given, n_outputs, n_hessians};
    if (walks != 0 && accepted[node] == 0) left[first_node + node] = 0;
    double* to = value + (first_node + node) * n_outputs;
    if (held != 0) {
        to[0] = hold_step(steps, {sign, lower, upper}, node, first_node) * *learning_rate;
        return;
    }
    for (int32 k = 0; k < n_outputs; ++k) to[k] = steps.of(node, k) * *learning_rate;
}

// Hand the bounds of the nodes that were split to their children, which count from `following` on.
// rank: of children.cu; signs int8 (F,): directions of features.
// Launch: one block of BOOST_THREADS threads for so many nodes.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
hand_bounds(const int32* __restrict__ size, const uint8* __restrict__ accepted,
            const int32* __restrict__ rank, const int32* __restrict__ feature,
            const int8* __restrict__ signs, int32 first_node, int32 following,
            int8* __restrict__ sign, double* __restrict__ lower, double* __restrict__ upper)
{
    const int64 node = row_of_thread();
    if (node >= *size || accepted[node] == 0) return;
    const int64 child = following + 2 * (int64)rank[node];
    for (int64 to = child; to < child + 2; ++to) {
        sign[to] = signs[feature[node]];
        lower[to] = lower[first_node + node];
        upper[to] = upper[first_node + node];
    }
}

// ---- Walking the levels ------------------------------------------------------------------------

// How the nodes of a level were split, by their numbers; those of the next level count from
// `following` on. accepted, ..., mask: of pick.cu; n_left, rank: of children.cu. A block takes
// BOOST_THREADS nodes.
//
//   feature_out, code_out, left   int32 (nodes,)   left is the number of the left child
//   missing_left uint8 (nodes,)   mask_out uint32 (nodes, CODE_WORDS), of categorical splits
//   threshold float64 (nodes,)    written only if `by_value`
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
keep_nodes(const int32* __restrict__ size, const uint8* __restrict__ accepted,
           const int64* __restrict__ count, const int64* __restrict__ n_left,
           const int32* __restrict__ rank, const int32* __restrict__ feature,
           const int16* __restrict__ bin, const int16* __restrict__ next_bin,
           const double* __restrict__ draw, const int8* __restrict__ missing,
           const uint8* __restrict__ categorical, const uint32* __restrict__ mask,
           int32 has_masks, const double* __restrict__ center, const double* __restrict__ low,
           const double* __restrict__ high, int32 width, int32 first_node, int32 following,
           int32* __restrict__ feature_out, int32* __restrict__ code_out,
           int32* __restrict__ left, uint8* __restrict__ missing_left,
           uint32* __restrict__ mask_out, double* __restrict__ threshold, int32 by_value)
{
    const int64 node = row_of_thread(), to = first_node + node;
    if (node >= *size || accepted[node] == 0) return;
    const bool by_mask = has_masks != 0 && categorical[node] != 0;
    const bool larger_left = n_left[node] > count[node] - n_left[node];
    const bool to_left = missing[node] == MISSING_UNSEEN ? larger_left
                                                         : missing[node] == MISSING_LEFT;
    const int32 f = feature[node];
    const Bins bins = {center, low, high, width};
    feature_out[to] = f;
    left[to] = following + 2 * rank[node];
    missing_left[to] = to_left;
    if (by_mask) {
        code_out[to] = -1;
    } else {
        const Threshold at = threshold_of(bins, f, bin[node], next_bin[node], draw[node]);
        code_out[to] = at.code;
        if (by_value != 0) threshold[to] = at.value;
    }
    for (int32 w = 0; has_masks != 0 && w < CODE_WORDS; ++w) {
        const uint32 own = mask[node * MASK_WORDS + w];
        const uint32 unknown = ~mask[node * MASK_WORDS + CODE_WORDS + w];
        mask_out[to * CODE_WORDS + w] = to_left ? own | unknown : own;
    }
}

// place int32 (T, n): the leaf of the rows for which it is -1, of codes uint8 (F, n). Launch: grid
// (rows, T).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_places(const uint8* __restrict__ codes, int64 n, int32 missing_code, int32 has_masks,
            const int32* __restrict__ feature, const int32* __restrict__ code,
            const int32* __restrict__ left, const uint8* __restrict__ missing_left,
            const uint32* __restrict__ mask, int32* __restrict__ place)
{
    const int64 row = row_of_thread(), at = blockIdx.y * n + row;
    if (row >= n || place[at] >= 0) return;
    const PlacedNodes nodes = {feature, code, left, missing_left, mask, has_masks != 0};
    place[at] = (int32)nodes.leaf_of(codes, n, row, missing_code, blockIdx.y);
}

// The same for rows that are not binned, values (n, F) by their strides; NaN is missing.
template <typename Value>
__device__ __forceinline__ void find_by_value(const Value* values, int64 n, int64 row_stride,
                                              int64 column_stride, bool has_masks,
                                              const int32* feature, const int32* code,
                                              const int32* left, const uint8* missing_left,
                                              const uint32* mask, const double* threshold,
                                              int32* place)
{
    const int64 row = row_of_thread(), at = blockIdx.y * n + row;
    if (row >= n) return;
    int64 node = blockIdx.y;
    while (left[node] != 0) {
        const double x = (double)__ldg(values + row * row_stride + feature[node] * column_stride);
        bool to_left = x <= threshold[node];
        if (has_masks && code[node] < 0 && x == x) {
            const int32 own = (int32)min(x, (double)LAST_CODE);
            to_left = (mask[node * CODE_WORDS + own / WARP] >> (own % WARP) & 1) != 0;
        }
        if (x != x) to_left = missing_left[node] != 0;
        node = left[node] + (to_left ? 0 : 1);
    }
    place[at] = (int32)node;
}

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_places_of_floats(const float* __restrict__ values, int64 n, int64 row_stride,
                      int64 column_stride, int32 has_masks, const int32* __restrict__ feature,
                      const int32* __restrict__ code, const int32* __restrict__ left,
                      const uint8* __restrict__ missing_left, const uint32* __restrict__ mask,
                      const double* __restrict__ threshold, int32* __restrict__ place)
{
    find_by_value(values, n, row_stride, column_stride, has_masks != 0, feature, code, left,
                  missing_left, mask, threshold, place);
}

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_places_of_doubles(const double* __restrict__ values, int64 n, int64 row_stride,
                       int64 column_stride, int32 has_masks, const int32* __restrict__ feature,
                       const int32* __restrict__ code, const int32* __restrict__ left,
                       const uint8* __restrict__ missing_left, const uint32* __restrict__ mask,
                       const double* __restrict__ threshold, int32* __restrict__ place)
{
    find_by_value(values, n, row_stride, column_stride, has_masks != 0, feature, code, left,
                  missing_left, mask, threshold, place);
}

// Add the values of the places of rows. Tree t of the launch adds to columns of its own, see
// list_round. Launch: grid (rows, T).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
add_steps(const int32* __restrict__ place, const double* __restrict__ value,
          const uint64* __restrict__ trees, int32 trees_per_round, int64 n, int32 n_outputs,
          double* __restrict__ raw)
{
    const int64 row = row_of_thread(), tree = blockIdx.y;
    if (row >= n) return;
    const int64 node = place[tree * n + row];
    const int64 column = (int64)(trees[tree] % (uint64)trees_per_round) * n_outputs;
    for (int32 k = 0; k < n_outputs; ++k) {
        double* to = raw + (column + k) * n + row;
        *to = *to + value[node * n_outputs + k];
    }
}

// ---- Raw predictions ---------------------------------------------------------------------------

// Trees over codes, node by node; those of tree t begin at offset[t].
//
//   feature, code, left, mask_row   int32 (m,)    left counts from the tree's first node, 0 in
//                                                 leaves; mask_row -1 where the split is numeric
//   missing_left uint8 (m,)         masks uint32 (c, CODE_WORDS)
struct CodeTree {
    const int32* __restrict__ feature;
    const int32* __restrict__ code;
    const int32* __restrict__ left;
    const int32* __restrict__ mask_row;
    const uint8* __restrict__ missing_left;
    const uint32* __restrict__ masks;

    __device__ __forceinline__ bool goes_left(int32 node, int32 own, int32 missing_code) const
    {
        if (own == missing_code) return missing_left[node] != 0;
        const int32 mask = mask_row[node];
        if (mask < 0) return own <= code[node];
        return (masks[(int64)mask * CODE_WORDS + own / WARP] >> (own % WARP) & 1) != 0;
    }
};

// leaf int32 (T, n): the leaf of each row of codes uint8 (F, n), by its number in its tree.
// Launch: grid (rows, T).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_code_leaves(const uint8* __restrict__ codes, int64 n, int32 missing_code,
                 const int64* __restrict__ offset, const int32* __restrict__ feature,
                 const int32* __restrict__ code, const int32* __restrict__ left,
                 const int32* __restrict__ mask_row, const uint8* __restrict__ missing_left,
                 const uint32* __restrict__ masks, int32* __restrict__ leaf)
{
    const int64 row = row_of_thread(), first = offset[blockIdx.y];
    if (row >= n) return;
    const CodeTree tree = {feature + first,  code + first,         left + first,
                           mask_row + first, missing_left + first, masks};
    int32 node = 0;
    while (tree.left[node] != 0) {
        const int32 own = __ldg(codes + tree.feature[node] * n + row);
        node = tree.left[node] + (tree.goes_left(node, own, missing_code) ? 0 : 1);
    }
    leaf[blockIdx.y * n + row] = node;
}

// Add the values of leaves, value float64 (m, V): tree t to columns t * V, ..., t * V + V - 1.
// Launch: grid (rows, T).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
add_leaves(const int32* __restrict__ leaf, const int64* __restrict__ offset,
           const double* __restrict__ value, int64 n, int32 n_values, double* __restrict__ raw)
{
    const int64 row = row_of_thread(), tree = blockIdx.y;
    if (row >= n) return;
    const double* own = value + (offset[tree] + leaf[tree * n + row]) * n_values;
    for (int32 k = 0; k < n_values; ++k) {
        double* to = raw + (tree * n_values + k) * n + row;
        *to = *to + own[k];
    }
}
