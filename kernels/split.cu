// The best split of every node by each feature; pick.cu takes the best feature.
//
//   histogram   int64 (nodes, F, width, 2 + K)    weight, rows, gradients; last code = missing
//   hessian, count   int64 (nodes,)    gradient   int64 (nodes, K)    sums of the nodes
//   min_hessian int64 (nodes,)         key uint64 (nodes,)            tree int32 (nodes,)
//   allowed     uint8 (trees, F)       features the tree may look at
//   n_bins      int32 (F,)   is_categorical uint8 (F,)   center float64 (F, width - 1)
//
// A block of SPLIT_THREADS threads takes one node and one feature. The codes stand
// in an order, thread t holds the item at position t, and left is the items up to a position (or
// one item alone). Kinds of features differ in nothing else:
//
//   kind                 order             items taken        left           candidates
//   numeric              code              all values         up to t        occupied codes
//   random threshold     code              all values         up to t        the drawn code
//   few categories       code              occupied           t alone        occupied codes
//   more categories      gradient / weight occupied           up to t        occupied codes
//   random categories    code              drawn to go left   up to t        the last position
//
// Launch: grid (nodes, features), from feature `first_feature` on, because a grid has at most 65535
// rows; static shared memory only.

constexpr int32 SPLIT_THREADS = 256;  // as many as there are codes
constexpr int32 SPLIT_BLOCKS = 2;     // per multiprocessor; asking for more spills registers
constexpr int32 SPLIT_WARPS = SPLIT_THREADS / WARP;
constexpr int32 NOWHERE = SPLIT_THREADS;
constexpr int32 BOTH = 0, ONLY_RIGHT = 1, ONLY_LEFT = 2;  // directions of missing values tried

// ---- Sets of codes: CODE_WORDS words, thread t owning bit t -----------------------------------

__device__ __forceinline__ void vote(uint32* words, bool bit)
{
    const uint32 votes = __ballot_sync(FULL_MASK, bit);
    if (threadIdx.x % WARP == 0) words[threadIdx.x / WARP] = votes;
}

__device__ __forceinline__ int32 size_of(const uint32* words)
{
    int32 size = 0;
    for (int32 w = 0; w < CODE_WORDS; ++w) size += __popc(words[w]);
    return size;
}

// The lowest code of the set that is at least `from`, else -1.
__device__ __forceinline__ int32 lowest(const uint32* words, int32 from)
{
    for (int32 w = from / WARP; w < CODE_WORDS; ++w) {
        uint32 bits = words[w];
        if (w == from / WARP) bits &= 0xffffffffu << (from % WARP);
        if (bits != 0) return w * WARP + __ffs((int32)bits) - 1;
    }
    return -1;
}

__device__ __forceinline__ int32 highest(const uint32* words)
{
    for (int32 w = CODE_WORDS - 1; w >= 0; --w) {
        if (words[w] != 0) return w * WARP + 31 - __clz((int32)words[w]);
    }
    return -1;
}

// ---- What a block works on ---------------------------------------------------------------------

struct Workspace {
    uint32 occupied[CODE_WORDS];  // values, without the missing code
    uint32 drawn[CODE_WORDS];
    int64 warp_sums[SPLIT_WARPS];
    double warp_gain[SPLIT_WARPS];
    int32 warp_position[SPLIT_WARPS];
    double ratio[SPLIT_THREADS];
    int32 order[SPLIT_THREADS];
};

// The histogram of one node and feature.
struct Cells {
    const int64* __restrict__ first;
    int32 width;
    int32 n_channels;

    __device__ __forceinline__ int64 plane(int32 code, int32 p) const
    {
        return __ldg(first + (int64)code * (2 + n_channels) + p);
    }
    __device__ __forceinline__ int64 hessian(int32 code) const { return plane(code, 0); }
    __device__ __forceinline__ int64 count(int32 code) const { return plane(code, 1); }
    __device__ __forceinline__ int64 gradient(int32 code, int32 k) const
    {
        return plane(code, 2 + k);
    }
    __device__ __forceinline__ int32 missing_code() const { return width - 1; }
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
};

// The item at this thread's position, and where this thread's code stands.
struct Item {
    int32 code;
    bool taken;
    bool candidate;
    bool alone;      // left is one item, not all items up to it
    int32 place;     // position of code threadIdx.x, NOWHERE if it is not taken
    int32 next_bin;
    double draw;
};

__device__ __forceinline__ double no_draw() { return __longlong_as_double(0x7ff8000000000000ll); }

// ---- Orders ------------------------------------------------------------------------------------

__device__ __forceinline__ Item numeric_item(const Workspace& space, int32 missing_code)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    const int32 next = t + 1 < SPLIT_THREADS ? lowest(space.occupied, t + 1) : -1;
    return {t, t < missing_code, occupied, false, NOWHERE, next < 0 ? ONLY_MISSING_RIGHT : next,
            no_draw()};
}

// Every thread of the block takes part.
__device__ __forceinline__ Item random_numeric_item(Workspace& space, int32 missing_code,
                                                    const Node& node, int32 feature,
                                                    const double* __restrict__ center)
{
    const int32 t = threadIdx.x;
    const int32 low = lowest(space.occupied, 0), high = highest(space.occupied);
    const double u = threshold_draw(node.key, (uint64)feature);
    const double draw = center[low] * (1.0 - u) + center[high] * u;
    vote(space.drawn, t >= low && t < high && center[t < high ? t : low] <= draw);
    __syncthreads();
    const int32 reached = highest(space.drawn);
    const int32 bin = reached < 0 ? low : reached;
    const bool one_value = low == high;
    return {t, t < missing_code, t == bin, false, NOWHERE, one_value ? ONLY_MISSING_RIGHT : bin + 1,
            one_value ? no_draw() : draw};
}

__device__ __forceinline__ Item single_category_item(const Workspace& space)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    return {t, occupied, occupied, true, occupied ? t : NOWHERE, 0, no_draw()};
}

// Every thread of the block takes part.
__device__ __forceinline__ Item random_category_item(Workspace& space, const Node& node,
                                                     int32 feature)
{
    const int32 t = threadIdx.x;
    const bool occupied = (space.occupied[t / WARP] >> (t % WARP) & 1) != 0;
    bool left = occupied && category_goes_left(node.key, (uint64)feature, (uint64)t);
    vote(space.drawn, left);
    __syncthreads();
    const int32 n_left = size_of(space.drawn);
    if (n_left == 0 || n_left == size_of(space.occupied)) left = t == lowest(space.occupied, 0);
    return {t, left, t == SPLIT_THREADS - 1, false, left ? t : NOWHERE, 0, no_draw()};
}

// The gradient that categories are sorted by: of the node's largest class, or of all outputs.
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
    return {taken ? space.order[t] : 0, taken, taken, false, place, 0, no_draw()};
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
    if (lane == WARP - 1) space.warp_sums[warp] = value;
    __syncthreads();
    for (int32 w = 0; w < warp; ++w) value += space.warp_sums[w];
    __syncthreads();
    return value;
}

// Sum of one plane over the left side of this thread's candidate, without missing values.
__device__ __forceinline__ int64 left_sum(Workspace& space, const Cells& cells, const Item& item,
                                          int32 plane)
{
    const int64 own = item.taken ? cells.plane(item.code, plane) : 0;
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
__device__ __forceinline__ Gains gains_of(Workspace& space, const Cells& cells, const Item& item,
                                          const Node& node, const Options& options,
                                          int32 directions)
{
    const int32 at_missing = cells.missing_code();
    const int64 missing_hessian = cells.hessian(at_missing);
    const int64 missing_count = cells.count(at_missing);
    const int64 hessian = left_sum(space, cells, item, 0);
    const int64 count = options.min_samples_leaf > 1 ? left_sum(space, cells, item, 1) : 0;
    const bool choice = missing_hessian > 0 && node.hessian - hessian > missing_hessian;
    const bool right = item.candidate && !(choice && directions == ONLY_LEFT)
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

// ---- The kernel --------------------------------------------------------------------------------

// Per node and feature: gain float64, could uint8, bin and next_bin int16, draw float64,
// missing int8 (nodes, F); mask uint32 (nodes, F, MASK_WORDS) of categorical features. Where gain
// is -1 there is no valid split, and nothing else but `could` is defined.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, SPLIT_BLOCKS)
split_features(const int64* __restrict__ histogram, const int64* __restrict__ hessian,
               const int64* __restrict__ count, const int64* __restrict__ gradient,
               const int64* __restrict__ min_hessian, const uint64* __restrict__ key,
               const int32* __restrict__ tree, const uint8* __restrict__ allowed,
               const int32* __restrict__ n_bins, const uint8* __restrict__ is_categorical,
               const double* __restrict__ center, int32 first_feature, int32 n_features,
               int32 width, int32 n_channels, int32 score, int32 by_class,
               int32 random_thresholds, int32 min_samples_leaf, double* __restrict__ gain, uint8* __restrict__ could, int16* __restrict__ bin,
               int16* __restrict__ next_bin, double* __restrict__ draw, int8* __restrict__ missing,
               uint32* __restrict__ mask)
{
    __shared__ Workspace space;
    const int32 t = threadIdx.x, n = blockIdx.x, feature = first_feature + (int32)blockIdx.y;
    const int64 out = (int64)n * n_features + feature;
    const Cells cells = {histogram + out * width * (2 + n_channels), width, n_channels};
    const Node node = {gradient + (int64)n * n_channels, hessian[n], count[n], min_hessian[n],
                       key[n]};
    const Options options = {score, min_samples_leaf, n_channels, by_class != 0};

    // Which codes are occupied. The whole block ends here if it has no choice.
    const bool occupied = t < width && cells.hessian(t) > 0;
    const int32 n_occupied = __syncthreads_count(occupied);  // the missing bin among them
    const bool looks = n_occupied >= 2 && allowed[(int64)tree[n] * n_features + feature] != 0;
    if (t == 0) {
        could[out] = looks;
        gain[out] = -1.0;
    }
    if (!looks) return;
    vote(space.occupied, occupied && t < cells.missing_code());
    __syncthreads();

    // The order of the codes, and the gains of its candidates.
    const bool categorical = is_categorical[feature] != 0;
    Item item;
    if (categorical && random_thresholds) {
        item = random_category_item(space, node, feature);
    } else if (categorical && n_bins[feature] <= ONE_HOT_LEVELS) {
        item = single_category_item(space);
    } else if (categorical) {
        item = sorted_category_item(space, cells, node, options);
    } else if (random_thresholds) {
        const double* centers = center + (int64)feature * (width - 1);
        item = random_numeric_item(space, cells.missing_code(), node, feature, centers);
    } else {
        item = numeric_item(space, cells.missing_code());
    }
    int32 directions = BOTH;
    if (random_thresholds) {
        directions = missing_goes_left(node.key, (uint64)feature) ? ONLY_LEFT : ONLY_RIGHT;
    }
    const Gains gains = gains_of(space, cells, item, node, options, directions);
    const double own_gain = max(gains.missing_right, gains.missing_left);
    const int32 best = best_position(space, own_gain);

    // The thread of the best position tells, if it is valid; the bits of a mask come from all.
    if (t == best && own_gain >= 0.0) {
        const bool missing_left = gains.missing_left > gains.missing_right;
        gain[out] = own_gain;
        bin[out] = categorical ? 0 : t;
        next_bin[out] = item.next_bin;
        draw[out] = item.draw;
        missing[out] = cells.hessian(cells.missing_code()) == 0 ? MISSING_UNSEEN
                              : missing_left                          ? MISSING_LEFT
                                                                      : MISSING_RIGHT;
    }
    if (categorical) {
        const bool left = item.alone ? item.place == best : item.place <= best;
        const uint32 votes = __ballot_sync(FULL_MASK, left);
        uint32* words = mask + out * MASK_WORDS;
        if (t % WARP == 0) {
            words[t / WARP] = votes;
            words[CODE_WORDS + t / WARP] = space.occupied[t / WARP];
        }
    }
}
