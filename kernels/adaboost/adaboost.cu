// Rounds of AdaBoost: the predictions of a tree, its error, the weights of the next round, and rows
// drawn by these weights. The results equal those of gpuboost/engine/ensembles/adaboost.py.
//
//   weights     float64 (n,)      row weights; they add up to 1, and zero weights stay zero
//   wrong       uint8 (n,)        whether the tree predicts a wrong class for a row
//   loss        float64 (n,)      for regression, losses from 0 to 1; -1 for rows of weight zero
//   sums        int64 (3,)        fixed-point sums: weights of misclassified rows (for regression,
//                                 weights times losses), and all weights; for regression, the third
//                                 number is `largest` of find_misses and evaluate_values
//   largest     uint64 (1,)       bit pattern of the largest absolute error (find_misses), or of
//                                 the largest weight (find_heaviest)
//   factors     float64 (2,)      factors of the weights of rows classified right and wrong. For
//                                 regression only the first is used: the weight of a row with loss
//                                 L is multiplied by exp((L - 1) * factor), then normalised
//
// `sums` and `largest` are zero before a kernel adds to them or raises them.
//
// Launch, unless stated otherwise: any number of blocks of BOOST_THREADS threads, which loop over
// rows with the stride of the grid; no dynamic shared memory.

#include "common/goes_left.cuh"
#include "common/rounds.cuh"
#include "common/running_sum.cuh"
#include "growth/node_buffer.cuh"

constexpr double FIXED_POINT = 2305843009213693952.0;  // 2**61
constexpr double MIN_WEIGHT = 6.223015277861142e-61;  // 2**-200
constexpr int32 LINEAR = 0, SQUARE = 1, EXPONENTIAL = 2;
constexpr int32 SUMS = 3;  // both sums, and the largest number
constexpr int32 WEIGHT_PART = 4096;  // rows whose running sum a block computes

__device__ __forceinline__ int64 fixed_point(double weight)
{
    return (int64)rint(weight * FIXED_POINT);
}

// Indices of the numbers of nodes and masks in the table of one tree.
constexpr int32 NODES = 2 * NODE_ROW + 1, MASKS = 2 * MASK_ROW + 1;

__device__ __forceinline__ int64 threads_of_grid() { return (int64)gridDim.x * BOOST_THREADS; }

// ---- Predictions of a tree ---------------------------------------------------------------------

// A packed node is a record of four words:
//
//   x   left child, 0 in leaves
//   y   feature
//   z   largest code that goes left, and flags above its bits
//   w   row of `masks` of a categorical split; in a leaf the predicted class (the first one if
//       several are equally probable; 0 in a regression)
constexpr uint32 CODE_OF_SPLIT = 0xff, MISSING_GOES_LEFT = 0x100, BY_MASK = 0x200;

// Pack the nodes of a tree, and set the sums to zero. packed uint32 (m, 4): the packed nodes,
// aligned to 16 bytes. table, feature, ..., value: the tree, from finish.cu; values are class
// probabilities if `by_class`.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
pack_tree(In<int64> table, int32 has_masks, int32 by_class, int32 n_values, In<int32> feature,
          In<uint8> code, In<uint8> missing_left, In<int32> left, In<int32> category,
          In<double> value, Out<uint32> packed, Out<int64> sums)
{
    if (row_of_thread() < SUMS) sums[row_of_thread()] = 0;
    const int64 n_nodes = table[NODES];
    for (int64 node = row_of_thread(); node < n_nodes; node += threads_of_grid()) {
        const int32 child = left[node];
        const int32 row = has_masks != 0 ? category[node] : -1;
        uint32 split = code[node], predicted = (uint32)row;
        if (missing_left[node] != 0) split |= MISSING_GOES_LEFT;
        if (row >= 0) split |= BY_MASK;
        if (child == 0) {
            predicted = 0;
            const double* own = value + node * n_values;
            for (int32 k = 1; by_class != 0 && k < n_values; ++k) {
                if (own[k] > own[predicted]) predicted = k;
            }
        }
        reinterpret_cast<uint4*>(packed)[node] = make_uint4(child, feature[node], split, predicted);
    }
}

// The split of a packed node by codes, for `goes_left`.
struct PackedSplit {
    const uint4& node;
    uint32 missing_code;
    In<uint32> masks;

    __device__ __forceinline__ bool is_missing(uint32 code) const { return code == missing_code; }
    __device__ __forceinline__ bool missing_left() const { return node.z & MISSING_GOES_LEFT; }
    __device__ __forceinline__ bool is_categorical() const { return (node.z & BY_MASK) != 0; }
    __device__ __forceinline__ bool in_set(uint32 code) const
    {
        return has_code(__ldg(masks + (int64)node.w * CODE_WORDS + code / WARP), code);
    }
    __device__ __forceinline__ bool at_most(uint32 code) const
    {
        return code <= (node.z & CODE_OF_SPLIT);
    }
};

// A packed tree, and the codes of the rows that traverse it, uint8 (F, n).
struct PackedTree {
    In<uint8> codes;
    int64 n;
    uint32 missing_code;
    In<uint32> packed;
    In<uint32> masks;  // (., CODE_WORDS)

    __device__ __forceinline__ uint4 node(int64 at) const
    {
        return __ldg(reinterpret_cast<const uint4*>(packed) + at);
    }
    // The leaf of a row, and the leaf's predicted class.
    __device__ __forceinline__ int64 leaf_of(int64 row, int32& predicted) const
    {
        int64 at = 0;
        uint4 own = node(at);
        while (own.x != 0) {
            const PackedSplit split = {own, missing_code, masks};
            at = own.x + (goes_left(split, __ldg(codes + own.y * n + row)) ? 0 : 1);
            own = node(at);
        }
        predicted = (int32)own.w;
        return at;
    }
};

// ---- Errors ------------------------------------------------------------------------------------

// Find the misclassified rows; sum their weights, and the weights of all rows. label int32 (n,):
// classes of the rows.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
evaluate_classes(In<uint8> codes, int64 n, int32 missing_code, In<uint32> packed, In<uint32> masks,
                 In<int32> label, In<double> weights, Out<uint8> wrong, Out<int64> sums)
{
    const PackedTree tree = {codes, n, (uint32)missing_code, packed, masks};
    int64 missed = 0, all = 0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        int32 predicted;
        tree.leaf_of(row, predicted);
        const bool misses = predicted != label[row];
        const int64 fixed = fixed_point(weights[row]);
        wrong[row] = misses;
        missed += misses ? fixed : 0;
        all += fixed;
    }
    add_warp(sums, missed);
    add_warp(sums + 1, all);
}

// Find the absolute error of each row, and the largest one. value float64 (m,): node values.
// y float64 (n,): targets. miss float64 (n,): absolute errors of rows with positive weight, -1 for
// rows of weight zero.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_misses(In<uint8> codes, int64 n, int32 missing_code, In<uint32> packed, In<uint32> masks,
            In<double> value, In<double> y, In<double> weights, Out<double> miss,
            Out<uint64> largest)
{
    const PackedTree tree = {codes, n, (uint32)missing_code, packed, masks};
    __shared__ uint64 of_warp[BOOST_WARPS];
    double max_size = 0.0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        double own = -1.0;
        if (weights[row] > 0.0) {
            int32 predicted;
            own = fabs(value[tree.leaf_of(row, predicted)] - y[row]);
            max_size = max(max_size, own);
        }
        miss[row] = own;
    }
    update_largest(of_warp, largest, max_size);
}

__device__ __forceinline__ double relative_loss(int32 kind, double share)
{
    if (kind == LINEAR) return share;
    return kind == SQUARE ? share * share : 1.0 - natural_exp(-share);
}

// Replace absolute errors by losses; sum weights times losses, and all weights. kind: LINEAR,
// SQUARE or EXPONENTIAL. loss: absolute errors before the launch (`miss` of find_misses), losses
// after it.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
evaluate_values(int32 kind, int64 n, In<uint64> largest, In<double> weights, Out<double> loss,
                Out<int64> sums)
{
    const double max_size = __longlong_as_double((int64)*largest);
    int64 lost = 0, all = 0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        const double miss = loss[row];
        if (miss < 0.0) continue;
        const double own = relative_loss(kind, max_size > 0.0 ? miss / max_size : miss);
        loss[row] = own;
        lost += fixed_point(weights[row] * own);
        all += fixed_point(weights[row]);
    }
    add_warp(sums, lost);
    add_warp(sums + 1, all);
}

// ---- Error and vote of a round -----------------------------------------------------------------

constexpr double LARGEST_VOTE = 700.0, LARGEST_STEP = 20.0;
constexpr int32 QUOTIENT_BITS = 55;  // 53, a rounding bit and a sticky bit

// part / whole, rounded once: 0 <= part <= whole < 2**62.
__device__ __forceinline__ double share_of(int64 part, int64 whole)
{
    if (part == 0) return 0.0;
    int32 shift = 0;
    for (; part < whole; ++shift) part *= 2;
    int64 quotient = 0;
    for (int32 bit = 0; bit < QUOTIENT_BITS; ++bit) {
        const bool fits = part >= whole;
        quotient = 2 * quotient + (fits ? 1 : 0);
        part = 2 * (fits ? part - whole : part);
    }
    return scaled((double)(part != 0 ? quotient | 1 : quotient), 1 - QUOTIENT_BITS - shift);
}

// Compute the error and vote of the tree, and the factors. If the error is 0 or no better than
// chance, the vote is 0 (the host sets it), and the factors leave the weights unchanged up to
// rounding, so the next round can be launched before the host has read the error.
//
//   chance     error of a random guess; 0.5 for regression, 1 for a single class
//   n_classes  2 for regression
//   facts      float64 (5,): error, vote, factor of the bound on the training error; then the
//              numbers of nodes and of masks of the tree, from `table`
//
// Sets the sums to zero. Launch: one thread.
extern "C" __global__ void __launch_bounds__(1)
end_round(int32 by_class, int32 n_classes, double learning_rate, double chance,
          In<int64> table, Out<int64> sums, Out<double> factors, Out<double> facts)
{
    const int64 lost = sums[0], whole = sums[1];
    for (int32 i = 0; i < SUMS; ++i) sums[i] = 0;
    const double error = share_of(lost, whole);
    double vote = 0.0, bound = 1.0;
    double first = by_class != 0 ? 1.0 : 0.0, second = first;
    if (error > 0.0 && error < chance) {
        const double odds = natural_log((1.0 - error) / error);
        vote = min(learning_rate * (odds + natural_log((double)max(n_classes - 1, 1))),
                   LARGEST_VOTE);
        first = min(vote, LARGEST_STEP);
        if (by_class != 0) {
            const double right = natural_exp(-0.5 * vote), wrong = natural_exp(0.5 * vote);
            bound = (1.0 - error) * right + error * wrong;
            first = right / bound;
            second = wrong / bound;
        }
    }
    factors[0] = first;
    factors[1] = second;
    facts[0] = error;
    facts[1] = vote;
    facts[2] = bound;
    facts[3] = (double)table[NODES];
    facts[4] = (double)table[MASKS];
}

// ---- Weights of the next round -----------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
reweigh_classes(In<uint8> wrong, In<double> factors, int64 n, Out<double> weights)
{
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        const double weight = weights[row];
        if (weight > 0.0) weights[row] = max(weight * factors[wrong[row]], MIN_WEIGHT);
    }
}

// The new weights do not add up to 1 yet; sums[1] is their fixed-point sum.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
reweigh_values(In<double> loss, In<double> factors, int64 n, Out<double> weights, Out<int64> sums)
{
    const double step = factors[0];
    int64 all = 0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        if (loss[row] < 0.0) continue;
        const double weight = weights[row] * natural_exp((loss[row] - 1.0) * step);
        weights[row] = weight;
        all += fixed_point(weight);
    }
    add_warp(sums + 1, all);
}

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
normalise(In<double> loss, In<int64> sums, int64 n, Out<double> weights)
{
    const double total = (double)sums[1] / FIXED_POINT;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        if (loss[row] >= 0.0) weights[row] = max(weights[row] / total, MIN_WEIGHT);
    }
}

// ---- Rows drawn by their weights ---------------------------------------------------------------
//
//   of_class   float64 (classes,)    factors of the weights of the rows of each class
//   label      int32 (n,)            classes of the rows; both are read only if `weighted`

__device__ __forceinline__ double weight_for_tree(In<double> weights, In<double> of_class,
                                                  In<int32> label, int32 weighted, int64 row)
{
    return weighted == 0 ? weights[row] : weights[row] * of_class[label[row]];
}

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_heaviest(In<double> weights, In<double> of_class, In<int32> label, int32 weighted, int64 n,
              Out<uint64> largest)
{
    __shared__ uint64 of_warp[BOOST_WARPS];
    double max_size = 0.0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        max_size = max(max_size, weight_for_tree(weights, of_class, label, weighted, row));
    }
    update_largest(of_warp, largest, max_size);
}

// kept int64 (parts,), zero before the launch: fixed-point weight of each part of WEIGHT_PART rows;
// the largest weight has `bits` bits. Launch: one block per part.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
sum_parts(In<double> weights, In<double> of_class, In<int32> label, int32 weighted, int64 n,
          In<uint64> largest, int32 bits, Out<int64> kept)
{
    const int32 exponent = bits - exponent_above(*largest);
    const int64 first = (int64)blockIdx.x * WEIGHT_PART, end = min(n, first + WEIGHT_PART);
    int64 own = 0;
    for (int64 row = first + threadIdx.x; row < end; row += BOOST_THREADS) {
        const double weight = weight_for_tree(weights, of_class, label, weighted, row);
        own += (int64)rint(scaled(weight, exponent));
    }
    add_warp(kept + blockIdx.x, own);
}

// cumulative uint64 (n,): running sum of the fixed-point weights; first int64 (parts,): the sum of
// the parts before each part, from roots.cu. Launch: one block per part.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
add_up(In<double> weights, In<double> of_class, In<int32> label, int32 weighted, int64 n,
       In<uint64> largest, int32 bits, In<int64> first, Out<uint64> cumulative)
{
    __shared__ int64 warp_sums[BOOST_WARPS];
    const int32 exponent = bits - exponent_above(*largest);
    const int64 begin = (int64)blockIdx.x * WEIGHT_PART, end = min(n, begin + WEIGHT_PART);
    int64 before = first[blockIdx.x];
    for (int64 start = begin; start < end; start += BOOST_THREADS) {
        const int64 row = start + threadIdx.x;
        int64 own = 0;
        if (row < end) {
            const double weight = weight_for_tree(weights, of_class, label, weighted, row);
            own = (int64)rint(scaled(weight, exponent));
        }
        const RunningSum sum = running_sum(warp_sums, own);
        if (row < end) cumulative[row] = (uint64)(before + sum.before + own);
        before += sum.all;
    }
}

// Reduce draw counts, uint32 (n,), to at most `capacity`.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
cap_draws(Out<uint32> drawn, int64 n, uint32 capacity)
{
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        drawn[row] = min(drawn[row], capacity);
    }
}
