// The value, impurity and weight of a node, computed from its sums: for finish.cu.

#include "common/rounds.cuh"

// Kinds of values: class probabilities; means; means with the criterion POISSON; medians; steps of
// boosting; class probabilities of several outputs.
constexpr int32 PROBABILITIES = 0, MEANS = 1, POISSON_MEANS = 2, MEDIANS = 3, STEPS = 4;
constexpr int32 OUTPUT_PROBABILITIES = 5;

// The rule by which values are computed from sums: `node_values` of the targets in
// gpuboost/engine/targets.py.
//
//   exponents     int32 (n_planes,)    exponents of the planes of sums; empty if the sums of
//                                      classes are whole numbers. For steps, the exponents of the
//                                      round, see scale_round of gradients.cu
//   mean          float64 (n_values,)  for means and medians: mean of each output, which was
//                                      subtracted from the targets before they were summed
//   distinct_targets  float64          for medians: the sorted distinct targets of each output, one
//                                      output after the other
//   first_target  int32 (n_values,)    index of each output's first target in distinct_targets
//   given         float64 (3,) or (4,)   for steps: l1, l2 and the largest absolute step; a fourth
//                                      number is not read
//   rate          float64 (1,)         factor of steps; 1 if order_values multiplies them later
//   kind, criterion                    kind of values, and number of the criterion
//   n_values      number of classes or outputs; for several outputs of classes, of all classes
//   n_together    for several outputs of classes: number of classes per output
//   n_sums        number of sums of a node; n_planes is the length of `exponents`
//   square_unit   for means: exponent by which targets are scaled down before they are squared
//                 (with POISSON, multiplied by their logarithm)
struct ValueRule {
    In<int32> exponents;
    In<double> mean;
    In<double> distinct_targets;
    In<int32> first_target;
    In<double> given;
    In<double> rate;
    int32 kind;
    int32 criterion;
    int32 n_values;
    int32 n_sums;
    int32 n_planes;
    int32 square_unit;
    int32 n_together;

    // The value of a sum that is stored in two planes; `e` is the index of the exponent of the
    // first plane.
    __device__ __forceinline__ double planes(const int64* sums, int32 e) const
    {
        return ldexp((double)sums[0], -exponents[e]) + ldexp((double)sums[1], -exponents[e + 1]);
    }
    // The weight of class k.
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

// Write the class probabilities; return their impurity and the weight.
__device__ __forceinline__ NodeSummary summarise_classes(const ValueRule& rule, const int64* sums,
                                                         double* value)
{
    double weight = 0.0, sum = 0.0;
    #pragma unroll 1
    for (int32 k = 0; k < rule.n_values; ++k) weight = weight + rule.of_class(sums, k);
    #pragma unroll 1
    for (int32 k = 0; k < rule.n_values; ++k) {
        const double probability = rule.of_class(sums, k) / weight;
        value[k] = probability;
        sum = Criteria::add_probability(rule.criterion, sum, probability);
    }
    return {Criteria::impurity(rule.criterion, sum), weight};
}

// Write the class probabilities of several outputs; return the impurity, averaged over outputs, and
// the weight. The sums are those of means.
__device__ __forceinline__ NodeSummary summarise_outputs(const ValueRule& rule, const int64* sums,
                                                         int64 hessian, double* value)
{
    const int32 n = rule.n_values, n_together = rule.n_together;
    const bool own_weight = rule.n_planes > 2 * (n + 1);
    const double weight
        = own_weight ? rule.planes(sums + 2 * (n + 1), 2 * (n + 1)) : (double)hessian;
    double total = 0.0, sum = 0.0;
    #pragma unroll 1
    for (int32 k = 0; k < n; ++k) {
        const double probability = rule.planes(sums + 2 * k, 2 * k) / weight;
        value[k] = probability;
        sum = Criteria::add_probability(rule.criterion, sum, probability);
        if ((k + 1) % n_together == 0) {  // the last class of an output
            total = total + Criteria::impurity(rule.criterion, sum);
            sum = 0.0;
        }
    }
    return {total / (double)(n / n_together), weight};
}

// Write the means; return the variance or half Poisson deviance, averaged over outputs, and the
// weight.
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

// Write the medians unless `value` is null; return the mean absolute deviation, averaged over
// outputs, and the weight.
__device__ __forceinline__ NodeSummary summarise_medians(const ValueRule& rule, const int64* sums,
                                                         double* value)
{
    const int32 n = rule.n_values, last = rule.n_planes - 2;
    const double weight = rule.planes(sums + rule.n_sums - 2, last);
    double deviation = 0.0;
    #pragma unroll 1
    for (int32 k = 0; k < n; ++k) {
        const double* distinct_targets = rule.distinct_targets + rule.first_target[k];
        const double lower = distinct_targets[sums[2 * k]];
        const double upper = distinct_targets[sums[2 * k + 1]];
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

// Write the steps, from a hessian per output or a shared one, as
// `engine.ensembles.boosting.newton_steps` does; return the weight, and NaN for the impurity.
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
        const bool flat = h + l2 <= 0.0;  // l2 is 0, and all hessians were rounded to zero
        const double step = flat ? 0.0 : newton_value(g, h, l1, l2);
        value[k] = ValueBounds{-largest, largest}.clip(step) * *rule.rate;
    }
    const double weight = ldexp((double)hessian, -rule.exponents[NARROW_HESSIAN]);
    return {__longlong_as_double(0x7FF8000000000000ll), weight};
}

__device__ __forceinline__ NodeSummary summarise(const ValueRule& rule, const int64* sums,
                                                 int64 hessian, double* value)
{
    if (rule.kind == PROBABILITIES) return summarise_classes(rule, sums, value);
    if (rule.kind == MEDIANS) return summarise_medians(rule, sums, value);
    if (rule.kind == STEPS) return summarise_steps(rule, sums, hessian, value);
    if (rule.kind == OUTPUT_PROBABILITIES) return summarise_outputs(rule, sums, hessian, value);
    return summarise_means(rule, sums, hessian, value);
}

__device__ __forceinline__ double weighted_deviation(const ValueRule& rule, const int64* sums)
{
    const NodeSummary summary = summarise_medians(rule, sums, nullptr);
    return summary.impurity * summary.weight;
}

// The impurity decrease of a split with medians: the decrease of the sum of absolute deviations,
// averaged over outputs, per weight of the root. `own` is the summary of the node; `root`, `left`
// and `right` are places in the node buffer.
__device__ __forceinline__ double decrease_of_medians(const ValueRule& rule, const int64* sums,
                                                      int64 root, const NodeSummary& own,
                                                      int64 left, int64 right)
{
    const int32 n_sums = rule.n_sums;
    const double children = weighted_deviation(rule, sums + left * n_sums)
                            + weighted_deviation(rule, sums + right * n_sums);
    const double own_deviation = own.impurity * own.weight;
    const NodeSummary of_root = summarise_medians(rule, sums + root * n_sums, nullptr);
    return at_least_zero(own_deviation - children) / of_root.weight;
}
