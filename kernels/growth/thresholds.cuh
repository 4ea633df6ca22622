// Thresholds of numeric splits, equal to `engine.growth.tree.find_thresholds`.

// Centre, smallest and largest value of each bin, float64 (n_features, width). Here, `width` is the
// number of codes without the missing code.
struct Bins {
    In<double> center;
    In<double> low;
    In<double> high;
    int32 width;
};

// The midpoint of a and b, a < b, if it is below b after rounding, else a; never -0.0. The same as
// `midpoint` of gpuboost/engine/numerics.py.
__device__ __forceinline__ double midpoint(double a, double b)
{
    const double total = a + b;
    const bool finite = fabs(total) <= 1.7976931348623157e308;
    const double middle = finite ? total * 0.5 : a * 0.5 + b * 0.5;
    return (middle < b ? middle : a) + 0.0;
}

// A numeric split: the last code that goes left (among all codes, not only those that are occupied
// in the node) and the threshold.
struct Threshold {
    int32 code;
    double value;
};

// The threshold of a split by feature f: `draw` or, if that is NaN (the threshold is not random),
// midway between bins `bin` and `next_bin`. A threshold among the training values of a bin moves
// out of them. If only missing values go right, the threshold is infinity or, if it is random, the
// largest value of `bin`.
__device__ __forceinline__ Threshold threshold_of(const Bins& bins, int32 f, int32 bin,
                                                  int32 next_bin, double draw)
{
    if (next_bin == ONLY_MISSING_RIGHT && draw == draw) {
        return {bin, bins.high[(int64)f * bins.width + bin]};
    }
    if (next_bin == ONLY_MISSING_RIGHT) {
        return {bins.width - 1, __longlong_as_double(0x7FF0000000000000ll)};
    }
    const int64 first = (int64)f * bins.width;
    const double between = midpoint(bins.high[first + bin], bins.low[first + next_bin]);
    const double at = draw == draw ? draw : between;
    int32 low = bin, high = next_bin - 1;
    while (low < high) {
        const int32 middle = (low + high + 1) / 2;
        if (bins.center[first + middle] <= at) low = middle;
        else high = max(middle - 1, low);
    }
    const double below = bins.high[first + low], above = bins.low[first + low + 1];
    const double value = max(at, below);
    return {low, value >= above ? midpoint(below, above) : value};
}
