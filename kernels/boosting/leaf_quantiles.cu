// Sets the values of leaves to quantiles of the residuals of their rows, times the learning rate;
// for the Huber loss, the mean of the clipped differences between residuals and median is added to
// the quantile. Each leaf is a group of residuals, whose quantile quantiles.cu finds. The residuals
// of a group are contiguous, unless splits were undone.
//
//   key, weight, n_pieces, slot, first, rows, size, quantile_level   of groups, see quantiles.cu
//
// Launch over pieces: any number of blocks of BOOST_THREADS threads; blocks loop over pieces.
// Launch over groups or nodes: one thread per group or node, in blocks of BOOST_THREADS. No dynamic
// shared memory.

#include "boosting/quantiles.cuh"
#include "growth/trees.cuh"

// ---- Leaves of a level -------------------------------------------------------------------------

// For each node of a level that was not split, make a group: number it, reserve a range for its
// residuals, and cut the range into pieces. Group numbers differ from run to run; quantiles do not.
//
//   size       int32 (1,)        number of nodes of the level
//   count      int64 (nodes,)    rows of each node; tree as in policy.cu, accepted as in
//                                children.cu, trees as in leaves.cu
//   n_with_offset int64 (1,), n_groups and n_cut int32 (1,)    residuals, groups and pieces so far;
//                                zero before the first level
//   quantile_level_of float64 (K,)   quantile level of each column
//   offset     int64 (nodes,)    offset of the node's residuals
//   node_of    int32 (g,)        node of a group: *first_node plus its index in the level
//   tree_of    int32 (g,)        tree of a group
//   quantile_level float64 (g,)  quantile level of a group
//
// Launch: over nodes.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
offset_leaves(In<int32> size, In<uint8> accepted, In<int32> tree, In<int64> count, In<uint64> trees,
              int32 trees_per_round, In<double> quantile_level_of, In<int32> first_node,
              Out<int64> n_with_offset, Out<int32> n_groups, Out<int32> n_cut, Out<int64> offset,
              Out<int32> node_of, Out<int32> tree_of, Out<double> quantile_level, Out<int32> slot,
              Out<int64> first, Out<int32> rows)
{
    const int64 node = row_of_thread();
    if (node >= *size || accepted[node] != 0) return;
    const int64 n = count[node], n_own = (n + QUANTILE_PIECE - 1) / QUANTILE_PIECE;
    const int64 begin = (int64)atomicAdd((uint64*)n_with_offset, (uint64)n);
    const int32 group = atomicAdd(n_groups, 1), piece = atomicAdd(n_cut, (int32)n_own);
    offset[node] = begin;
    node_of[group] = *first_node + (int32)node;
    tree_of[group] = tree[node];
    quantile_level[group] = quantile_level_of[trees[tree[node]] % (uint64)trees_per_round];
    for (int64 i = 0; i < n_own; ++i) {
        slot[piece + i] = group;
        first[piece + i] = begin + i * QUANTILE_PIECE;
        rows[piece + i] = (int32)min((int64)QUANTILE_PIECE, n - i * QUANTILE_PIECE);
    }
}

// Write keys and weights of the rows of a level's nodes that were not split. row and pieces
// are as in sums.cu, tree and start as in policy.cu, accepted as in children.cu. weights int64
// (n,): integer weights of all rows, read only if `weighted`.
// Launch: over the pieces of the level.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
key_residuals(In<uint32> row, In<int32> tree, In<uint8> accepted, In<int64> start, In<int64> offset,
              In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows, In<uint64> trees,
              int32 trees_per_round, In<double> y, In<double> raw, int64 n, int32 n_outputs,
              In<int64> weights, int32 weighted, Out<uint64> key, Out<int64> weight)
{
    const Residuals residuals = {y, raw, n, n_outputs};
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int32 node = slot[piece];
        if (accepted[node] != 0) continue;
        const int64 column = (int64)(trees[tree[node]] % (uint64)trees_per_round);
        const int64 begin = first[piece], to = offset[node] + begin - start[node];
        for (int32 at = threadIdx.x; at < rows[piece]; at += BOOST_THREADS) {
            const int64 own = row[begin + at];
            key[to + at] = key_of(residuals.of(own, column));
            if (weighted != 0) weight[to + at] = weights[own];
        }
    }
}

// ---- Rows that traverse finished trees ---------------------------------------------------------

// Write the nodes of finished trees as the nodes of one level, for offset_leaves; count and taken
// become zero. size int32 (1,): number of nodes of all trees. Launch: over `capacity` nodes.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
mark_leaves(In<int64> table, int32 n_trees, int64 capacity, In<int32> left, Out<int32> size,
            Out<uint8> accepted, Out<int32> tree, Out<int64> count, Out<int64> taken)
{
    const int64 node = row_of_thread();
    if (node == 0) *size = (int32)table[n_trees];
    if (node >= min(capacity, table[n_trees])) return;
    accepted[node] = left[node] != 0;
    tree[node] = tree_of(table, n_trees, node);
    count[node] = 0;
    taken[node] = 0;
}

// Find the leaf of each row of each tree, and the number of rows of each leaf.
//
//   row     uint32 (r,)      rows of all trees; tree t has n_rows[t] of them, from start[t] on
//   leaf    int32 (r,)       index of the row's leaf among the nodes of all trees
//   count   int64 (nodes,)   rows of each leaf; zero before the launch
//
// Launch: grid (any, T); threads loop over rows.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
count_leaves(In<uint32> row, In<int64> start, In<int64> n_rows, In<uint8> codes, int64 n,
             int32 missing_code, In<int64> table, int32 n_trees, In<int32> feature, In<uint8> code,
             In<uint8> missing_left, In<int32> left, int32 has_masks, In<int32> category,
             In<uint32> masks, Out<int32> leaf, Out<int64> count)
{
    const int64 tree = blockIdx.y, begin = start[tree], end = begin + n_rows[tree];
    const FinishedTrees nodes = {table, n_trees, feature,  code, missing_left,
                                 left,  has_masks != 0, category, masks};
    for (int64 at = begin + row_of_thread(); at < end; at += (int64)gridDim.x * BOOST_THREADS) {
        const int64 found = nodes.leaf_of(codes, n, row[at], missing_code, tree);
        leaf[at] = (int32)found;
        atomicAdd((uint64*)count + found, 1ull);
    }
}

// Write keys and weights of the rows of count_leaves. Their order within a leaf can vary, which
// does not change quantiles. taken int64 (nodes,), zero before the launch: rows written so far.
// Launch: as for count_leaves.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
key_traversed(In<uint32> row, In<int64> start, In<int64> n_rows, In<int32> leaf, In<int64> offset,
           In<uint64> trees, int32 trees_per_round, In<double> y, In<double> raw, int64 n,
           int32 n_outputs, In<int64> weights, int32 weighted, Out<int64> taken, Out<uint64> key,
           Out<int64> weight)
{
    const Residuals residuals = {y, raw, n, n_outputs};
    const int64 tree = blockIdx.y, begin = start[tree], end = begin + n_rows[tree];
    const int64 column = (int64)(trees[tree] % (uint64)trees_per_round);
    for (int64 at = begin + row_of_thread(); at < end; at += (int64)gridDim.x * BOOST_THREADS) {
        const int32 node = leaf[at];
        const int64 to = offset[node] + (int64)atomicAdd((uint64*)taken + node, 1ull),
            own = row[at];
        key[to] = key_of(residuals.of(own, column));
        if (weighted != 0) weight[to] = weights[own];
    }
}

// ---- Splits undone -----------------------------------------------------------------------------

// Find the first group of each leaf; a leaf has several groups if splits were undone. size int32
// (1,): number of groups.
// leaf int32 (places,): place of the leaf that contains each node, see best_first.cu. first_of
// int32 (places,): the first group of each leaf; the largest int32 before the launch.
// Launch: over groups.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
first_groups(In<int32> size, In<int32> node_of, In<int32> leaf, Out<int32> first_of)
{
    const int64 group = row_of_thread();
    if (group < *size) atomicMin(first_of + leaf[node_of[group]], (int32)group);
}

// Assign the pieces of all groups of a leaf to the first one, which becomes the group of the leaf.
// joined int32 (g,): place of the leaf for a first group, -1 for other groups. Launch: one thread
// per group or piece, whichever are more, in blocks of BOOST_THREADS.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
join_groups(In<int32> size, In<int32> n_pieces, In<int32> node_of, In<int32> leaf,
            In<int32> first_of, Out<int32> slot, Out<int32> joined)
{
    const int64 at = row_of_thread();
    if (at < *n_pieces) slot[at] = first_of[leaf[node_of[slot[at]]]];
    if (at >= *size) return;
    const int32 own = leaf[node_of[at]];
    joined[at] = first_of[own] == (int32)at ? own : -1;
}

// ---- Residuals about the median, for the Huber loss --------------------------------------------

// The term of a number: the number minus its group's quantile, clipped to [-limit, limit], times
// its weight.
__device__ __forceinline__ double clipped_residual(const Numbers& numbers, int64 at, double centre,
                                                   double limit)
{
    const double residual = number_of(numbers.key[at]) - centre;
    return ValueBounds{-limit, limit}.clip(residual) * (double)numbers.weight_of(at);
}

// largest uint64 (T,), zero before the launch: bit pattern of each tree's largest absolute term.
// centre float64 (g,): the quantile of each group. limit float64 (K,): the limit of each column.
// Launch: over pieces.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
largest_terms(In<uint64> key, In<int64> weight, int32 weighted, In<int32> n_pieces, In<int32> slot,
              In<int64> first, In<int32> rows, In<double> centre, In<int32> tree_of,
              In<uint64> trees, int32 trees_per_round, In<double> limit, Out<uint64> largest)
{
    __shared__ uint64 of_warp[BOOST_WARPS];
    const Numbers numbers = {key, weight, weighted != 0};
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int32 group = slot[piece], tree = tree_of[group];
        const int64 begin = first[piece], end = begin + rows[piece];
        const double limit_of_tree = limit[trees[tree] % (uint64)trees_per_round];
        double size = 0.0;
        for (int64 at = begin + threadIdx.x; at < end; at += BOOST_THREADS) {
            size = max(size, fabs(clipped_residual(numbers, at, centre[group], limit_of_tree)));
        }
        update_largest(of_warp, largest + tree, size);
    }
}

// Number of bits of a summand such that sums of n summands have at most SUM_BITS bits.
__device__ __forceinline__ int32 bits_of_entry(int64 n)
{
    return SUM_BITS - (n <= 1 ? 0 : 64 - __clzll(n - 1));
}

// sums int64 (g, 2), zero before the launch: the sum of the terms of each group, in two planes of
// fixed-point numbers. n_rows int64 (1,): rows of a tree. Launch: over pieces.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
sum_terms(In<uint64> key, In<int64> weight, int32 weighted, In<int32> n_pieces, In<int32> slot,
          In<int64> first, In<int32> rows, In<double> centre, In<int32> tree_of, In<uint64> trees,
          int32 trees_per_round, In<double> limit, In<uint64> largest, In<int64> n_rows,
          Out<int64> sums)
{
    const Numbers numbers = {key, weight, weighted != 0};
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int32 group = slot[piece], tree = tree_of[group];
        const int64 begin = first[piece], end = begin + rows[piece];
        const double limit_of_tree = limit[trees[tree] % (uint64)trees_per_round];
        const int32 bits = bits_of_entry(*n_rows), exponent = bits - exponent_above(largest[tree]);
        int64 leading = 0, rest = 0;
        for (int64 at = begin + threadIdx.x; at < end; at += BOOST_THREADS) {
            const double scaled = ldexp(clipped_residual(numbers, at, centre[group], limit_of_tree),
                                        exponent);
            const double whole = rint(scaled);
            leading += (int64)whole;
            rest += (int64)rint(ldexp(scaled - whole, bits));
        }
        add_warp(sums + 2 * (int64)group, leading);
        add_warp(sums + 2 * (int64)group + 1, rest);
    }
}

// ---- Leaves ------------------------------------------------------------------------------------

// value float64 (nodes,): the quantile of each leaf (plus, if `clipped`, the sum of its terms
// divided by its weight) times the learning rate. With `placed`, node_of holds places in the node
// buffer, see leaves.cu. Launch: over groups.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
set_leaf_quantiles(In<int32> size, In<int32> node_of, In<int32> tree_of, In<double> centre,
                   In<int64> total, int32 clipped, In<int64> sums, In<uint64> largest,
                   In<int64> n_rows, In<double> learning_rate, int32 placed, In<int32> number_of,
                   Out<double> value)
{
    const int64 group = row_of_thread();
    const int32 node = group < *size ? node_of[group] : -1;
    if (node < 0) return;  // no group, or its pieces were assigned to another group
    double found = centre[group];
    if (clipped != 0) {
        const int32 bits = bits_of_entry(*n_rows);
        const int32 exponent = bits - exponent_above(largest[tree_of[group]]);
        const double leading = ldexp((double)sums[2 * group], -exponent);
        const double rest = ldexp((double)sums[2 * group + 1], -(exponent + bits));
        found = found + (leading + rest) / (double)max(total[group], (int64)1);
    }
    value[placed != 0 ? number_of[node] : node] = found * *learning_rate;
}
