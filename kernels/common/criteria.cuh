// Criteria of splits: the operations of criteria.py and newton.py in gpuboost/engine, in the same
// order.

// ---- Values ------------------------------------------------------------------------------------

// The best value of a part with gradient g and hessian h, without bounds.
__device__ __forceinline__ double newton_value(double g, double h, double l1, double l2)
{
    const double rest = fabs(g) - l1;
    const double size = rest > 0.0 ? rest : 0.0;
    return (g < 0.0 ? -size : size) / (h + l2);
}

// Bounds on the values of a node and of its descendants.
struct ValueBounds {
    double lower;
    double upper;

    __device__ __forceinline__ double clip(double value) const
    {
        const double raised = value < lower ? lower : value;
        return raised > upper ? upper : raised;
    }
};

// Write the bounds of a split's children: the bounds of the node, except that the midpoint of the
// children's values `left` and `right` separates the children if `sign` is 1 (values must not
// decrease with the feature) or -1 (they must not increase). `child` is the index of the left child
// in `lower` and `upper`, and `child` + 1 that of the right child.
__device__ __forceinline__ void write_child_bounds(const ValueBounds& node, int32 sign, double left,
                                                   double right, int64 child, double* lower,
                                                   double* upper)
{
    const double between = (left + right) * 0.5;
    lower[child] = sign < 0 ? between : node.lower;
    upper[child] = sign > 0 ? between : node.upper;
    lower[child + 1] = sign > 0 ? between : node.lower;
    upper[child + 1] = sign < 0 ? between : node.upper;
}

// The regularisation of NEWTON; other criteria do not read it. `sign` is 1 if values must not
// decrease with the split's feature, -1 if they must not increase, else 0.
struct Regular {
    double l1;
    double l2;
    ValueBounds bounds;
    int32 sign;

    __device__ __forceinline__ double value(double g, double h) const
    {
        return bounds.clip(newton_value(g, h, l1, l2));
    }
    // The NEWTON term of a part that has this value.
    __device__ __forceinline__ double term(double g, double h, double value) const
    {
        return value * (2.0 * g - (h + l2) * value) - 2.0 * l1 * fabs(value);
    }
};

// ---- The criteria ------------------------------------------------------------------------------
//
// A criterion adds one channel after the other to `Terms`, whose sums begin at 0, then computes the
// score. NEWTON and POISSON return a score of -1 for splits that they rule out; split.cuh tests the
// limits that all criteria share before it calls a criterion.

// Defaults that criteria override: the attributes of `Criterion` (engine/criteria.py) with the same
// names, and the impurity of class probabilities, by default Gini. `add_probability` adds the term
// of a probability to a sum that begins at 0 (for MISCLASSIFICATION, it takes the maximum);
// `impurity` converts the sum over all classes.
struct CriterionFacts {
    static constexpr bool BOTH_CLASSES = true, TIMES_HESSIAN = false, COMPILED_APART = false;
    static __device__ double add_probability(double sum, double p) { return sum + p * p; }
    static __device__ double impurity(double sum) { return 1.0 - sum; }
};

// Sums over the channels of a candidate split, by part; maxima for MISCLASSIFICATION. VARIANCE,
// POISSON and TWOING have one term per channel, which they add to `left`. `ordered` begins as true
// and becomes false if the children's values violate the direction of a monotonic feature; only
// NEWTON updates it.
struct Terms {
    double left;
    double right;
    double node;
    bool ordered;
};

struct Variance : CriterionFacts {
    static constexpr int32 NUMBER = 0;
    static constexpr bool BOTH_CLASSES = false, TIMES_HESSIAN = true;

    static __device__ __forceinline__ void add(Terms& terms, const Regular&, double gl, double g,
                                               double hl, double h)
    {
        const double x = gl * h - g * hl;
        terms.left = terms.left + x * x;
    }
    static __device__ __forceinline__ double score(const Terms& terms, double hl, double h)
    {
        return terms.left / (hl * (h - hl));
    }
};

__device__ __forceinline__ double entropy_term(double g)
{
    return g > 0.0 ? g * natural_log(max(g, 1.0)) : 0.0;
}

struct Entropy : CriterionFacts {
    static constexpr int32 NUMBER = 1;

    static __device__ double add_probability(double sum, double p)
    {
        return sum + -p * binary_log(p > 0.0 ? p : 1.0);
    }
    static __device__ double impurity(double sum) { return sum; }
    static __device__ __forceinline__ void add(Terms& terms, const Regular&, double gl, double g,
                                               double, double)
    {
        terms.left = terms.left + entropy_term(gl);
        terms.right = terms.right + entropy_term(g - gl);
        terms.node = terms.node + entropy_term(g);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double hl, double h)
    {
        const double sides = entropy_term(hl) + entropy_term(h - hl);
        return max(((terms.left + terms.right) - sides) - (terms.node - entropy_term(h)), 0.0);
    }
};

struct Misclassification : CriterionFacts {
    static constexpr int32 NUMBER = 2;

    static __device__ double add_probability(double sum, double p) { return max(sum, p); }
    static __device__ __forceinline__ void add(Terms& terms, const Regular&, double gl, double g,
                                               double, double)
    {
        terms.left = max(terms.left, gl);
        terms.right = max(terms.right, g - gl);
        terms.node = max(terms.node, g);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double, double)
    {
        return (terms.left + terms.right) - terms.node;
    }
};

__device__ __forceinline__ double poisson_term(double gl, double g, double hl, double h)
{
    const double gr = g - gl, hr = h - hl;
    if (!(gl > 0.0 && gr > 0.0)) return __longlong_as_double((int64)0xFFF0000000000000ull);
    const double x = gl * h - g * hl;
    double sum = 0.0;
    #pragma unroll 1
    for (int32 side = 0; side < 2; ++side) {  // a loop, to save registers
        const double part = side == 0 ? hl : hr;
        sum = sum + part * half_deviance((side == 0 ? x : -x) / (g * part));
    }
    return g / h * sum;
}

struct Poisson : CriterionFacts {
    static constexpr int32 NUMBER = 4;
    static constexpr bool BOTH_CLASSES = false, COMPILED_APART = true;

    static __device__ __forceinline__ void add(Terms& terms, const Regular&, double gl, double g,
                                               double hl, double h)
    {
        terms.left = terms.left + poisson_term(gl, g, hl, h);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double, double)
    {
        return terms.left >= 0.0 ? terms.left : -1.0;
    }
};

struct Twoing : CriterionFacts {
    static constexpr int32 NUMBER = 6;
    static constexpr bool COMPILED_APART = true;

    static __device__ __forceinline__ void add(Terms& terms, const Regular&, double gl, double g,
                                               double hl, double h)
    {
        terms.left = terms.left + fabs(gl * h - g * hl);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double hl, double h)
    {
        return terms.left * terms.left / (hl * (h - hl)) / h;
    }
};

struct Newton : CriterionFacts {
    static constexpr int32 NUMBER = 3;
    static constexpr bool BOTH_CLASSES = false, COMPILED_APART = true;

    static __device__ __forceinline__ void add(Terms& terms, const Regular& regular, double gl,
                                               double g, double hl, double h)
    {
        const double left = regular.value(gl, hl), right = regular.value(g - gl, h - hl);
        terms.left = terms.left + regular.term(gl, hl, left);
        terms.right = terms.right + regular.term(g - gl, h - hl, right);
        terms.node = terms.node + regular.term(g, h, regular.value(g, h));
        if (MONOTONIC) terms.ordered &= regular.sign * left <= regular.sign * right;
    }
    static __device__ __forceinline__ double score(const Terms& terms, double, double)
    {
        const double score = (terms.left + terms.right) - terms.node;
        return terms.ordered && score >= 0.0 ? score : -1.0;
    }
};

// ---- The choice of a criterion -----------------------------------------------------------------

constexpr bool NEWTON_CRITERION = CRITERION == Newton::NUMBER;

// `gain`, `add_probability` and `impurity` of the criterion with a given number, even if it is
// compiled apart. The last two trap if no criterion has this number.
template <typename... All>
struct CriterionTable {
    // The gain of a valid split from its score.
    static __device__ double gain(int32 number, double score, double hessian)
    {
        return ((All::TIMES_HESSIAN && number == All::NUMBER) || ...) ? score / hessian : score;
    }
    static __device__ double add_probability(int32 number, double sum, double p)
    {
        if (!((number == All::NUMBER && (sum = All::add_probability(sum, p), 1)) || ...)) __trap();
        return sum;
    }
    static __device__ double impurity(int32 number, double sum)
    {
        if (!((number == All::NUMBER && (sum = All::impurity(sum), 1)) || ...)) __trap();
        return sum;
    }
};

// The rows of `CRITERIA` in criteria.py except ABSOLUTE, whose trees are grown with VARIANCE.
using Criteria = CriterionTable<Variance, Entropy, Misclassification, Twoing, Newton, Poisson>;

template <typename Own>
constexpr bool is_compiled = CRITERION < 0 ? !Own::COMPILED_APART : CRITERION == Own::NUMBER;

// Call `use` with the criterion `number` and the values. `number` is ignored if the kernel is
// compiled for one criterion only. The last of several criteria is called without a comparison,
// which saves registers.
template <typename Own, typename... Others, typename Use, typename... Values>
__device__ __forceinline__ auto with_criterion(CriterionTable<Own, Others...>, int32 number,
                                               const Use& use, Values&&... values)
{
    using Rest = CriterionTable<Others...>;
    if constexpr (!is_compiled<Own>) return with_criterion(Rest(), number, use, values...);
    else if constexpr (!(is_compiled<Others> || ...)) return use(Own(), values...);
    else if (number == Own::NUMBER) return use(Own(), values...);
    else return with_criterion(Rest(), number, use, values...);
}

// Functions that are passed to with_criterion. They are structs because NVRTC before 13 treats a
// lambda with an `auto` parameter as a host function.

// Add a channel. With `of_first_class`, the channel is the first of two classes, which is added
// only if the criterion has BOTH_CLASSES.
struct AddChannel {
    bool of_first_class;

    template <typename Criterion>
    __device__ __forceinline__ void operator()(Criterion, Terms& terms, const Regular& regular,
                                               double gl, double g, double hl, double h) const
    {
        if (of_first_class && !Criterion::BOTH_CLASSES) return;
        Criterion::add(terms, regular, gl, g, hl, h);
    }
};

struct ScoreOf {
    template <typename Criterion>
    __device__ __forceinline__ double operator()(Criterion, const Terms& terms, double hl,
                                                 double h) const
    {
        return Criterion::score(terms, hl, h);
    }
};
