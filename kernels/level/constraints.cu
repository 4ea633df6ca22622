// Constraints of nodes: bounds of their values, and the features that they may look at.
//
//   size        int32 (1,)          nodes of the level; arrays of nodes have room for more
//   regular     float64 (3,)        l1, l2, largest value
//   lower, upper   float64 (nodes,)    bounds of the values of the node and of all below it
//   groups      uint32 (nodes, W)   a bit for each group that holds all features of the path
//   of_feature  uint32 (F, W)       the groups that each feature is in
//   monotonic   int8 (F,)           1 where values rise with a feature, -1 where they fall, else 0
//
// lower and upper exist only if a feature is monotonic; W is 0 without groups.
//
// Launch: grid (any), CONSTRAINT_THREADS threads; a thread takes a node, then the node that lies as
// many threads further on as the grid has; no shared memory.

#include "level/allowed_features.cuh"

constexpr int32 CONSTRAINT_THREADS = 128;

__device__ __forceinline__ int64 first_of_thread()
{
    return (int64)blockIdx.x * CONSTRAINT_THREADS + threadIdx.x;
}

__device__ __forceinline__ int64 thread_count() { return (int64)gridDim.x * CONSTRAINT_THREADS; }

// The roots: nothing has been split yet.
extern "C" __global__ void __launch_bounds__(CONSTRAINT_THREADS)
hold_roots(const int32* __restrict__ size, const double* __restrict__ regular, int32 bounded_nodes,
           int32 n_words, double* __restrict__ lower, double* __restrict__ upper,
           uint32* __restrict__ groups)
{
    for (int64 node = first_of_thread(); node < *size; node += thread_count()) {
        if (bounded_nodes != 0) {
            lower[node] = -regular[2];
            upper[node] = regular[2];
        }
        for (int32 w = 0; w < n_words; ++w) groups[node * n_words + w] = 0xffffffffu;
    }
}

// The sums of one channel over a node or one of its children.
struct Part {
    int64 gradient;
    int64 hessian;
};

// Midway between the values of the two children of a node.
__device__ __forceinline__ double between_children(const Part& node, const Part& left,
                                                   const double* __restrict__ regular, double lower,
                                                   double upper)
{
    const Part right = {node.gradient - left.gradient, node.hessian - left.hessian};
    const double l1 = regular[0], l2 = regular[1];
    const double of_left = newton_value((double)left.gradient, (double)left.hessian, l1, l2);
    const double of_right = newton_value((double)right.gradient, (double)right.hessian, l1, l2);
    return middle_of(bounded(of_left, lower, upper), bounded(of_right, lower, upper));
}

// The children of accepted nodes, see children.cu; arrays of children end in `_out`. Where a
// feature is monotonic there is one channel.
extern "C" __global__ void __launch_bounds__(CONSTRAINT_THREADS)
hold_children(const int32* __restrict__ size, const uint8* __restrict__ accepted,
              const int32* __restrict__ rank, const int32* __restrict__ feature,
              const int64* __restrict__ hessian, const int64* __restrict__ gradient,
              const int64* __restrict__ left_hessian, const int64* __restrict__ left_gradient,
              const double* __restrict__ regular, const int8* __restrict__ monotonic,
              const uint32* __restrict__ of_feature, int32 bounded_nodes, int32 n_words,
              const double* __restrict__ lower, const double* __restrict__ upper,
              const uint32* __restrict__ groups, double* __restrict__ lower_out,
              double* __restrict__ upper_out, uint32* __restrict__ groups_out)
{
    for (int64 node = first_of_thread(); node < *size; node += thread_count()) {
        if (accepted[node] == 0) continue;
        const int64 left = 2 * (int64)rank[node], right = left + 1, f = feature[node];
        if (bounded_nodes != 0) {
            const double below = lower[node], above = upper[node];
            const Part whole = {gradient[node], hessian[node]};
            const Part part = {left_gradient[node], left_hessian[node]};
            const double between = between_children(whole, part, regular, below, above);
            const int32 sign = monotonic[f];
            lower_out[left] = sign < 0 ? between : below;
            upper_out[left] = sign > 0 ? between : above;
            lower_out[right] = sign > 0 ? between : below;
            upper_out[right] = sign < 0 ? between : above;
        }
        for (int32 w = 0; w < n_words; ++w) {
            const uint32 both = groups[node * n_words + w] & of_feature[f * n_words + w];
            groups_out[left * n_words + w] = groups_out[right * n_words + w] = both;
        }
    }
}

// The features that the groups of each node allow, allowed_out uint8 (nodes, F), among those of its
// tree, allowed uint8 (trees, F).
extern "C" __global__ void __launch_bounds__(CONSTRAINT_THREADS)
allow_by_groups(const int32* __restrict__ size, const int32* __restrict__ tree,
                const uint32* __restrict__ groups, const uint32* __restrict__ of_feature,
                const uint8* __restrict__ allowed, int32 n_features, int32 n_words,
                uint8* __restrict__ allowed_out)
{
    const int64 end = (int64)*size * n_features;
    for (int64 at = first_of_thread(); at < end; at += thread_count()) {
        const int64 node = at / n_features, f = at % n_features;
        uint32 common = 0;
        for (int32 w = 0; w < n_words; ++w) {
            common |= groups[node * n_words + w] & of_feature[f * n_words + w];
        }
        allowed_out[at] = common != 0 && allowed[(int64)tree[node] * n_features + f] != 0;
    }
}

// The features that each tree may look at in a level: the first `count` in an order of the level's
// own. Launch: grid (trees), one warp.
extern "C" __global__ void __launch_bounds__(WARP)
draw_level(const uint64* __restrict__ root_key, const uint8* __restrict__ allowed, int32 depth,
           int32 n_features, int32 count, uint8* __restrict__ allowed_out)
{
    const int64 first = (int64)blockIdx.x * n_features;
    const uint64 key = level_key(root_key[blockIdx.x], (uint64)depth);
    const AllowedFeatures choice = {allowed + first, key, n_features};
    const uint64 until = last_rank(choice, count);
    for (int32 f = threadIdx.x; f < n_features; f += WARP) {
        const uint64 rank = choice.rank(f);
        allowed_out[first + f] = rank != EVERY_RANK && rank <= until;
    }
}
