// Trees as the edges of their paths (gpuboost/engine/explanations/path_trees.py), and what a thread
// stores about the path from the root to an edge for its row.
//
// All threads of a warp take the same edges in preorder, so branches depend on the tree only, and
// tables are read at one address, or at one address per code.
//
//   edges    uint32 (E, 8), E edges of T trees:
//            | threshold 64 | column | depth | previous | n_closed 29, flags 3 | feature | above |
//   offset   int32 (T + 1,)    first edge of each tree, then the end of the last tree
//   masks    uint32 (c, 8)     sets of codes that go left
//   X        float64 (columns, n); NaN is missing
//
// The numbers are bits; other fields have 32. Flags, lowest bit first: the edge leads to the left
// child, missing values go left, the split is categorical. A categorical split has the index of a
// row of masks in place of a threshold. `above` is the edge to the parent; unspecified at depth 1.
//
// Memory of a path: for each depth, `pitch` items of 8 bytes, and one word. An odd pitch, or items
// that are read 16 bytes at a time, use all banks. It is shared memory if `in_shared`, else
// `scratch`: longs[depth][thread][item], then words[depth][thread].
// Numbers of items, of entries of tables and of elements of `total` per feature are below 2^30.

#include "common/goes_left.cuh"

constexpr int32 PATH_THREADS = 256;  // of a block, at most; a multiple of WARP
constexpr int32 EDGE_WORDS = 8, EDGE_FLAG_BITS = 3;
constexpr uint32 TO_LEFT_CHILD = 1, SENDS_MISSING_LEFT = 2, SPLITS_CATEGORIES = 4;

struct Edge {
    uint32 low, high;  // of the threshold
    int32 column, depth, previous;
    uint32 word;
    int32 feature, above;

    __device__ __forceinline__ static Edge load(const uint32* edges, int32 at)
    {
        const uint4* record = reinterpret_cast<const uint4*>(edges + (int64)at * EDGE_WORDS);
        const uint4 a = __ldg(record), b = __ldg(record + 1);
        return {a.x, a.y, (int32)a.z, (int32)a.w, (int32)b.x, b.y, (int32)b.z, (int32)b.w};
    }
    __device__ __forceinline__ int32 is_left() const { return word & TO_LEFT_CHILD; }
    __device__ __forceinline__ int32 n_closed() const { return (int32)(word >> EDGE_FLAG_BITS); }
};

// The split above an edge, for `goes_left`.
struct SplitAbove {
    const Edge& edge;
    const uint32* masks;

    __device__ __forceinline__ bool is_missing(double x) const { return x != x; }
    __device__ __forceinline__ bool missing_left() const
    {
        return (edge.word & SENDS_MISSING_LEFT) != 0;
    }
    __device__ __forceinline__ bool is_categorical() const
    {
        return (edge.word & SPLITS_CATEGORIES) != 0;
    }
    __device__ __forceinline__ bool in_set(double x) const
    {
        const int32 code = (int32)min(x, (double)LAST_CODE);
        return has_code(__ldg(masks + (int64)edge.low * CODE_WORDS + code / WARP), code);
    }
    __device__ __forceinline__ bool at_most(double x) const
    {
        return x <= __longlong_as_double((int64)((uint64)edge.high << 32 | edge.low));
    }
};

// Memory of a thread's path.
struct PathMemory {
    double* longs;  // of depth 0
    int32* words;
    int32 next_long, next_word;  // from one depth to the next

    // n_longs: number of depths that have items of 8 bytes.
    __device__ __forceinline__ PathMemory(double* shared, double* scratch, int32 in_shared,
                                          int32 n_longs, int32 pitch)
    {
        const int32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        const int32 n_blocks = gridDim.x * gridDim.y * gridDim.z;
        const int32 thread = threadIdx.x + (in_shared ? 0 : block) * blockDim.x;
        double* begin = in_shared ? shared : scratch;
        next_word = (in_shared ? 1 : n_blocks) * blockDim.x;
        next_long = next_word * pitch;
        longs = begin + thread * pitch;
        words = reinterpret_cast<int32*>(begin + n_longs * next_long) + thread;
    }
};

// A contribution as an integer, rounded toward zero.
__device__ __forceinline__ int64 in_units(double contribution, double scale)
{
    return (int64)(contribution * scale);
}
