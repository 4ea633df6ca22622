// Finishes the nodes of the store: thresholds, directions of missing values, values, impurities and
// impurity decreases; the same operations in the same order as gpuboost/engine/growth/tree.py.
//
//   table, order, category, level_end   the numbers of the nodes, from node_buffer.cu
//   left, count, ..., sums              the store, in which left is now a number
//   center, low, high                   float64 (F, width), see thresholds.cuh
//
// Output, node i of tree t at table[NODE_ROW][t] + i: the arrays of a `Tree`, with integers as
// narrow as possible:
//
//   feature int16 or int32              threshold float64      code, missing_left uint8
//   left, category int32                masks uint32 (., CODE_WORDS)
//   value float64 (., V)                gain, impurity float64
//   weight float64, or uint32 if weights are whole numbers     count uint32

#include "common/rounds.cuh"
#include "growth/node_buffer.cuh"
#include "growth/thresholds.cuh"

constexpr int32 FINISH_THREADS = 256;
constexpr int32 FINISH_BLOCKS = 2;  // per multiprocessor; more would spill registers
constexpr int32 ORDER_THREADS = 512;
constexpr int32 ORDER_BLOCKS = 2;  // per multiprocessor

// ---- Value, impurity and weight of a node ------------------------------------------------------

// Kinds of values: shares of classes; means, those of POISSON; medians; steps of boosting.
constexpr int32 SHARES = 0, MEANS = 1, POISSON_MEANS = 2, MEDIANS = 3, STEPS = 4;

// How values are computed from sums: `engine.task.Target`.
//
//   exponents    int32 (planes,)   empty if the sums of classes are whole weights; for steps those
//                                  of the round, see scale_round of gradients.cu
//   mean         float64 (V,)
//   levels       float64           for medians: the sorted targets of each output, those of output
//   first_level  int32 (V,)        k from first_level[k] on
//   given        float64 (3,)      for steps: l1, l2 and the largest step
//   rate         float64 (1,)      factor of steps
struct ValueRule {
    In<int32> exponents;
    In<double> mean;
    In<double> levels;
    In<int32> first_level;
    In<double> given;
    In<double> rate;
    int32 kind;
    int32 criterion;
    int32 n_values;
    int32 n_sums;
    int32 n_planes;
    int32 square_unit;

    // A sum in two planes, with exponents `e` and `e + 1`.
    __device__ __forceinline__ double planes(const int64* sums, int32 e) const
    {
        return ldexp((double)sums[0], -exponents[e]) + ldexp((double)sums[1], -exponents[e + 1]);
    }
    __device__ __forceinline__ double of_class(const int64* sums, int32 k) const
    {
        return n_planes == 0 ? (double)sums[k] : planes(sums + 2 * k, 0);
    }
};

struct NodeSummary {
    double impurity;
    double weight;
};

__device__ __forceinline__ double at_least_zero(double x) { return x > 0.0 ? x : 0.0; }

// Binary logarithm of a normal positive float64: gpuboost/engine/numerics.py.
__device__ __forceinline__ double binary_log(double x)
{
    const int64 bits = __double_as_longlong(x);
    const double exponent = (double)((bits >> 52) - 1022);
    const double mantissa
        = __longlong_as_double((bits & 0xFFFFFFFFFFFFFll) | 0x3FE0000000000000ll);
    return exponent + natural_log(mantissa) * 1.44269504088896338700e00;
}

// Shares of classes, and their Gini impurity, entropy or misclassification rate.
__device__ __forceinline__ NodeSummary summarise_classes(const ValueRule& rule, const int64* sums,
                                                         double* value)
{
    double weight = 0.0, spread = 0.0;
    #pragma unroll 1
    for (int32 k = 0; k < rule.n_values; ++k) weight = weight + rule.of_class(sums, k);
    #pragma unroll 1
    for (int32 k = 0; k < rule.n_values; ++k) {
        const double share = rule.of_class(sums, k) / weight;
        value[k] = share;
        if (rule.criterion == MISCLASSIFICATION) spread = max(spread, share);
        else if (rule.criterion != ENTROPY) spread = spread + share * share;
        else spread = spread + -share * binary_log(share > 0.0 ? share : 1.0);
    }
    return {rule.criterion == ENTROPY ? spread : 1.0 - spread, weight};
}

// Means, and the mean over outputs of the variance or half Poisson deviance.
__device__ __forceinline__ NodeSummary summarise_means(const ValueRule& rule, const int64* sums,
                                                       int64 hessian, double* value)
{
    const int32 n = rule.n_values, unit = rule.square_unit;
    const bool own_weight = rule.n_planes > 2 * (n + 1);
    const double weight
        = own_weight ? rule.planes(sums + 2 * (n + 1), 2 * (n + 1)) : (double)hessian;
    double total = 0.0;
    #pragma unroll 1
    for (int32 k = 0; k < n; ++k) {
        const double centred = rule.planes(sums + 2 * k, 2 * k) / weight;
        const double scaled = ldexp(centred, -unit);
        if (rule.kind == POISSON_MEANS) {
            total = total + scaled * natural_log(scaled > 0.0 ? scaled : 1.0);
            value[k] = centred;
        } else {
            total = total + scaled * scaled;
            value[k] = rule.mean[k] + centred;
        }
    }
    const double spread = rule.planes(sums + 2 * n, 2 * n) / weight - total;
    const int32 squared = rule.kind == POISSON_MEANS ? unit : 2 * unit;
    return {ldexp(at_least_zero(spread) / (double)n, squared), weight};
}

// Medians (if `value` is given), and the mean over outputs of the absolute deviation.
__device__ __forceinline__ NodeSummary summarise_medians(const ValueRule& rule, const int64* sums,
                                                         double* value)
{
    const int32 n = rule.n_values, last = rule.n_planes - 2;
    const double weight = rule.planes(sums + rule.n_sums - 2, last);
    double deviation = 0.0;
    #pragma unroll 1
    for (int32 k = 0; k < n; ++k) {
        const double* levels = rule.levels + rule.first_level[k];
        const double lower = levels[sums[2 * k]], upper = levels[sums[2 * k + 1]];
        const double median = (lower == upper ? lower : 0.5 * lower + 0.5 * upper) + 0.0;
        const int64* own = sums + 2 * n + 4 * k;
        const double centre = median - rule.mean[k];
        const double balance = rule.planes(own + 2, last);
        const double beyond = rule.planes(own, 2 * k) - centre * balance;
        deviation = deviation + at_least_zero(beyond);
        if (value != nullptr) value[k] = median;
    }
    return {deviation / weight / (double)n, weight};
}

// Steps, with a hessian per output or a shared one: `engine.ensembles.boosting.newton_steps`.
__device__ __forceinline__ NodeSummary summarise_steps(const ValueRule& rule, const int64* sums,
                                                       int64 hessian, double* value)
{
    const int32 n = rule.n_values, n_hessians = rule.n_sums - n;
    const double l1 = rule.given[0], l2 = rule.given[1], largest = rule.given[2];
    #pragma unroll 1
    for (int32 k = 0; k < n; ++k) {
        const int64 of_hessian = sums[n + (n_hessians == 1 ? 0 : k)];
        const double g = ldexp((double)sums[k], -rule.exponents[WIDE_GRADIENT]);
        const double h = ldexp((double)of_hessian, -rule.exponents[WIDE_HESSIAN]);
        const bool flat = h + l2 <= 0.0;  // all hessians were rounded to zero
        const double step = flat ? 0.0 : newton_value(g, h, l1, l2);
        value[k] = ValueBounds{-largest, largest}.clip(step) * *rule.rate;
    }
    const double weight = ldexp((double)hessian, -rule.exponents[NARROW_HESSIAN]);
    return {__longlong_as_double(0x7FF8000000000000ll), weight};
}

__device__ __forceinline__ NodeSummary summarise(const ValueRule& rule, const int64* sums,
                                                 int64 hessian, double* value)
{
    if (rule.kind == SHARES) return summarise_classes(rule, sums, value);
    if (rule.kind == MEDIANS) return summarise_medians(rule, sums, value);
    if (rule.kind == STEPS) return summarise_steps(rule, sums, hessian, value);
    return summarise_means(rule, sums, hessian, value);
}

__device__ __forceinline__ double weighted_deviation(const ValueRule& rule, const int64* sums)
{
    const NodeSummary summary = summarise_medians(rule, sums, nullptr);
    return summary.impurity * summary.weight;
}

// ---- Nodes -------------------------------------------------------------------------------------

struct Masks {
    In<uint32> from;  // (m, MASK_WORDS), of the store
    Out<uint32> to;
};

// Write the codes that go left; codes that do not occur in the node go where missing values go.
__device__ __forceinline__ void write_mask(const Masks& masks, int64 place, int64 to, bool to_left)
{
    const uint32* own = masks.from + place * MASK_WORDS;
    for (int32 w = 0; w < CODE_WORDS; ++w) {
        masks.to[to * CODE_WORDS + w] = to_left ? own[w] | ~own[CODE_WORDS + w] : own[w];
    }
}

// `unit`, float64 (1,): factor of weights, not used for steps; `unit_of_gain`, float64 (1,): factor
// of gains, not used for medians. `has_draws`, `has_masks`: whether the store has these arrays.
// `is_narrow`, `is_whole`: which of the arrays of features and of weights are written.
// `number_of`, int32 (places,), written only if `numbers`: the number of the node at each place
// among the nodes of all trees.
//
// If all rows of a tree have weight zero, the tree is a root without a value. Its boosting step is
// computed nevertheless, because rows may read it before the host raises the error.
//
// Launch: any grid of FINISH_THREADS threads, which loop over nodes with the stride of the grid; no
// shared memory.
extern "C" __global__ void __launch_bounds__(FINISH_THREADS, FINISH_BLOCKS)
finish_nodes(In<int64> start, int64 min_rows, int64 max_nodes, int32 max_levels, int32 n_trees,
             In<int64> table, In<int32> order, In<int32> category, In<int32> left, In<uint32> count,
             In<int64> hessian, In<double> gain, In<int32> feature, In<int16> bin,
             In<int16> next_bin, In<double> draw, In<int8> missing, In<uint32> mask, In<int64> sums,
             int32 has_draws, int32 has_masks, In<double> center, In<double> low, In<double> high,
             int32 width, In<int32> exponents, In<double> mean, In<double> levels,
             In<int32> first_level, In<double> given, In<double> rate, int32 kind, int32 criterion,
             int32 n_values, int32 n_sums, int32 n_planes, int32 square_unit, In<double> unit,
             In<double> unit_of_gain, int32 is_narrow, int32 is_whole, Out<int16> narrow_feature,
             Out<int32> wide_feature, Out<double> threshold, Out<uint8> code,
             Out<uint8> missing_left, Out<int32> left_to, Out<int32> category_out,
             Out<uint32> masks_out, Out<double> value, Out<double> impurity_decrease,
             Out<double> impurity, Out<uint32> whole_weight, Out<double> weight,
             Out<uint32> count_out, int32 numbers, Out<int32> number_of)
{
    const Capacities capacities = {start, min_rows, max_nodes, max_levels};
    const ValueRule rule = {exponents, mean, levels, first_level, given, rate, kind, criterion,
                             n_values, n_sums, n_planes, square_unit};
    const Bins bins = {center, low, high, width};
    const int64 n_nodes = table[n_trees];
    for (int64 to = (int64)blockIdx.x * FINISH_THREADS + threadIdx.x; to < n_nodes;
         to += (int64)gridDim.x * FINISH_THREADS) {
        const int32 tree = tree_of(table, n_trees, to);
        if (hessian[tree] == 0 && kind != STEPS) {
            left_to[to] = 0;
            continue;
        }
        const int64 node = to - table[tree], room = capacities.nodes(tree);
        const int32* own_order = order + room;
        const int64 place = own_order[node];
        const int64* own = sums + place * n_sums;
        if (numbers != 0) number_of[place] = (int32)to;

        double* values = value + to * n_values;
        const NodeSummary summary = summarise(rule, own, hessian[place], values);
        impurity[to] = summary.impurity;
        const double own_weight = kind == STEPS ? summary.weight : summary.weight * *unit;
        if (is_whole != 0) whole_weight[to] = (uint32)own_weight;
        else weight[to] = own_weight;
        count_out[to] = count[place];

        const int32 child = left[place], f = feature[place];
        double own_decrease = 0.0, at = __longlong_as_double(0x7FF8000000000000ll);
        int32 own_code = 0, own_category = -1;
        bool to_left = false;
        if (child > 0) {
            const int64 first_child = own_order[child], second_child = own_order[child + 1];
            to_left = missing[place] == MISSING_LEFT
                      || (missing[place] == MISSING_UNSEEN
                          && count[first_child] > count[second_child]);
            own_decrease = gain[place] * (*unit_of_gain / (double)hessian[tree]);
            if (kind == MEDIANS) {
                const double children = weighted_deviation(rule, sums + first_child * n_sums)
                                        + weighted_deviation(rule, sums + second_child * n_sums);
                const double own_deviation = summary.impurity * summary.weight;
                const NodeSummary root
                    = summarise_medians(rule, sums + (int64)tree * n_sums, nullptr);
                own_decrease = at_least_zero(own_deviation - children) / root.weight;
            }
            if (has_masks != 0) own_category = category[room + node];
            if (own_category >= 0) {
                const int64 first_mask = table[MASK_ROW * (n_trees + 1) + tree];
                write_mask({mask, masks_out}, place, first_mask + own_category, to_left);
            } else {
                const double drawn = has_draws != 0 ? draw[place] : at;
                const Threshold found = threshold_of(bins, f, bin[place], next_bin[place], drawn);
                at = found.value;
                own_code = found.code;
            }
        }
        if (is_narrow != 0) narrow_feature[to] = (int16)f;
        else wide_feature[to] = f;
        threshold[to] = at;
        code[to] = (uint8)own_code;
        missing_left[to] = to_left;
        left_to[to] = child;
        if (has_masks != 0) category_out[to] = own_category;
        impurity_decrease[to] = own_decrease;
    }
}

// ---- Values in monotonic order -----------------------------------------------------------------

// Clip the values of each tree (with two classes, the shares of the second one) to the bounds set
// by the monotonic splits above each node: `in_monotonic_order` of engine. Then multiply them by
// the rate.
//
//   largest, rate  float64 (1,)
//   feature        int32 (m,)       of the store
//   left           int32            of the finished trees
//   sign           int8 (F,)        the direction of each feature
//   lower, upper   float64 (.,)     scratch, bounds of each node
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
    const int32* ends = level_end + capacities.levels(blockIdx.x);
    const int32* own_order = order + capacities.nodes(blockIdx.x);
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
