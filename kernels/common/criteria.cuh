// Criteria, in the prelude: gpuboost/engine/criteria.py, the same operations in the same order.
#ifndef GPUBOOST_CRITERIA_CUH
#define GPUBOOST_CRITERIA_CUH

constexpr int32 VARIANCE = 0, ENTROPY = 1, MISCLASSIFICATION = 2, NEWTON = 3, POISSON = 4;
constexpr int32 TWOING = 6;
constexpr bool NEWTON_CRITERION = CRITERION == NEWTON;

__device__ __forceinline__ double variance_term(double gl, double g, double hl, double h)
{
    const double x = gl * h - g * hl;
    return x * x;
}

__device__ __forceinline__ double variance_gain(double terms, double hl, double hr)
{
    return terms / (hl * hr);
}

__device__ __forceinline__ double entropy_term(double g)
{
    return g > 0.0 ? g * natural_log(max(g, 1.0)) : 0.0;
}

__device__ __forceinline__ double entropy_node(double terms, double h)
{
    return terms - entropy_term(h);
}

__device__ __forceinline__ double entropy_gain(double left, double right, double node, double hl,
                                               double hr)
{
    const double score = ((left + right) - (entropy_term(hl) + entropy_term(hr))) - node;
    return max(score, 0.0);
}

__device__ __forceinline__ double misclassification_gain(double left, double right, double node)
{
    return (left + right) - node;
}

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

__device__ __forceinline__ double poisson_gain(double terms)
{
    return terms >= 0.0 ? terms : -1.0;
}

__device__ __forceinline__ double twoing_term(double gl, double g, double hl, double h)
{
    return fabs(gl * h - g * hl);
}

__device__ __forceinline__ double twoing_gain(double terms, double hl, double hr, double h)
{
    return terms * terms / (hl * hr) / h;
}

__device__ __forceinline__ double newton_value(double g, double h, double l1, double l2)
{
    const double rest = fabs(g) - l1;
    const double size = rest > 0.0 ? rest : 0.0;
    return (g < 0.0 ? -size : size) / (h + l2);
}

__device__ __forceinline__ double bounded(double value, double lower, double upper)
{
    const double raised = value < lower ? lower : value;
    return raised > upper ? upper : raised;
}

__device__ __forceinline__ double newton_term(double g, double h, double value, double l1,
                                              double l2)
{
    return value * (2.0 * g - (h + l2) * value) - 2.0 * l1 * fabs(value);
}

__device__ __forceinline__ double newton_gain(double left, double right, double node)
{
    return (left + right) - node;
}

// The bound between the values of the children of a monotonic split.
__device__ __forceinline__ double middle_of(double left, double right)
{
    return (left + right) * 0.5;
}

// Sums over the channels of a candidate. `ordered`: NEWTON only.
struct Terms {
    double left;
    double right;
    double node;
    bool ordered;
};

// NEWTON with one channel: regularisation and bounds of values, and the direction of the feature.
struct Regular {
    double l1;
    double l2;
    double lower;
    double upper;
    int32 sign;

    __device__ __forceinline__ double value(double g, double h) const
    {
        return bounded(newton_value(g, h, l1, l2), lower, upper);
    }
    __device__ __forceinline__ double term(double g, double h, double value) const
    {
        return newton_term(g, h, value, l1, l2);
    }
};

__device__ __forceinline__ void add_newton(Terms& terms, const Regular& regular, double gl,
                                           double g, double hl, double h)
{
    const double left = regular.value(gl, hl), right = regular.value(g - gl, h - hl);
    terms.left = terms.left + regular.term(gl, hl, left);
    terms.right = terms.right + regular.term(g - gl, h - hl, right);
    terms.node = terms.node + regular.term(g, h, regular.value(g, h));
    if (MONOTONIC) terms.ordered &= regular.sign * left <= regular.sign * right;
}

// ---- The criteria that add up channels --------------------------------------------------------
//
// BOTH_CLASSES: with two classes, whose second is the only channel, the first is added before it.
// The score is -1 if the split is not valid.

struct Variance {
    static constexpr bool BOTH_CLASSES = false;

    static __device__ __forceinline__ void add(Terms& terms, double gl, double g, double hl,
                                               double h)
    {
        terms.left = terms.left + variance_term(gl, g, hl, h);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double hl, double h)
    {
        return variance_gain(terms.left, hl, h - hl);
    }
};

struct Entropy {
    static constexpr bool BOTH_CLASSES = true;

    static __device__ __forceinline__ void add(Terms& terms, double gl, double g, double, double)
    {
        terms.left = terms.left + entropy_term(gl);
        terms.right = terms.right + entropy_term(g - gl);
        terms.node = terms.node + entropy_term(g);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double hl, double h)
    {
        return entropy_gain(terms.left, terms.right, entropy_node(terms.node, h), hl, h - hl);
    }
};

struct Misclassification {
    static constexpr bool BOTH_CLASSES = true;

    static __device__ __forceinline__ void add(Terms& terms, double gl, double g, double, double)
    {
        terms.left = max(terms.left, gl);
        terms.right = max(terms.right, g - gl);
        terms.node = max(terms.node, g);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double, double)
    {
        return misclassification_gain(terms.left, terms.right, terms.node);
    }
};

struct Poisson {
    static constexpr bool BOTH_CLASSES = false;

    static __device__ __forceinline__ void add(Terms& terms, double gl, double g, double hl,
                                               double h)
    {
        terms.left = terms.left + poisson_term(gl, g, hl, h);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double, double)
    {
        return poisson_gain(terms.left);
    }
};

struct Twoing {
    static constexpr bool BOTH_CLASSES = true;

    static __device__ __forceinline__ void add(Terms& terms, double gl, double g, double hl,
                                               double h)
    {
        terms.left = terms.left + twoing_term(gl, g, hl, h);
    }
    static __device__ __forceinline__ double score(const Terms& terms, double hl, double h)
    {
        return twoing_gain(terms.left, hl, h - hl, h);
    }
};

struct Newton {
    static constexpr bool BOTH_CLASSES = false;

    // Left to add_newton.
    static __device__ __forceinline__ void add(Terms&, double, double, double, double) {}
    static __device__ __forceinline__ double score(const Terms& terms, double, double)
    {
        const double score = newton_gain(terms.left, terms.right, terms.node);
        return terms.ordered && score >= 0.0 ? score : -1.0;
    }
};

// Call `use` with a criterion: the one that the kernel is compiled for, or that with the number.
template <typename Use>
__device__ __forceinline__ auto with_criterion(int32 number, const Use& use)
{
    if constexpr (CRITERION == NEWTON) return use(Newton());
    else if constexpr (CRITERION == POISSON) return use(Poisson());
    else if constexpr (CRITERION == TWOING) return use(Twoing());
    else if (number == VARIANCE) return use(Variance());
    else if (number == ENTROPY) return use(Entropy());
    else return use(Misclassification());
}

// Arguments of with_criterion. They are structs because NVRTC before 13 treats a lambda with an
// `auto` parameter as a host function.
struct AddsBothClasses {
    template <typename Criterion>
    __device__ __forceinline__ bool operator()(Criterion) const
    {
        return Criterion::BOTH_CLASSES;
    }
};

struct AddChannel {
    Terms& terms;
    double gl;
    double g;
    double hl;
    double h;

    template <typename Criterion>
    __device__ __forceinline__ void operator()(Criterion) const
    {
        Criterion::add(terms, gl, g, hl, h);
    }
};

struct ScoreOf {
    const Terms& terms;
    double hl;
    double h;

    template <typename Criterion>
    __device__ __forceinline__ double operator()(Criterion) const
    {
        return Criterion::score(terms, hl, h);
    }
};

__device__ __forceinline__ bool adds_both_classes(int32 number)
{
    return with_criterion(number, AddsBothClasses());
}

__device__ __forceinline__ void add_channel(Terms& terms, int32 number, double gl, double g,
                                            double hl, double h)
{
    with_criterion(number, AddChannel{terms, gl, g, hl, h});
}

// Score of a candidate, -1 if the split is not valid.
__device__ __forceinline__ double score_of(const Terms& terms, int32 number, double hl, double h)
{
    return with_criterion(number, ScoreOf{terms, hl, h});
}

#endif  // GPUBOOST_CRITERIA_CUH
