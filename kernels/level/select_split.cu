// The best split of every node: its listed features, the best of their splits, the sums of the left
// child, and whether the split is accepted.
//
//   score, splittable, ...   (slots, n_listed)   from split.cu or next_feature.cu
//   listed      int32 (slots, n_listed) or (n_listed,)    see shared_histogram.cuh
//   histogram   int64 (slots, n_listed, 2 + n_channels, width)   see split.cu
//   size, slot, open                 see policy.cu
//   key, tree, hessian               uint64, int32, int64 (nodes,)
//   root_hessian int64 (trees,)      weights of the roots
//   allowed     uint8 (trees, n_features) or (nodes, n_features)   see split.cu
//   unit        float64 (1,)         factor from a gain to a decrease of weight times impurity
//
// Launch: any number of blocks of (WARP, SELECT_WARPS) threads; warps loop over nodes with the
// stride of the grid; no shared memory. Of the open nodes, only those whose slots are among the
// `n_slots` from `first_slot` on are processed; arrays (slots, ...) begin with the first of these.

#include "common/goes_left.cuh"
#include "level/accept.cuh"
#include "level/allowed_features.cuh"

constexpr int32 SELECT_WARPS = 4;
constexpr int32 SELECT_BLOCKS = 8;  // per multiprocessor, at least

// The first node of a warp, and the stride to its next node.
__device__ __forceinline__ int32 first_of_warp() { return blockIdx.x * SELECT_WARPS + threadIdx.y; }
__device__ __forceinline__ int32 nodes_at_once() { return gridDim.x * SELECT_WARPS; }

// ---- Feature lists -----------------------------------------------------------------------------

// List the first `max_features` allowed features in the order of every open node, sorted by number:
// listed int32 (slots, max_features); unused entries at the end are -1. last uint64 (slots,): the
// largest rank of a listed feature, EVERY_RANK if all allowed features are listed.
extern "C" __global__ void __launch_bounds__(WARP * SELECT_WARPS, SELECT_BLOCKS)
choose_features(In<int32> size, In<int32> slot, In<uint8> open, In<uint64> key, In<int32> tree,
                In<uint8> allowed, int32 first_slot, int32 n_slots, int32 n_features,
                int32 max_features, Out<int32> listed, Out<uint64> last)
{
    const int32 lane = threadIdx.x;
    for (int32 node = first_of_warp(); node < *size; node += nodes_at_once()) {
        if (open[node] == 0) continue;
        const int32 own = slot[node] - first_slot;
        if (own < 0 || own >= n_slots) continue;
        const AllowedFeatures choice = {allowed + allowed_row(node, tree[node]) * n_features,
                                        key[node], n_features};
        const uint64 until = last_rank(choice, max_features);
        int32* list = listed + (int64)own * max_features;
        int32 found = 0;
        for (int32 start = 0; start < n_features; start += WARP) {
            const uint64 rank = choice.rank(start + lane);
            const bool taken = rank != EVERY_RANK && rank <= until;
            const uint32 votes = __ballot_sync(FULL_MASK, taken);
            if (taken) list[found + __popc(votes & ((1u << lane) - 1u))] = start + lane;
            found += __popc(votes);
        }
        for (int32 j = found + lane; j < max_features; j += WARP) list[j] = -1;
        if (lane == 0) last[own] = until;
    }
}

// The splits of split.cu or next_feature.cu, by slot and entry of the slot's list.
struct ListedSplits {
    In<double> score;
    In<uint8> splittable;
    In<int16> bin;
    In<int16> next_bin;
    In<double> draw;
    In<int8> missing;
    In<uint32> mask;
};

// The list of one node; its entry j has index `first` + j in `ListedSplits`.
struct Entries {
    In<int32> listed;
    int64 first;
    int32 n_listed;
};

// The smallest rank of a listed feature that can split the node, EVERY_RANK if there is none. Every
// lane takes part.
__device__ __forceinline__ uint64 first_splittable(const AllowedFeatures& choice,
                                                   const ListedSplits& found,
                                                   const Entries& entries)
{
    uint64 rank = EVERY_RANK;
    for (int32 j = threadIdx.x; j < entries.n_listed; j += WARP) {
        if (found.splittable[entries.first + j] != 0) {
            rank = min(rank, choice.rank(entries.listed[j]));
        }
    }
    return warp_min(rank);
}

struct BestEntry {
    uint64 rank;  // EVERY_RANK if there is no split
    int32 entry;
};

// The entry of the best split by a feature of rank at most `last`; if scores are equal, that with
// the smaller rank. Every lane takes part.
__device__ __forceinline__ BestEntry best_entry(const AllowedFeatures& choice,
                                                const ListedSplits& found, const Entries& entries,
                                                uint64 last)
{
    double score = -1.0;
    BestEntry best = {EVERY_RANK, 0};
    for (int32 j = threadIdx.x; j < entries.n_listed; j += WARP) {
        const double own = found.score[entries.first + j];
        if (own < 0.0) continue;
        const uint64 rank = choice.rank(entries.listed[j]);
        if (rank <= last && (own > score || (own == score && rank < best.rank))) {
            score = own;
            best = {rank, j};
        }
    }
    #pragma unroll
    for (int32 step = WARP / 2; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(FULL_MASK, score, step);
        const uint64 rank = __shfl_xor_sync(FULL_MASK, best.rank, step);
        const int32 entry = __shfl_xor_sync(FULL_MASK, best.entry, step);
        if (other > score || (other == score && rank < best.rank)) {
            score = other;
            best = {rank, entry};
        }
    }
    return best;
}

// ---- The best split ----------------------------------------------------------------------------

// The splits of the level, by node, as in `engine.growth.frontier.Splits`; `accepted` says whether
// the node is split.
struct Splits {
    Out<double> gain;
    Out<int32> feature;
    Out<int16> bin;
    Out<int16> next_bin;
    Out<double> draw;
    Out<int8> missing;
    Out<uint8> categorical;
    Out<uint32> mask;  // (nodes, 0) if no feature is categorical
    Out<int64> left_hessian;
    Out<int64> left_gradient;
    Out<uint8> accepted;
    bool masks;  // whether splits have masks
};

__device__ __forceinline__ void write_none(const Splits& splits, int64 node, int32 n_channels)
{
    splits.gain[node] = -1.0;
    splits.feature[node] = LEAF;
    splits.bin[node] = splits.next_bin[node] = 0;
    splits.draw[node] = __longlong_as_double(0x7ff8000000000000ll);
    splits.missing[node] = 0;
    splits.categorical[node] = splits.accepted[node] = 0;
    splits.left_hessian[node] = 0;
    for (int32 k = 0; k < n_channels; ++k) splits.left_gradient[node * n_channels + k] = 0;
    if (!splits.masks) return;
    for (int32 w = 0; w < MASK_WORDS; ++w) splits.mask[node * MASK_WORDS + w] = 0;
}

// Sum of one plane of a histogram over the codes that go left: bit j of a lane's `left_codes` is
// set if code lane + 32 j goes left. Every lane takes part and gets the sum.
__device__ __forceinline__ int64 sum_left(const int64* plane, uint32 left_codes)
{
    int64 sum = 0;
    for (int32 j = 0; j < CODE_WORDS; ++j) {
        if ((left_codes >> j & 1) == 0) continue;
        sum += plane[(int32)threadIdx.x + j * WARP];
    }
    return warp_sum(sum);
}

// The split of an entry of a list, for `goes_left`.
struct EntrySplit {
    const ListedSplits& found;
    int64 at;
    bool categorical;
    int32 missing_code;

    __device__ __forceinline__ bool is_missing(int32 code) const { return code == missing_code; }
    __device__ __forceinline__ bool missing_left() const
    {
        return found.missing[at] == MISSING_LEFT;
    }
    __device__ __forceinline__ bool is_categorical() const { return categorical; }
    __device__ __forceinline__ bool in_set(int32 code) const
    {
        return has_code(found.mask[at * MASK_WORDS + code / WARP], code);
    }
    __device__ __forceinline__ bool at_most(int32 code) const { return code <= found.bin[at]; }
};

// The codes of this lane that go left, for `sum_left`. Every lane takes part.
__device__ __forceinline__ uint32 codes_left(const ListedSplits& found, int64 at, bool categorical,
                                             int32 width)
{
    const int32 lane = threadIdx.x;
    const EntrySplit split = {found, at, categorical, width - 1};
    uint32 left_codes = 0;
    for (int32 code = lane; code < width; code += WARP) {
        const bool left = goes_left(split, code);
        left_codes |= (left ? 1u : 0u) << (code / WARP);
    }
    return left_codes;
}

// Write the split at entry `at` of the lists, by feature f, and the sums of its left child. Every
// lane takes part.
__device__ __forceinline__ void write_split(const Splits& splits, int64 node, double gain,
                                            const ListedSplits& found, int64 at, int32 f,
                                            bool categorical, In<int64> histogram, int32 width,
                                            int32 n_channels)
{
    const int32 lane = threadIdx.x;
    const uint32 left_codes = codes_left(found, at, categorical, width);
    const int64* cells = histogram + at * (2 + n_channels) * width;
    const int64 left_hessian = sum_left(cells, left_codes);
    for (int32 k = 0; k < n_channels; ++k) {
        const int64 sum = sum_left(cells + (int64)(2 + k) * width, left_codes);
        if (lane == 0) splits.left_gradient[node * n_channels + k] = sum;
    }
    if (splits.masks && lane < MASK_WORDS) {
        splits.mask[node * MASK_WORDS + lane] =
            categorical ? found.mask[at * MASK_WORDS + lane] : 0;
    }
    if (lane != 0) return;
    splits.gain[node] = gain;
    splits.feature[node] = f;
    splits.bin[node] = found.bin[at];
    splits.next_bin[node] = found.next_bin[at];
    splits.draw[node] = found.draw[at];
    splits.missing[node] = found.missing[at];
    splits.categorical[node] = categorical;
    splits.left_hessian[node] = left_hessian;
    splits.accepted[node] = 1;
}

// Write the best split of every open node if it is accepted; otherwise, mark the node as not split.
// With `fill`, nodes that are not open are marked as not split, too. undecided uint8 (nodes,), zero
// before the launch: whether no listed feature can split the node, but other features are left.
// `last_listed` is `last` of choose_features. A `stride` of 0 means that all features are listed;
// then the split is by one of the first max_features features in the node's order or, if none of
// them can split the node, by the first one that can.
extern "C" __global__ void __launch_bounds__(WARP * SELECT_WARPS, SELECT_BLOCKS)
decide_splits(In<int32> size, In<int32> slot, In<uint8> open, In<uint64> key, In<int32> tree,
              In<int64> hessian, In<int64> root_hessian, In<uint8> allowed,
              In<uint8> is_categorical, In<int64> histogram, int32 first_slot, int32 n_slots,
              int32 fill, In<int32> listed, int32 stride, int32 n_listed, In<uint64> last_listed,
              int32 n_features, int32 max_features, int32 width, int32 n_channels, int32 criterion,
              In<double> unit, double min_impurity_decrease, int32 needs_gain, int32 has_masks,
              In<double> score, In<uint8> splittable, In<int16> bin, In<int16> next_bin,
              In<double> draw, In<int8> missing, In<uint32> mask, Out<double> gain_out,
              Out<int32> feature_out, Out<int16> bin_out, Out<int16> next_bin_out,
              Out<double> draw_out, Out<int8> missing_out, Out<uint8> categorical_out,
              Out<uint32> mask_out, Out<int64> left_hessian_out, Out<int64> left_gradient_out,
              Out<uint8> accepted_out, Out<uint8> undecided)
{
    const int32 lane = threadIdx.x;
    const Splits splits = {gain_out,         feature_out,       bin_out,         next_bin_out,
                           draw_out,         missing_out,       categorical_out, mask_out,
                           left_hessian_out, left_gradient_out, accepted_out,    has_masks != 0};
    const ListedSplits found = {score, splittable, bin, next_bin, draw, missing, mask};
    for (int32 node = first_of_warp(); node < *size; node += nodes_at_once()) {
        if (open[node] == 0) {
            if (fill != 0 && lane == 0) write_none(splits, node, n_channels);
            continue;
        }
        const int32 own = slot[node] - first_slot;
        if (own < 0 || own >= n_slots) continue;

        // Choose the feature. If no listed one can split the node, next_feature.cu tries others.
        const Entries entries = {listed + (int64)own * stride, (int64)own * n_listed, n_listed};
        const AllowedFeatures choice = {allowed + allowed_row(node, tree[node]) * n_features,
                                        key[node], n_features};
        const bool all = stride == 0;  // whether the list has all features
        const uint64 last = all ? last_rank(choice, max_features) : EVERY_RANK;
        const uint64 first_rank = first_splittable(choice, found, entries);
        const bool none_found = first_rank == EVERY_RANK;
        const uint64 until = none_found ? last : max(last, first_rank);
        const BestEntry best = best_entry(choice, found, entries, until);
        if (lane == 0) undecided[node] = !all && none_found && last_listed[own] != EVERY_RANK;
        const int64 at = entries.first + best.entry;
        double gain = -1.0;
        if (best.rank != EVERY_RANK) {
            const AcceptRule accept = {criterion, *unit, min_impurity_decrease, needs_gain != 0};
            gain = accept.gain(found.score[at], hessian[node], root_hessian[tree[node]]);
        }
        if (gain < 0.0) {
            if (lane == 0) write_none(splits, node, n_channels);
            continue;
        }
        const int32 f = entries.listed[best.entry];
        write_split(splits, node, gain, found, at, f, is_categorical[f] != 0, histogram, width,
                    n_channels);
    }
}
