// The candidate splits of one node by one feature, for split.cuh.
//
// A block has SPLIT_THREADS threads. A feature's items (codes) are sorted; thread t holds the
// item at position t, and the left child gets the items up to a position (or one item alone). Sums
// include only the items that are taken. Kinds of features differ only in the columns of this
// table:
//
//   kind                 order             items taken        left           candidates
//   numeric              code              all values         up to t        occupied codes
//   random threshold     code              all values         up to t        the drawn code
//   few categories       code              occupied           t alone        occupied codes
//   more categories      gradient / weight occupied           up to t        occupied codes
//   random categories    code              drawn to go left   up to t        the last position
//
// With more categories and RARE_CATEGORIES, categories that are rare in the node are left out of
// the order; they go where missing values go.
//
// Usually, a block has a thread for each code, and a cell is a code. With BY_WARP, a block is one
// warp that searches nodes with at most WARP rows: its cells are the codes that occur in the node,
// in ascending order, and cell WARP is for missing values; `Feature::codes` lists these codes.
//
// Histograms in global or shared memory are read through a type with `hessian(cell)`,
// `count(cell)`, `gradient(cell, k)`, `plane(cell, p)` and `missing_code()`, the cell of
// missing values.

#ifndef BY_WARP
#define BY_WARP 0  // whether a block is one warp, for nodes with at most WARP rows
#endif
#if !BY_WARP
constexpr int32 SPLIT_THREADS = 256;
#else
constexpr int32 SPLIT_THREADS = WARP;
#endif
constexpr int32 SPLIT_WARPS = SPLIT_THREADS / WARP;
constexpr int32 SPLIT_BLOCKS = 2;     // per multiprocessor; more would spill registers
constexpr int32 NOWHERE = 256;        // beyond all positions
constexpr int32 BOTH = 0, ONLY_RIGHT = 1, ONLY_LEFT = 2;  // directions of missing values tried

// ---- Sets of cells: one word per warp; bit t belongs to thread t -------------------------------

__device__ __forceinline__ void vote(uint32* words, bool bit)
{
    const uint32 votes = __ballot_sync(FULL_MASK, bit);
    if (threadIdx.x % WARP == 0) words[threadIdx.x / WARP] = votes;
}

__device__ __forceinline__ int32 size_of(const uint32 (&words)[SPLIT_WARPS])
{
    int32 size = 0;
    for (int32 w = 0; w < SPLIT_WARPS; ++w) size += __popc(words[w]);
    return size;
}

// The lowest cell of the set that is at least `from`, else -1.
__device__ __forceinline__ int32 lowest(const uint32 (&words)[SPLIT_WARPS], int32 from)
{
    for (int32 w = from / WARP; w < SPLIT_WARPS; ++w) {
        uint32 bits = words[w];
        if (w == from / WARP) bits &= 0xffffffffu << (from % WARP);
        if (bits != 0) return w * WARP + __ffs((int32)bits) - 1;
    }
    return -1;
}

__device__ __forceinline__ int32 highest(const uint32 (&words)[SPLIT_WARPS])
{
    for (int32 w = SPLIT_WARPS - 1; w >= 0; --w) {
        if (words[w] != 0) return w * WARP + 31 - __clz((int32)words[w]);
    }
    return -1;
}

// ---- State of a block --------------------------------------------------------------------------

struct Workspace {
    uint32 occupied[SPLIT_WARPS];  // occupied cells, without the missing cell
    uint32 drawn[SPLIT_WARPS];     // scratch: bins up to a draw, or categories drawn or sorted
    int64 warp_sums[SPLIT_WARPS];
    double warp_score[SPLIT_WARPS];
    int32 warp_position[SPLIT_WARPS];  // in the encoding of `best_position`
    double ratio[SPLIT_THREADS];
    int32 order[SPLIT_THREADS];
};

struct Node {
    In<int64> gradient;
    int64 hessian;
    int64 count;
    int64 min_hessian;
    int64 min_category;  // smallest hessian of a category that is not rare
    uint64 key;
    ValueBounds bounds;  // for NEWTON
};

struct Options {
    int32 criterion;
    int32 min_samples_leaf;
    int32 n_channels;
    bool by_class;
    bool random_thresholds;
    In<double> regular;  // l1, l2 and the largest absolute leaf value, for NEWTON
};

struct Feature {
    int32 index;
    int32 n_bins;
    bool categorical;
    // 1 if leaf values must not decrease with the feature, -1 if they must not increase, else 0.
    int32 sign;
    In<double> center;   // centres of the feature's bins
    // (SPLIT_THREADS + 1,): codes of the cells in use, NO_CODE for the others and for the missing
    // cell; null if cells are codes.
    const uint8* codes;

    __device__ __forceinline__ int32 code(int32 cell) const
    {
        return codes == nullptr ? cell : codes[cell];
    }
};

constexpr int32 NO_CODE = 255;  // above all codes of values

// The item at this thread's position, and the position of this thread's cell.
struct Item {
    int32 cell;
    bool taken;      // whether sums include the item
    bool candidate;  // whether the left side of a candidate ends at this position
    bool alone;      // whether the left child gets this item only, not all up to it
    int32 place;     // position of the category in cell threadIdx.x; NOWHERE if it is not taken
    int32 bin;
    int32 next_bin;
    double draw;
    bool leaves_rare;  // whether occupied codes that are not taken go where missing values go
};

__device__ __forceinline__ double no_draw() { return __longlong_as_double(0x7ff8000000000000ll); }

// ---- Orders ------------------------------------------------------------------------------------

__device__ __forceinline__ Item numeric_item(const Workspace& space, int32 missing_cell,
                                             const Feature& feature)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    const int32 next = t + 1 < SPLIT_THREADS ? lowest(space.occupied, t + 1) : -1;
    return {t, t < missing_cell, occupied, false, NOWHERE, feature.code(t),
            next < 0 ? ONLY_MISSING_RIGHT : feature.code(next), no_draw(), false};
}

// The last bin from `low` on, below `high`, whose centre is at most `draw`; `low` if there is none.
// Every thread of the block takes part.
__device__ __forceinline__ int32 drawn_bin(Workspace& space, In<double> center, int32 low,
                                           int32 high, double draw)
{
    const int32 t = threadIdx.x;
    int32 reached = -1;
    if (!BY_WARP) {
        vote(space.drawn, t >= low && t < high && center[t < high ? t : low] <= draw);
        __syncthreads();
        reached = highest(space.drawn);
    } else {
        for (int32 first = low; first < high; first += WARP) {
            const bool below = first + t < high && center[first + t] <= draw;
            const uint32 votes = __ballot_sync(FULL_MASK, below);
            if (votes != 0) reached = first + 31 - __clz((int32)votes);
        }
    }
    return reached < 0 ? low : reached;
}

// The item for a random threshold. Every thread of the block takes part.
__device__ __forceinline__ Item random_numeric_item(Workspace& space, int32 missing_cell,
                                                    const Node& node, const Feature& feature)
{
    const int32 t = threadIdx.x;
    const int32 low = feature.code(lowest(space.occupied, 0));
    const int32 high = feature.code(highest(space.occupied));
    const double u = threshold_draw(node.key, (uint64)feature.index);
    const double draw = feature.center[low] * (1.0 - u) + feature.center[high] * u;
    const int32 bin = drawn_bin(space, feature.center, low, high, draw);
    const bool last_below = feature.code(t) <= bin && feature.code(t + 1) > bin;
    const bool one_value = low == high;
    return {t, t < missing_cell, last_below, false, NOWHERE, bin,
            one_value ? ONLY_MISSING_RIGHT : bin + 1, draw, false};
}

__device__ __forceinline__ Item single_category_item(const Workspace& space)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    return {t, occupied, occupied, true, occupied ? t : NOWHERE, 0, 0, no_draw(), false};
}

// The item for a random set of categories. Every thread of the block takes part.
__device__ __forceinline__ Item random_category_item(Workspace& space, const Node& node,
                                                     const Feature& feature)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    bool left = occupied && category_goes_left(node.key, (uint64)feature.index,
                                               (uint64)feature.code(t));
    vote(space.drawn, left);
    __syncthreads();
    const int32 n_left = size_of(space.drawn);
    if (n_left == 0 || n_left == size_of(space.occupied)) left = t == lowest(space.occupied, 0);
    return {t, left, t == SPLIT_THREADS - 1, false, left ? t : NOWHERE, 0, 0, no_draw(), false};
}

// The gradient that the category in this thread's cell is sorted by: that of the only channel; with
// several classes, that of the node's largest class; with several values, their sum.
template <class HistogramView>
__device__ __forceinline__ int64 ordering_gradient(const HistogramView& cells, const Node& node,
                                                   const Options& options)
{
    const int32 t = threadIdx.x;
    if (!options.by_class && SCORED_TOGETHER == 0) {
        int64 sum = 0;
        for (int32 k = 0; k < options.n_channels; ++k) sum += cells.gradient(t, k);
        return sum;
    }
    int32 largest = 0;
    for (int32 k = 1; k < options.n_channels; ++k) {
        if (node.gradient[k] > node.gradient[largest]) largest = k;
    }
    return cells.gradient(t, largest);
}

// The item for sorted categories. Every thread of the block takes part.
template <class HistogramView>
__device__ __forceinline__ Item sorted_category_item(Workspace& space, const HistogramView& cells,
                                                     const Node& node, const Options& options)
{
    const int32 t = threadIdx.x;
    bool sorted = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    if (RARE_CATEGORIES) {
        sorted = sorted && cells.hessian(t) >= node.min_category;
        vote(space.drawn, sorted);
    }
    const auto& among = RARE_CATEGORIES ? space.drawn : space.occupied;
    if (sorted) {
        space.ratio[t] = (double)ordering_gradient(cells, node, options) / (double)cells.hessian(t);
    }
    __syncthreads();
    int32 place = NOWHERE;
    if (sorted) {
        place = 0;
        const double own = space.ratio[t];
        for (int32 c = lowest(among, 0); c >= 0;
             c = c + 1 < SPLIT_THREADS ? lowest(among, c + 1) : -1) {
            const double other = space.ratio[c];
            place += other < own || (other == own && c < t);
        }
        space.order[place] = t;
    }
    __syncthreads();
    const bool taken = t < size_of(among);
    return {taken ? space.order[t] : 0, taken, taken, false, place, 0, 0, no_draw(),
            RARE_CATEGORIES != 0};
}
