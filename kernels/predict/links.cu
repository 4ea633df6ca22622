// Inverse links, from raw predictions to predictions, and logarithms of class probabilities: the
// same operations in the same order as in gpuboost/engine/losses/links.py.
//
//   raw float64 (n, K): raw predictions of n rows in K columns
//
// Launch: one thread per row (for means_of_logs and logs_of_probabilities, per number), in blocks
// of LINK_THREADS; no shared memory.

#include "boosting/losses.cuh"

constexpr int32 LINK_THREADS = 256;
constexpr double SMALL_PROBABILITY = 9.332636185032189e-302;  // 2**-1000
constexpr double LARGER = 18446744073709551616.0;       // 2**64
constexpr double LOG_OF_LARGER = 44.3614195558365;
constexpr int32 LINK_BLOCKS = 4;  // per multiprocessor; more would spill registers

__device__ __forceinline__ int64 own_place()
{
    return (int64)blockIdx.x * LINK_THREADS + threadIdx.x;
}

// Compute mean, float64 (n,): the exponentials of n raw predictions, which are first clipped to
// [-MAX_RAW, MAX_RAW] and can have any shape.
extern "C" __global__ void __launch_bounds__(LINK_THREADS, LINK_BLOCKS)
means_of_logs(In<double> raw, int64 n, Out<double> mean)
{
    const int64 at = own_place();
    if (at < n) mean[at] = natural_exp(inside(raw[at]));
}

// Compute p, float64 (n, 2): the probabilities of two classes. K is 1. factor: 2 if raw is half the
// log-odds of the second class, 1 if it is the log-odds.
extern "C" __global__ void __launch_bounds__(LINK_THREADS, LINK_BLOCKS)
probabilities_of_odds(In<double> raw, int64 n, double factor, Out<double> p)
{
    const int64 row = own_place();
    if (row >= n) return;
    const double second = sigmoid(factor * raw[row]);
    p[2 * row] = 1.0 - second;
    p[2 * row + 1] = second;
}

// Compute p, float64 (n, K), K = n_columns: the probabilities of K classes, the softmax of raw.
extern "C" __global__ void __launch_bounds__(LINK_THREADS, LINK_BLOCKS)
probabilities_of_logs(In<double> raw, int64 n, int32 n_columns, Out<double> p)
{
    const int64 row = own_place();
    if (row >= n) return;
    const double* own = raw + row * n_columns;
    double* to = p + row * n_columns;
    double largest = own[0];
    for (int32 k = 1; k < n_columns; ++k) largest = own[k] > largest ? own[k] : largest;
    double total = softmax_weight(own[0], largest);
    to[0] = total;
    for (int32 k = 1; k < n_columns; ++k) {
        to[k] = softmax_weight(own[k], largest);
        total = total + to[k];
    }
    for (int32 k = 0; k < n_columns; ++k) to[k] = to[k] / total;
}

// Compute logs, float64 (n,): the logarithms of n probabilities, which can have any shape; minus
// infinity for 0, NaN for NaN.
extern "C" __global__ void __launch_bounds__(LINK_THREADS, LINK_BLOCKS)
logs_of_probabilities(In<double> p, int64 n, Out<double> logs)
{
    const int64 at = own_place();
    if (at >= n) return;
    const double own = p[at];
    const bool small = own < SMALL_PROBABILITY;  // the probability can be denormal
    const double found = natural_log(small ? own * LARGER : own) - (small ? LOG_OF_LARGER : 0.0);
    const double of_none = own == own ? __longlong_as_double(0xFFF0000000000000ll) : own;
    logs[at] = own > 0.0 ? found : of_none;
}
