// Path-dependent SHAP values and interactions; gpuboost/engine/explanations/path_trees.py has the
// method, gpuboost/backends/numpy/explain.py is the reference.
//
// Estimated time, not measured: 1M rows, 128 features and 100 trees of depth 6 are 1.26e10 edges of
// a row, 3.9e8 of a warp. Each takes about 130 instructions (counted in the machine code: 68 to
// enter, 25 more in leaves, half of the edges, 47 to close); 13 are of float64 (2 cycles each) and
// one converts to int64 (8 cycles). About 30 times, 128 bytes pass through L1 or shared memory: 12
// of products and sums, 9 of ratios and steps, 3 of codes, 3 of records, 1 of X, 2 of atomics.
// On an H200 with 132 multiprocessors at 1.75 GHz:
//
//   instructions issued   55 ms      passes through L1   52 ms      float64 units   14 ms
//   atomics in the L2     40 ms      if each of 96 slices adds 32 bytes every other cycle
//   device memory         20 ms      each tree reads and writes `total` of its 50 features
//
// These overlap in part, so shap_values takes 60 to 150 ms (bonsai-gbt states 0.57 s). Transposing
// X and the results adds about 5 ms, and copying 1 GB of results to the host 0.1 s.
//
//   value         float64 (E, V)                  of the leaf that an edge leads to
//   ratio, step   float64 (E, N_CODES, POINTS)    filled up with 0 beyond the tree's points
//   marginal      float64 (E, 2, POINTS)          for o = 0 and o = 1
//   last          int32 (E, n_last)               the last edges of each feature on the path to
//                                                 an edge, and the edge itself; then -1
//   first_output  int32 (T,)                      output that a tree's first value is added to
//   total         int64 (features, outputs, n), for interactions (features, features, outputs, n)
//
// Along a path, `own` is C after entering an edge, and S when it is closed. What a later edge needs
// is stored by the depth of an inner node: C, until its right child is entered; from then on, S of
// its left child.
//
// Launch: one thread per row, or fewer, which then take several rows; axis y of the grid divides
// the trees, axis z the values. Memory of a path: for each of max_depth depths, PITCH items;
// max_depth + 1 words: the code of `path_trees`, plus WENT_LEFT if the row goes left at the split.

#include "explain/paths.cuh"

#ifndef POINTS
#define POINTS 3  // points of the quadrature
#endif

constexpr int32 BLOCKS = POINTS <= 4 ? 4 : POINTS <= 6 ? 2 : 1;  // of a multiprocessor, at least
constexpr int32 PITCH = POINTS | 1;
constexpr int32 N_CODES = 3;
constexpr int32 PASSED = 2;  // the code of rows that pass all splits on the feature
constexpr int32 WENT_LEFT = 4, CODE_BITS = 3;

// Whether a row passes all splits on the feature, by the word of its edge.
__device__ __forceinline__ int32 has_passed(int32 word) { return word / PASSED & 1; }

// Some trees, and the row of a thread.
struct PathTrees {
    const int32* offset;
    const uint32* edges;
    const uint32* masks;
    const double* value;
    const double* ratio;
    int32 n_values;
    const double* x;  // of the row; the next column is n later
    int32 n;
};

// Go down an edge, after all earlier ones; return the row's code. `word` is that of its depth.
__device__ __forceinline__ int32 enter(const PathTrees& trees, const Edge& edge,
                                       const PathMemory& path, int32* word)
{
    int32 left = 0;
    if (edge.is_left()) {
        const double x = __ldg(trees.x + (int64)edge.column * trees.n);
        left = goes_left(SplitAbove{edge, trees.masks}, x) ? 1 : 0;
    } else {
        left = *word / WENT_LEFT;
    }
    const int32 before = has_passed(path.words[edge.previous * path.next_word]);
    const int32 code = before + (left == edge.is_left() ? before : 0);
    *word = code + left * WENT_LEFT;
    return code;
}

// Sum of products over the points, from the first to the last.
__device__ __forceinline__ double sum_over_points(const double (&sums)[POINTS],
                                                  const double* factors)
{
    double total = sums[0] * __ldg(factors);
    #pragma unroll
    for (int32 q = 1; q < POINTS; ++q) total = total + sums[q] * __ldg(factors + q);
    return total;
}

// Store S of the left child in place of C of the parent, and take C.
__device__ __forceinline__ void exchange(double (&own)[POINTS], double* parent)
{
    #pragma unroll
    for (int32 q = 0; q < POINTS; ++q) {
        const double product = parent[q];
        parent[q] = own[q];
        own[q] = product;
    }
}

// Take the edges of a tree. When an edge is closed, close(edge, its number, code, S) is called.
template <typename Close>
__device__ __forceinline__ void take_edges(const PathTrees& trees, int32 tree, int32 v,
                                           const PathMemory& path, const Close& close)
{
    double own[POINTS];
    #pragma unroll
    for (int32 q = 0; q < POINTS; ++q) path.longs[q] = own[q] = 1.0;
    path.words[0] = PASSED;
    const int32 end = __ldg(trees.offset + tree + 1);
    for (int32 at = __ldg(trees.offset + tree); at < end; ++at) {
        const Edge edge = Edge::load(trees.edges, at);
        int32* word = path.words + edge.depth * path.next_word;
        double* parent = path.longs + (edge.depth - 1) * path.next_long;
        const int32 code = enter(trees, edge, path, word), n_closed = edge.n_closed();
        if (!edge.is_left()) exchange(own, parent);
        const double* ratio = trees.ratio + (at * N_CODES + code) * POINTS;
        #pragma unroll
        for (int32 q = 0; q < POINTS; ++q) own[q] *= __ldg(ratio + q);
        if (n_closed == 0) {
            #pragma unroll
            for (int32 q = 0; q < POINTS; ++q) parent[path.next_long + q] = own[q];
            continue;
        }
        const double value = __ldg(trees.value + (int64)at * trees.n_values + v);
        #pragma unroll
        for (int32 q = 0; q < POINTS; ++q) own[q] *= value;
        int32 number = at;
        #pragma unroll 1
        for (int32 k = 0; k < n_closed; ++k, word -= path.next_word, parent -= path.next_long) {
            const Edge closed = Edge::load(trees.edges, number);
            close(closed, number, *word & CODE_BITS, own);
            if (!closed.is_left()) {
                #pragma unroll
                for (int32 q = 0; q < POINTS; ++q) own[q] = parent[q] + own[q];
            }
            number = closed.above;
        }
    }
}

// Call run(row, v, tree) for the rows, values and trees of a thread.
template <typename Run>
__device__ __forceinline__ void take_trees(int32 n, int32 n_values, int32 n_trees, const Run& run)
{
    const int32 rows = gridDim.x * blockDim.x;
    for (int32 row = blockIdx.x * blockDim.x + threadIdx.x; row < n; row += rows) {
        for (int32 v = blockIdx.z; v < n_values; v += gridDim.z) {
            for (int32 tree = blockIdx.y; tree < n_trees; tree += gridDim.y) run(row, v, tree);
        }
    }
}

extern "C" __global__ void __launch_bounds__(PATH_THREADS, BLOCKS)
shap_values(In<int32> offset, In<int32> first_output, In<uint32> edges, In<uint32> masks,
            In<double> value, In<double> ratio, In<double> step, In<double> X, int32 n,
            int32 n_trees, int32 n_values, int32 n_outputs, int32 max_depth, double scale,
            int32 in_shared, Out<double> scratch, Out<int64> total)
{
    DYNAMIC_SHARED(double, shared);
    const PathMemory path(shared, scratch, in_shared, max_depth, PITCH);
    const int32 feature_stride = n_outputs * n;
    take_trees(n, n_values, n_trees, [&](int32 row, int32 v, int32 tree) {
        const PathTrees trees = {offset, edges, masks, value, ratio, n_values, X + row, n};
        int64* own_total = total + (int64)(__ldg(first_output + tree) + v) * n + row;
        const auto close = [&](const Edge& edge, int32 at, int32 code,
                               const double (&sums)[POINTS]) {
            const double* steps = step + (at * N_CODES + code) * POINTS;
            const double found = sum_over_points(sums, steps);
            add_to(own_total + (int64)edge.feature * feature_stride, in_units(found, scale));
        };
        take_edges(trees, tree, v, path, close);
    });
}

// The diagonal of `total` becomes the SHAP values; each interaction is divided between the two
// elements of its pair.
extern "C" __global__ void __launch_bounds__(PATH_THREADS, BLOCKS)
shap_interactions(In<int32> offset, In<int32> first_output, In<uint32> edges, In<uint32> masks,
                  In<double> value, In<double> ratio, In<double> step, In<double> marginal,
                  In<int32> last, In<double> X, int32 n, int32 n_trees, int32 n_values,
                  int32 n_outputs, int32 n_features, int32 n_last, int32 max_depth, double scale,
                  int32 in_shared, Out<double> scratch, Out<int64> total)
{
    DYNAMIC_SHARED(double, shared);
    const PathMemory path(shared, scratch, in_shared, max_depth, PITCH);
    const int32 feature_stride = n_outputs * n;
    take_trees(n, n_values, n_trees, [&](int32 row, int32 v, int32 tree) {
        const PathTrees trees = {offset, edges, masks, value, ratio, n_values, X + row, n};
        int64* own_total = total + (int64)(__ldg(first_output + tree) + v) * n + row;
        const auto close = [&](const Edge& edge, int32 at, int32 code,
                               const double (&sums)[POINTS]) {
            const double* steps = step + (at * N_CODES + code) * POINTS;
            double found[POINTS];
            #pragma unroll
            for (int32 q = 0; q < POINTS; ++q) found[q] = sums[q] * __ldg(steps + q);
            double sum = found[0];
            #pragma unroll
            for (int32 q = 1; q < POINTS; ++q) sum = sum + found[q];
            int64* pairs = own_total + (int64)(edge.feature * n_features) * feature_stride;
            add_to(pairs + (int64)edge.feature * feature_stride, in_units(sum, scale));
            for (int32 k = 0; k < n_last; ++k) {
                const int32 other = __ldg(last + at * n_last + k);
                if (other < 0) break;
                if (other == at) continue;
                const Edge above = Edge::load(edges, other);
                const int32 passed = has_passed(path.words[above.depth * path.next_word]);
                const double* factors = marginal + (other * 2 + passed) * POINTS;
                const double pair = 0.5 * sum_over_points(found, factors);
                add_to(pairs + (int64)above.feature * feature_stride, in_units(pair, scale));
            }
        };
        take_edges(trees, tree, v, path, close);
    });
}
