// Gradient, hessian and value of each loss: gpuboost/engine/losses/formulas.py, the same operations
// in the same order. For one row and one column of raw predictions, of weight 1.
#ifndef GPUBOOST_LOSSES_CUH
#define GPUBOOST_LOSSES_CUH

constexpr int32 SQUARED_ERROR = 0, ABSOLUTE_ERROR = 1, HUBER = 2, QUANTILE = 3;
constexpr int32 POISSON = 4, GAMMA = 5, TWEEDIE = 6;
constexpr int32 LOG_LOSS = 7, SOFTMAX = 8, EXPONENTIAL = 9;

constexpr double MAX_RAW = 300.0;
constexpr double MAX_STEP = 8.0;

struct Derivatives {
    double gradient;
    double hessian;
};

// A raw prediction cut off where exp would make it infinite.
__device__ __forceinline__ double inside(double raw)
{
    return raw > MAX_RAW ? MAX_RAW : raw < -MAX_RAW ? -MAX_RAW : raw;
}

// The hessian raised so far that the row's own Newton step is at most MAX_STEP.
__device__ __forceinline__ double raised(double gradient, double hessian)
{
    const double minimum = (gradient < 0.0 ? -gradient : gradient) * (1.0 / MAX_STEP);
    return hessian > minimum ? hessian : minimum;
}

__device__ __forceinline__ Derivatives squared_error(double y, double raw)
{
    return {raw - y, 1.0};
}

__device__ __forceinline__ double squared_error_loss(double y, double raw)
{
    const double difference = raw - y;
    return difference * difference;
}

__device__ __forceinline__ Derivatives absolute_error(double y, double raw)
{
    return {raw > y ? 1.0 : raw < y ? -1.0 : 0.0, 1.0};
}

__device__ __forceinline__ double absolute_error_loss(double y, double raw)
{
    return raw > y ? raw - y : y - raw;
}

__device__ __forceinline__ Derivatives huber(double y, double raw, double delta)
{
    const double difference = raw - y;
    const double low = difference < -delta ? -delta : difference;
    return {low > delta ? delta : low, 1.0};
}

__device__ __forceinline__ double huber_loss(double y, double raw, double delta)
{
    const double size = raw > y ? raw - y : y - raw;
    const double near = size > delta ? delta : size;
    return near * (size - 0.5 * near);
}

__device__ __forceinline__ Derivatives quantile(double y, double raw, double level)
{
    return {raw > y ? 1.0 - level : raw < y ? -level : 0.0, 1.0};
}

__device__ __forceinline__ double quantile_loss(double y, double raw, double level)
{
    return raw > y ? (1.0 - level) * (raw - y) : level * (y - raw);
}

__device__ __forceinline__ Derivatives poisson(double y, double raw)
{
    const double mean = natural_exp(inside(raw));
    const double gradient = mean - y;
    return {gradient, raised(gradient, mean)};
}

__device__ __forceinline__ double poisson_loss(double y, double raw)
{
    raw = inside(raw);
    return natural_exp(raw) - y * raw;
}

__device__ __forceinline__ Derivatives gamma(double y, double raw)
{
    const double ratio = y * natural_exp(-inside(raw));
    const double gradient = 1.0 - ratio;
    return {gradient, raised(gradient, ratio)};
}

__device__ __forceinline__ double gamma_loss(double y, double raw)
{
    raw = inside(raw);
    return raw + y * natural_exp(-raw);
}

__device__ __forceinline__ Derivatives tweedie(double y, double raw, double power)
{
    raw = inside(raw);
    const double above = natural_exp((2.0 - power) * raw);
    const double below = y * natural_exp((1.0 - power) * raw);
    const double gradient = above - below;
    return {gradient, raised(gradient, (2.0 - power) * above + (power - 1.0) * below)};
}

__device__ __forceinline__ double tweedie_loss(double y, double raw, double power)
{
    raw = inside(raw);
    const double above = natural_exp((2.0 - power) * raw) / (2.0 - power);
    return above + y * natural_exp((1.0 - power) * raw) / (power - 1.0);
}

__device__ __forceinline__ Derivatives log_loss(double y, double raw)
{
    const double small = natural_exp(raw > 0.0 ? -raw : raw);
    const double scale = 1.0 / (1.0 + small);
    const double one = raw > 0.0 ? 1.0 : small;
    const double zero = raw > 0.0 ? small : 1.0;
    const double gradient = ((1.0 - y) * one - y * zero) * scale;
    return {gradient, raised(gradient, small * scale * scale)};
}

__device__ __forceinline__ double log_loss_loss(double y, double raw)
{
    const double size = raw > 0.0 ? raw : -raw;
    const double wrong = raw > 0.0 ? 1.0 - y : y;
    return 2.0 * (wrong * size + natural_log(1.0 + natural_exp(-size)));
}

// Probability of class 1.
__device__ __forceinline__ double sigmoid(double raw)
{
    const double small = natural_exp(raw > 0.0 ? -raw : raw);
    return (raw > 0.0 ? 1.0 : small) / (1.0 + small);
}

// What a class's probability is proportional to; `largest` raw prediction of the row.
__device__ __forceinline__ double softmax_weight(double raw, double largest)
{
    return natural_exp(raw - largest);
}

// One class of K, y its indicator, `factor` K / (K - 1).
__device__ __forceinline__ Derivatives softmax(double y, double probability, double factor)
{
    const double gradient = probability - y;
    return {gradient, factor * raised(gradient, probability * (1.0 - probability))};
}

// Of a row whose class has the raw prediction `raw`; `total` of the row's softmax weights.
__device__ __forceinline__ double softmax_loss(double raw, double largest, double total)
{
    return (largest - raw) + natural_log(total);
}

__device__ __forceinline__ Derivatives exponential(double y, double raw)
{
    const double sign = y + y - 1.0;
    const double value = natural_exp(-sign * inside(raw));
    return {-sign * value, value};
}

__device__ __forceinline__ double exponential_loss(double y, double raw)
{
    return natural_exp(-(y + y - 1.0) * inside(raw));
}

// Gradient and hessian by the number of the formula. `raw` is the probability for SOFTMAX.
__device__ __forceinline__ Derivatives derivatives(int32 formula, double y, double raw,
                                                   double parameter)
{
    switch (formula) {
        case SQUARED_ERROR: return squared_error(y, raw);
        case ABSOLUTE_ERROR: return absolute_error(y, raw);
        case HUBER: return huber(y, raw, parameter);
        case QUANTILE: return quantile(y, raw, parameter);
        case POISSON: return poisson(y, raw);
        case GAMMA: return gamma(y, raw);
        case TWEEDIE: return tweedie(y, raw, parameter);
        case LOG_LOSS: return log_loss(y, raw);
        case SOFTMAX: return softmax(y, raw, parameter);
        default: return exponential(y, raw);
    }
}

// The loss by the number of the formula; not for SOFTMAX, which needs the whole row.
__device__ __forceinline__ double loss_value(int32 formula, double y, double raw, double parameter)
{
    switch (formula) {
        case SQUARED_ERROR: return squared_error_loss(y, raw);
        case ABSOLUTE_ERROR: return absolute_error_loss(y, raw);
        case HUBER: return huber_loss(y, raw, parameter);
        case QUANTILE: return quantile_loss(y, raw, parameter);
        case POISSON: return poisson_loss(y, raw);
        case GAMMA: return gamma_loss(y, raw);
        case TWEEDIE: return tweedie_loss(y, raw, parameter);
        case LOG_LOSS: return log_loss_loss(y, raw);
        default: return exponential_loss(y, raw);
    }
}

#endif  // GPUBOOST_LOSSES_CUH
