// Interventional SHAP values against background rows; gpuboost/backends/numpy/explain.py is the
// reference.
//
// A leaf that a row reaches with a features of its own and b of a background row adds its value
// times weights[a, b] to the former features, and minus its value times weights[b, a] to the
// latter. Sums of these two over the leaves below an edge are added when the edge is closed.
// Subtrees that no row of the warp reaches are skipped.
//
// Estimated time, not measured: 10k rows, 100 background rows and 100 trees of depth 6, of which a
// warp enters half of the edges, are 2e8 edges of a warp, of about 160 instructions each: 34 ms on
// an H200. Atomics, of which two thirds would add 0 and are skipped, take about 10 ms.
//
//   value         float64 (E, V)             of the leaf that an edge leads to
//   stop          int32 (E,)                 the first later edge that is not below an edge
//   weights       float64 (pitch, pitch)
//   first_output  int32 (T,)                 output that a tree's first value is added to
//   background    float64 (columns, B)
//   total         int64 (features, outputs, n)
//
// Launch: one thread per row, or fewer, which then take several rows; axis y of the grid divides
// the trees, axis z the background rows. Memory of a path: for each of max_depth depths, the two
// sums of the left child of the node there; max_depth + 1 words:
//
//   | n_other 13 | n_row 13 | other row goes left 1 | row goes left 1 | reached 1 | source 2 |
//
// (leading bits first): numbers of features that must come from the background row and from the
// row, whether these go left at the split, whether the row reaches the node, and where the edge's
// feature must come from. Trees of more than 8191 levels would need larger weights than fit memory.

#include "explain/paths.cuh"

constexpr int32 PAIR_BLOCKS = 4;  // of a multiprocessor, at least
constexpr int32 EITHER = 0, OWN_ROW = 1, OTHER_ROW = 2, SOURCE_BITS = 3;
constexpr int32 REACHED = 4, ROW_LEFT = 8, OTHER_LEFT = 16;
constexpr int32 N_ROW_SHIFT = 5, N_OTHER_SHIFT = 18, FEATURES_MASK = (1 << 13) - 1;

// The trees, the thread's row and one background row.
struct RowPair {
    const uint32* edges;
    const uint32* masks;
    const double* x;  // of the row; the next column is n later
    int32 n;
    const double* other;  // of the background row; the next column is n_other later
    int32 n_other;
};

// Contributions of leaves: of features with the row's values, and with the background row's.
struct __align__(16) LeafSums {
    int64 of_row, of_other;
};

// Go down an edge, after all earlier ones; return the word of its depth.
__device__ __forceinline__ int32 enter_both(const RowPair& rows, const Edge& edge,
                                            const PathMemory& path)
{
    int32* own = path.words + edge.depth * path.next_word;
    const int32 parent = *(own - path.next_word);
    const int32 before = path.words[edge.previous * path.next_word] & SOURCE_BITS;
    int32 word = 0;
    if (edge.is_left()) {
        const SplitAbove split = {edge, rows.masks};
        const double x = __ldg(rows.x + (int64)edge.column * rows.n);
        const double other = __ldg(rows.other + (int64)edge.column * rows.n_other);
        word = goes_left(split, x) ? ROW_LEFT : 0;
        word += goes_left(split, other) ? OTHER_LEFT : 0;
    } else {
        word = *own & (ROW_LEFT | OTHER_LEFT);
    }
    const bool row_passes = word / ROW_LEFT % 2 == edge.is_left();
    const bool other_passes = word / OTHER_LEFT % 2 == edge.is_left();
    int32 source = before, can = before == OWN_ROW ? row_passes : other_passes;
    if (before == EITHER) {
        source = row_passes ? (other_passes ? EITHER : OWN_ROW) : OTHER_ROW;
        can = row_passes || other_passes;
        word += source == OWN_ROW ? 1 << N_ROW_SHIFT : 0;
        word += source == OTHER_ROW ? 1 << N_OTHER_SHIFT : 0;
    }
    word += source + (can ? parent & REACHED : 0) + (parent >> N_ROW_SHIFT << N_ROW_SHIFT);
    *own = word;
    return word;
}

// Number of edges that are closed with an edge if all edges below it, up to `end`, are skipped.
__device__ __forceinline__ int32 closed_by_skipping(const uint32* edges, const Edge& edge,
                                                    int32 end)
{
    const Edge last = Edge::load(edges, end - 1);
    return last.n_closed() - (last.depth - edge.depth);
}

// Contributions of a leaf with the value `leaf`; `word` is that of its depth.
__device__ __forceinline__ LeafSums sums_of_leaf(double leaf, int32 word, const double* weights,
                                              int32 n_weights, double scale)
{
    const int32 a = word >> N_ROW_SHIFT & FEATURES_MASK, b = word >> N_OTHER_SHIFT & FEATURES_MASK;
    const double of_row = leaf * __ldg(weights + a * n_weights + b);
    const double of_other = leaf * __ldg(weights + b * n_weights + a);
    return {in_units(of_row, scale), in_units(of_other, scale)};
}

// Add the contributions of a leaf to the n_closed edges from edge `at` upwards, which end here.
// `own_total` is the element of the row's first feature.
__device__ __forceinline__ void close_edges(const RowPair& rows, const PathMemory& path, int32 at,
                                            int32 n_closed, LeafSums sums, int32 feature_stride,
                                            int64* own_total)
{
    for (int32 k = 0; k < n_closed; ++k) {
        const Edge edge = Edge::load(rows.edges, at);
        const int32 before = path.words[edge.previous * path.next_word] & SOURCE_BITS;
        const int32 source = path.words[edge.depth * path.next_word] & SOURCE_BITS;
        if (before == EITHER && source != EITHER) {
            int64* to = own_total + (int64)edge.feature * feature_stride;
            add_to(to, source == OWN_ROW ? sums.of_row : -sums.of_other);
        }
        double* stored = path.longs + (edge.depth - 1) * path.next_long;
        LeafSums* left = reinterpret_cast<LeafSums*>(stored);
        if (edge.is_left()) {
            *left = sums;
        } else {
            sums.of_row += left->of_row;
            sums.of_other += left->of_other;
        }
        at = edge.above;
    }
}

extern "C" __global__ void __launch_bounds__(PATH_THREADS, PAIR_BLOCKS)
interventional_shap(In<int32> offset, In<int32> first_output, In<uint32> edges, In<uint32> masks,
             In<double> value, In<int32> stop, In<double> weights, In<double> X,
             In<double> background, int32 n, int32 n_background, int32 n_trees, int32 n_values,
             int32 n_outputs, int32 max_depth, int32 pitch, double scale, int32 in_shared,
             Out<double> scratch, Out<int64> total)
{
    DYNAMIC_SHARED(double, shared);
    const PathMemory path(shared, scratch, in_shared, max_depth, 2);
    // The trees and background rows of this block; all of its threads stay together.
    const auto take_row = [&](int32 row, bool is_row, int32 v, int32 tree, int32 k) {
        const RowPair rows = {edges, masks, X + row, n, background + k, n_background};
        int64* own_total = total + (int64)(__ldg(first_output + tree) + v) * n + row;
        path.words[0] = EITHER + (is_row ? REACHED : 0);
        const int32 end = __ldg(offset + tree + 1);
        for (int32 at = __ldg(offset + tree); at < end;) {
            const Edge edge = Edge::load(edges, at);
            const int32 word = enter_both(rows, edge, path);
            const bool reached = (word & REACHED) != 0;
            int32 next = at + 1, n_closed = edge.n_closed();
            LeafSums sums = {0, 0};
            if (!__any_sync(FULL_MASK, reached)) {  // no leaf below counts
                next = __ldg(stop + at);
                n_closed = closed_by_skipping(edges, edge, next);
            } else if (n_closed > 0 && reached) {
                const double leaf = __ldg(value + (int64)at * n_values + v);
                sums = sums_of_leaf(leaf, word, weights, pitch, scale);
            }
            close_edges(rows, path, at, n_closed, sums, n_outputs * n, own_total);
            at = next;
        }
    };
    const int32 step = gridDim.x * blockDim.x;
    for (int32 first = blockIdx.x * blockDim.x; first < n; first += step) {
        const int32 row = first + threadIdx.x;
        for (int32 v = 0; v < n_values; ++v) {
            for (int32 tree = blockIdx.y; tree < n_trees; tree += gridDim.y) {
                for (int32 k = blockIdx.z; k < n_background; k += gridDim.z) {
                    take_row(min(row, n - 1), row < n, v, tree, k);
                }
            }
        }
    }
}
