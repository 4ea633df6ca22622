// Medians of nodes: the sign of each row's deviation from its node's median, and sums of
// deviations.
//
//   row, weight   uint32 (n_rows,)  see shared_histogram.cuh
//   rank          int32 (n_outputs, n_rows)   ranks of the rows' targets among the distinct targets
//                                   of an output, from 0
//   heavy         int64 (rows of the matrix,)   weights in medians, read only if `has_heavy`;
//                                   otherwise, medians use the weights in the tree
//   n_pieces      int32 (1,)        number of pieces, at most the length of their arrays
//   slot, first, rows   int32, int64, int32 (pieces,)    node, position of the piece's first
//                                                        row, number of rows
//   lower, upper  int32 (nodes, n_outputs)   smallest ranks up to which the targets have at least
//                                   half (lower) and more than half (upper) of the node's weight
//
// `lower` is found by radix select, see radix_select.cuh. Digits are narrow, because deep levels
// have many nodes: a thread sums the weights of its rows by digit in registers.
//
// Launch, unless stated otherwise: any number of blocks of MEDIAN_THREADS threads, no shared
// memory; blocks loop over pieces with the stride of the grid.

#include "common/radix_select.cuh"

constexpr int32 MEDIAN_THREADS = 256;
constexpr int32 MEDIAN_BLOCKS = 4;  // per multiprocessor; more would spill registers
constexpr int32 SIGNS_BLOCKS = 8;   // per multiprocessor, for put_signs
constexpr int32 RANK_DIGIT_BITS = 3;
constexpr int32 RANK_DIGITS = 1 << RANK_DIGIT_BITS;
constexpr int32 NO_RANK = 0x7fffffff;
constexpr int64 NOT_FOUND = -1;

// Weights of rows in medians.
struct MedianWeights {
    In<uint32> row;
    In<uint32> weight;
    In<int64> heavy;
    bool has_heavy;

    __device__ __forceinline__ int64 at(int64 place) const
    {
        return has_heavy ? heavy[row[place]] : (int64)weight[place];
    }
};

// Sum the weights of the candidates by their digit at bit `shift`: counts int64 (nodes, n_outputs,
// RANK_DIGITS), zero before each launch.
extern "C" __global__ void __launch_bounds__(MEDIAN_THREADS, MEDIAN_BLOCKS)
count_ranks(In<uint32> row, In<uint32> weight, In<int32> rank, In<int64> heavy, int32 has_heavy,
            In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows, int64 n_rows,
            int32 n_outputs, int32 shift, In<int32> lower, Out<int64> counts)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const MedianWeights weights = {row, weight, heavy, has_heavy != 0};
        const int64 begin = first[piece], node = slot[piece];
        const int32 end = rows[piece];
        for (int32 k = 0; k < n_outputs; ++k) {
            const int64 cell = node * n_outputs + k;
            const int32* ranks = rank + k * n_rows + begin;
            const uint32 found = lower[cell], settled = bits_above<uint32>(shift, RANK_DIGIT_BITS);
            int64 sums[RANK_DIGITS];
            #pragma unroll
            for (int32 d = 0; d < RANK_DIGITS; ++d) sums[d] = 0;
            for (int32 at = threadIdx.x; at < end; at += MEDIAN_THREADS) {
                const uint32 number = ranks[at];
                if (!is_candidate(number, found, settled)) continue;
                const int64 own = weights.at(begin + at);
                const int32 digit = number >> shift & (RANK_DIGITS - 1);
                #pragma unroll
                for (int32 d = 0; d < RANK_DIGITS; ++d) sums[d] += digit == d ? own : 0;
            }
            #pragma unroll
            for (int32 d = 0; d < RANK_DIGITS; ++d) {
                add_warp(counts + cell * RANK_DIGITS + d, sums[d]);
            }
        }
    }
}

// Find the next digit of `lower`, which is zero before the first launch. Sets the counts to zero.
//
//   below         int64 (nodes, n_outputs)   weight of the ranks below all candidates; written by
//                                    each launch
//   total         int64 (nodes, n_outputs)   weight of the node; written by the first launch
//
// The last launch finds the digit at shift 0. If the ranks up to `lower` have more than half of the
// weight, it sets `upper` to `lower`. If they have exactly half, it sets `below` to NOT_FOUND and
// `upper` to NO_RANK, and find_next_ranks finds `upper`.
// Launch: blocks of MEDIAN_THREADS threads, one thread for each node and output.
extern "C" __global__ void __launch_bounds__(MEDIAN_THREADS, MEDIAN_BLOCKS)
choose_rank_digits(In<int32> size, int32 n_outputs, int32 shift, int32 is_first, Out<int64> counts,
                   Out<int64> below, Out<int64> total, Out<int32> lower, Out<int32> upper)
{
    const int64 cell = blockIdx.x * (int64)MEDIAN_THREADS + threadIdx.x;
    if (cell >= (int64)*size * n_outputs) return;
    int64* own = counts + cell * RANK_DIGITS;
    const DigitWeights weights = digit_weights<1, RANK_DIGITS>(own);
    const int64 all = is_first ? weights.all : total[cell];
    const ChosenDigit chosen = next_digit<1, RANK_DIGITS>(
        own, weights, is_first ? 0 : below[cell], [&](int64 sum) { return sum >= all - sum; });
    const int64 until = chosen.below + chosen.weight;
    const int32 found = lower[cell] | chosen.digit << shift;
    const bool is_half = shift == 0 && until == all - until;
    if (is_first) total[cell] = all;
    lower[cell] = found;
    upper[cell] = is_half ? NO_RANK : found;
    below[cell] = is_half ? NOT_FOUND : chosen.below;
}

// Set `upper` to the next rank above `lower` of a row of positive weight, if the ranks up to
// `lower` have exactly half of the node's weight.
extern "C" __global__ void __launch_bounds__(MEDIAN_THREADS, MEDIAN_BLOCKS)
find_next_ranks(In<uint32> row, In<uint32> weight, In<int32> rank, In<int64> heavy, int32 has_heavy,
                In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows, int64 n_rows,
                int32 n_outputs, In<int64> below, In<int32> lower, Out<int32> upper)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const MedianWeights weights = {row, weight, heavy, has_heavy != 0};
        const int64 begin = first[piece], node = slot[piece];
        const int32 end = rows[piece];
        for (int32 k = 0; k < n_outputs; ++k) {
            const int64 cell = node * n_outputs + k;
            if (below[cell] != NOT_FOUND) continue;
            const int32 minimum = lower[cell];
            int32 next = NO_RANK;
            for (int32 at = threadIdx.x; at < end; at += MEDIAN_THREADS) {
                const int32 own = rank[k * n_rows + begin + at];
                if (own > minimum && own < next && weights.at(begin + at) > 0) next = own;
            }
            if (next != NO_RANK) atomicMin(upper + cell, next);
        }
    }
}

__device__ __forceinline__ int32 side_of_median(int32 rank, int32 lower, int32 upper)
{
    return (int32)(rank >= upper) - (int32)(rank <= lower);
}

// Write sign, int32 (n_outputs, n_rows): the sign of each target's deviation from the median of its
// node, 0 at the median.
extern "C" __global__ void __launch_bounds__(MEDIAN_THREADS, SIGNS_BLOCKS)
put_signs(In<int32> rank, In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows,
          int64 n_rows, int32 n_outputs, In<int32> lower, In<int32> upper, Out<int32> sign)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int64 begin = first[piece], node = slot[piece];
        for (int32 k = 0; k < n_outputs; ++k) {
            const int32 low = lower[node * n_outputs + k], high = upper[node * n_outputs + k];
            const int64 to = k * n_rows + begin;
            for (int32 at = threadIdx.x; at < rows[piece]; at += MEDIAN_THREADS) {
                sign[to + at] = side_of_median(rank[to + at], low, high);
            }
        }
    }
}

// Sum a column of `wide` over the `end` rows of a piece, and add the result to `sum`, by one atomic
// per warp. Each term is multiplied by the row's sign unless `sign` is null, and by the row's
// weight if `draws`.
__device__ __forceinline__ void add_column(const int64* wide, int32 n_columns, int32 column,
                                           const uint32* row, const uint32* weight,
                                           const int32* sign, int32 end, bool draws, int64* sum)
{
    int64 own = 0;
    for (int32 at = threadIdx.x; at < end; at += MEDIAN_THREADS) {
        const int64 side = sign == nullptr ? 1 : sign[at];
        if (side == 0) continue;
        const int64 value = side * wide[row[at] * (int64)n_columns + column];
        own += draws ? value * weight[at] : value;
    }
    add_warp(sum, own);
}

// Compute sums, int64 (nodes, 6 K + 2) for K outputs, zero before the launch: see
// gpuboost/backends/protocol.py. wide int64 (rows of the matrix, 2 K + 2): two planes of each
// centred target and of the weight. start int64 (nodes,): position of each node's first row.
extern "C" __global__ void __launch_bounds__(MEDIAN_THREADS, MEDIAN_BLOCKS)
median_sums(In<uint32> row, In<uint32> weight, In<int32> sign, In<int64> wide, In<int32> n_pieces,
            In<int32> slot, In<int64> first, In<int32> rows, int64 n_rows, int32 n_outputs,
            In<int64> start, In<int32> lower, In<int32> upper, int32 draws, Out<int64> sums)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int64 begin = first[piece], node = slot[piece];
        const int32 end = rows[piece], n_columns = 2 * n_outputs + 2;
        int64* own = sums + node * (6 * n_outputs + 2);
        if (begin == start[node]) {
            for (int32 k = threadIdx.x; k < n_outputs; k += MEDIAN_THREADS) {
                own[2 * k] = lower[node * n_outputs + k];
                own[2 * k + 1] = upper[node * n_outputs + k];
            }
        }
        for (int32 at = 0; at < 4 * n_outputs + 2; ++at) {
            const int32 k = at / 4, plane = at % 4;
            const bool is_signed = k < n_outputs;
            const int32 column = is_signed && plane < 2 ? 2 * k + plane : 2 * n_outputs + plane % 2;
            const int32* side = is_signed ? sign + k * n_rows + begin : nullptr;
            add_column(wide, n_columns, column, row + begin, weight + begin, side, end, draws != 0,
                       own + 2 * n_outputs + at);
        }
    }
}
