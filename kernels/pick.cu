// The best split of every node: which of its features, and what goes left.
//
//   gain        float64 (nodes, F)   could uint8 (nodes, F)     of split.cu
//   key         uint64 (nodes,)      tree  int32 (nodes,)
//   allowed     uint8 (trees, F)     features the tree may look at
//
// Launch: grid (nodes), one warp, which stands for a node; no shared memory.

constexpr uint64 EVERY_RANK = 0xffffffffffffffffull;

// The features that one node may look at.
struct Choice {
    const uint8* __restrict__ allowed;
    const uint8* __restrict__ could;
    const double* __restrict__ gain;
    uint64 key;
    int32 n_features;
};

// Number of features whose rank is at most `rank`. Every lane takes part.
__device__ __forceinline__ int32 count_up_to(const Choice& choice, uint64 rank)
{
    int32 count = 0;
    for (int32 start = 0; start < choice.n_features; start += WARP) {
        const int32 f = start + (int32)threadIdx.x;
        const bool counted = f < choice.n_features && choice.allowed[f] != 0
                             && feature_rank(choice.key, (uint64)f) <= rank;
        count += __popc(__ballot_sync(FULL_MASK, counted));
    }
    return count;
}

// The largest rank of the first `max_features` features, found by halving. Every lane takes part.
__device__ __forceinline__ uint64 last_rank(const Choice& choice, int32 max_features)
{
    if (count_up_to(choice, EVERY_RANK) <= max_features) return EVERY_RANK;
    uint64 low = 0, high = EVERY_RANK;
    while (low < high) {
        const uint64 middle = low + (high - low) / 2;
        if (count_up_to(choice, middle) >= max_features) high = middle;
        else low = middle + 1;
    }
    return low;
}

// The smallest rank of a feature that could split the node. Every lane takes part.
__device__ __forceinline__ uint64 first_that_could(const Choice& choice)
{
    uint64 rank = EVERY_RANK;
    for (int32 f = threadIdx.x; f < choice.n_features; f += WARP) {
        if (choice.could[f] != 0) rank = min(rank, feature_rank(choice.key, (uint64)f));
    }
    #pragma unroll
    for (int32 step = WARP / 2; step > 0; step /= 2) {
        rank = min(rank, __shfl_xor_sync(FULL_MASK, rank, step));
    }
    return rank;
}

// Rank of the best feature up to rank `last`, EVERY_RANK if there is none. Every lane takes part.
__device__ __forceinline__ uint64 best_rank(const Choice& choice, uint64 last)
{
    double gain = -1.0;
    uint64 rank = EVERY_RANK;
    for (int32 f = threadIdx.x; f < choice.n_features; f += WARP) {
        const double own = choice.gain[f];
        const uint64 own_rank = feature_rank(choice.key, (uint64)f);
        if (own < 0.0 || own_rank > last) continue;
        if (own > gain || (own == gain && own_rank < rank)) {
            gain = own;
            rank = own_rank;
        }
    }
    #pragma unroll
    for (int32 step = WARP / 2; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(FULL_MASK, gain, step);
        const uint64 other_rank = __shfl_xor_sync(FULL_MASK, rank, step);
        if (other > gain || (other == gain && other_rank < rank)) {
            gain = other;
            rank = other_rank;
        }
    }
    return rank;
}

// Rank of the chosen feature, EVERY_RANK where a node has no split, uint64 (nodes,).
extern "C" __global__ void __launch_bounds__(WARP)
pick_features(const double* __restrict__ gain, const uint8* __restrict__ could,
              const uint64* __restrict__ key, const int32* __restrict__ tree,
              const uint8* __restrict__ allowed, int32 n_features, int32 max_features,
              uint64* __restrict__ rank)
{
    const int64 first = (int64)blockIdx.x * n_features;
    const Choice choice = {allowed + (int64)tree[blockIdx.x] * n_features, could + first,
                           gain + first, key[blockIdx.x], n_features};
    const uint64 last = last_rank(choice, max_features);
    const uint64 could_first = first_that_could(choice);
    // Where none of the first ones could split, the next that could is looked at too.
    const uint64 until = could_first == EVERY_RANK ? last : max(last, could_first);
    const uint64 best = best_rank(choice, until);
    if (threadIdx.x == 0) rank[blockIdx.x] = best;
}

// Sums of left children, int64 (splits, 1 + K): weight, gradients. chosen int64 (splits,) is
// node * F + feature of each split; bin, missing and mask as split.cu wrote them.
extern "C" __global__ void __launch_bounds__(WARP)
left_sums(const int64* __restrict__ histogram, const int64* __restrict__ chosen,
          const int32* __restrict__ feature, const int16* __restrict__ bin,
          const int8* __restrict__ missing, const uint8* __restrict__ is_categorical,
          const uint32* __restrict__ mask, int32 width, int32 n_channels, int64* __restrict__ sums)
{
    const int64 at = chosen[blockIdx.x];
    const bool categorical = is_categorical[feature[blockIdx.x]] != 0;
    const int32 planes = 2 + n_channels, lane = threadIdx.x;
    uint32 left_codes = 0;  // bit j: code lane + 32 j goes left
    for (int32 code = lane; code < width; code += WARP) {
        const bool left =
            code == width - 1 ? missing[at] == MISSING_LEFT
            : categorical     ? (mask[at * MASK_WORDS + code / WARP] >> lane & 1) != 0
                              : code <= bin[at];
        left_codes |= (left ? 1u : 0u) << (code / WARP);
    }
    for (int32 p = 0; p <= n_channels; ++p) {
        int64 sum = 0;
        for (int32 j = 0; j < CODE_WORDS; ++j) {
            if ((left_codes >> j & 1) == 0) continue;
            sum += histogram[(at * width + lane + j * WARP) * planes + (p == 0 ? 0 : 1 + p)];
        }
        sum = warp_sum(sum);
        if (lane == 0) sums[(int64)blockIdx.x * (1 + n_channels) + p] = sum;
    }
}
