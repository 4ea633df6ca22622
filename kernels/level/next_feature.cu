// The next features of nodes that none of the first features could split, until one can. There are
// few such nodes: their rows all have one value of each feature looked at.
//
//   undecided   uint8 (nodes,)        of select_split.cu
//   last        uint64 (slots,)       of select_split.cu
//   histogram   int64 (slots, width, 2 + K)               room for that of one feature
//   row, weight, target               the rows, see histogram.cu; n_rows between columns of target
//   others                            as in split.cu
//
// A block of SPLIT_THREADS threads takes a node, then the node that lies as many blocks further on
// as the grid has. It adds the rows of the node to the histogram in global memory by 64-bit
// atomics, so that there may be any number of classes.
//
// Launch: any grid; static shared memory only.

#include "level/histogram_view.cuh"
#include "level/split.cuh"

struct Rows {
    const uint32* __restrict__ row;
    const uint32* __restrict__ weight;
    const int32* __restrict__ target;
    int64 n_rows;
    int64 start;
    int64 count;
};

// Every thread of the block takes part.
__device__ __forceinline__ void build(int64* cells, const uint8* __restrict__ codes,
                                      const Rows& rows, int32 width, const Options& options)
{
    const int32 planes = 2 + options.n_channels;
    for (int32 i = threadIdx.x; i < width * planes; i += SPLIT_THREADS) cells[i] = 0;
    __syncthreads();
    for (int64 i = threadIdx.x; i < rows.count; i += SPLIT_THREADS) {
        const int64 at = rows.start + i, weight = rows.weight[at];
        int64* cell = cells + codes[rows.row[at]] * planes;
        add_to(cell, weight);
        add_to(cell + 1, 1);
        if (options.by_class && options.n_channels > 1) {
            add_to(cell + 2 + rows.target[at], weight);
        } else {
            for (int32 k = 0; k < options.n_channels; ++k) {
                const int64 value = rows.target[k * rows.n_rows + at];
                add_to(cell + 2 + k, GRADIENTS ? value : weight * value);
            }
        }
    }
    __syncthreads();
}

// Per slot: looked int32, the feature that could split, -1 if none could; and its split, as written
// by split.cu for an entry of its lists.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, SPLIT_BLOCKS)
try_next_features(const uint8* __restrict__ codes, const uint32* __restrict__ row,
        const uint32* __restrict__ weight, const int32* __restrict__ target,
        const int32* __restrict__ size, const int32* __restrict__ slot,
        const uint8* __restrict__ undecided, const int64* __restrict__ start,
        const int64* __restrict__ hessian, const int64* __restrict__ count,
        const int64* __restrict__ gradient, const uint64* __restrict__ key,
        const int32* __restrict__ tree, const int64* __restrict__ min_hessian,
        const int64* __restrict__ min_category, const uint8* __restrict__ allowed,
        const int32* __restrict__ n_bins, const uint8* __restrict__ is_categorical,
        const double* __restrict__ center,
        const double* __restrict__ regular, const int8* __restrict__ monotonic,
        const double* __restrict__ lower, const double* __restrict__ upper,
        const uint64* __restrict__ last, int32 first_slot, int32 n_slots, int64 n_rows,
        int64 n_samples, int32 n_features, int32 width, int32 n_channels, int32 criterion,
        int32 by_class, int32 random_thresholds, int32 min_samples_leaf, int64* histogram,
        int32* __restrict__ looked, double* __restrict__ score, uint8* __restrict__ could,
        int16* __restrict__ bin, int16* __restrict__ next_bin, double* __restrict__ draw,
        int8* __restrict__ missing, uint32* __restrict__ mask)
{
    __shared__ Workspace<SPLIT_THREADS> space;
    __shared__ uint64 of_warp[SPLIT_THREADS / WARP];
    const int32 t = threadIdx.x;
    const Options options = {criterion, min_samples_leaf, n_channels, by_class != 0,
                             random_thresholds != 0, regular};
    for (int32 n = blockIdx.x; n < *size; n += (int32)gridDim.x) {
        if (undecided[n] == 0) continue;
        const int32 own = slot[n] - first_slot;
        if (own < 0 || own >= n_slots) continue;

        const Rows rows = {row, weight, target, n_rows, start[n], count[n]};
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
                build(cells_of_node, column, rows, width, options);
            }
            occupied = is_one && t < width && cells.hessian(t) > 0;
            has_choice = __syncthreads_count(occupied) >= 2;  // after it `of_warp` may be written
        }
        const int32 f = has_choice ? (int32)(rank & 0xffffffffull) : -1;
        if (t == 0) {
            looked[own] = f;
            could[own] = has_choice;
            score[own] = -1.0;
        }
        if (!has_choice) continue;
        vote(space.occupied, occupied && t < cells.missing_code());
        __syncthreads();
        const Bounds bounds = {regular, lower, upper};
        const Node node = {gradient + (int64)n * n_channels, hessian[n],      count[n],
                           min_hessian[tree[n]],             min_category[tree[n]],
                           key[n],                           bounds.below(n), bounds.above(n)};
        const Feature feature = {f, n_bins[f], is_categorical[f] != 0, MONOTONIC ? monotonic[f] : 0,
                                 center + (int64)f * (width - 1)};
        write_best(best_split(space, cells, node, options, feature), space, cells, feature,
                   {score, bin, next_bin, draw, missing, mask}, own);
    }
}
