// Gradient, hessian and value of each loss, for one row of weight 1 and one column of raw
// predictions (the value of the softmax loss is for all columns of a row; the values of
// squared_error and log_loss are twice the functions that are differentiated):
// gpuboost/engine/losses/formulas.py, the same operations in the same order.

// The losses by number: gpuboost/engine/losses/table.py. ROW(7, log_loss) stands for the functions
// log_loss and log_loss_loss of the target, the raw prediction and the parameter.
#define LOSSES(ROW)        \
    ROW(0, squared_error)  \
    ROW(1, absolute_error) \
    ROW(2, huber)          \
    ROW(3, quantile)       \
    ROW(4, poisson)        \
    ROW(5, gamma)          \
    ROW(6, tweedie)        \
    ROW(7, log_loss)       \
    ROW(9, exponential)    \
    ROW(10, log_cosh)

constexpr int32 SOFTMAX = 8;  // its functions also take values computed from the whole row

constexpr double MAX_RAW = 300.0;           // bound of raw predictions before exp
constexpr double MAX_STEP = 8.0;            // bound of the Newton step of one row
constexpr double SMALL_RESIDUAL = 0.03125;  // below it, log_cosh uses series

struct Derivatives {
    double gradient;
    double hessian;
};

// A raw prediction, clipped so that its exponential is finite.
__device__ __forceinline__ double inside(double raw)
{
    return raw > MAX_RAW ? MAX_RAW : raw < -MAX_RAW ? -MAX_RAW : raw;
}

// The hessian, raised if necessary so that the row's own Newton step is at most MAX_STEP.
__device__ __forceinline__ double raised(double gradient, double hessian)
{
    const double minimum = (gradient < 0.0 ? -gradient : gradient) * (1.0 / MAX_STEP);
    return hessian > minimum ? hessian : minimum;
}

__device__ __forceinline__ Derivatives squared_error(double y, double raw, double)
{
    return {raw - y, 1.0};
}

__device__ __forceinline__ double squared_error_loss(double y, double raw, double)
{
    const double difference = raw - y;
    return difference * difference;
}

__device__ __forceinline__ Derivatives absolute_error(double y, double raw, double)
{
    return {raw > y ? 1.0 : raw < y ? -1.0 : 0.0, 1.0};
}

__device__ __forceinline__ double absolute_error_loss(double y, double raw, double)
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

__device__ __forceinline__ Derivatives quantile(double y, double raw, double quantile_level)
{
    return {raw > y ? 1.0 - quantile_level : raw < y ? -quantile_level : 0.0, 1.0};
}

__device__ __forceinline__ double quantile_loss(double y, double raw, double quantile_level)
{
    return raw > y ? (1.0 - quantile_level) * (raw - y) : quantile_level * (y - raw);
}

__device__ __forceinline__ Derivatives log_cosh(double y, double raw, double)
{
    const double difference = raw - y, size = difference < 0.0 ? -difference : difference;
    const double small = natural_exp(-2.0 * inside(size)), scale = 1.0 / (1.0 + small);
    const double x = size < SMALL_RESIDUAL ? size : 0.0, z = x * x;
    const double series = x * (1.0 - z * (1.0 / 3.0 - z * (2.0 / 15.0 - z * (17.0 / 315.0))));
    const double slope = size < SMALL_RESIDUAL ? series : (1.0 - small) * scale;
    const double gradient = difference < 0.0 ? -slope : slope;
    return {gradient, raised(gradient, 4.0 * small * scale * scale)};
}

__device__ __forceinline__ double log_cosh_loss(double y, double raw, double)
{
    const double size = raw > y ? raw - y : y - raw;
    const double x = size < SMALL_RESIDUAL ? size : 0.0, z = x * x;
    const double series = z * (0.5 - z * (1.0 / 12.0 - z * (1.0 / 45.0 - z * (17.0 / 2520.0))));
    const double exact = size + natural_log(0.5 * (1.0 + natural_exp(-2.0 * inside(size))));
    return size < SMALL_RESIDUAL ? series : exact;
}

__device__ __forceinline__ Derivatives poisson(double y, double raw, double)
{
    const double mean = natural_exp(inside(raw));
    const double gradient = mean - y;
    return {gradient, raised(gradient, mean)};
}

__device__ __forceinline__ double poisson_loss(double y, double raw, double)
{
    raw = inside(raw);
    return natural_exp(raw) - y * raw;
}

__device__ __forceinline__ Derivatives gamma(double y, double raw, double)
{
    const double ratio = y * natural_exp(-inside(raw));
    const double gradient = 1.0 - ratio;
    return {gradient, raised(gradient, ratio)};
}

__device__ __forceinline__ double gamma_loss(double y, double raw, double)
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

__device__ __forceinline__ Derivatives log_loss(double y, double raw, double)
{
    const double small = natural_exp(raw > 0.0 ? -raw : raw);
    const double scale = 1.0 / (1.0 + small);
    const double one = raw > 0.0 ? 1.0 : small;
    const double zero = raw > 0.0 ? small : 1.0;
    const double gradient = ((1.0 - y) * one - y * zero) * scale;
    return {gradient, raised(gradient, small * scale * scale)};
}

__device__ __forceinline__ double log_loss_loss(double y, double raw, double)
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

// Unnormalised probability of a class; `largest` is the row's largest raw prediction.
__device__ __forceinline__ double softmax_weight(double raw, double largest)
{
    return natural_exp(raw - largest);
}

// Derivatives of the softmax loss with respect to the raw prediction of one of K classes; y is the
// indicator of the class, and `factor`, which multiplies the hessian, is K / (K - 1).
__device__ __forceinline__ Derivatives softmax(double y, double probability, double factor)
{
    const double gradient = probability - y;
    return {gradient, factor * raised(gradient, probability * (1.0 - probability))};
}

// Loss of a row whose class has raw prediction `raw`; `largest` is the row's largest raw
// prediction, `total` the sum of its softmax weights.
__device__ __forceinline__ double softmax_loss(double raw, double largest, double total)
{
    return (largest - raw) + natural_log(total);
}

__device__ __forceinline__ Derivatives exponential(double y, double raw, double)
{
    const double sign = y + y - 1.0;
    const double value = natural_exp(-sign * inside(raw));
    return {-sign * value, value};
}

__device__ __forceinline__ double exponential_loss(double y, double raw, double)
{
    return natural_exp(-(y + y - 1.0) * inside(raw));
}

// Gradient and hessian of the loss with the number `formula`; not for SOFTMAX.
__device__ __forceinline__ Derivatives derivatives(int32 formula, double y, double raw,
                                                   double parameter)
{
#define PAIR_OF(number, loss) if (formula == number) return loss(y, raw, parameter);
    LOSSES(PAIR_OF)
#undef PAIR_OF
    return {0.0, 0.0};
}

// Value of the loss with the number `formula`; not for SOFTMAX.
__device__ __forceinline__ double loss_value(int32 formula, double y, double raw, double parameter)
{
#define VALUE_OF(number, loss) if (formula == number) return loss##_loss(y, raw, parameter);
    LOSSES(VALUE_OF)
#undef VALUE_OF
    return 0.0;
}
