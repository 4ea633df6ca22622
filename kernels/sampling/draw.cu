// Draws the rows of trees: draw counts, weights, and the list of the rows of each tree. The results
// equal those of gpuboost/engine/sampling.py, for a batch of trees at once.
//
//   seed        uint64 (1,)     seed of the random numbers, hashed with their purpose and the
//                               number of the tree
//   trees       uint64 (T,)     numbers of the trees
//   drawn       uint32 (T, n)   draw counts (if trees use all rows, their whole weights, or 1);
//                               (1, n) with a `stride` of 0 if all trees share them, else `stride`
//                               is n
//   kept        int64 (T, parts)    number of rows of each part that are in the tree
//   order       uint32 (n,)     the order in which rows are listed, read only if `ordered`;
//                               otherwise, rows are listed by number
//   target, row_out, weight_out, target_out    see row_list.cuh
//
// Launch, unless stated otherwise: one block of DRAW_THREADS threads for each part of each tree;
// the blocks of the first tree come first. A part is PART contiguous rows or, if `ordered`, PART
// contiguous entries of `order`. No dynamic shared memory.

#include "common/block_rank.cuh"
#include "common/float_exponent.cuh"
#include "common/radix_select.cuh"
#include "sampling/row_list.cuh"

constexpr int32 DRAW_THREADS = 256;
constexpr int32 DRAW_WARPS = DRAW_THREADS / WARP;
constexpr int32 DRAW_BLOCKS = 4;  // per multiprocessor; more would spill registers
constexpr int32 PART = 4096;
constexpr int32 DIGIT_PART = 16384;  // for passes that end with a flush of DRAW_DIGITS counts

struct Part {
    int64 tree;
    int64 first;
    int64 end;
};

__device__ __forceinline__ Part part_of(int64 n_items, int64 size)
{
    const int64 parts = (n_items + size - 1) / size;
    const int64 tree = blockIdx.x / parts, first = (blockIdx.x - tree * parts) * size;
    return {tree, first, min(n_items, first + size)};
}

// ---- With replacement --------------------------------------------------------------------------

// The index of the first of entries low, ..., high - 1 of a running sum that is above `value`, or
// high if there is none.
__device__ __forceinline__ int64 first_above(In<uint64> sum, int64 low, int64 high, uint64 value)
{
    return first_not(low, high, [&](int64 entry) { return __ldg(sum + entry) <= value; });
}

// Draw rows with equal probability: add the draws to `drawn`, zero before the launch. A part is
// PART draws.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
draw_uniform(In<uint64> trees, In<uint64> seed, int64 n_samples, int64 n_draws, Out<uint32> drawn)
{
    const Part part = part_of(n_draws, PART);
    const uint64 key = stream_key(*seed, DRAW_ROWS, trees[part.tree]);
    for (int64 draw = part.first + threadIdx.x; draw < part.end; draw += DRAW_THREADS) {
        const uint64 row = __umul64hi(hash_index(key, draw), n_samples);
        atomicAdd(drawn + part.tree * n_samples + row, 1u);
    }
}

// Make a guide to the rows at which searches in the running sum begin and end: guide[j] is the row
// drawn by the smallest random word with leading bits j, and guide[last] is the last row.
//
//   cumulative uint64 (n,)    running sum of fixed-point weights
//   guide uint32 (last + 1,)  `last` is a power of two, 2**(64 - shift)
//
// Launch: one thread per entry, in blocks of DRAW_THREADS.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
make_guide(In<uint64> cumulative, int64 n_samples, int32 shift, int64 last, Out<uint32> guide)
{
    const int64 j = (int64)blockIdx.x * DRAW_THREADS + threadIdx.x;
    if (j > last) return;
    const uint64 total = cumulative[n_samples - 1];
    const uint64 smallest = __umul64hi((uint64)j << shift, total);
    const bool inside = j < last;
    guide[j] = (uint32)(inside ? first_above(cumulative, 0, n_samples, smallest) : n_samples - 1);
}

// Draw rows with probabilities proportional to their weights: add the draws to `drawn`, zero before
// the launch. A part is PART draws.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
draw_weighted(In<uint64> trees, In<uint64> seed, In<uint64> cumulative, In<uint32> guide,
              int32 shift, int64 n_samples, int64 n_draws, Out<uint32> drawn)
{
    const Part part = part_of(n_draws, PART);
    const uint64 key = stream_key(*seed, DRAW_ROWS, trees[part.tree]);
    const uint64 total = cumulative[n_samples - 1];
    for (int64 draw = part.first + threadIdx.x; draw < part.end; draw += DRAW_THREADS) {
        const uint64 word = hash_index(key, draw), j = word >> shift;
        const int64 low = __ldg(guide + j), high = __ldg(guide + j + 1);
        const int64 row = first_above(cumulative, low, high, __umul64hi(word, total));
        atomicAdd(drawn + part.tree * n_samples + row, 1u);
    }
}

// ---- Without replacement: the rows with the smallest keys --------------------------------------
//
// Rows are ordered by their keys, then by their numbers, so no two rows tie. The last row that is
// drawn is found by radix select, see radix_select.cuh: first the digits of its key, then the
// digits of its number. A candidate is a row whose digits agree with those found so far.
//
//   last     uint64 (T, 2)    key and number of the last row drawn: the digits found so far, then
//                             zeros; once all candidates are drawn, ones
//   wanted   int64 (T,)       number of rows to draw from the candidates; 0: `last` is complete
//   settled  mask of the bits that have been found, of the key or, with `of_row`, of the number
//   shift    position of the lowest bit of the next digit
//   weights  float64 (n,)     weights of the rows, read only if `weighted`
//   digits   uint32 (T, DRAW_DIGITS)    number of candidates by next digit; zero before the first
//                             launch

constexpr int32 DRAW_DIGITS = 2048;
constexpr double HALF_STEP = 5.551115123125783e-17;  // 2**-54: added to uniform numbers, to avoid 0

// Sort key of a row: a random word or, if `weighted`, the bits of an exponentially distributed
// float64 whose rate is the row's weight (infinity for weight 0).
__device__ __forceinline__ uint64 order_key(uint64 key, int64 row, In<double> weights,
                                            bool weighted)
{
    const uint64 word = hash_index(key, row);
    if (!weighted) return word;
    const double weight = weights[row];
    if (!(weight > 0.0)) return 0x7FF0000000000000ull;
    const double order = -natural_log(uniform(word) + HALF_STEP) / weight;
    return (uint64)__double_as_longlong(order + 0.0);  // not -0.0, whose bits would sort last
}

// Count the candidates by their next digit. A part is DIGIT_PART rows.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
count_digits(In<uint64> trees, In<uint64> seed, In<double> weights, int32 weighted, int64 n_samples,
             In<uint64> last, In<int64> wanted, uint64 settled, int32 shift, int32 of_row,
             Out<uint32> digits)
{
    __shared__ uint32 count[DRAW_DIGITS];
    const Part part = part_of(n_samples, DIGIT_PART);
    if (wanted[part.tree] == 0) return;
    for (int32 d = threadIdx.x; d < DRAW_DIGITS; d += DRAW_THREADS) count[d] = 0;
    __syncthreads();
    const uint64 key = stream_key(*seed, KEEP_ROWS, trees[part.tree]);
    const uint64 last_key = last[2 * part.tree], last_row = last[2 * part.tree + 1];
    for (int64 row = part.first + threadIdx.x; row < part.end; row += DRAW_THREADS) {
        const uint64 order = order_key(key, row, weights, weighted != 0);
        const uint64 number = of_row ? (uint64)row : order;
        const uint64 begin = of_row ? last_row : last_key;
        if (!is_candidate(number, begin, settled) || (of_row && order != last_key)) continue;
        atomicAdd(&count[number >> shift & (DRAW_DIGITS - 1)], 1u);
    }
    __syncthreads();
    for (int32 d = threadIdx.x; d < DRAW_DIGITS; d += DRAW_THREADS) {
        if (count[d] != 0) atomicAdd(digits + part.tree * DRAW_DIGITS + d, count[d]);
    }
}

// Find the next digit of `last`. Launch: one block of one warp per tree. Sets `digits` to zero.
extern "C" __global__ void __launch_bounds__(WARP)
choose_digit(Out<uint32> digits, Out<uint64> last, Out<int64> wanted, int32 shift, int32 of_row)
{
    const int64 tree = blockIdx.x;
    const int64 goal = wanted[tree];
    if (goal == 0) return;
    __syncwarp();  // one lane writes what all have read
    uint32* own = digits + tree * DRAW_DIGITS;
    const DigitWeights counts = digit_weights<WARP, DRAW_DIGITS>(own);
    const ChosenDigit chosen = next_digit<WARP, DRAW_DIGITS>(
        own, counts, 0, [&](int64 sum) { return sum >= goal; });
    if (chosen.digit < 0) return;
    const int64 rest = goal - chosen.below;
    const bool all = rest == chosen.weight;  // whether all rows with these digits are drawn
    uint64* number = last + 2 * tree + (of_row ? 1 : 0);
    *number |= (uint64)chosen.digit << shift | (all ? (1ull << shift) - 1 : 0);
    if (all && !of_row) last[2 * tree + 1] = ~0ull;
    wanted[tree] = all ? 0 : rest;
}

// Write drawn: 1 for the rows up to `last`, the rows with the smallest keys, else 0.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
mark_smallest(In<uint64> trees, In<uint64> seed, In<double> weights, int32 weighted,
              int64 n_samples, In<uint64> last, Out<uint32> drawn)
{
    const Part part = part_of(n_samples, PART);
    const uint64 key = stream_key(*seed, KEEP_ROWS, trees[part.tree]);
    const uint64 last_key = last[2 * part.tree], last_row = last[2 * part.tree + 1];
    for (int64 row = part.first + threadIdx.x; row < part.end; row += DRAW_THREADS) {
        const uint64 order = order_key(key, row, weights, weighted != 0);
        const bool in_tree = order < last_key || (order == last_key && (uint64)row <= last_row);
        drawn[part.tree * n_samples + row] = in_tree;
    }
}

// ---- Real-valued weights -----------------------------------------------------------------------
//
// The weight of a row in a tree is its draw count times its factor times the weight of its class.
//
//   factor         float64 (n,)             factors of the rows
//   code           int32 (n,)               classes of the rows; not read if n_classes is 1
//   class_weight   float64 (T, n_classes)   weights of the classes in each tree

constexpr int32 CLASS_COUNTS = 1024;

struct Weights {
    In<uint32> drawn;
    int64 stride;
    In<double> factor;
    In<int32> code;
    In<double> class_weight;
    int32 n_classes;
};

__device__ __forceinline__ double row_weight(const Weights& weights, int64 tree, int64 row)
{
    const int32 code = weights.n_classes == 1 ? 0 : weights.code[row];
    return (double)weights.drawn[tree * weights.stride + row] * weights.factor[row]
           * weights.class_weight[tree * weights.n_classes + code];
}

// Count the draws of each class: in_class int64 (T, n_classes), zero before the launch. The trees
// must not share draw counts. Launch: grid (parts of all trees, ranges of CLASS_COUNTS classes).
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
count_classes(In<uint32> drawn, In<int32> code, int64 n_samples, int32 n_classes,
              Out<int64> in_class)
{
    __shared__ uint32 count[CLASS_COUNTS];
    for (int32 c = threadIdx.x; c < CLASS_COUNTS; c += DRAW_THREADS) count[c] = 0;
    __syncthreads();
    const Part part = part_of(n_samples, PART);
    const int32 first_class = blockIdx.y * CLASS_COUNTS;
    for (int64 row = part.first + threadIdx.x; row < part.end; row += DRAW_THREADS) {
        const uint32 c = (uint32)(code[row] - first_class);
        const uint32 draws = drawn[part.tree * n_samples + row];
        if (c < (uint32)CLASS_COUNTS && draws != 0) atomicAdd(&count[c], draws);
    }
    __syncthreads();
    const int32 end = min(CLASS_COUNTS, n_classes - first_class);
    for (int32 c = threadIdx.x; c < end; c += DRAW_THREADS) {
        add_to(in_class + part.tree * n_classes + first_class + c, count[c]);
    }
}

// ---- The list of a tree's rows -----------------------------------------------------------------

// Count the rows of each part that are drawn. kept: zero before the launch, also for
// count_weighted.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
count_drawn(In<uint32> drawn, int64 stride, In<uint32> order, int32 ordered, int64 n_samples,
            Out<int64> kept)
{
    const Order listed = {order, ordered != 0};
    const Part part = part_of(n_samples, PART);
    int32 own = 0;
    for (int64 place = part.first + threadIdx.x; place < part.end; place += DRAW_THREADS) {
        own += drawn[part.tree * stride + listed.row(place)] != 0;
    }
    add_warp(kept + blockIdx.x, own);
}

// Count the rows of each part that have positive weight, and find the largest weight of each tree:
// largest uint64 (T,), its bit pattern as float64; zero before the launch.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
count_weighted(In<uint32> drawn, int64 stride, In<double> factor, In<int32> code,
               In<double> class_weight, int32 n_classes, In<uint32> order, int32 ordered,
               int64 n_samples, Out<int64> kept, Out<uint64> largest)
{
    const Weights weights = {drawn, stride, factor, code, class_weight, n_classes};
    const Order listed = {order, ordered != 0};
    const Part part = part_of(n_samples, PART);
    int32 own = 0;
    double max_weight = 0.0;
    for (int64 place = part.first + threadIdx.x; place < part.end; place += DRAW_THREADS) {
        const double weight = row_weight(weights, part.tree, listed.row(place));
        own += weight > 0.0;
        max_weight = max(max_weight, weight);
    }
    add_warp(kept + blockIdx.x, own);
    max_weight = warp_max(max_weight);
    if (threadIdx.x % WARP == 0) {
        atomicMax(largest + part.tree, (uint64)__double_as_longlong(max_weight));
    }
}

// List the rows that are drawn, with their draw counts as weights. first int64 (T, parts): position
// of each part's first row in the list, from roots.cu.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
list_drawn(In<uint32> drawn, int64 stride, In<int64> first, In<uint32> order, int32 ordered,
           In<int32> target, int64 n_samples, int32 n_columns, int64 target_stride,
           Out<uint32> row_out, Out<uint32> weight_out, Out<int32> target_out)
{
    __shared__ int32 listed_of_warp[DRAW_WARPS];
    const RowList rows = {target, n_samples, n_columns, target_stride,
                          row_out, weight_out, target_out};
    const Order listed = {order, ordered != 0};
    const Part part = part_of(n_samples, PART);
    int64 to = first[blockIdx.x];
    for (int64 start = part.first; start < part.end; start += DRAW_THREADS) {
        const int64 place = start + threadIdx.x;
        const int64 row = place < part.end ? listed.row(place) : 0;
        const uint32 weight = place < part.end ? drawn[part.tree * stride + row] : 0;
        const BlockRank rank = block_rank(listed_of_warp, weight != 0);
        if (weight != 0) write_row(rows, to + rank.before, row, weight);
        to += rank.all;
    }
}

// List the rows of positive weight. Weights are scaled by 2**exponent[tree], then rounded up or
// down at random, by a hash of the row, without bias. With own_sums, also write the columns that
// leaf sums are computed from, which differ between trees: wide int64 (T, n, 2), two planes of the
// weights of listed rows, scaled by 2**high and 2**(high + low); other rows are not written.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS, DRAW_BLOCKS)
list_weighted(In<uint64> trees, In<uint64> seed, In<uint32> drawn, int64 stride, In<double> factor,
              In<int32> code, In<double> class_weight, int32 n_classes, In<int32> exponent,
              In<int64> first, In<uint32> order, int32 ordered, In<int32> target, int64 n_samples,
              int32 n_columns, int64 target_stride, int32 own_sums, int32 high, int32 low,
              Out<int64> wide, Out<uint32> row_out, Out<uint32> weight_out, Out<int32> target_out)
{
    __shared__ int32 listed_of_warp[DRAW_WARPS];
    const Weights weights = {drawn, stride, factor, code, class_weight, n_classes};
    const RowList rows = {target, n_samples, n_columns, target_stride,
                          row_out, weight_out, target_out};
    const Order listed = {order, ordered != 0};
    const Part part = part_of(n_samples, PART);
    const uint64 key = stream_key(*seed, ROUND_WEIGHT, trees[part.tree]);
    int64 to = first[blockIdx.x];
    for (int64 start = part.first; start < part.end; start += DRAW_THREADS) {
        const int64 place = start + threadIdx.x;
        const int64 row = place < part.end ? listed.row(place) : 0;
        const double weight = place < part.end ? row_weight(weights, part.tree, row) : 0.0;
        const BlockRank rank = block_rank(listed_of_warp, weight > 0.0);
        if (weight > 0.0) {
            const double lifted =
                scaled(weight, exponent[part.tree]) + uniform(hash_index(key, row));
            write_row(rows, to + rank.before, row, (uint32)floor(lifted));
            if (own_sums) {
                const double fixed = scaled(weight, high), leading = rint(fixed);
                int64* planes = wide + 2 * (part.tree * n_samples + row);
                planes[0] = (int64)leading;
                planes[1] = (int64)rint(scaled(fixed - leading, low));
            }
        }
        to += rank.all;
    }
}
