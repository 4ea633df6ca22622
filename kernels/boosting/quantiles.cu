// Weighted quantiles of groups of numbers. The results equal those of
// gpuboost/engine/order_statistics.py.
//
// Quantiles are found by radix select, see radix_select.cuh, eight bits at a time.
//
//   key       uint64 (r,)           numbers as ordered integers
//   weight    int64 (r,)            read only if `weighted`; else each number counts once
//   n_pieces  int32 (1,)            number of pieces, at most the length of their arrays
//   slot, first, rows   int32, int64, int32 (pieces,)    group, first number, count of numbers
//   size      int32 (1,)            number of groups, at most g
//   quantile_level   float64 (g,)   quantile level of the group
//   prefix    uint64 (g,)           digits found so far
//   below     int64 (g,)            weight of the numbers below all candidates
//   total     int64 (g,)            weight of the group
//   more      uint8 (g,)            whether the numbers up to the one found have exactly the goal
//                                   weight, so that the quantile also depends on the next number
//   above     uint64 (g,)           the next number, if `more`; BEYOND if there is none
//   counts    int64 (., KEY_DIGITS) weights by digit, of GROUPS_AT_ONCE groups from first_group on;
//                                   zero before the first digit, and again after each choice
//
// Launch over pieces: any number of blocks of BOOST_THREADS threads; blocks loop over pieces.
// Launch over groups: one thread per group, in blocks of BOOST_THREADS. No dynamic shared memory.

#include "boosting/quantiles.cuh"
#include "common/radix_select.cuh"

constexpr int32 KEY_DIGIT_BITS = 8;
constexpr int32 KEY_DIGITS = 256;
constexpr int32 FIRST_SHIFT = 56;      // shift of the first digit
constexpr int32 GROUPS_AT_ONCE = 65536;  // capacity of `counts`
constexpr int32 GROUPS_OF_BLOCK = BOOST_THREADS / WARP;
constexpr uint64 BEYOND = 0xffffffffffffffffull;  // no number has these bits

// ---- Digits ------------------------------------------------------------------------------------

// Count, for each group, the weights of the candidates by their digit at `shift`.
// Launch: over pieces.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
count_key_digits(In<uint64> key, In<int64> weight, int32 weighted, In<int32> n_pieces,
                 In<int32> slot, In<int64> first, In<int32> rows, In<uint64> prefix, int32 shift,
                 int32 first_group, Out<int64> counts)
{
    __shared__ uint32 low[KEY_DIGITS];
    __shared__ uint32 high[KEY_DIGITS];
    const Numbers numbers = {key, weight, weighted != 0};
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int32 group = slot[piece];
        if (group < first_group || group - first_group >= GROUPS_AT_ONCE) continue;
        const int64 begin = first[piece], end = begin + rows[piece];
        const uint64 found = shift == FIRST_SHIFT ? 0 : prefix[group];
        const uint64 settled = bits_above<uint64>(shift, KEY_DIGIT_BITS);
        int64* own = counts + (int64)(group - first_group) * KEY_DIGITS;
        for (int32 digit = threadIdx.x; digit < KEY_DIGITS; digit += BOOST_THREADS) {
            low[digit] = 0;
            high[digit] = 0;
        }
        __syncthreads();
        for (int64 at = begin + threadIdx.x; at < end; at += BOOST_THREADS) {
            const uint64 number = key[at];
            if (!is_candidate(number, found, settled)) continue;
            const int32 digit = (int32)(number >> shift & (KEY_DIGITS - 1));
            add_halves(low + digit, high + digit, numbers.weight_of(at));
        }
        __syncthreads();
        for (int32 digit = threadIdx.x; digit < KEY_DIGITS; digit += BOOST_THREADS) {
            add_to(own + digit, (int64)((uint64)high[digit] << 32 | low[digit]));
        }
    }
}

// Find the digit at `shift` of the smallest number such that the numbers up to it have at least the
// fraction `quantile_level` of the group's weight.
// Launch: any number of blocks of BOOST_THREADS threads; warps loop over groups.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
choose_key_digits(In<int32> size, In<double> quantile_level, int32 shift, Out<uint64> prefix,
                  Out<int64> below, Out<int64> total, Out<uint8> more, Out<uint64> above,
                  int32 first_group, Out<int64> counts)
{
    const int32 warp = threadIdx.x / WARP;
    const int32 n_groups = min(*size - first_group, GROUPS_AT_ONCE);
    const int32 step_of_grid = (int32)gridDim.x * GROUPS_OF_BLOCK;
    for (int32 at = (int32)blockIdx.x * GROUPS_OF_BLOCK + warp; at < n_groups; at += step_of_grid) {
        const int32 group = first_group + at;
        int64* own = counts + (int64)at * KEY_DIGITS;
        const DigitWeights weights = digit_weights<WARP, KEY_DIGITS>(own);
        const bool is_first = shift == FIRST_SHIFT;
        const int64 all = is_first ? weights.all : total[group];
        const int64 before = is_first ? 0 : below[group];
        const double cut = (double)all * quantile_level[group];
        __syncwarp();  // one lane writes what all have read
        const ChosenDigit chosen = next_digit<WARP, KEY_DIGITS>(
            own, weights, before, [&](int64 sum) { return (double)sum >= cut; });
        if (chosen.digit < 0) continue;
        const uint64 whole = (uint64)chosen.digit << shift;
        prefix[group] = is_first ? whole : prefix[group] | whole;
        below[group] = chosen.below;
        if (is_first) total[group] = all;
        if (shift != 0) continue;
        more[group] = (double)(chosen.below + chosen.weight) <= cut;
        above[group] = BEYOND;
    }
}

// Find, for groups with `more`, the next number of positive weight after the one found.
// Launch: over pieces.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_above(In<uint64> key, In<int64> weight, int32 weighted, In<int32> n_pieces, In<int32> slot,
           In<int64> first, In<int32> rows, In<uint64> prefix, In<uint8> more, Out<uint64> above)
{
    const Numbers numbers = {key, weight, weighted != 0};
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int32 group = slot[piece];
        if (more[group] == 0) continue;
        const int64 begin = first[piece], end = begin + rows[piece];
        const uint64 found = prefix[group];
        uint64 next = BEYOND;
        for (int64 at = begin + threadIdx.x; at < end; at += BOOST_THREADS) {
            const uint64 own = key[at];
            if (own > found && own < next && numbers.weight_of(at) > 0) next = own;
        }
        next = warp_min(next);
        if (threadIdx.x % WARP == 0 && next != BEYOND) atomicMin(above + group, next);
    }
}

// quantile float64 (g,): the number found; with `more`, midway between it and the next number, if
// there is one; 0 for a group of weight 0.
// Launch: over groups.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
take_quantiles(In<int32> size, In<int64> total, In<uint64> prefix, In<uint8> more, In<uint64> above,
               Out<double> quantile)
{
    const int64 group = row_of_thread();
    if (group >= *size) return;
    const double lower = number_of(prefix[group]);
    const bool one = more[group] == 0 || above[group] == BEYOND;
    const double upper = one ? lower : number_of(above[group]);
    const double middle = lower == upper ? lower : 0.5 * lower + 0.5 * upper;
    quantile[group] = (total[group] > 0 ? middle : 0.0) + 0.0;
}

// ---- Absolute residuals ------------------------------------------------------------------------

// key (K, n): the absolute residuals of all rows. Launch: grid (rows, K).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
key_sizes(In<double> y, In<double> raw, int64 n, int32 n_outputs, Out<uint64> key)
{
    const Residuals residuals = {y, raw, n, n_outputs};
    const int64 row = row_of_thread();
    if (row >= n) return;
    key[blockIdx.y * n + row] = key_of(fabs(residuals.of(row, blockIdx.y)));
}
