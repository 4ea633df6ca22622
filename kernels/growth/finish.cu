// Finishes the nodes of the node buffer: computes thresholds, masks, directions of missing values,
// values, weights, impurities and impurity decreases, by the same operations in the same order as
// gpuboost/engine/growth/tree.py and gpuboost/engine/targets.py (for the steps of boosting, as
// gpuboost/engine/ensembles/boosting.py).
//
//   table, order, category, level_end   the numbers of the nodes, from node_buffer.cu
//   left, count, ..., sums              the node buffer, in which left is now the number of the
//                                       left child in its tree
//   center, low, high                   float64 (n_features, width), see thresholds.cuh
//
// Output: the arrays of a `Tree`, with integers as narrow as possible. Node i of tree t is written
// to index table[NODE_ROW, t] + i:
//
//   feature int16 or int32              threshold float64      code, missing_left uint8
//   left, category int32                masks uint32 (masks, CODE_WORDS)
//   value float64 (nodes, n_values)     impurity_decrease, impurity float64
//   weight float64, or uint32 if weights of nodes are whole numbers below 2**32     count uint32

#include "growth/node_buffer.cuh"
#include "growth/thresholds.cuh"
#include "growth/value_rule.cuh"

constexpr int32 FINISH_THREADS = 256;
constexpr int32 FINISH_BLOCKS = 2;  // per multiprocessor; more would spill registers
constexpr int32 ORDER_THREADS = 512;
constexpr int32 ORDER_BLOCKS = 2;  // per multiprocessor

// ---- Nodes -------------------------------------------------------------------------------------

struct Masks {
    In<uint32> from;  // (places, MASK_WORDS), of the node buffer
    Out<uint32> to;   // (masks, CODE_WORDS), of the finished trees
};

// Write the set of codes that go left to mask `to`; codes that are not occupied go where missing
// values go, left if `to_left`.
__device__ __forceinline__ void write_mask(const Masks& masks, int64 place, int64 to, bool to_left)
{
    const uint32* own = masks.from + place * MASK_WORDS;
    for (int32 w = 0; w < CODE_WORDS; ++w) {
        masks.to[to * CODE_WORDS + w] = to_left ? own[w] | ~own[CODE_WORDS + w] : own[w];
    }
}

// The arrays of the node buffer from which finished splits are made.
struct BufferedSplits {
    In<uint32> count;
    In<double> gain;
    In<int64> sums;
    In<int32> feature;
    In<int16> bin;
    In<int16> next_bin;
    In<double> draw;
    In<int8> missing;
    bool has_draws;

    // Whether missing values go left, given the places of a node's children. If the search saw none
    // in the node, they go to the child with more rows, or right if both have the same number.
    __device__ __forceinline__ bool missing_go_left(int64 place, int64 first, int64 second) const
    {
        return missing[place] == MISSING_LEFT
               || (missing[place] == MISSING_UNSEEN && count[first] > count[second]);
    }
    __device__ __forceinline__ Threshold threshold(const Bins& bins, int64 place) const
    {
        const double drawn = has_draws ? draw[place] : __longlong_as_double(0x7FF8000000000000ll);
        return threshold_of(bins, feature[place], bin[place], next_bin[place], drawn);
    }
};

// The finished split of a node; the defaults are the values of a leaf.
struct FinishedSplit {
    double decrease = 0.0;
    Threshold at = {0, __longlong_as_double(0x7FF8000000000000ll)};
    int32 category = -1;
    bool to_left = false;  // whether missing values go left
};

// The split of a node, given the places of the root of its tree, of the node and of its children.
// `unit` is the impurity decrease per unit of gain; for medians, the decrease is computed from sums
// instead. `category` is the index of the node's mask among the masks of its tree, which begin at
// `first_mask`; -1 if the split is numeric.
__device__ __forceinline__ FinishedSplit finish_split(const BufferedSplits& buffered,
                                                      const ValueRule& rule, const Bins& bins,
                                                      const NodeSummary& own, double unit,
                                                      int64 root, int64 place, int64 first,
                                                      int64 second, int32 category,
                                                      const Masks& masks, int64 first_mask)
{
    FinishedSplit split;
    split.category = category;
    split.to_left = buffered.missing_go_left(place, first, second);
    split.decrease = buffered.gain[place] * unit;
    if (rule.kind == MEDIANS) {
        split.decrease = decrease_of_medians(rule, buffered.sums, root, own, first, second);
    }
    if (category < 0) split.at = buffered.threshold(bins, place);
    else write_mask(masks, place, first_mask + category, split.to_left);
    return split;
}

// The arrays that finished nodes are written to; placeholders stand for arrays that are not made.
struct FinishedNodes {
    Out<int16> narrow_feature;
    Out<int32> wide_feature;
    Out<double> threshold;
    Out<uint8> code;
    Out<uint8> missing_left;
    Out<int32> left;
    Out<int32> category;
    Out<double> impurity_decrease;
    Out<double> impurity;
    Out<uint32> whole_weight;
    Out<double> weight;
    Out<uint32> count;
    bool is_narrow;
    bool is_whole;
    bool has_masks;

    __device__ __forceinline__ void put_sums(int64 to, double own_impurity, double own_weight,
                                             uint32 own_count) const
    {
        impurity[to] = own_impurity;
        if (is_whole) whole_weight[to] = (uint32)own_weight;
        else weight[to] = own_weight;
        count[to] = own_count;
    }
    __device__ __forceinline__ void put_split(int64 to, int32 f, int32 child,
                                              const FinishedSplit& split) const
    {
        left[to] = child;
        if (is_narrow) narrow_feature[to] = (int16)f;
        else wide_feature[to] = f;
        threshold[to] = split.at.value;
        code[to] = (uint8)split.at.code;
        missing_left[to] = split.to_left;
        if (has_masks) category[to] = split.category;
        impurity_decrease[to] = split.decrease;
    }
};

// Write the finished nodes of all trees. The arguments from `exponents` to `n_together` are those
// of ValueRule.
//
//   unit            float64 (1,)      unit of the integer weights, not used for steps
//   unit_of_gain    float64 (1,)      factor from a gain to a decrease of weight times impurity,
//                                     not used for medians
//   has_draws, has_masks              whether the node buffer has `draw` and `mask`
//   is_narrow       whether features are written to `narrow_feature`, else to `wide_feature`
//   is_whole        whether weights are written to `whole_weight`, else to `weight`
//   number_of       int32 (places,)   index of the node at each place among the nodes of all trees;
//                                     written only if `numbers`
//
// If all rows of a tree have weight zero, the tree is only a root: its `left` is 0, and its other
// numbers are undefined. In boosting, they are computed nevertheless, because rows may read the
// root's step before the host raises the error.
//
// Launch: any number of blocks of FINISH_THREADS threads, which loop over nodes with the stride of
// the grid; no shared memory.
extern "C" __global__ void __launch_bounds__(FINISH_THREADS, FINISH_BLOCKS)
finish_nodes(In<int64> start, int64 min_rows, int64 max_nodes, int32 max_levels, int32 n_trees,
             In<int64> table, In<int32> order, In<int32> category, In<int32> left, In<uint32> count,
             In<int64> hessian, In<double> gain, In<int32> feature, In<int16> bin,
             In<int16> next_bin, In<double> draw, In<int8> missing, In<uint32> mask, In<int64> sums,
             int32 has_draws, int32 has_masks, In<double> center, In<double> low, In<double> high,
             int32 width, In<int32> exponents, In<double> mean, In<double> distinct_targets,
             In<int32> first_target, In<double> given, In<double> rate, int32 kind, int32 criterion,
             int32 n_values, int32 n_sums, int32 n_planes, int32 square_unit, int32 n_together,
             In<double> unit,
             In<double> unit_of_gain, int32 is_narrow, int32 is_whole, Out<int16> narrow_feature,
             Out<int32> wide_feature, Out<double> threshold, Out<uint8> code,
             Out<uint8> missing_left, Out<int32> left_to, Out<int32> category_out,
             Out<uint32> masks_out, Out<double> value, Out<double> impurity_decrease,
             Out<double> impurity, Out<uint32> whole_weight, Out<double> weight,
             Out<uint32> count_out, int32 numbers, Out<int32> number_of)
{
    const Capacities capacities = {start, min_rows, max_nodes, max_levels};
    const ValueRule rule = {exponents, mean, distinct_targets, first_target, given, rate, kind,
                            criterion, n_values, n_sums, n_planes, square_unit, n_together};
    const Bins bins = {center, low, high, width};
    const BufferedSplits buffered = {count, gain, sums, feature, bin, next_bin, draw, missing,
                                 has_draws != 0};
    const FinishedNodes finished = {narrow_feature, wide_feature, threshold, code, missing_left,
                                    left_to, category_out, impurity_decrease, impurity,
                                    whole_weight, weight, count_out, is_narrow != 0, is_whole != 0,
                                    has_masks != 0};
    const int64 n_nodes = table[n_trees];
    for (int64 to = (int64)blockIdx.x * FINISH_THREADS + threadIdx.x; to < n_nodes;
         to += (int64)gridDim.x * FINISH_THREADS) {
        const int32 tree = tree_of(table, n_trees, to);
        if (hessian[tree] == 0 && kind != STEPS) {
            left_to[to] = 0;
            continue;
        }
        const int64 node = to - table[tree], first = capacities.first_node(tree);
        const int32* own_order = order + first;
        const int64 place = own_order[node];
        if (numbers != 0) number_of[place] = (int32)to;

        const NodeSummary summary
            = summarise(rule, sums + place * n_sums, hessian[place], value + to * n_values);
        const double own_weight = kind == STEPS ? summary.weight : summary.weight * *unit;
        finished.put_sums(to, summary.impurity, own_weight, count[place]);

        const int32 child = left[place];
        FinishedSplit split;
        if (child > 0) {
            const int32 own_category = has_masks != 0 ? category[first + node] : -1;
            const double gain_unit = *unit_of_gain / (double)hessian[tree];
            split = finish_split(buffered, rule, bins, summary, gain_unit,
                                 tree, place, own_order[child], own_order[child + 1], own_category,
                                 {mask, masks_out}, table[MASK_ROW * (n_trees + 1) + tree]);
        }
        finished.put_split(to, feature[place], child, split);
    }
}

// ---- Values in monotonic order -----------------------------------------------------------------

// Clip the values of each tree (with two classes, the probability of the second class) to the
// largest absolute leaf value and to the bounds set by the monotonic splits above each node, as
// `in_monotonic_order` of gpuboost/engine/growth/constraints.py does. Then multiply them by the
// rate. With two classes, the first class gets the rest, 1 minus the result. Trees whose rows all
// have weight zero are left out.
//
//   value          float64 (nodes, n_values)   values of the finished trees
//   largest, rate  float64 (1,)          largest absolute leaf value, and factor of clipped
//                                        values
//   feature        int32 (places,)       of the node buffer
//   left           int32 (nodes,)        of the finished trees
//   sign           int8 (n_features,)    1 if values must not decrease with a feature, -1 if
//                                        they must not increase, else 0
//   lower, upper   float64 (nodes,)      scratch: bounds of each node
//
// Launch: one block of ORDER_THREADS threads per tree, no shared memory. A block processes one
// level at a time.
extern "C" __global__ void __launch_bounds__(ORDER_THREADS, ORDER_BLOCKS)
order_values(In<int64> start, int64 min_rows, int64 max_nodes, int32 max_levels, int32 n_trees,
             In<int64> table, In<int32> order, In<int32> level_end, In<int32> feature,
             In<int32> left, In<int8> sign, In<double> largest, In<double> rate, int32 n_values,
             double* value, double* lower, double* upper)
{
    const Capacities capacities = {start, min_rows, max_nodes, max_levels};
    const int32* ends = level_end + capacities.first_level(blockIdx.x);
    const int32* own_order = order + capacities.first_node(blockIdx.x);
    const int64 base = table[blockIdx.x], n_nodes = table[blockIdx.x + 1] - base;
    if (table[HESSIAN_ROW * (n_trees + 1) + blockIdx.x] == 0) return;
    double* last = value + base * n_values + n_values - 1;
    lower += base;
    upper += base;
    if (threadIdx.x == 0) {  // the same thread reads them
        lower[0] = -*largest;
        upper[0] = *largest;
    }
    int64 first = 0;
    for (int64 level = 0; first < n_nodes; ++level) {
        const int64 end = ends[level];
        for (int64 node = first + threadIdx.x; node < end; node += ORDER_THREADS) {
            const ValueBounds bounds = {lower[node], upper[node]};
            const double own = bounds.clip(last[node * n_values]) * *rate;
            last[node * n_values] = own;
            if (n_values == 2) last[node * n_values - 1] = 1.0 - own;
            const int64 child = left[base + node];
            if (child == 0) continue;
            const int32 direction = sign[feature[own_order[node]]];
            write_child_bounds(bounds, direction, bounds.clip(last[child * n_values]),
                               bounds.clip(last[(child + 1) * n_values]), child, lower, upper);
        }
        first = end;
        __syncthreads();
    }
}
