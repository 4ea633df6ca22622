// The roots of a batch of T trees, and numbers that each tree needs before it grows, computed from
// the results of sums.cu and of the kernels that count rows: those of draw.cu or, in a round of
// boosting, gradients.cu. The rows of each tree are in n_parts parts, see draw.cu.
//
// Launch of all kernels: one block of ROOTS_THREADS threads, no dynamic shared memory. Threads loop
// over trees with stride ROOTS_THREADS, unless stated otherwise.

#include "common/float_exponent.cuh"
#include "common/running_sum.cuh"

constexpr int32 ROOTS_THREADS = 1024;
constexpr int32 ROOTS_BLOCKS = 1;  // a launch has one block; a larger bound leaves fewer registers
constexpr int32 ROOTS_WARPS = ROOTS_THREADS / WARP;

// Find the first row of each part of each tree, and the number of rows of each tree.
//
//   kept    int64 (T, n_parts)    number of rows of each part
//   first   int64 (T, n_parts)    number of rows of all earlier parts, also those of other trees
//   count   int64 (T,)            number of rows of each tree
//
// AdaBoost also sums the fixed-point weights of parts of the rows in this way. Each thread sums
// n_each contiguous parts, then writes the offsets of their rows. After that, threads loop over
// trees.
extern "C" __global__ void __launch_bounds__(ROOTS_THREADS, ROOTS_BLOCKS)
place_parts(In<int64> kept, int64 n_trees, int64 n_parts, int64* first, Out<int64> count)
{
    __shared__ int64 warp_sums[ROOTS_WARPS];
    const int64 n = n_trees * n_parts, n_each = (n + ROOTS_THREADS - 1) / ROOTS_THREADS;
    const int64 begin = min(n, threadIdx.x * n_each), end = min(n, begin + n_each);
    int64 own = 0;
    for (int64 part = begin; part < end; ++part) own += kept[part];
    const RunningSum sum = running_sum(warp_sums, own);
    int64 at = sum.before;
    for (int64 part = begin; part < end; ++part) {
        first[part] = at;
        at += kept[part];
    }
    __syncthreads();
    for (int64 tree = threadIdx.x; tree < n_trees; tree += ROOTS_THREADS) {
        const bool last = tree == n_trees - 1;
        count[tree] = (last ? sum.all : first[(tree + 1) * n_parts]) - first[tree * n_parts];
    }
}

// Make the nodes of the first level, in the order of the trees; arrays of nodes end in `_out`, see
// policy.cu.
//
//   count   int64 (T,)     number of rows of each tree
//   key     uint64 (T,)    keys of the roots' random numbers
extern "C" __global__ void __launch_bounds__(ROOTS_THREADS, ROOTS_BLOCKS)
make_roots(In<int64> count, In<uint64> key, int32 n_trees, Out<int32> size_out, Out<int32> tree_out,
           Out<uint64> key_out, Out<int64> start_out, Out<int64> count_out, Out<int32> parent_out)
{
    __shared__ int64 warp_sums[ROOTS_WARPS];
    int64 n_rows = 0;
    for (int32 tile = 0; tile < n_trees; tile += ROOTS_THREADS) {
        const int32 tree = tile + threadIdx.x;
        const int64 own = tree < n_trees ? count[tree] : 0;
        const RunningSum sum = running_sum(warp_sums, own);
        if (tree < n_trees) {
            tree_out[tree] = tree;
            key_out[tree] = key[tree];
            start_out[tree] = n_rows + sum.before;
            count_out[tree] = own;
            parent_out[tree] = -1;
        }
        n_rows += sum.all;
    }
    if (threadIdx.x == 0) *size_out = n_trees;
}

// Compute, for each tree, the smallest weight of a child and of a category that is not rare, from
// the weight of the root.
//
//   hessian        int64 (T,)    weight of the root
//   minimum        int64 (1,)    smallest weight of a child of any tree
//   smallest       int64 (T,)    `share` times the weight of the root, rounded up, but at least
//                                `minimum`
//   min_category   int64 (T,)    `category_share` times the weight of the root, rounded up
extern "C" __global__ void __launch_bounds__(ROOTS_THREADS, ROOTS_BLOCKS)
limit_hessian(In<int64> hessian, int32 n_trees, double share, double category_share,
              In<int64> minimum, Out<int64> smallest, Out<int64> min_category)
{
    for (int32 tree = threadIdx.x; tree < n_trees; tree += ROOTS_THREADS) {
        smallest[tree] = max((int64)ceil(share * (double)hessian[tree]), *minimum);
        min_category[tree] = (int64)ceil(category_share * (double)hessian[tree]);
    }
}

// ---- Real-valued weights -----------------------------------------------------------------------

// Compute the power of two by which the weights of each tree are scaled: the largest that keeps
// them below 2**bits and has an exponent of at most `capacity`.
//
//   largest    uint64 (T,)    bit pattern of the largest weight as float64
//   exponent   int32 (T,)     exponent of the power of two
//   unit       float64 (T,)   reciprocal of the power of two
extern "C" __global__ void __launch_bounds__(ROOTS_THREADS, ROOTS_BLOCKS)
scale_trees(In<uint64> largest, int32 n_trees, int32 bits, int32 capacity, Out<int32> exponent,
            Out<double> unit)
{
    for (int32 tree = threadIdx.x; tree < n_trees; tree += ROOTS_THREADS) {
        exponent[tree] = min(bits - exponent_above(largest[tree]), capacity);
        unit[tree] = scaled(1.0, -exponent[tree]);
    }
}

// Compute class weights such that, in each tree, all classes that are drawn have the same total of
// draw counts times class weight, and the totals sum to `n_draws`. A warp processes one tree at a
// time.
//
//   in_class       int64 (T, n_classes)      number of draws of each class
//   n_draws                                  number of draws of a tree
//   class_weight   float64 (T, n_classes)    weight of each class; a class that is not drawn gets
//                                            the weight of a class that is drawn once
extern "C" __global__ void __launch_bounds__(ROOTS_THREADS, ROOTS_BLOCKS)
balance_classes(In<int64> in_class, int32 n_trees, int32 n_classes, int64 n_draws,
                Out<double> class_weight)
{
    const int32 lane = threadIdx.x % WARP;
    for (int32 tree = threadIdx.x / WARP; tree < n_trees; tree += ROOTS_WARPS) {
        const int64* draws = in_class + (int64)tree * n_classes;
        int64 present = 0;
        for (int32 c = lane; c < n_classes; c += WARP) present += draws[c] > 0;
        present = warp_sum(present);
        for (int32 c = lane; c < n_classes; c += WARP) {
            class_weight[(int64)tree * n_classes + c] =
                (double)n_draws / (double)(present * max(draws[c], (int64)1));
        }
    }
}
