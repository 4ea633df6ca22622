// Rounds of gradient boosting: gradients and hessians of the loss, the rows of trees with their
// gradients and hessians as integers, and mean losses; K is the number of raw predictions of a row.
// The results equal those of ensembles/boosting.py and losses/averages.py in gpuboost/engine.
//
//   y           float64 (Y, n)      targets, Y is K or 1; for classifiers, class codes, Y is 1
//   raw         float64 (K, n)      raw predictions
//   weights     float64 (n,)        read only if `weighted`
//   parameter   float64 (K,)        parameter of the loss
//   gradient    float64 (K, n)      negative gradient of the loss times the weight
//   hessian     float64 (H, n)      hessian times the weight; H is K, or 1 if all columns share it
//   largest     uint64 (2,)         bit patterns of the largest absolute gradient and hessian
//   exponents   int32 (4,)          exponents of narrow and of wide integers, see rounds.cuh
//
// Launch, unless stated otherwise: one thread per row, in blocks of BOOST_THREADS; no
// dynamic shared memory. FORMULA is the number of the loss in losses.cuh.

#include "boosting/losses.cuh"
#include "common/block_rank.cuh"
#include "common/rounds.cuh"

#ifndef FORMULA
#define FORMULA 0
#endif

// Blocks per multiprocessor of kernels that compute the loss; more would spill registers.
constexpr int32 LOSS_BLOCKS = 3;
constexpr int32 LIST_PART = 4096;  // rows that a block counts or lists
// Bits of narrow gradients and hessians; at most VALUE_BITS of gradients if hessians are whole.
constexpr int32 GRADIENT_BITS = 24, HESSIAN_BITS = 16, VALUE_BITS = 28;
constexpr int32 EXACT_BITS = 53;  // sums of gradients below 2**53 are exact in float64
constexpr int32 MAX_UNIT = 800;  // largest absolute exponent of the unit of gains

// ---- Gradients ---------------------------------------------------------------------------------

// Targets and raw predictions of the rows that a loss is computed for.
struct LossRows {
    In<double> y;
    In<double> raw;
    In<double> parameter;
    int64 n;
    int32 n_outputs;  // columns of y
    int32 n_columns;  // of raw

    __device__ __forceinline__ double target(int64 row, int32 k) const
    {
        return y[(n_outputs == 1 ? 0 : k) * n + row];
    }
    __device__ __forceinline__ double prediction(int64 row, int32 k) const
    {
        return raw[k * n + row];
    }
};

// The largest raw prediction of a row, and the sum of its softmax weights.
struct SoftmaxSums {
    double largest;
    double total;
};

__device__ __forceinline__ SoftmaxSums softmax_sums(const LossRows& rows, int64 row)
{
    SoftmaxSums sums = {rows.prediction(row, 0), 0.0};
    for (int32 k = 1; k < rows.n_columns; ++k) {
        const double raw = rows.prediction(row, k);
        sums.largest = raw > sums.largest ? raw : sums.largest;
    }
    sums.total = softmax_weight(rows.prediction(row, 0), sums.largest);
    for (int32 k = 1; k < rows.n_columns; ++k) {
        sums.total = sums.total + softmax_weight(rows.prediction(row, k), sums.largest);
    }
    return sums;
}

__device__ __forceinline__ Derivatives derivatives_of(const LossRows& rows, const SoftmaxSums& sums,
                                                      int64 row, int32 k)
{
    const double parameter = rows.parameter[k];
    if (FORMULA == SOFTMAX) {
        const double weight = softmax_weight(rows.prediction(row, k), sums.largest);
        const double indicator = rows.target(row, 0) == (double)k ? 1.0 : 0.0;
        return softmax(indicator, weight / sums.total, parameter);
    }
    return derivatives(FORMULA, rows.target(row, k), rows.prediction(row, k), parameter);
}

// Compute the gradients and hessians of every row. largest must be zero before the launch;
// n_hessians is H.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, LOSS_BLOCKS)
differentiate(In<double> y, In<double> raw, In<double> weights, int32 weighted,
              In<double> parameter, int64 n, int32 n_outputs, int32 n_columns, int32 n_hessians,
              Out<double> gradient, Out<double> hessian, Out<uint64> largest)
{
    __shared__ uint64 of_warp[BOOST_WARPS];
    const LossRows rows = {y, raw, parameter, n, n_outputs, n_columns};
    const int64 row = row_of_thread();
    double steepest = 0.0, heaviest = 0.0;
    if (row < n) {
        const double weight = weighted != 0 ? weights[row] : 1.0;
        const SoftmaxSums sums
            = FORMULA == SOFTMAX ? softmax_sums(rows, row) : SoftmaxSums{0.0, 1.0};
        for (int32 k = 0; k < n_columns; ++k) {
            const Derivatives found = derivatives_of(rows, sums, row, k);
            const double g = -(found.gradient * weight), h = found.hessian * weight;
            gradient[k * n + row] = g;
            if (k < n_hessians) hessian[k * n + row] = h;
            steepest = max(steepest, fabs(g));
            heaviest = max(heaviest, h);
        }
    }
    update_largest(of_warp, largest, steepest);
    update_largest(of_warp, largest + 1, heaviest);
}

// Update largest[which] with the absolute values of the given numbers: gradients or hessians of a
// user-defined loss. Launch: one thread per number.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_largest(In<double> values, int64 n_values, int32 which, Out<uint64> largest)
{
    __shared__ uint64 of_warp[BOOST_WARPS];
    const int64 at = row_of_thread();
    update_largest(of_warp, largest + which, at < n_values ? fabs(values[at]) : 0.0);
}

// ---- Integers ----------------------------------------------------------------------------------

// Compute the exponents of the round, and convert parameters from units of the loss to integer
// units.
//
//   given       float64 (4,)        l1, l2, largest value, smallest hessian of a leaf
//   regular     float64 (3,)        l1, l2, largest value, in integer units
//   min_hessian int64 (1,)          smallest hessian of a leaf, in integer units, at least 1
//   unit        float64 (1,)        unit of gains
//
// There are at most 2**n_bits rows. `is_whole`: hessians are whole numbers. n_outputs: columns of a
// tree. Launch: one thread.
extern "C" __global__ void __launch_bounds__(1)
scale_round(In<uint64> largest, In<double> given, int32 n_bits, int32 is_whole, int32 n_outputs,
            Out<int32> exponents, Out<double> regular, Out<int64> min_hessian, Out<double> unit)
{
    const int32 steepest = exponent_above(largest[0]), heaviest = exponent_above(largest[1]);
    const int32 bits = is_whole != 0 ? min(VALUE_BITS, EXACT_BITS - n_bits) : GRADIENT_BITS;
    const int32 gradient = bits - steepest, hessian = is_whole != 0 ? 0 : HESSIAN_BITS - heaviest;
    exponents[NARROW_GRADIENT] = gradient;
    exponents[NARROW_HESSIAN] = hessian;
    exponents[WIDE_GRADIENT] = SUM_BITS - n_bits - steepest;
    exponents[WIDE_HESSIAN] = SUM_BITS - n_bits - heaviest;
    regular[0] = ldexp(given[0], gradient);
    regular[1] = ldexp(given[1], hessian);
    regular[2] = ldexp(given[2], gradient - hessian);
    const double minimum = ceil(ldexp(given[3], hessian));
    *min_hessian = max((int64)1, (int64)min(minimum, 1152921504606846976.0));  // at most 2^60
    const int32 square = -2 * (gradient - hessian);
    *unit = ldexp(1.0 / (double)n_outputs, min(max(square, -MAX_UNIT), MAX_UNIT));
}

// The rows that trees are grown on.
struct TrainingRows {
    In<uint32> drawn;    // draw counts; read only if `subset`
    In<double> weights;  // read only if `weighted`; rows of weight 0 are left out
    bool subset;
    bool weighted;

    __device__ __forceinline__ bool has(int64 row) const
    {
        return (!subset || drawn[row] != 0) && (!weighted || weights[row] > 0.0);
    }
};

// kept int64 (1, parts), zero before the launch: number of rows to list among each LIST_PART rows.
// Launch: one block per part.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
count_inside(In<uint32> drawn, int32 subset, In<double> weights, int32 weighted, int64 n,
             Out<int64> kept)
{
    const TrainingRows training = {drawn, weights, subset != 0, weighted != 0};
    const int64 first = (int64)blockIdx.x * LIST_PART, end = min(n, first + LIST_PART);
    int32 own = 0;
    for (int64 row = first + threadIdx.x; row < end; row += BOOST_THREADS) own += training.has(row);
    add_warp(kept + blockIdx.x, own);
}

// Gradients and hessians of the columns that a tree fits, as integers.
struct Quantiser {
    In<double> gradient;
    In<double> hessian;
    In<int32> whole;  // weights, read only if `is_whole`
    In<int32> exponents;
    int64 n;
    int32 n_outputs;   // columns of the tree
    int32 n_hessians;  // n_outputs, or 1
    bool is_shared;    // whether all trees share one hessian
    bool is_whole;

    // The mean hessian of a row over the tree's columns from `column` on, for scores of splits.
    __device__ __forceinline__ double shared_hessian(int64 row, int64 column) const
    {
        const double* own = hessian + column * n + row;
        double total = own[0];
        for (int32 k = 1; k < n_hessians; ++k) total = total + own[k * n];
        return total * (1.0 / (double)n_hessians);
    }
    __device__ __forceinline__ int32 narrow_gradient(int64 row, int64 column, double up) const
    {
        const double scaled = ldexp(gradient[column * n + row], exponents[NARROW_GRADIENT]);
        return (int32)(is_whole ? rint(scaled) : floor(scaled + up));
    }
    __device__ __forceinline__ uint32 weight(int64 row, int64 column, double down) const
    {
        if (is_whole) return (uint32)whole[row];
        const double scaled = ldexp(shared_hessian(row, column), exponents[NARROW_HESSIAN]);
        return (uint32)max((int32)floor(scaled + down), 1);
    }
};

// The rows of all trees, one tree after the other; columns of target are `target_stride` apart.
// wide is indexed by the row of X instead, and not written for rows that are not listed.
struct RoundRows {
    Out<uint32> row;
    Out<uint32> weight;
    Out<int32> target;
    Out<int64> wide;  // (T, n, n_outputs + n_hessians)
    int64 target_stride;
};

__device__ __forceinline__ void put_row(const RoundRows& rows, const Quantiser& made, int64 to,
                                        int64 tree, int64 column, int64 row, uint64 word)
{
    const double up = (double)(word >> 32) * 2.3283064365386963e-10;
    const double down = (double)(word & 0xffffffffull) * 2.3283064365386963e-10;
    const int64 of_hessian = made.is_shared ? 0 : column;
    rows.row[to] = (uint32)row;
    rows.weight[to] = made.weight(row, of_hessian, down);
    int64* planes = rows.wide + (tree * made.n + row) * (made.n_outputs + made.n_hessians);
    for (int32 k = 0; k < made.n_outputs; ++k) {
        rows.target[k * rows.target_stride + to] = made.narrow_gradient(row, column + k, up);
        const double g = made.gradient[(column + k) * made.n + row];
        planes[k] = (int64)rint(ldexp(g, made.exponents[WIDE_GRADIENT]));
    }
    for (int32 k = 0; k < made.n_hessians; ++k) {
        const double h = made.hessian[(of_hessian + k) * made.n + row];
        planes[made.n_outputs + k] = (int64)rint(ldexp(h, made.exponents[WIDE_HESSIAN]));
    }
}

// List the rows of T trees, in ascending order. trees uint64 (T,): their numbers in the fit. first
// int64 (parts,), count int64 (1,): number of rows before each part and in all parts, from
// roots.cu. count_out int64 (T,): count, for every tree. trees_per_round: K if each column has its
// own tree, or 1 if one tree fits all columns. is_shared: H is 1.
// Launch: grid (parts, T).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
list_round(In<uint64> trees, In<uint64> seed, In<uint32> drawn, int32 subset, In<double> weights,
           int32 weighted, In<int64> first, In<int64> count, In<double> gradient,
           In<double> hessian, In<int32> whole, int32 is_whole, In<int32> exponents, int64 n,
           int32 trees_per_round, int32 n_outputs, int32 n_hessians, int32 is_shared,
           int64 target_stride, Out<uint32> row_out, Out<uint32> weight_out, Out<int32> target_out,
           Out<int64> wide, Out<int64> count_out)
{
    __shared__ int32 listed_of_warp[BOOST_WARPS];
    const TrainingRows training = {drawn, weights, subset != 0, weighted != 0};
    const Quantiser made = {gradient,  hessian,    whole,          exponents,    n,
                             n_outputs, n_hessians, is_shared != 0, is_whole != 0};
    const RoundRows rows = {row_out, weight_out, target_out, wide, target_stride};
    const int64 tree = blockIdx.y, column = (int64)(trees[tree] % (uint64)trees_per_round);
    const uint64 key = stream_key(*seed, ROUND_GRADIENT, trees[tree]);
    const int64 begin = (int64)blockIdx.x * LIST_PART, end = min(n, begin + LIST_PART);
    int64 to = tree * *count + first[blockIdx.x];
    if (blockIdx.x == 0 && threadIdx.x == 0) count_out[tree] = *count;
    for (int64 start = begin; start < end; start += BOOST_THREADS) {
        const int64 row = start + threadIdx.x;
        const bool listed = row < end && training.has(row);
        const BlockRank rank = block_rank(listed_of_warp, listed);
        if (listed) {
            put_row(rows, made, to + rank.before, tree, column, row, hash_index(key, (uint64)row));
        }
        to += rank.all;
    }
}

// ---- Mean loss ---------------------------------------------------------------------------------

__device__ __forceinline__ double row_loss(const LossRows& rows, int64 row)
{
    if (FORMULA == SOFTMAX) {
        const SoftmaxSums sums = softmax_sums(rows, row);
        const double own = rows.prediction(row, (int32)rows.target(row, 0));
        return softmax_loss(own, sums.largest, sums.total);
    }
    double total = 0.0;
    for (int32 k = 0; k < rows.n_columns; ++k) {
        total = total + loss_value(FORMULA, rows.target(row, k), rows.prediction(row, k),
                                   rows.parameter[k]);
    }
    return total / (double)rows.n_columns;
}

// The sums for mean losses: losses times weights, and weights, of the rows that the round has
// drawn; then of the other rows. If all rows are drawn, only the first two are computed, and only
// the first if, in addition, rows have no weights.
constexpr int32 LOSSES_INSIDE = 0, WEIGHTS_INSIDE = 1, LOSSES_OUTSIDE = 2, WEIGHTS_OUTSIDE = 3;

// loss float64 (n,): loss of each row times its weight. drawn uint32 (n,): draw counts, read only
// if `subset`. largest uint64 (4,), zero before the launch: bit pattern of the largest absolute
// summand of each sum; rows that are not in the sum count as 0.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, LOSS_BLOCKS)
row_losses(In<double> y, In<double> raw, In<double> weights, int32 weighted, In<uint32> drawn,
           int32 subset, In<double> parameter, int64 n, int32 n_outputs, int32 n_columns,
           Out<double> loss, Out<uint64> largest)
{
    __shared__ uint64 of_warp[BOOST_WARPS];
    const LossRows rows = {y, raw, parameter, n, n_outputs, n_columns};
    const int64 row = row_of_thread();
    double own = 0.0, inside = 0.0, outside = 0.0;
    if (row < n) {
        const double weight = weighted != 0 ? weights[row] : 1.0;
        const bool is_inside = subset == 0 || drawn[row] != 0;
        own = row_loss(rows, row);
        inside = is_inside ? weight : 0.0;
        outside = is_inside ? 0.0 : weight;
        loss[row] = own * weight;
    }
    update_largest(of_warp, largest + LOSSES_INSIDE, fabs(own * inside));
    if (subset != 0 || weighted != 0) update_largest(of_warp, largest + WEIGHTS_INSIDE, inside);
    if (subset == 0) return;
    update_largest(of_warp, largest + LOSSES_OUTSIDE, fabs(own * outside));
    update_largest(of_warp, largest + WEIGHTS_OUTSIDE, outside);
}

// Sums of fixed-point numbers in two planes: sums int64 (4, 2), zero before the launch. Nothing is
// added if the largest summand is not finite. bits: as in `averages.plane_scales`.
// Launch: grid (any, number of sums to compute); threads loop over rows.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
sum_planes(In<double> loss, In<double> weights, int32 weighted, In<uint32> drawn, int32 subset,
           int64 n, In<uint64> largest, int32 bits, Out<int64> sums)
{
    const int32 which = blockIdx.y;
    if (largest[which] >= 0x7FF0000000000000ull) return;
    const bool of_weights = which == WEIGHTS_INSIDE || which == WEIGHTS_OUTSIDE;
    const bool of_drawn = which < LOSSES_OUTSIDE;
    const int32 exponent = bits - exponent_above(largest[which]), half = exponent >> 1;
    const double first = power_of_two(half), second = power_of_two(exponent - half);
    int64 high = 0, low = 0;
    const int64 step = (int64)gridDim.x * BOOST_THREADS;
    for (int64 row = row_of_thread(); row < n; row += step) {
        if ((subset == 0 || drawn[row] != 0) != of_drawn) continue;
        const double value = !of_weights ? loss[row] : weighted != 0 ? weights[row] : 1.0;
        const double scaled = value * first * second, leading = rint(scaled);
        high += (int64)leading;
        low += (int64)rint((scaled - leading) * power_of_two(bits));
    }
    add_warp(sums + 2 * which, high);
    add_warp(sums + 2 * which + 1, low);
}
