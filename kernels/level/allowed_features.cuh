// The features that a node may split on, in the node's order; or those that a tree may use, in the
// order of a level. One warp processes a node or a tree; threadIdx.x is the lane.

struct AllowedFeatures {
    In<uint8> allowed;  // (n_features,)
    uint64 key;         // of the order, if it is hashed
    int32 n_features;

    // The rank of a feature; EVERY_RANK if the feature is not allowed.
    __device__ __forceinline__ uint64 rank(int32 f) const
    {
        if (f >= n_features || allowed[f] == 0) return EVERY_RANK;
        return order_rank(key, (uint64)f);
    }
};

// Number of allowed features whose rank is at most `rank`. Every lane takes part.
__device__ __forceinline__ int32 count_up_to(const AllowedFeatures& choice, uint64 rank)
{
    int32 count = 0;
    for (int32 start = 0; start < choice.n_features; start += WARP) {
        const uint64 own = choice.rank(start + (int32)threadIdx.x);
        count += __popc(__ballot_sync(FULL_MASK, own != EVERY_RANK && own <= rank));
    }
    return count;
}

// The largest rank of the first `max_features` allowed features, found by bisection; EVERY_RANK if
// no other feature is allowed. Every lane takes part.
__device__ __forceinline__ uint64 last_rank(const AllowedFeatures& choice, int32 max_features)
{
    if (count_up_to(choice, EVERY_RANK) <= max_features) return EVERY_RANK;
    return first_not((uint64)0, EVERY_RANK, [&](uint64 rank) {
        return count_up_to(choice, rank) < max_features;
    });
}
