// Radix select: find the smallest number of a group for which the numbers up to it have at least a
// given total weight, the goal. Nothing is sorted; the number is found digit by digit, leading
// digit first.
//
//   count     sum the weights of the candidates by their next digit; candidates are the numbers
//             that begin with the digits found so far
//   choose    find the first digit at which the running sum of weights, including those of all
//             smaller numbers, reaches the goal
//
//   numbers 12 17 21 23 30, of weight 1; goal 3
//   digit   1    2    3         weights   2  2  1       2 + 2 >= 3: the number begins with 2
//   digit   1    3              weights   1  1          2 + 1 >= 3: the number is 21
//
// How digits are counted depends on the size of groups: medians of nodes (level/median.cu) count a
// narrow digit in registers; quantiles of leaves (boosting/quantiles.cu) and drawn rows
// (sampling/draw.cu) count a wide digit in shared memory.

// The bits above the digit at `shift`, which is `bits` wide.
template <typename Number>
__device__ __forceinline__ Number bits_above(int32 shift, int32 bits)
{
    return ~(Number)0 << shift << bits;  // two shifts, because one by all bits is undefined
}

// Whether a number agrees with `found` in the bits of the mask `settled`.
template <typename Number>
__device__ __forceinline__ bool is_candidate(Number number, Number found, Number settled)
{
    return ((number ^ found) & settled) == 0;
}

// Weights by digit, read by a warp (LANES is WARP) or by one thread (LANES is 1): each lane has
// DIGITS / LANES contiguous digits.
struct DigitWeights {
    int64 before;  // weight of the digits of the lanes before this one
    int64 own;     // weight of the digits of this lane
    int64 all;     // weight of all digits
};

// Sum `counts` (DIGITS,), the weights of the candidates by digit. All lanes take part.
template <int32 LANES, int32 DIGITS, typename Count>
__device__ __forceinline__ DigitWeights digit_weights(const Count* counts)
{
    const int32 lane = threadIdx.x % LANES;
    int64 own = 0;
    #pragma unroll 16
    for (int32 i = 0; i < DIGITS / LANES; ++i) own += counts[lane * (DIGITS / LANES) + i];
    if (LANES == 1) return {0, own, own};
    const int64 until = warp_running_sum(own);
    return {until - own, own, __shfl_sync(FULL_MASK, until, WARP - 1)};
}

struct ChosenDigit {
    int32 digit;   // -1 if another lane has the digit; then the other fields are 0
    int64 below;   // weight of all numbers smaller than the candidates that have this digit
    int64 weight;  // weight of the candidates that have this digit
};

// The first digit for which `reached(weight up to and including the digit)` is true; `below` is the
// weight of the numbers smaller than all candidates. Sets the counts to zero.
template <int32 LANES, int32 DIGITS, typename Count, typename Reached>
__device__ __forceinline__ ChosenDigit next_digit(Count* counts, const DigitWeights& weights,
                                                  int64 below, const Reached& reached)
{
    const int32 lane = threadIdx.x % LANES, first = lane * (DIGITS / LANES);
    int64 sum = below + weights.before;
    const bool reached_before = lane > 0 && reached(sum);
    const bool is_own = !reached_before && reached(sum + weights.own);
    ChosenDigit chosen = {-1, 0, 0};
    #pragma unroll 8
    for (int32 i = 0; i < DIGITS / LANES; ++i) {
        const int64 weight = counts[first + i];
        counts[first + i] = 0;
        if (is_own && chosen.digit < 0 && reached(sum + weight)) chosen = {first + i, sum, weight};
        sum += weight;
    }
    return chosen;
}
