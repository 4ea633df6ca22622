// The best split of one node by one feature, found by one block.
//
// A block of SPLIT_THREADS threads. The codes stand in an order, thread t holds the item at
// position t, and left is the items up to a position (or one item alone). Kinds of features differ
// in nothing else:
//
//   kind                 order             items taken        left           candidates
//   numeric              code              all values         up to t        occupied codes
//   random threshold     code              all values         up to t        the drawn code
//   few categories       code              occupied           t alone        occupied codes
//   more categories      gradient / weight occupied           up to t        occupied codes
//   random categories    code              drawn to go left   up to t        the last position
//
// Where a node has no more rows than a warp has lanes, a block may be a warp (ONE_WARP): cells are
// those codes that the node has, in ascending order, and `Feature::codes` says which. Else a cell
// is a code.
//
// Histograms are read through a type with `hessian(cell)`, `count(cell)`, `gradient(cell, k)`,
// `plane(cell, p)` and `missing_code()`, the cell of missing values, wherever they lie.
#ifndef GPUBOOST_SPLIT_CUH
#define GPUBOOST_SPLIT_CUH

#ifndef ONE_WARP
constexpr int32 SPLIT_THREADS = 256;  // as many as there are codes
#else
constexpr int32 SPLIT_THREADS = WARP;
#endif
constexpr int32 SPLIT_BLOCKS = 2;     // per multiprocessor; asking for more spills registers
constexpr int32 SPLIT_WARPS = SPLIT_THREADS / WARP;
constexpr int32 NOWHERE = SPLIT_THREADS;
constexpr int32 BOTH = 0, ONLY_RIGHT = 1, ONLY_LEFT = 2;  // directions of missing values tried

// ---- Sets of cells: SPLIT_WARPS words, thread t owning bit t ----------------------------------

__device__ __forceinline__ void vote(uint32* words, bool bit)
{
    const uint32 votes = __ballot_sync(FULL_MASK, bit);
    if (threadIdx.x % WARP == 0) words[threadIdx.x / WARP] = votes;
}

__device__ __forceinline__ int32 size_of(const uint32* words)
{
    int32 size = 0;
    for (int32 w = 0; w < SPLIT_WARPS; ++w) size += __popc(words[w]);
    return size;
}

// The lowest cell of the set that is at least `from`, else -1.
__device__ __forceinline__ int32 lowest(const uint32* words, int32 from)
{
    for (int32 w = from / WARP; w < SPLIT_WARPS; ++w) {
        uint32 bits = words[w];
        if (w == from / WARP) bits &= 0xffffffffu << (from % WARP);
        if (bits != 0) return w * WARP + __ffs((int32)bits) - 1;
    }
    return -1;
}

__device__ __forceinline__ int32 highest(const uint32* words)
{
    for (int32 w = SPLIT_WARPS - 1; w >= 0; --w) {
        if (words[w] != 0) return w * WARP + 31 - __clz((int32)words[w]);
    }
    return -1;
}

// ---- What a block works on ---------------------------------------------------------------------

struct Workspace {
    uint32 occupied[SPLIT_WARPS];  // values, without the missing code
    uint32 drawn[SPLIT_WARPS];
    int64 warp_sums[SPLIT_WARPS];
    double warp_gain[SPLIT_WARPS];
    int32 warp_position[SPLIT_WARPS];
    double ratio[SPLIT_THREADS];
    int32 order[SPLIT_THREADS];
};

struct Node {
    const int64* __restrict__ gradient;
    int64 hessian;
    int64 count;
    int64 min_hessian;
    uint64 key;
};

struct Options {
    int32 score;
    int32 min_samples_leaf;
    int32 n_channels;
    bool by_class;
    bool random_thresholds;
};

struct Feature {
    int32 index;
    int32 n_bins;
    bool categorical;
    const double* __restrict__ center;  // of its bins
    const uint8* codes;  // of the cells, then NO_CODE at least once; null: a cell is a code

    __device__ __forceinline__ int32 code(int32 cell) const
    {
        return codes == nullptr ? cell : codes[cell];
    }
};

constexpr int32 NO_CODE = 255;  // above all codes of values

// The item at this thread's position, and where this thread's cell stands.
struct Item {
    int32 cell;
    bool taken;
    bool candidate;
    bool alone;      // left is one item, not all items up to it
    int32 place;     // position of cell threadIdx.x, NOWHERE if it is not taken
    int32 bin;
    int32 next_bin;
    double draw;
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
            next < 0 ? ONLY_MISSING_RIGHT : feature.code(next), no_draw()};
}

// The last bin from `low` on, below `high`, whose centre is at most `draw`; `low` if none is. Every
// thread of the block takes part.
__device__ __forceinline__ int32 drawn_bin(Workspace& space, const double* __restrict__ center,
                                           int32 low, int32 high, double draw)
{
    const int32 t = threadIdx.x;
    int32 reached = -1;
    if (SPLIT_THREADS > WARP) {
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

// Every thread of the block takes part.
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
            one_value ? ONLY_MISSING_RIGHT : bin + 1, one_value ? no_draw() : draw};
}

__device__ __forceinline__ Item single_category_item(const Workspace& space)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    return {t, occupied, occupied, true, occupied ? t : NOWHERE, 0, 0, no_draw()};
}

// Every thread of the block takes part.
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
    return {t, left, t == SPLIT_THREADS - 1, false, left ? t : NOWHERE, 0, 0, no_draw()};
}

// The gradient that categories are sorted by: of the node's largest class, or of all outputs.
template <class Cells>
__device__ __forceinline__ int64 ordering_gradient(const Cells& cells, const Node& node,
                                                   const Options& options)
{
    const int32 t = threadIdx.x;
    if (!options.by_class) {
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

// Every thread of the block takes part.
template <class Cells>
__device__ __forceinline__ Item sorted_category_item(Workspace& space, const Cells& cells,
                                                     const Node& node, const Options& options)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    if (occupied) {
        space.ratio[t] = (double)ordering_gradient(cells, node, options) / (double)cells.hessian(t);
    }
    __syncthreads();
    int32 place = NOWHERE;
    if (occupied) {
        place = 0;
        const double own = space.ratio[t];
        for (int32 c = lowest(space.occupied, 0); c >= 0;
             c = c + 1 < SPLIT_THREADS ? lowest(space.occupied, c + 1) : -1) {
            const double other = space.ratio[c];
            place += other < own || (other == own && c < t);
        }
        space.order[place] = t;
    }
    __syncthreads();
    const bool taken = t < size_of(space.occupied);
    return {taken ? space.order[t] : 0, taken, taken, false, place, 0, 0, no_draw()};
}

// ---- Sums of the left side ---------------------------------------------------------------------

// Sum over the threads up to this one. Every thread of the block takes part.
__device__ __forceinline__ int64 running_sum(Workspace& space, int64 value)
{
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    #pragma unroll
    for (int32 step = 1; step < WARP; step *= 2) {
        const int64 below = __shfl_up_sync(FULL_MASK, value, step);
        if (lane >= step) value += below;
    }
    if (SPLIT_WARPS == 1) return value;
    if (lane == WARP - 1) space.warp_sums[warp] = value;
    __syncthreads();
    for (int32 w = 0; w < warp; ++w) value += space.warp_sums[w];
    __syncthreads();
    return value;
}

// Sum of one plane over the left side of this thread's candidate, without missing values.
template <class Cells>
__device__ __forceinline__ int64 left_sum(Workspace& space, const Cells& cells, const Item& item,
                                          int32 plane)
{
    const int64 own = item.taken ? cells.plane(item.cell, plane) : 0;
    return item.alone ? own : running_sum(space, own);
}

// ---- Scores ------------------------------------------------------------------------------------

// Two classes have one channel, the second class, of which squares need no more.
__device__ __forceinline__ void add_terms(Terms& terms, const Options& options, int64 left,
                                          int64 node, double hl, double h)
{
    const double gl = (double)left, g = (double)node;
    if (options.by_class && options.n_channels == 1 && options.score != SQUARES) {
        add_channel(terms, options.score, hl - gl, h - g, hl, h);
    }
    add_channel(terms, options.score, gl, g, hl, h);
}

__device__ __forceinline__ bool is_valid(const Node& node, const Options& options, int64 hessian,
                                         int64 count)
{
    const bool heavy = hessian >= node.min_hessian && node.hessian - hessian >= node.min_hessian;
    return heavy && (options.min_samples_leaf <= 1
                     || (count >= options.min_samples_leaf
                         && node.count - count >= options.min_samples_leaf));
}

struct Gains {
    double missing_right;
    double missing_left;
};

// Gains of this thread's candidate, -1 where it is not valid. Every thread of the block takes part.
template <class Cells>
__device__ __forceinline__ Gains gains_of(Workspace& space, const Cells& cells, const Item& item,
                                          const Node& node, const Options& options,
                                          int32 directions)
{
    const int32 at_missing = cells.missing_code();
    const int64 missing_hessian = cells.hessian(at_missing);
    const int64 missing_count = cells.count(at_missing);
    const int64 hessian = left_sum(space, cells, item, 0);
    const int64 count = options.min_samples_leaf > 1 ? left_sum(space, cells, item, 1) : 0;
    const bool right = item.candidate && !(missing_hessian > 0 && directions == ONLY_LEFT)
                       && is_valid(node, options, hessian, count);
    const bool left = item.candidate && missing_hessian > 0 && directions != ONLY_RIGHT
                      && is_valid(node, options, hessian + missing_hessian, count + missing_count);
    const double h = (double)node.hessian;
    const double hl_right = right ? (double)hessian : 1.0;
    const double hl_left = left ? (double)(hessian + missing_hessian) : 1.0;
    Terms right_terms = {0.0, 0.0, 0.0}, left_terms = {0.0, 0.0, 0.0};
    for (int32 k = 0; k < options.n_channels; ++k) {
        const int64 gradient = left_sum(space, cells, item, 2 + k);
        if (right) add_terms(right_terms, options, gradient, node.gradient[k], hl_right, h);
        if (left) {
            const int64 with_missing = gradient + cells.gradient(at_missing, k);
            add_terms(left_terms, options, with_missing, node.gradient[k], hl_left, h);
        }
    }
    return {right ? gain_of(right_terms, options.score, hl_right, h) : -1.0,
            left ? gain_of(left_terms, options.score, hl_left, h) : -1.0};
}

// Position of the largest gain of the block, the first of equals. Every thread takes part.
__device__ __forceinline__ int32 best_position(Workspace& space, double gain)
{
    int32 position = threadIdx.x;
    #pragma unroll
    for (int32 step = WARP / 2; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(FULL_MASK, gain, step);
        const int32 at = __shfl_xor_sync(FULL_MASK, position, step);
        if (other > gain || (other == gain && at < position)) {
            gain = other;
            position = at;
        }
    }
    if (threadIdx.x % WARP == 0) {
        space.warp_gain[threadIdx.x / WARP] = gain;
        space.warp_position[threadIdx.x / WARP] = position;
    }
    __syncthreads();
    int32 best = 0;
    for (int32 w = 1; w < SPLIT_WARPS; ++w) {
        if (space.warp_gain[w] > space.warp_gain[best]) best = w;
    }
    return space.warp_position[best];
}

// ---- The search --------------------------------------------------------------------------------

// What the block found, as one thread knows it.
struct Best {
    int32 position;      // of the best candidate; the thread there holds its item and gain
    double gain;         // of this thread's candidate
    bool missing_left;   // which of its directions
    Item item;
};

// Whether the thread holds the best split, and there is one.
__device__ __forceinline__ bool tells(const Best& best)
{
    return (int32)threadIdx.x == best.position && best.gain >= 0.0;
}

// Where the best split sends missing values, as the thread knows that tells it.
template <class Cells>
__device__ __forceinline__ int8 direction(const Cells& cells, const Best& best)
{
    if (cells.hessian(cells.missing_code()) == 0) return MISSING_UNSEEN;
    return best.missing_left ? MISSING_LEFT : MISSING_RIGHT;
}

// Whether this thread's cell goes left in the best split, a categorical one.
__device__ __forceinline__ bool cell_goes_left(const Best& best)
{
    return best.item.alone ? best.item.place == best.position : best.item.place <= best.position;
}

template <class Cells>
__device__ __forceinline__ Item item_of(Workspace& space, const Cells& cells, const Node& node,
                                        const Options& options, const Feature& feature)
{
    if (feature.categorical) {
        if (options.random_thresholds) return random_category_item(space, node, feature);
        if (feature.n_bins <= ONE_HOT_LEVELS) return single_category_item(space);
        return sorted_category_item(space, cells, node, options);
    }
    if (!options.random_thresholds) return numeric_item(space, cells.missing_code(), feature);
    return random_numeric_item(space, cells.missing_code(), node, feature);
}

// The best split, `space.occupied` being set. Every thread of the block takes part.
template <class Cells>
__device__ __forceinline__ Best best_split(Workspace& space, const Cells& cells, const Node& node,
                                           const Options& options, const Feature& feature)
{
    Best best;
    best.item = item_of(space, cells, node, options, feature);
    int32 directions = BOTH;
    if (options.random_thresholds) {
        directions = missing_goes_left(node.key, (uint64)feature.index) ? ONLY_LEFT : ONLY_RIGHT;
    }
    const Gains gains = gains_of(space, cells, best.item, node, options, directions);
    best.gain = max(gains.missing_right, gains.missing_left);
    best.missing_left = gains.missing_left > gains.missing_right;
    best.position = best_position(space, best.gain);
    return best;
}

// Where splits are written; `mask` only for categorical features.
struct Written {
    double* __restrict__ gain;
    int16* __restrict__ bin;
    int16* __restrict__ next_bin;
    double* __restrict__ draw;
    int8* __restrict__ missing;
    uint32* __restrict__ mask;
};

// Word `word` of a set of codes, made of one of cells; a block is a warp.
__device__ __forceinline__ uint32 word_of_codes(const Feature& feature, uint32 cells, int32 word)
{
    uint32 bits = 0;
    for (; cells != 0; cells &= cells - 1) {
        const int32 code = feature.code(__ffs((int32)cells) - 1);
        if (code / WARP == word) bits |= 1u << (code % WARP);
    }
    return bits;
}

// The thread of the best position tells, if it is valid; the bits of a mask come from all.
template <class Cells>
__device__ __forceinline__ void write_best(const Best& best, const Workspace& space,
                                           const Cells& cells, const Feature& feature,
                                           const Written& to, int64 at)
{
    const int32 t = threadIdx.x;
    if (tells(best)) {
        to.gain[at] = best.gain;
        to.bin[at] = best.item.bin;
        to.next_bin[at] = best.item.next_bin;
        to.draw[at] = best.item.draw;
        to.missing[at] = direction(cells, best);
    }
    if (!feature.categorical) return;
    const uint32 votes = __ballot_sync(FULL_MASK, cell_goes_left(best));
    uint32* words = to.mask + at * MASK_WORDS;
    if (feature.codes != nullptr) {
        const uint32 cells = t < CODE_WORDS ? votes : space.occupied[0];
        if (t < MASK_WORDS) words[t] = word_of_codes(feature, cells, t % CODE_WORDS);
    } else if (t % WARP == 0) {
        words[t / WARP] = votes;
        words[CODE_WORDS + t / WARP] = space.occupied[t / WARP];
    }
}

#endif  // GPUBOOST_SPLIT_CUH
