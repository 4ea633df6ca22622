// Try further features, in the order of each node, for nodes that no listed feature can split,
// until one can: until a feature has two occupied codes, the missing code included. Such nodes are
// rare: each listed feature has the same code in all their rows of positive weight.
//
//   undecided   uint8 (nodes,)        whether to try further features, from select_split.cu
//   last        uint64 (slots,)       largest rank of a listed feature, from select_split.cu
//   histogram   int64 (slots, 2 + n_channels, width)      scratch, for one feature
//   codes       uint8 (n_features, n_samples)
//   row, weight, target               see histogram_values.cu; columns of target are n_rows apart
//   other arrays                      as in split.cu
//
// Blocks of SPLIT_THREADS threads loop over nodes with the stride of the grid. A block adds the
// rows of a node to a histogram in global memory by 64-bit atomics, which works for any number of
// classes.
//
// Launch: any grid; static shared memory only.

#include "level/histogram_view.cuh"
#include "level/split.cuh"

// The rows of one node: `count` rows from position `start` on.
struct NodeRows {
    In<uint32> row;
    In<uint32> weight;
    In<int32> target;
    int64 n_rows;
    int64 start;
    int64 count;
};

// Build the histogram of a node's rows for one feature. Every thread of the block takes part.
__device__ __forceinline__ void build_histogram(int64* cells, In<uint8> codes, const NodeRows& rows,
                                                int32 width, const Options& options)
{
    const int32 planes = 2 + options.n_channels;
    for (int32 i = threadIdx.x; i < width * planes; i += SPLIT_THREADS) cells[i] = 0;
    __syncthreads();
    for (int64 i = threadIdx.x; i < rows.count; i += SPLIT_THREADS) {
        const int64 at = rows.start + i, weight = rows.weight[at];
        int64* cell = cells + codes[rows.row[at]];
        add_to(cell, weight);
        add_to(cell + width, 1);
        if (options.by_class && options.n_channels > 1) {
            add_to(cell + (2 + rows.target[at]) * width, weight);
        } else {
            for (int32 k = 0; k < options.n_channels; ++k) {
                const int64 value = rows.target[k * rows.n_rows + at];
                add_to(cell + (2 + k) * width, GRADIENTS ? value : weight * value);
            }
        }
    }
    __syncthreads();
}

// Write, for the slot of each undecided node: listed int32 (slots,), the next feature that can
// split the node, -1 if none can; and the split by this feature, as split.cu writes it, with one
// entry per slot. Only slots among the `n_slots` from `first_slot` on are processed; arrays (slots,
// ...) begin with the first of these.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, SPLIT_BLOCKS)
try_next_features(In<uint8> codes, In<uint32> row, In<uint32> weight, In<int32> target,
                  In<int32> size, In<int32> slot, In<uint8> undecided, In<int64> start,
                  In<int64> hessian, In<int64> count, In<int64> gradient, In<uint64> key,
                  In<int32> tree, In<int64> min_hessian, In<int64> min_category, In<uint8> allowed,
                  In<int32> n_bins, In<uint8> is_categorical, In<double> center, In<double> regular,
                  In<int8> monotonic, In<double> lower, In<double> upper, In<uint64> last,
                  int32 first_slot, int32 n_slots, int64 n_rows, int64 n_samples, int32 n_features,
                  int32 width, int32 n_channels, int32 criterion, int32 by_class,
                  int32 random_thresholds, int32 min_samples_leaf, int64* histogram,
                  Out<int32> listed, Out<double> score, Out<uint8> splittable, Out<int16> bin,
                  Out<int16> next_bin, Out<double> draw, Out<int8> missing, Out<uint32> mask)
{
    __shared__ Workspace space;
    __shared__ uint64 of_warp[SPLIT_WARPS];
    const int32 t = threadIdx.x;
    const Options options = {criterion, min_samples_leaf, n_channels, by_class != 0,
                             random_thresholds != 0, regular};
    const SearchInputs inputs = {hessian, count, gradient, key, tree, min_hessian, min_category,
                                 n_bins, is_categorical, center, monotonic,
                                 {regular, lower, upper}, width, n_channels};
    for (int32 n = blockIdx.x; n < *size; n += (int32)gridDim.x) {
        const int32 own = slot[n] - first_slot;
        if (undecided[n] == 0 || own < 0 || own >= n_slots) continue;

        const NodeRows rows = {row, weight, target, n_rows, start[n], count[n]};
        int64* cells_of_node = histogram + (int64)own * width * (2 + n_channels);
        const GlobalHistogram<volatile int64> cells = {cells_of_node, width, n_channels};
        uint64 rank = last[own];
        bool occupied = false, has_choice = false;
        while (!has_choice && rank != EVERY_RANK) {
            rank = next_rank(of_warp, allowed + allowed_row(n, tree[n]) * n_features, n_features,
                             key[n], rank + 1);
            const bool is_one = rank != EVERY_RANK;
            if (is_one) {
                const uint8* column = codes + (int64)(rank & 0xffffffffull) * n_samples;
                build_histogram(cells_of_node, column, rows, width, options);
            }
            occupied = is_one && t < width && cells.hessian(t) > 0;
            has_choice = __syncthreads_count(occupied) >= 2;  // the barrier frees `of_warp`
        }
        const int32 f = has_choice ? (int32)(rank & 0xffffffffull) : -1;
        if (t == 0) listed[own] = f;
        begin_entry(splittable, score, own, has_choice);
        if (!has_choice) continue;
        vote(space.occupied, occupied && t < cells.missing_code());
        __syncthreads();
        const Feature feature = inputs.feature(f);
        const Best best = best_split(space, cells, inputs.node(n), options, feature);
        write_best(best, space, cells, feature, {score, bin, next_bin, draw, missing, mask}, own);
    }
}
