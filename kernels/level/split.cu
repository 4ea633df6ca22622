// The best split of every open node by each listed feature; select_split.cu takes the best feature.
//
//   histogram   int64 (slots, n_listed, 2 + n_channels, width)   of each code: sum of weights,
//                                     number of rows (if counted), gradients; the last code is the
//                                     missing code
//   previous    histograms of all slots of the level before, with the same features; read only for
//                                     nodes with a `source`, in levels without slices: then all
//                                     slots are searched in one launch, and first_slot is 0
//   sizes       int32 (3,)            the first entry is the number of slots
//   node_of_slot   int32 (slots,)     slot, source int32 (nodes,)   open uint8 (nodes,)
//                                     see policy.cu
//   hessian, count   int64 (nodes,)   gradient int64 (nodes, n_channels)   sums
//   key uint64 (nodes,)               tree int32 (nodes,)
//   min_hessian, min_category   int64 (trees,)   smallest weight of a child, and of a category that
//                                     is not rare
//   allowed     uint8 (trees, n_features)   features that nodes may split on; (nodes, n_features)
//                                     with ALLOWED_BY_NODE
//   regular     float64 (3,)          l1, l2, largest absolute leaf value
//   lower, upper   float64 (nodes,)   bounds on values of nodes and their descendants; read only
//                                     with MONOTONIC
//   listed      int32 (slots, n_listed) or (n_listed,)    features of the histograms, see
//                                     shared_histogram.cuh
//   n_bins, is_categorical, monotonic   int32, uint8, int8 (n_features,)
//   center      float64 (n_features, width - 1)
//
// A block of SPLIT_THREADS threads searches one listed feature of one slot, then the same entry of
// another slot. If the histogram is found by subtraction, the block writes the difference first.
//
// Launch: grid (any, entries); the entries of the lists begin at `first_entry`, because a grid has
// at most 65535 rows and longer lists take several launches. Slots are the `n_slots` from
// `first_slot` on; except node_of_slot, arrays (slots, ...) begin with the first of these. Static
// shared memory only.

#include "level/histogram_view.cuh"
#include "level/split.cuh"

// Thread t writes the weight of code t: weights come first, and there are at most SPLIT_THREADS
// codes. Before it reads other numbers, the block must pass a barrier.
__device__ __forceinline__ void subtract(int64* own, const int64* parent, const int64* sibling,
                                         int64 n_cells)
{
    for (int64 i = threadIdx.x; i < n_cells; i += SPLIT_THREADS) own[i] = parent[i] - sibling[i];
}

// Write the best split by slot and listed feature: score float64, splittable uint8, bin and
// next_bin int16, draw float64, missing int8 (slots, n_listed); mask uint32 (slots, n_listed,
// MASK_WORDS), for categorical features only. `splittable` says whether the feature is allowed and
// has two occupied codes, the missing code included. A score of -1 means that there is no valid
// split; bin to mask are then undefined. Slots of nodes that are not open are left out.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, SPLIT_BLOCKS)
split_features(int64* histogram, In<int64> previous, In<int32> sizes, In<int32> node_of_slot,
               In<int32> slot, In<int32> source, In<uint8> open, In<int64> hessian, In<int64> count,
               In<int64> gradient, In<uint64> key, In<int32> tree, In<int64> min_hessian,
               In<int64> min_category, In<uint8> allowed, In<int32> n_bins,
               In<uint8> is_categorical, In<double> center, In<double> regular, In<int8> monotonic,
               In<double> lower, In<double> upper, int32 first_slot, int32 n_slots,
               In<int32> listed, int32 stride, int32 n_listed, int32 first_entry, int32 n_features,
               int32 width, int32 n_channels, int32 criterion, int32 by_class,
               int32 random_thresholds, int32 min_samples_leaf, Out<double> score,
               Out<uint8> splittable, Out<int16> bin, Out<int16> next_bin, Out<double> draw,
               Out<int8> missing, Out<uint32> mask)
{
    __shared__ Workspace space;
    const int32 t = threadIdx.x, entry = first_entry + (int32)blockIdx.y;
    const int32 end = min(n_slots, sizes[0] - first_slot);
    const SearchInputs inputs = {hessian, count, gradient, key, tree, min_hessian, min_category,
                                 n_bins, is_categorical, center, monotonic,
                                 {regular, lower, upper}, width, n_channels};
    const Options options = {criterion, min_samples_leaf, n_channels, by_class != 0,
                             random_thresholds != 0, regular};
    for (int32 own = blockIdx.x; own < end; own += gridDim.x) {
        const int32 n = node_of_slot[first_slot + own];
        if (open[n] == 0) continue;  // only the sibling's histogram needs this one
        const int64 out = (int64)own * n_listed + entry;
        const int32 f = listed[(int64)own * stride + entry];
        const bool is_allowed = f >= 0 && allowed[allowed_row(n, tree[n]) * n_features + f] != 0;
        if (!is_allowed) {
            begin_entry(splittable, score, out, false);
            if (!ALLOWED_BY_LEVEL) continue;
        }

        // The histogram, by subtraction if it was not summed.
        const int64 n_cells = (int64)width * (2 + n_channels);
        int64* cells_of_node = histogram + out * n_cells;
        if (source[n] >= 0) {
            const int64* parent = previous + ((int64)source[n] * n_listed + entry) * n_cells;
            const int64* sibling = histogram + ((int64)slot[n ^ 1] * n_listed + entry) * n_cells;
            subtract(cells_of_node, parent, sibling, n_cells);
        }
        if (ALLOWED_BY_LEVEL && !is_allowed) continue;  // levels below need the histogram

        // Find the occupied codes. With fewer than two there is no split.
        const GlobalHistogram<int64> cells = {cells_of_node, width, n_channels};
        const bool occupied = t < width && cells.hessian(t) > 0;
        const bool has_choice = __syncthreads_count(occupied) >= 2;  // the missing bin included
        begin_entry(splittable, score, out, has_choice);
        if (!has_choice) continue;
        vote(space.occupied, occupied && t < cells.missing_code());
        __syncthreads();
        const Feature feature = inputs.feature(f);
        const Best best = best_split(space, cells, inputs.node(n), options, feature);
        write_best(best, space, cells, feature, {score, bin, next_bin, draw, missing, mask}, out);
    }
}
