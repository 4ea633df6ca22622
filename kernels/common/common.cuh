// Prelude of every kernel file: spliced in front of the source text before compilation, never
// included. It must compile under NVRTC and under g++ (tests/cuda_shim), so: no standard headers,
// no initialisers on __shared__, and integer types whose names give their width.

typedef signed char int8;
typedef unsigned char uint8;
typedef short int16;
typedef unsigned short uint16;
typedef int int32;
typedef unsigned int uint32;
typedef long long int64;
typedef unsigned long long uint64;

// An array that a kernel only reads (In), or that it writes and may also read (Out). No other
// pointer aliases it, with the harmless exceptions that tests/cuda_shim/aliases.py lists. In a
// struct member the compiler ignores `__restrict__`.
template <typename T>
using In = const T* __restrict__;
template <typename T>
using Out = T* __restrict__;

// Every lane of a warp, for __ballot_sync, __shfl_sync and similar functions.
#define FULL_MASK 0xffffffffu

// DYNAMIC_SHARED(int, histogram); declares `int* histogram`, the shared memory whose size the
// launch gives. A kernel uses it once, and cuts further arrays from it by pointer arithmetic.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name)                                          \
    extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];   \
    type* name = reinterpret_cast<type*>(dynamic_shared_bytes)
#endif

// ---- Constants shared with the host ------------------------------------------------------------
// They are copied from gpuboost/engine/task.py and criteria.py, except the numbers of words.

constexpr int32 MISSING_RIGHT = 0, MISSING_LEFT = 1, MISSING_UNSEEN = 2;
constexpr int32 ONE_HOT_CATEGORIES = 4;  // up to this many, a split separates one category
constexpr int32 ONLY_MISSING_RIGHT = -1;  // next bin of a split that sends every value left
constexpr int32 LEAF = -1;
constexpr double EPSILON = 2.220446049250313e-16;  // tolerance of min_impurity_decrease
constexpr int32 CODE_WORDS = 8;   // 32-bit words of a set of codes
constexpr int32 MASK_WORDS = 16;  // of a mask: the codes that go left, and the occupied codes

// ---- Compile-time constants --------------------------------------------------------------------

#ifndef GRADIENTS
#define GRADIENTS 0  // whether targets are gradients, which are not multiplied by weights
#endif
#ifndef BINARY_TARGETS
#define BINARY_TARGETS 0  // whether targets are 0 or 1
#endif
#ifndef CRITERION
#define CRITERION -1  // number of the only criterion; -1: all criteria that are not compiled apart
#endif
#ifndef MONOTONIC
#define MONOTONIC 0  // whether any feature is monotonic, so nodes have bounds; NEWTON only
#endif
#ifndef SCORED_TOGETHER
#define SCORED_TOGETHER 0  // number of classes per output if several outputs have classes, else 0
#endif
#ifndef RARE_CATEGORIES
#define RARE_CATEGORIES 0  // whether rare categories go where missing values go
#endif
#ifndef ALLOWED_BY_NODE
#define ALLOWED_BY_NODE 0  // whether allowed features differ between the nodes of a tree
#endif
#ifndef ALLOWED_BY_LEVEL
#define ALLOWED_BY_LEVEL 0  // whether allowed features change from level to level
#endif
#ifndef HASHED_ORDER
#define HASHED_ORDER 1  // whether each node searches features in a hashed order of its own
#endif

// ---- Random numbers: gpuboost/engine/randomness.py ---------------------------------------------

__device__ __forceinline__ uint64 mix(uint64 word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

// The index-th random word of a key.
__device__ __forceinline__ uint64 hash_index(uint64 key, uint64 index)
{
    return mix(key + (index + 1) * 0x9E3779B97F4A7C15ull);
}

// Purposes: the second word that is hashed into a key, one per use of random numbers.
constexpr int32 DRAW_ROWS = 2, KEEP_ROWS = 3, KEEP_FEATURES = 4, ROUND_WEIGHT = 5;
constexpr int32 ROUND_GRADIENT = 6;

// Key of one stream of random words; `index` is usually the number of the tree.
__device__ __forceinline__ uint64 stream_key(uint64 seed, int32 purpose, uint64 index)
{
    return hash_index(hash_index(seed, (uint64)purpose), index);
}

// A random word as a float64 in [0, 1).
__device__ __forceinline__ double uniform(uint64 word)
{
    return (double)(word >> 11) * 1.1102230246251565e-16;
}

// Keys of a node's children.
__device__ __forceinline__ uint64 left_key(uint64 key) { return mix(key ^ 0x8EBC6AF09C88C6E3ull); }
__device__ __forceinline__ uint64 right_key(uint64 key) { return mix(key ^ 0x589965CC75374CC3ull); }

// Sort key of a feature in the node's hashed order.
__device__ __forceinline__ uint64 feature_rank(uint64 key, uint64 feature)
{
    return (hash_index(key, feature) & 0xFFFFFFFF00000000ull) | feature;
}

constexpr uint64 EVERY_RANK = 0xffffffffffffffffull;  // above the rank of any feature

// Sort key of a feature in the node's order, which may be the order of feature numbers.
__device__ __forceinline__ uint64 order_rank(uint64 key, uint64 feature)
{
    return HASHED_ORDER ? feature_rank(key, feature) : feature;
}

// Key by which the features of a level are drawn.
__device__ __forceinline__ uint64 level_key(uint64 root_key, uint64 depth)
{
    return hash_index(root_key ^ 0xA0761D6478BD642Full, depth);
}

// Row of a node, or of its tree, in the mask of allowed features.
__device__ __forceinline__ int64 allowed_row(int32 node, int32 tree)
{
    return ALLOWED_BY_NODE ? node : tree;
}

// Relative position, in [0, 1), of a random threshold between a node's smallest and largest value.
__device__ __forceinline__ double threshold_draw(uint64 key, uint64 feature)
{
    return uniform(hash_index(key ^ 0x1D8E4E27C47D124Full, feature));
}

// Whether a random split sends missing values left.
__device__ __forceinline__ bool missing_goes_left(uint64 key, uint64 feature)
{
    return (hash_index(key ^ 0xC2B2AE3D27D4EB4Full, feature) & 1) != 0;
}

// Whether a random split of a categorical feature sends a code left.
__device__ __forceinline__ bool category_goes_left(uint64 key, uint64 feature, uint64 code)
{
    return (hash_index(hash_index(key ^ 0xEB44ACCAB455D165ull, feature), code) & 1) != 0;
}

// ---- Logarithm and exponential: gpuboost/engine/numerics.py, the same operations and order -----

// log(1 + f) - f + f * f / 2 for f from sqrt(1/2) - 1 to sqrt(2) - 1.
__device__ __forceinline__ double log_series(double f)
{
    const double s = f / (2.0 + f);
    const double z = s * s;
    double p = 1.531383769920937332e-01 + z * 1.479819860511658591e-01;
    p = 1.818357216161805012e-01 + z * p;
    p = 2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * p);
    p = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * p));
    return s * (0.5 * f * f + p);
}

// Natural logarithm of a normal positive float64.
__device__ __forceinline__ double natural_log(double x)
{
    const int64 bits = __double_as_longlong(x);
    const int64 mantissa = bits & 0xFFFFFFFFFFFFFll;
    const int64 above = mantissa >= 0x6A09E667F3BCDll ? 1 : 0;
    const double exponent = (double)((bits >> 52) - 1023 + above);
    const double m = __longlong_as_double(mantissa | (0x3FF0000000000000ll - (above << 52)));
    const double f = m - 1.0;
    const double half = 0.5 * f * f;
    return exponent * 6.93147180369123816490e-01
           - ((half - (log_series(f) + exponent * 1.90821492927058770002e-10)) - f);
}

// Binary logarithm of a normal positive float64.
__device__ __forceinline__ double binary_log(double x)
{
    const int64 bits = __double_as_longlong(x);
    const double exponent = (double)((bits >> 52) - 1022);
    const double mantissa
        = __longlong_as_double((bits & 0xFFFFFFFFFFFFFll) | 0x3FE0000000000000ll);
    return exponent + natural_log(mantissa) * 1.44269504088896338700e00;
}

// (1 + x) log(1 + x) - x for x >= -1: half the Poisson deviance of 1 + x from 1.
__device__ __forceinline__ double half_deviance(double x)
{
    if (fabs(x) < 0.25) {
        const double c = 0.5 * x * x - log_series(x);
        return (x * x - c) - x * c;
    }
    const double above = 1.0 + x, ratio = above > 1e-300 ? above : 1e-300;
    return ratio * natural_log(ratio) - x;
}

// Exponential of a float64; results below about 3e-308 are 0, results above the largest float64 are
// infinity, and NaN gives NaN.
__device__ __forceinline__ double natural_exp(double x)
{
    constexpr double smallest = -708.0, largest = 709.782712893384, whole = 6755399441055744.0;
    const double inside = x < smallest ? smallest : x > largest ? largest : x;
    const double shifted = inside * 1.44269504088896338700e00 + whole;
    const double k = shifted - whole;
    const double high = inside - k * 6.93147180369123816490e-01;
    const double low = k * 1.90821492927058770002e-10;
    const double r = high - low;
    double q = 2.5105259538448494e-08 + r * 2.0914717341716378e-09;
    q = 2.7557255297969643e-06 + r * (2.755727357010214e-07 + r * q);
    q = 1.984126987490126e-04 + r * (2.4801587325605324e-05 + r * q);
    q = 8.333333333326112e-03 + r * (1.388888888888373e-03 + r * q);
    q = 0.5 + r * (1.666666666666667e-01 + r * (4.166666666666667e-02 + r * q));
    const double p = 1.0 + (high + (r * r * q - low));
    const uint64 field = ((uint64)__double_as_longlong(shifted) << 52) + (1022ull << 52);
    const double result = (p + p) * __longlong_as_double((int64)field);
    if (x < smallest) return 0.0;
    if (x > largest) return __longlong_as_double(0x7FF0000000000000ll);
    return x == x ? result : __longlong_as_double(0x7FF8000000000000ll);
}

#include "common/criteria.cuh"

// ---- Sums in shared memory ---------------------------------------------------------------------

// Add to a number that is stored in two 32-bit halves, by atomics.
__device__ __forceinline__ void add_halves(uint32* low, uint32* high, int64 value)
{
    const uint32 part = (uint32)value;
    const uint32 before = atomicAdd(low, part);
    const uint32 carry = before + part < before ? 1u : 0u;
    const uint32 upper = (uint32)((uint64)value >> 32) + carry;
    if (upper != 0) atomicAdd(high, upper);
}

// ---- Sums in global memory ---------------------------------------------------------------------

__device__ __forceinline__ void add_to(int64* sum, int64 value)
{
    if (value != 0) atomicAdd((uint64*)sum, (uint64)value);
}

// ---- Over the lanes of a warp ------------------------------------------------------------------

constexpr int32 WARP = 32;

// Combine the numbers of all lanes, two at a time. Every lane must take part, and gets the result.
template <typename Number, typename Combine>
__device__ __forceinline__ Number warp_fold(Number value, const Combine& combine)
{
    #pragma unroll
    for (int32 step = WARP / 2; step > 0; step /= 2) {
        value = combine(value, __shfl_xor_sync(FULL_MASK, value, step));
    }
    return value;
}

template <typename Number>
__device__ __forceinline__ Number warp_sum(Number value)
{
    return warp_fold(value, [](Number a, Number b) { return a + b; });
}

template <typename Number>
__device__ __forceinline__ Number warp_min(Number value)
{
    return warp_fold(value, [](Number a, Number b) { return min(a, b); });
}

template <typename Number>
__device__ __forceinline__ Number warp_max(Number value)
{
    return warp_fold(value, [](Number a, Number b) { return max(a, b); });
}

// The sum over the lanes up to and including this one.
template <typename Number>
__device__ __forceinline__ Number warp_running_sum(Number value)
{
    const int32 lane = threadIdx.x % WARP;
    #pragma unroll
    for (int32 step = 1; step < WARP; step *= 2) {
        const Number before = __shfl_up_sync(FULL_MASK, value, step);
        if (lane >= step) value += before;
    }
    return value;
}

// Add the values of all lanes to a sum in global memory, by one atomic.
__device__ __forceinline__ void add_warp(int64* sum, int64 own)
{
    const int64 total = warp_sum(own);
    if (threadIdx.x % WARP == 0) add_to(sum, total);
}

// ---- Bisection ---------------------------------------------------------------------------------

// The first number in low, ..., high - 1 for which `before` is false, or `high` if there is none.
// `before` must be false for all larger numbers, too.
template <typename Int, typename Before>
__device__ __forceinline__ Int first_not(Int low, Int high, const Before& before)
{
    while (low < high) {
        const Int middle = low + (high - low) / 2;
        if (before(middle)) low = middle + 1;
        else high = middle;
    }
    return low;
}
