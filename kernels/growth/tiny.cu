// Nodes of at most WARP rows, each grown to its leaves by one warp: the list that small.cu made.
//
//   n_tiny     int32 (1,)                                 place, of the store
//   tiny_tree, tiny_count, tiny_levels, place   int32     tiny_start int64     tiny_key uint64
//
// Others as in small.cu. Most nodes of a deep tree come here. A lane takes a row, and in the search
// one of the codes that the node has, see ONE_WARP in split.cuh: nothing is as wide as the bins.
//
// Launch: grid (any), SPLIT_THREADS threads (a warp), dynamic shared memory: block_state.cuh
// has it. A block takes a node and all below it, then the next node.

#define ONE_WARP
#include "level/split.cuh"
#include "growth/block_state.cuh"
#include "growth/subtree.cuh"

constexpr int32 TINY_BLOCKS = 12;  // per multiprocessor; asking for more spills registers

extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, TINY_BLOCKS)
grow_tiny(uint32* row, uint32* weight, int32* target, int64 n_rows,
          const int32* __restrict__ n_tiny, const int32* __restrict__ tiny_tree,
          const int32* __restrict__ place, const int32* __restrict__ tiny_count,
          const int32* __restrict__ tiny_levels, const int64* __restrict__ tiny_start,
          const uint64* __restrict__ tiny_key,
          const int64* __restrict__ min_hessian, const int64* __restrict__ min_category,
          const int64* __restrict__ root_hessian, const uint8* __restrict__ allowed,
          const uint8* __restrict__ tiles, const int32* __restrict__ n_bins,
          const uint8* __restrict__ is_categorical, const double* __restrict__ center,
          int64 n_samples, int32 tile, int32 n_features,
          int32 width, const int64* __restrict__ wide, const int32* __restrict__ wide_of,
          int32 n_columns, int32 n_classes, int32 draws, int32 criterion, int32 min_samples_leaf,
          int32 n_channels, int32 by_class, int32 random_thresholds, int64 smallest,
          int32 max_features, const double* __restrict__ unit, double min_decrease,
          int32 needs_gain, const double* __restrict__ regular, int32 masks,
          int32* __restrict__ n_stored, int32* __restrict__ left,
          uint32* __restrict__ count_out, int64* __restrict__ hessian, double* __restrict__ gain,
          int32* __restrict__ feature, int16* __restrict__ bin, int16* __restrict__ next_bin,
          double* __restrict__ draw, int8* __restrict__ missing, uint32* __restrict__ mask,
          int64* __restrict__ sums)
{
    DYNAMIC_SHARED(int64, memory);
    __shared__ BlockState state;
    if ((int32)blockIdx.x >= *n_tiny) return;
    const Options options = {criterion, min_samples_leaf, n_channels, by_class != 0,
                             random_thresholds != 0, regular};
    const Task task = {{tiles, n_bins, is_categorical, center, n_samples, tile, n_features, width},
                       {options, smallest, max_features,
                        {criterion, *unit, min_decrease, needs_gain != 0}},
                       {n_columns, n_classes, draws != 0},
                       {n_stored, left, count_out, hessian, gain, feature, bin, next_bin,
                        draw, missing, mask, sums, masks != 0}};
    const Trees trees = {min_hessian, min_category, root_hessian, allowed, wide, wide_of,
                         n_features, n_samples * n_columns};
    const Layout shared = layout(memory, options, width);
    Rows rows = {row, weight, target, n_rows, 0, by_class != 0 ? 1 : n_channels};
    clear_all(state, shared);
    int32 turn = 0;  // which of the two sums is next
    for (int32 i = blockIdx.x; i < *n_tiny; i += gridDim.x) {
        rows.start = tiny_start[i];
        load(state, shared, rows, {tiny_key[i], 0, tiny_count[i], tiny_levels[i], place[i]},
             trees.tree(tiny_tree[i]));
        __syncthreads();
        for (int32 height = 1; height > 0; turn ^= 1) {
            --height;
            const Sums before = sums_of(shared, n_channels, turn ^ 1);
            height += grow(state, shared, sums_of(shared, n_channels, turn), task, height);
            clear_sums(before, n_channels);
            __syncthreads();
        }
    }
}
