// Constraints of nodes: bounds on their values, and the features that they may split on.
//
//   size        int32 (1,)     number of nodes, at most the length of the arrays of nodes
//   regular     float64 (3,)   l1, l2, largest absolute leaf value
//   lower, upper   float64 (nodes,)      bounds on the values of each node and its descendants
//   groups      uint32 (nodes, n_words)  one bit per group, set if the group contains all features
//                                        that the ancestors of the node are split on
//   of_feature  uint32 (n_features, n_words)   one bit per group, set if the group contains the
//                                        feature
//   monotonic   int8 (n_features,)   1 if leaf values must not decrease with a feature, -1 if
//                                    they must not increase, else 0
//
// lower and upper exist only if a feature is monotonic (`bounded_nodes`); n_words is 0 without
// groups.
//
// Launch, unless stated otherwise: any number of blocks of CONSTRAINT_THREADS threads, which loop
// over nodes with the stride of the grid; no shared memory.

#include "level/allowed_features.cuh"

constexpr int32 CONSTRAINT_THREADS = 128;

__device__ __forceinline__ int64 first_of_thread()
{
    return (int64)blockIdx.x * CONSTRAINT_THREADS + threadIdx.x;
}

__device__ __forceinline__ int64 thread_count() { return (int64)gridDim.x * CONSTRAINT_THREADS; }

// Write the constraints of the roots, which have no ancestors.
extern "C" __global__ void __launch_bounds__(CONSTRAINT_THREADS)
hold_roots(In<int32> size, In<double> regular, int32 bounded_nodes, int32 n_words,
           Out<double> lower, Out<double> upper, Out<uint32> groups)
{
    for (int64 node = first_of_thread(); node < *size; node += thread_count()) {
        if (bounded_nodes != 0) {
            lower[node] = -regular[2];
            upper[node] = regular[2];
        }
        for (int32 w = 0; w < n_words; ++w) groups[node * n_words + w] = 0xffffffffu;
    }
}

// Write the constraints of the children of accepted nodes, see children.cu; their arrays end in
// `_out`. With monotonic features, there is only one channel.
extern "C" __global__ void __launch_bounds__(CONSTRAINT_THREADS)
hold_children(In<int32> size, In<uint8> accepted, In<int32> rank, In<int32> feature,
              In<int64> hessian, In<int64> gradient, In<int64> left_hessian,
              In<int64> left_gradient, In<double> regular, In<int8> monotonic,
              In<uint32> of_feature, int32 bounded_nodes, int32 n_words, In<double> lower,
              In<double> upper, In<uint32> groups, Out<double> lower_out, Out<double> upper_out,
              Out<uint32> groups_out)
{
    for (int64 node = first_of_thread(); node < *size; node += thread_count()) {
        if (accepted[node] == 0) continue;
        const int64 left = 2 * (int64)rank[node], right = left + 1, f = feature[node];
        if (bounded_nodes != 0) {
            const Regular rule = {regular[0], regular[1], {lower[node], upper[node]}, 0};
            const int64 gl = left_gradient[node], hl = left_hessian[node];
            const double of_left = rule.value((double)gl, (double)hl);
            const double of_right
                = rule.value((double)(gradient[node] - gl), (double)(hessian[node] - hl));
            write_child_bounds(rule.bounds, monotonic[f], of_left, of_right, left, lower_out,
                               upper_out);
        }
        for (int32 w = 0; w < n_words; ++w) {
            const uint32 both = groups[node * n_words + w] & of_feature[f * n_words + w];
            groups_out[left * n_words + w] = groups_out[right * n_words + w] = both;
        }
    }
}

// Write allowed_out, uint8 (nodes, n_features): mask of the features that both the node's groups
// and its tree allow. allowed: uint8 (trees, n_features). Threads loop over nodes and features.
extern "C" __global__ void __launch_bounds__(CONSTRAINT_THREADS)
allow_by_groups(In<int32> size, In<int32> tree, In<uint32> groups, In<uint32> of_feature,
                In<uint8> allowed, int32 n_features, int32 n_words, Out<uint8> allowed_out)
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

// Draw the features that each tree may split on in a level: the first `count` allowed features in
// a hashed order, even if nodes consider features by number (this file always has the default
// HASHED_ORDER). root_key: uint64 (trees,); allowed, allowed_out: uint8 (trees, n_features).
// Launch: grid (trees), blocks of one warp.
extern "C" __global__ void __launch_bounds__(WARP)
draw_level(In<uint64> root_key, In<uint8> allowed, int32 depth, int32 n_features, int32 count,
           Out<uint8> allowed_out)
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
