// The best split of one node by one feature, found by one block: sums and scores of the
// candidates that candidates.cuh makes.

#include "common/running_sum.cuh"
#include "level/candidates.cuh"

// ---- Features in order -------------------------------------------------------------------------

// The smallest rank, at least `minimum`, of an allowed feature; EVERY_RANK if there is none.
// `of_warp` is scratch, one rank per warp. Every thread of the block takes part; a barrier is
// needed before the next call.
__device__ __forceinline__ uint64 next_rank(uint64 (&of_warp)[SPLIT_WARPS], In<uint8> allowed,
                                            int32 n_features, uint64 key, uint64 minimum)
{
    uint64 rank = EVERY_RANK;
    #pragma unroll 1
    for (int32 f = threadIdx.x; f < n_features; f += SPLIT_THREADS) {
        if (allowed[f] == 0) continue;
        const uint64 own = order_rank(key, (uint64)f);
        if (own >= minimum) rank = min(rank, own);
    }
    rank = warp_min(rank);
    if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = rank;
    __syncthreads();
    for (int32 w = 0; w < SPLIT_WARPS; ++w) rank = min(rank, of_warp[w]);
    return rank;
}

// ---- Sums of the left side ---------------------------------------------------------------------

struct Sum {
    int64 left;  // over the items of the left side
    int64 all;   // over all items taken; 0 if the left side is one item alone
};

// Sum of one plane over the left side of this thread's candidate, without missing values and rare
// categories. Every thread of the block takes part.
template <class HistogramView>
__device__ __forceinline__ Sum left_sum(Workspace& space, const HistogramView& cells,
                                        const Item& item, int32 plane)
{
    const int64 own = item.taken ? cells.plane(item.cell, plane) : 0;
    if (item.alone) return {own, 0};
    const RunningSum sum = running_sum(space.warp_sums, own);
    return {sum.before + own, sum.all};
}

// ---- Scores ------------------------------------------------------------------------------------

// Add the terms of a channel. Two classes have one channel, the weight of the second class;
// criteria with BOTH_CLASSES also need the first class.
__device__ __forceinline__ void add_terms(Terms& terms, const Options& options,
                                          const Regular& regular, int64 left, int64 node, double hl,
                                          double h)
{
    const double gl = (double)left, g = (double)node;
    const int32 number = options.criterion;
    if (options.by_class && options.n_channels == 1) {
        with_criterion(Criteria(), number, AddChannel{true}, terms, regular, hl - gl, h - g, hl, h);
    }
    with_criterion(Criteria(), number, AddChannel{false}, terms, regular, gl, g, hl, h);
}

__device__ __forceinline__ bool is_valid(const Node& node, const Options& options, int64 hessian,
                                         int64 count)
{
    const bool heavy = hessian >= node.min_hessian && node.hessian - hessian >= node.min_hessian;
    return heavy && (options.min_samples_leaf <= 1
                     || (count >= options.min_samples_leaf
                         && node.count - count >= options.min_samples_leaf));
}

__device__ __forceinline__ double score_of(const Terms& terms, const Options& options, double hl,
                                           double h)
{
    return with_criterion(Criteria(), options.criterion, ScoreOf(), terms, hl, h);
}

// Add the score of one output's terms to the total, and reset the terms.
__device__ __forceinline__ void add_output(double& total, Terms& terms, const Options& options,
                                           double hl, double h)
{
    total = total + score_of(terms, options, hl, h);
    terms = {0.0, 0.0, 0.0, true};
}

// Whether channel k is the last class of an output, if several outputs have classes.
__device__ __forceinline__ bool ends_output(int32 k)
{
    constexpr int32 n = SCORED_TOGETHER > 0 ? SCORED_TOGETHER : 1;
    return SCORED_TOGETHER > 0 && (k + 1) % n == 0;
}

struct Scores {
    double missing_right;
    double missing_left;
    bool seen;  // whether any row of positive weight has a missing value or a rare category
};

// Scores of this thread's candidate if missing values go right, and if they go left; -1 if that
// direction is not tried or the split is not valid. Every thread of the block takes part.
template <class HistogramView>
__device__ __forceinline__ Scores scores_of(Workspace& space, const HistogramView& cells,
                                            const Item& item, const Node& node,
                                            const Options& options, const Regular& regular,
                                            int32 directions)
{
    const int32 at_missing = cells.missing_code();
    const bool rest = RARE_CATEGORIES && item.leaves_rare;  // missing and rare values
    const Sum hessians = left_sum(space, cells, item, 0);
    const Sum counts = options.min_samples_leaf > 1 ? left_sum(space, cells, item, 1) : Sum{0, 0};
    const int64 hessian = hessians.left, count = counts.left;
    const int64 missing_hessian = rest ? node.hessian - hessians.all : cells.hessian(at_missing);
    const int64 missing_count = rest ? node.count - counts.all : cells.count(at_missing);
    // If only missing and rare values go right, they may be too rare together.
    const bool few = rest && hessian == hessians.all && missing_hessian < node.min_category;
    const bool right = item.candidate && !(missing_hessian > 0 && directions == ONLY_LEFT)
                       && !few && is_valid(node, options, hessian, count);
    const bool left = item.candidate && missing_hessian > 0 && directions != ONLY_RIGHT
                      && is_valid(node, options, hessian + missing_hessian, count + missing_count);
    const double h = (double)node.hessian;
    const double hl_right = right ? (double)hessian : 1.0;
    const double hl_left = left ? (double)(hessian + missing_hessian) : 1.0;
    double right_score = 0.0, left_score = 0.0;
    Terms right_terms = {0.0, 0.0, 0.0, true}, left_terms = {0.0, 0.0, 0.0, true};
    for (int32 k = 0; k < options.n_channels; ++k) {
        const Sum gradient = left_sum(space, cells, item, 2 + k);
        const int64 all = node.gradient[k];
        if (right) add_terms(right_terms, options, regular, gradient.left, all, hl_right, h);
        if (left) {
            const int64 missing = rest ? all - gradient.all : cells.gradient(at_missing, k);
            add_terms(left_terms, options, regular, gradient.left + missing, all, hl_left, h);
        }
        if (ends_output(k)) {
            add_output(right_score, right_terms, options, hl_right, h);
            add_output(left_score, left_terms, options, hl_left, h);
        }
    }
    if (SCORED_TOGETHER == 0 && right) right_score = score_of(right_terms, options, hl_right, h);
    if (SCORED_TOGETHER == 0 && left) left_score = score_of(left_terms, options, hl_left, h);
    return {right ? right_score : -1.0, left ? left_score : -1.0, missing_hessian > 0};
}

// Twice the position of the largest score of the block (the first one if equal), plus 1 if missing
// values go left there. Every thread takes part.
__device__ __forceinline__ int32 best_position(Workspace& space, double score, bool missing_left)
{
    int32 position = 2 * (int32)threadIdx.x + (missing_left ? 1 : 0);
    #pragma unroll
    for (int32 step = WARP / 2; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(FULL_MASK, score, step);
        const int32 at = __shfl_xor_sync(FULL_MASK, position, step);
        if (other > score || (other == score && at < position)) {
            score = other;
            position = at;
        }
    }
    if (threadIdx.x % WARP == 0) {
        space.warp_score[threadIdx.x / WARP] = score;
        space.warp_position[threadIdx.x / WARP] = position;
    }
    __syncthreads();
    int32 best = 0;
    for (int32 w = 1; w < SPLIT_WARPS; ++w) {
        if (space.warp_score[w] > space.warp_score[best]) best = w;
    }
    return space.warp_position[best];
}

// ---- The search --------------------------------------------------------------------------------

// Bounds on the values of nodes, for NEWTON: arrays (nodes,) with MONOTONIC, else only the largest
// absolute value, regular[2].
struct Bounds {
    In<double> regular;
    In<double> lower;
    In<double> upper;

    __device__ __forceinline__ ValueBounds of(int64 node) const
    {
        if (MONOTONIC) return {lower[node], upper[node]};
        return NEWTON_CRITERION ? ValueBounds{-regular[2], regular[2]} : ValueBounds{0.0, 0.0};
    }
};

// The arrays that a search reads, by node, tree or feature; see split.cu.
struct SearchInputs {
    In<int64> hessian;
    In<int64> count;
    In<int64> gradient;
    In<uint64> key;
    In<int32> tree;
    In<int64> min_hessian;
    In<int64> min_category;
    In<int32> n_bins;
    In<uint8> is_categorical;
    In<double> center;
    In<int8> monotonic;
    Bounds bounds;
    int32 width;
    int32 n_channels;

    __device__ __forceinline__ Node node(int32 n) const
    {
        return {gradient + (int64)n * n_channels, hessian[n], count[n], min_hessian[tree[n]],
                min_category[tree[n]], key[n], bounds.of(n)};
    }
    __device__ __forceinline__ Feature feature(int32 f) const
    {
        return {f, n_bins[f], is_categorical[f] != 0, MONOTONIC ? monotonic[f] : 0,
                center + (int64)f * (width - 1)};
    }
};

// The position of the block's best split, and this thread's candidate.
struct Best {
    int32 position;      // position of the best candidate; the thread there has its item and score
    double score;        // score of this thread's candidate
    bool missing_left;   // whether this thread's candidate sends missing values left
    bool seen;           // as in `Scores`
    bool rare_left;      // whether rare categories go left in the best split
    Item item;           // item at this thread's position
};

// Whether this thread's cell is in the left set of the best split, which must be categorical.
__device__ __forceinline__ bool is_in_left_set(const Best& best, const Workspace& space)
{
    if (best.rare_left && best.item.place == NOWHERE) {
        return (space.occupied[threadIdx.x / WARP] >> (threadIdx.x % WARP) & 1) != 0;
    }
    return best.item.alone ? best.item.place == best.position : best.item.place <= best.position;
}

template <class HistogramView>
__device__ __forceinline__ Item item_of(Workspace& space, const HistogramView& cells,
                                        const Node& node, const Options& options,
                                        const Feature& feature)
{
    if (feature.categorical) {
        if (options.random_thresholds) return random_category_item(space, node, feature);
        if (feature.n_bins <= ONE_HOT_CATEGORIES) return single_category_item(space);
        return sorted_category_item(space, cells, node, options);
    }
    if (!options.random_thresholds) return numeric_item(space, cells.missing_code(), feature);
    return random_numeric_item(space, cells.missing_code(), node, feature);
}

// The best split of a node by a feature; `space.occupied` must be set. If no split is valid, the
// score at the best position is -1. Every thread of the block takes part.
template <class HistogramView>
__device__ __forceinline__ Best best_split(Workspace& space, const HistogramView& cells,
                                           const Node& node, const Options& options,
                                           const Feature& feature)
{
    Best best;
    best.item = item_of(space, cells, node, options, feature);
    int32 directions = BOTH;
    if (options.random_thresholds) {
        const bool one_value = !feature.categorical && best.item.next_bin == ONLY_MISSING_RIGHT;
        const bool left = !one_value && missing_goes_left(node.key, (uint64)feature.index);
        directions = left ? ONLY_LEFT : ONLY_RIGHT;
    }
    Regular regular = {};
    if (NEWTON_CRITERION) {
        regular = {options.regular[0], options.regular[1], node.bounds, feature.sign};
    }
    const Scores scores = scores_of(space, cells, best.item, node, options, regular, directions);
    best.score = max(scores.missing_right, scores.missing_left);
    best.missing_left = scores.missing_left > scores.missing_right;
    best.seen = scores.seen;
    const int32 found = best_position(space, best.score, best.missing_left);
    best.position = found / 2;
    best.rare_left = best.item.leaves_rare && found % 2 != 0;
    return best;
}

// Arrays to write the best split to; `mask` is written only for categorical features.
struct SplitOutput {
    Out<double> score;
    Out<int16> bin;
    Out<int16> next_bin;
    Out<double> draw;
    Out<int8> missing;
    Out<uint32> mask;
};

// Word number `word` of the set of the codes of some cells, with BY_WARP.
__device__ __forceinline__ uint32 word_of_codes(const Feature& feature, uint32 cells, int32 word)
{
    uint32 bits = 0;
    for (; cells != 0; cells &= cells - 1) {
        const int32 code = feature.code(__ffs((int32)cells) - 1);
        if (code / WARP == word) bits |= 1u << (code % WARP);
    }
    return bits;
}

// Write, for an entry of a list, whether the feature can split the node, and that no split has been
// found.
__device__ __forceinline__ void begin_entry(Out<uint8> splittable, Out<double> score, int64 at,
                                            bool has_choice)
{
    if (threadIdx.x != 0) return;
    splittable[at] = has_choice;
    score[at] = -1.0;
}

// Write the best split (by the thread at its position, if its score is not -1) and, for a
// categorical feature, its mask (by all threads): the set of codes that go left, then the set of
// occupied codes, both without the missing code.
template <class HistogramView>
__device__ __forceinline__ void write_best(const Best& best, const Workspace& space,
                                           const HistogramView& cells, const Feature& feature,
                                           const SplitOutput& to, int64 at)
{
    const int32 t = threadIdx.x;
    if (t == best.position && best.score >= 0.0) {
        const int32 direction = best.missing_left ? MISSING_LEFT : MISSING_RIGHT;
        to.score[at] = best.score;
        to.bin[at] = best.item.bin;
        to.next_bin[at] = best.item.next_bin;
        to.draw[at] = best.item.draw;
        to.missing[at] = best.seen ? direction : MISSING_UNSEEN;
    }
    if (!feature.categorical) return;
    const uint32 votes = __ballot_sync(FULL_MASK, is_in_left_set(best, space));
    uint32* words = to.mask + at * MASK_WORDS;
    if (feature.codes != nullptr) {
        const uint32 cells = t < CODE_WORDS ? votes : space.occupied[0];
        if (t < MASK_WORDS) words[t] = word_of_codes(feature, cells, t % CODE_WORDS);
    } else if (t % WARP == 0) {
        words[t / WARP] = votes;
        words[CODE_WORDS + t / WARP] = space.occupied[t / WARP];
    }
}
