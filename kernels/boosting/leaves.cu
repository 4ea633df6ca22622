// Finds the leaves of rows in a round of boosting and adds their values to raw predictions.
//
//   raw         float64 (K, n)      raw predictions
//   place       int32 (T, n)        place of each row's leaf in the node buffer of the round, see
//                                   node_buffer.cu; -1: the tree was not grown on the row
//   number_of   int32 (places,)     index of the node at each place among the nodes of all trees
//   value       float64 (., n_outputs)    values of the nodes of all trees
//   trees       uint64 (T,)         numbers in the fit of the trees of the launch
//
// Launch, unless stated otherwise: grid (rows, trees), BOOST_THREADS threads; one thread per
// row and tree; no shared memory.

#include "common/rounds.cuh"
#include "common/value.cuh"
#include "growth/trees.cuh"

// ---- Leaves from the partition -----------------------------------------------------------------

// Write `place` for the rows of nodes that were not split; the first node of the level has place
// *first_node. row and pieces are as in sums.cu, tree as in policy.cu, accepted as in
// children.cu. Launch: any grid; blocks loop over pieces.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
keep_leaves(In<uint32> row, In<int32> tree, In<uint8> accepted, In<int32> n_pieces, In<int32> slot,
            In<int64> first, In<int32> rows, int64 n, In<int32> first_node, Out<int32> place)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int32 node = slot[piece];
        if (accepted[node] != 0) continue;
        int32* own = place + tree[node] * n;
        const int32 to = *first_node + node;
        const int64 begin = first[piece];
        for (int32 at = threadIdx.x; at < rows[piece]; at += BOOST_THREADS) {
            own[row[begin + at]] = to;
        }
    }
}

// ---- Raw predictions ---------------------------------------------------------------------------

// Adds the values of a node to the raw predictions of a row. Tree t of the launch is tree trees[t]
// of the fit and adds to the columns that it fits, see list_round of gradients.cu.
struct RawPredictions {
    In<double> value;
    In<uint64> trees;
    int32 trees_per_round;
    int32 n_outputs;
    Out<double> raw;

    __device__ __forceinline__ void add(int64 tree, int64 row, int64 n, int64 node) const
    {
        const int64 column = (int64)(trees[tree] % (uint64)trees_per_round) * n_outputs;
        for (int32 k = 0; k < n_outputs; ++k) {
            double* to = raw + (column + k) * n + row;
            *to = *to + value[node * n_outputs + k];
        }
    }
};

// Add leaf values to the raw predictions of rows with codes uint8 (F, n). With `follows`, `place`
// has the leaves of the rows that the tree was grown on, and other rows traverse the tree.
// Otherwise, all rows traverse it.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
add_leaves(In<uint8> codes, int64 n, int32 missing_code, In<int64> table, int32 n_trees,
           In<int32> feature, In<uint8> code, In<uint8> missing_left, In<int32> left,
           int32 has_masks, In<int32> category, In<uint32> masks, int32 follows, In<int32> place,
           In<int32> number_of, In<double> value, In<uint64> trees, int32 trees_per_round,
           int32 n_outputs, Out<double> raw)
{
    const int64 row = row_of_thread(), tree = blockIdx.y;
    if (row >= n) return;
    const FinishedTrees nodes = {table, n_trees, feature,  code, missing_left,
                                 left,  has_masks != 0, category, masks};
    const int32 at = follows != 0 ? place[tree * n + row] : -1;
    const int64 leaf = at >= 0 ? number_of[at] : nodes.leaf_of(codes, n, row, missing_code, tree);
    const RawPredictions predictions = {value, trees, trees_per_round, n_outputs, raw};
    predictions.add(tree, row, n, leaf);
}

// Add leaf values to the raw predictions of rows that are not binned: values (n, F), with strides.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
add_leaves_by_value(In<Value> values, int64 n, int64 row_stride, int64 column_stride,
                    In<int64> table, int32 n_trees, In<int32> feature, In<uint8> code,
                    In<uint8> missing_left, In<int32> left, int32 has_masks, In<int32> category,
                    In<uint32> masks, In<double> threshold, In<double> value, In<uint64> trees,
                    int32 trees_per_round, int32 n_outputs, Out<double> raw)
{
    const int64 row = row_of_thread(), tree = blockIdx.y;
    if (row >= n) return;
    const FinishedTrees nodes = {table, n_trees, feature,  code, missing_left,
                                 left,  has_masks != 0, category, masks};
    const int64 leaf = nodes.leaf_of(values + row * row_stride, column_stride, threshold, tree);
    const RawPredictions predictions = {value, trees, trees_per_round, n_outputs, raw};
    predictions.add(tree, row, n, leaf);
}
