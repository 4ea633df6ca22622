// Prediction: every row traverses every tree, and the values of the leaves that it reaches are
// added in the order of the trees.
//
// Estimated time: 10M rows of 28 float32 values and 500 trees of depth 8 are 1.25e9 steps of a
// warp, each of 20 instructions and about 5 passes through the L1 cache or shared memory. On an
// H200, instructions and passes take 27 to 29 ms each, and reading X takes 0.3 ms. Therefore nodes
// are small (8 bytes if possible), a node stores whether its children are leaves, which saves a
// load, and a thread traverses TREES_AT_ONCE trees at once to hide latency.
//
//   nodes    uint32 (m, 2 or 4)    records as below; tree t begins at node offset[t]
//   offset   int64 (T + 1,)        value   float64 (m, V): V values per node
//   masks    uint32 (c, 8)         sets of codes that go left; read only if has_masks
//   X        float32 or float64 (n, F), its strides counted in values; NaN is missing
//
//   narrow   | threshold 32 |  left child 18, flags 4, feature 10  |
//   float    | threshold 32 |  flags 4, feature 28  |  left child 32  |  -  |
//   double   |     threshold 64     |  flags 4, feature 28  |  left child 32  |
//
// The numbers are bits; within a word, leading bits come first. Children are numbered within their
// tree, whose root is 0; the right child follows the left one. Float32 values are compared with
// thresholds rounded down. A categorical split has the index of a row of masks in place of a
// threshold.
//
// Launch of predict and find_leaves: one thread per row, at most PREDICT_THREADS per block, for
// each y index of the grid, which selects some values (predict) or some trees (find_leaves). If
// `staged`, a block first copies the values of its rows to shared memory, [feature][row], with one
// unused row: lanes that write features of one row, or read one feature of their rows, then use
// different banks. Dynamic shared memory, in bytes:
//   predict       8 * values_per_block * threads, if values_per_block > 1, and the staged rows
//   find_leaves   the staged rows: sizeof(Value) * F * (threads + 1) if `staged`

#include "common/goes_left.cuh"

constexpr int32 PREDICT_THREADS = 256;
constexpr int32 TREES_AT_ONCE = 4;  // trees that a thread traverses together

constexpr int32 NARROW_CHILD_BITS = 18, NARROW_FEATURE_BITS = 10, WIDE_FEATURE_BITS = 28;
constexpr int32 FLAG_BITS = 4;

#ifndef NODE  // 0: narrow, 1: float, 2: double
#define NODE 0
#endif
#define DOUBLE (NODE == 2)
#include "common/value.cuh"

// ---- Nodes -------------------------------------------------------------------------------------

// The flags of a node, lowest bit first: missing values go right, the split is categorical, the
// right child is a leaf, the left child is a leaf.
constexpr uint32 MISSING_GOES_RIGHT = 1, CATEGORICAL = 2;

// The threshold of a node for float32 values.
struct FloatThreshold {
    uint32 threshold;

    __device__ __forceinline__ uint32 mask() const { return threshold; }
    __device__ __forceinline__ bool exceeds_threshold(float x) const
    {
        return x > __uint_as_float(threshold);
    }
};

struct NarrowNode : FloatThreshold {
    static constexpr int32 WORDS = 2, FEATURE_BITS = NARROW_FEATURE_BITS;
    static_assert(NARROW_CHILD_BITS + FLAG_BITS + FEATURE_BITS == 32, "a word is full");
    uint32 word;

    __device__ __forceinline__ static NarrowNode load(const uint32* root, uint32 at)
    {
        const uint2 record = __ldg(reinterpret_cast<const uint2*>(root) + at);
        return {{record.x}, record.y};
    }
    __device__ __forceinline__ uint32 left() const { return word >> (FEATURE_BITS + FLAG_BITS); }
};

struct FloatNode : FloatThreshold {
    static constexpr int32 WORDS = 4, FEATURE_BITS = WIDE_FEATURE_BITS;
    uint32 word, child;

    __device__ __forceinline__ static FloatNode load(const uint32* root, uint32 at)
    {
        const uint4 record = __ldg(reinterpret_cast<const uint4*>(root) + at);
        return {{record.x}, record.y, record.z};
    }
    __device__ __forceinline__ uint32 left() const { return child; }
};

struct DoubleNode {
    static constexpr int32 WORDS = 4, FEATURE_BITS = WIDE_FEATURE_BITS;
    uint32 low, high, word, child;

    __device__ __forceinline__ static DoubleNode load(const uint32* root, uint32 at)
    {
        const uint4 record = __ldg(reinterpret_cast<const uint4*>(root) + at);
        return {record.x, record.y, record.z, record.w};
    }
    __device__ __forceinline__ uint32 left() const { return child; }
    __device__ __forceinline__ uint32 mask() const { return low; }
    __device__ __forceinline__ bool exceeds_threshold(double x) const
    {
        return x > __longlong_as_double((int64)((uint64)high << 32 | low));
    }
};

#if NODE == 0
typedef NarrowNode Record;
#elif NODE == 1
typedef FloatNode Record;
#else
typedef DoubleNode Record;
#endif

struct Forest {
    const uint32* nodes;
    const int64* offset;
    const uint32* masks;  // null if no tree splits categories
};

// ---- Traversal of trees ------------------------------------------------------------------------

__device__ __forceinline__ uint32 feature_of(const Record& node)
{
    return node.word & ((1u << Record::FEATURE_BITS) - 1u);
}

__device__ __forceinline__ bool has_flag(const Record& node, uint32 flag)
{
    return (node.word & flag << Record::FEATURE_BITS) != 0;
}

// The split of a node, for `goes_left`.
struct RecordSplit {
    const Record& node;
    const uint32* masks;

    __device__ __forceinline__ bool is_missing(Value x) const { return x != x; }
    __device__ __forceinline__ bool missing_left() const
    {
        return !has_flag(node, MISSING_GOES_RIGHT);
    }
    __device__ __forceinline__ bool is_categorical() const { return has_flag(node, CATEGORICAL); }
    __device__ __forceinline__ bool in_set(Value x) const
    {
        const int32 code = (int32)min(x, (Value)LAST_CODE);
        return has_code(__ldg(masks + (int64)node.mask() * CODE_WORDS + code / WARP), code);
    }
    __device__ __forceinline__ bool at_most(Value x) const { return !node.exceeds_threshold(x); }
};

// Whether a value goes right. PLAIN: the value is neither missing nor a category.
template <bool PLAIN>
__device__ __forceinline__ bool goes_right(const Record& node, Value x, const uint32* masks)
{
    return PLAIN ? node.exceeds_threshold(x) : !goes_left(RecordSplit{node, masks}, x);
}

// The left or right child of a node; ~k if the child is leaf k.
__device__ __forceinline__ int32 child_of(const Record& node, uint32 right)
{
    constexpr int32 LEFT_IS_LEAF = Record::FEATURE_BITS + FLAG_BITS - 1;
    const int32 is_leaf = (int32)(node.word << (31 - LEFT_IS_LEAF + right)) >> 31;  // 0 or -1
    return (int32)(node.left() + right) ^ is_leaf;
}

// Find the leaves of a row in the trees first, ..., last - 1; add them to `leaves` in this order.
template <bool PLAIN, typename Stride, typename Leaves>
__device__ __forceinline__ void traverse(const Forest& forest, const Value* row, Stride stride,
                                         int32 first, int32 last, Leaves& leaves)
{
    for (int32 tree = first; tree < last; tree += TREES_AT_ONCE) {
        const uint32* root[TREES_AT_ONCE];
        int32 at[TREES_AT_ONCE];  // negative once a leaf is reached
        int32 all = -1;
        #pragma unroll
        for (int32 w = 0; w < TREES_AT_ONCE; ++w) {
            const int64 begin = __ldg(forest.offset + min(tree + w, last));
            root[w] = forest.nodes + begin * Record::WORDS;
            at[w] = __ldg(forest.offset + min(tree + w + 1, last)) - begin > 1 ? 0 : ~0;
            all &= at[w];
        }
        while (all >= 0) {
            Record node[TREES_AT_ONCE];
            Value x[TREES_AT_ONCE];
            all = -1;
            #pragma unroll
            for (int32 w = 0; w < TREES_AT_ONCE; ++w) {
                if (at[w] >= 0) node[w] = Record::load(root[w], at[w]);
            }
            #pragma unroll
            for (int32 w = 0; w < TREES_AT_ONCE; ++w) {
                if (at[w] >= 0) x[w] = row[(Stride)feature_of(node[w]) * stride];
            }
            #pragma unroll
            for (int32 w = 0; w < TREES_AT_ONCE; ++w) {
                if (at[w] >= 0) {
                    at[w] = child_of(node[w], goes_right<PLAIN>(node[w], x[w], forest.masks));
                }
                all &= at[w];
            }
        }
        #pragma unroll
        for (int32 w = 0; w < TREES_AT_ONCE; ++w) {
            if (tree + w < last) leaves.add(tree + w, (uint32)~at[w]);
        }
    }
}

// The rows of X.
struct InputRows {
    const Value* X;
    int64 n, row_stride, column_stride;
    int32 n_features;
};

// Copy the values of the block's rows to `tile`; return whether any value is missing.
__device__ __forceinline__ bool stage(const InputRows& rows, Value* tile)
{
    const int32 pitch = blockDim.x + 1;
    const int64 first = (int64)blockIdx.x * blockDim.x;
    const int32 n_rows = (int32)min((int64)blockDim.x, rows.n - first);
    const bool by_row = rows.column_stride == 1;  // so that reads are coalesced
    const int32 inner = by_row ? rows.n_features : n_rows;
    bool missing = false;
    for (int32 i = threadIdx.x; i < n_rows * rows.n_features; i += blockDim.x) {
        const int32 slow = i / inner, fast = i - slow * inner;
        const int32 row = by_row ? slow : fast, feature = by_row ? fast : slow;
        const Value x = rows.X[(first + row) * rows.row_stride + feature * rows.column_stride];
        tile[feature * pitch + row] = x;
        missing |= x != x;
    }
    return __syncthreads_or(missing) != 0;
}

// Traverse some trees with the thread's row; `tile` is null if values are read from global memory.
template <typename Leaves>
__device__ __forceinline__ void traverse_rows(const Forest& forest, const InputRows& rows,
                                              Value* tile, int32 first, int32 last, Leaves& leaves)
{
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (tile == nullptr) {
        if (row >= rows.n) return;
        const Value* own = rows.X + row * rows.row_stride;
        traverse<false>(forest, own, rows.column_stride, first, last, leaves);
        return;
    }
    const bool plain = !stage(rows, tile) && forest.masks == nullptr;
    if (row >= rows.n) return;
    const int32 pitch = blockDim.x + 1;
    if (plain) {
        traverse<true>(forest, tile + threadIdx.x, pitch, first, last, leaves);
    } else {
        traverse<false>(forest, tile + threadIdx.x, pitch, first, last, leaves);
    }
}

// ---- Sums of leaf values -----------------------------------------------------------------------

struct ValueSums {
    const int64* offset;
    const double* value;  // values from the block's first one on
    int32 n_values, n_own, step;
    double one;
    double* many;  // [value][thread], from this thread on, if there are several values

    __device__ __forceinline__ void add(int32 tree, uint32 leaf)
    {
        const double* values = value + (__ldg(offset + tree) + leaf) * n_values;
        if (n_own == 1) {
            one += __ldg(values);
        } else {
            for (int32 v = 0; v < n_own; ++v) many[v * step] += __ldg(values + v);
        }
    }
};

// total float64 (n, V). Grid: (blocks of rows, blocks of `values_per_block` values).
extern "C" __global__ void __launch_bounds__(PREDICT_THREADS, 3)
predict(In<uint32> nodes, In<int64> offset, In<uint32> masks, In<double> value, In<Value> X,
        int64 n, int64 row_stride, int64 column_stride, int32 n_features, int32 has_masks,
        int32 n_trees, int32 n_values, int32 values_per_block, int32 staged, Out<double> total)
{
    DYNAMIC_SHARED(double, shared);
    const int32 first = blockIdx.y * values_per_block, threads = blockDim.x;
    const int32 n_own = min(values_per_block, n_values - first);
    double* sums = shared + threadIdx.x;
    double* rest = shared + (values_per_block > 1 ? values_per_block * threads : 0);
    ValueSums leaves = {offset, value + first, n_values, n_own, threads, 0.0, sums};
    if (n_own > 1) {
        for (int32 v = 0; v < n_own; ++v) sums[v * threads] = 0.0;
    }
    const Forest forest = {nodes, offset, has_masks ? masks : nullptr};
    const InputRows rows = {X, n, row_stride, column_stride, n_features};
    Value* tile = staged ? reinterpret_cast<Value*>(rest) : nullptr;
    traverse_rows(forest, rows, tile, 0, n_trees, leaves);

    const int64 row = (int64)blockIdx.x * threads + threadIdx.x;
    if (row >= n) return;
    double* out = total + row * n_values + first;
    for (int32 v = 0; v < n_own; ++v) out[v] = n_own == 1 ? leaves.one : sums[v * threads];
}

// ---- Leaves ------------------------------------------------------------------------------------

struct LeafNumbers {
    int32* found;  // of this thread's row
    int64 n;

    __device__ __forceinline__ void add(int32 tree, uint32 leaf)
    {
        found[tree * n] = (int32)leaf;
    }
};

// found int32 (T, n): the leaf of each row, numbered within the tree. Grid: (blocks of rows, blocks
// of `trees_per_block` trees).
extern "C" __global__ void __launch_bounds__(PREDICT_THREADS, 3)
find_leaves(In<uint32> nodes, In<int64> offset, In<uint32> masks, In<Value> X, int64 n,
            int64 row_stride, int64 column_stride, int32 n_features, int32 has_masks, int32 n_trees,
            int32 trees_per_block, int32 staged, Out<int32> found)
{
    DYNAMIC_SHARED(double, shared);
    const int32 first = blockIdx.y * trees_per_block, last = min(first + trees_per_block, n_trees);
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    LeafNumbers leaves = {found + row, n};
    const Forest forest = {nodes, offset, has_masks ? masks : nullptr};
    const InputRows rows = {X, n, row_stride, column_stride, n_features};
    Value* tile = staged ? reinterpret_cast<Value*>(shared) : nullptr;
    traverse_rows(forest, rows, tile, first, last, leaves);
}

// The second pass of predicting few rows, after find_leaves: add the values of the leaves in the
// order of the trees. Launch: one thread per row and value.
extern "C" __global__ void __launch_bounds__(PREDICT_THREADS)
add_values(In<int32> found, In<int64> offset, In<double> value, int64 n, int32 n_trees,
           int32 n_values, Out<double> total)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * n_values) return;
    const int64 row = i / n_values, v = i - row * n_values;
    double sum = 0.0;
    #pragma unroll 4
    for (int32 tree = 0; tree < n_trees; ++tree) {
        const int64 node = __ldg(offset + tree) + __ldg(found + tree * n + row);
        sum += __ldg(value + node * n_values + v);
    }
    total[i] = sum;
}

// Out-of-bag sums, for rows start, ..., start + n - 1 of N: add the values of trees that did not
// draw the row to total float64 (N, V), and the number of these trees to count int64 (N,).
//   found   int32 (T, n)     drawn   uint32, draw count of row r in tree t: drawn[t * stride + r];
//                                    stride is 0 if all trees have the same draw counts
// Launch: one thread per row and value.
extern "C" __global__ void __launch_bounds__(PREDICT_THREADS)
add_out_of_bag(In<int32> found, In<int64> offset, In<double> value, In<uint32> drawn, int64 stride,
               int64 start, int64 n, int32 n_trees, int32 n_values, Out<double> total,
               Out<int64> count)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * n_values) return;
    const int64 row = i / n_values, v = i - row * n_values;
    double sum = total[start * n_values + i];
    int64 n_out_of_bag = 0;
    for (int32 tree = 0; tree < n_trees; ++tree) {
        if (__ldg(drawn + tree * stride + start + row) != 0) continue;
        const int64 node = __ldg(offset + tree) + __ldg(found + tree * n + row);
        sum += __ldg(value + node * n_values + v);
        ++n_out_of_bag;
    }
    total[start * n_values + i] = sum;
    if (v == 0) count[start + row] += n_out_of_bag;
}
