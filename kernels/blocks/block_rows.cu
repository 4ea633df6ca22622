// Passes over rows whose codes are in blocks: rows never move, and each has the number of its node.
//
//   codes      uint8 (features, n_rows)        of the rows from `first_row` on, or of some features
//   node       int32 (trees, n_samples)        node of each row, CLOSED if it is in no open node
//   weight     uint32 (trees or 1, n_samples)  at most 2**31 - 1
//   value      int32 (trees or 1, n_samples, values)    with by_class, the class; else n_channels
//                                              numbers: values or signs (with times_weight), or
//                                              gradients
//
// `weight_stride` and `value_stride` are the numbers of items from one tree to the next, 0 if all
// trees share them.
//
// Launch: grid (any, 1, trees), or for histograms (any, groups of `group` features, trees); threads
// loop over rows with the stride of the grid. A thread takes one row at a time, and adds to sums by
// integer atomics.

constexpr int32 BLOCK_ROWS_THREADS = 256;
constexpr int32 BLOCK_ROWS_BLOCKS = 4;  // per multiprocessor
constexpr int32 SUM_ROWS_THREADS = 1024;  // of sum_block_rows, whose blocks take a multiprocessor
constexpr int32 GROUP_FEATURES = 8;  // at most; a thread reads a row's node and numbers once
constexpr int32 STEP_CODES = 256;  // of a table of children: all values of a code
constexpr int32 CLOSED = -1;
constexpr int32 COUNTED_NODES = 1024;  // up to so many nodes, blocks count rows in shared memory

__device__ __forceinline__ int64 first_row_of_thread()
{
    return (int64)blockIdx.x * BLOCK_ROWS_THREADS + threadIdx.x;
}

__device__ __forceinline__ int64 rows_of_grid() { return (int64)gridDim.x * BLOCK_ROWS_THREADS; }

// Replace the nodes of the rows of a block of codes by their children, and add these rows to count,
// int64 (n_nodes,). feature int32 (parents,): index into `codes` of each node's split, -1 if it has
// none. step int32 (parents, STEP_CODES): child for each code.
extern "C" __global__ void __launch_bounds__(BLOCK_ROWS_THREADS, BLOCK_ROWS_BLOCKS)
route_block_rows(In<uint8> codes, In<int32> feature, In<int32> step, int64 first_row, int64 n_rows,
                 int64 n_samples, int32 n_nodes, Out<int32> node, Out<int64> count)
{
    __shared__ uint32 counts[COUNTED_NODES];
    const int32 shared_nodes = n_nodes <= COUNTED_NODES ? n_nodes : 0;
    for (int32 i = threadIdx.x; i < shared_nodes; i += BLOCK_ROWS_THREADS) counts[i] = 0;
    __syncthreads();
    int32* own = node + blockIdx.z * n_samples + first_row;
    for (int64 row = first_row_of_thread(); row < n_rows; row += rows_of_grid()) {
        const int32 parent = own[row];
        if (parent < 0) continue;
        const int64 column = feature[parent];
        const int32 child
            = column < 0 ? CLOSED : step[(int64)parent * STEP_CODES + codes[column * n_rows + row]];
        own[row] = child;
        if (child < 0) continue;
        if (shared_nodes > 0) atomicAdd(counts + child, 1u);
        else add_to(count + child, 1);
    }
    __syncthreads();
    for (int32 i = threadIdx.x; i < shared_nodes; i += BLOCK_ROWS_THREADS) {
        add_to(count + i, counts[i]);
    }
}

// What a row adds to the bins of its codes.
struct RowTerms {
    int64 weight;
    const int32* values;
    int32 n_channels;
    bool by_class;
    bool times_weight;
    bool counted;

    __device__ __forceinline__ int32 size() const { return 1 + n_channels + counted; }

    // Call add(number of the sum, term) for each sum of a bin.
    template <typename Add>
    __device__ __forceinline__ void add_each(const Add& add) const
    {
        add(0, weight);
        if (by_class) {
            add(1 + values[0], weight);
        } else {
            for (int32 k = 0; k < n_channels; ++k) {
                add(1 + k, times_weight ? weight * values[k] : (int64)values[k]);
            }
        }
        if (counted) add(1 + n_channels, 1);
    }
};

// Both kernels below add the rows of a block of codes to histogram, int64 (F, n_slots, width, sums
// of a bin): weight, channels, and number of rows if `counted`. `codes` are those of n_features
// features from first_feature on. place int32 (nodes,): number of each node among those of its tree
// that have a histogram, negative for none. slot int32 (trees, n_places): histograms of these
// nodes, negative at the end if there are fewer.
extern "C" __global__ void __launch_bounds__(BLOCK_ROWS_THREADS, BLOCK_ROWS_BLOCKS)
add_block_rows(In<uint8> codes, In<int32> node, In<int32> place, In<int32> slot, In<uint32> weight,
               In<int32> value, int64 first_row, int64 n_rows, int64 n_samples,
               int64 weight_stride, int64 value_stride, int32 first_feature, int32 n_features,
               int32 group, int32 n_places, int32 n_slots, int32 width, int32 n_channels,
               int32 by_class, int32 times_weight, int32 counted, Out<int64> histogram)
{
    const int64 tree = blockIdx.z;
    const int32 begin = blockIdx.y * group, end = min(begin + group, n_features);
    RowTerms terms = {0, value, n_channels, by_class != 0, times_weight != 0, counted != 0};
    for (int64 row = first_row_of_thread(); row < n_rows; row += rows_of_grid()) {
        const int64 at = first_row + row;
        const int32 own = node[tree * n_samples + at], local = own < 0 ? -1 : place[own];
        if (local < 0) continue;
        terms.weight = weight[tree * weight_stride + at];
        terms.values = value + tree * value_stride + at * (by_class ? 1 : n_channels);
        const int64 of_node = slot[tree * n_places + local];
        for (int32 f = begin; f < end; ++f) {
            const int64 bin = ((first_feature + f) * (int64)n_slots + of_node) * width
                              + codes[f * n_rows + row];
            int64* sums = histogram + bin * terms.size();
            terms.add_each([&](int32 p, int64 term) { add_to(sums + p, term); });
        }
    }
}

// The same if the histograms of a tree's nodes fit in shared memory for `group` features: uint32
// [low or high half][sum][node][feature][code]. Launch: SUM_ROWS_THREADS threads.
extern "C" __global__ void __launch_bounds__(SUM_ROWS_THREADS, 1)
sum_block_rows(In<uint8> codes, In<int32> node, In<int32> place, In<int32> slot, In<uint32> weight,
               In<int32> value, int64 first_row, int64 n_rows, int64 n_samples,
               int64 weight_stride, int64 value_stride, int32 first_feature, int32 n_features,
               int32 group, int32 n_places, int32 n_slots, int32 width, int32 n_channels,
               int32 by_class, int32 times_weight, int32 counted, Out<int64> histogram)
{
    DYNAMIC_SHARED(uint32, low);
    const int64 tree = blockIdx.z;
    const int32 begin = blockIdx.y * group, end = min(begin + group, n_features);
    RowTerms terms = {0, value, n_channels, by_class != 0, times_weight != 0, counted != 0};
    const int32 of_sum = n_places * group * width, size = terms.size(), n_cells = size * of_sum;
    uint32* high = low + n_cells;

    // zero
    for (int32 i = threadIdx.x; i < 2 * n_cells; i += SUM_ROWS_THREADS) low[i] = 0;
    __syncthreads();

    // accumulate
    const int64 stride = (int64)gridDim.x * SUM_ROWS_THREADS;
    int64 row = (int64)blockIdx.x * SUM_ROWS_THREADS + threadIdx.x;
    for (; row < n_rows; row += stride) {
        const int64 at = first_row + row;
        const int32 own = node[tree * n_samples + at], local = own < 0 ? -1 : place[own];
        if (local < 0) continue;
        terms.weight = weight[tree * weight_stride + at];
        terms.values = value + tree * value_stride + at * (by_class ? 1 : n_channels);
        for (int32 f = begin; f < end; ++f) {
            const int32 cell = (local * group + f - begin) * width + codes[f * n_rows + row];
            terms.add_each([&](int32 p, int64 term) {
                add_halves(low + p * of_sum + cell, high + p * of_sum + cell, term);
            });
        }
    }
    __syncthreads();

    // flush
    for (int32 i = threadIdx.x; i < n_cells; i += SUM_ROWS_THREADS) {
        const int64 sum = (int64)((uint64)high[i] << 32 | low[i]);
        if (sum == 0) continue;
        const int32 p = i / of_sum, cell = i % of_sum, column = cell / width;
        const int64 of_node = slot[tree * n_places + column / group];
        const int64 feature = first_feature + begin + column % group;
        const int64 bin = (feature * n_slots + of_node) * width + cell % width;
        add_to(histogram + bin * size + p, sum);
    }
}

// Lower low and raise high, int32 (nodes, n_channels), to the smallest and the largest value of the
// rows of positive weight in each node.
extern "C" __global__ void __launch_bounds__(BLOCK_ROWS_THREADS, BLOCK_ROWS_BLOCKS)
block_value_ranges(In<int32> node, In<uint32> weight, In<int32> value, int64 n_samples,
                   int64 weight_stride, int64 value_stride, int32 n_channels, Out<int32> low,
                   Out<int32> high)
{
    const int64 tree = blockIdx.z;
    for (int64 row = first_row_of_thread(); row < n_samples; row += rows_of_grid()) {
        const int64 own = node[tree * n_samples + row];
        if (own < 0 || weight[tree * weight_stride + row] == 0) continue;
        const int32* values = value + tree * value_stride + row * n_channels;
        for (int32 k = 0; k < n_channels; ++k) {
            atomicMin(low + own * n_channels + k, values[k]);
            atomicMax(high + own * n_channels + k, values[k]);
        }
    }
}

// Add the rows of leaves to sums, int64 (leaves, n_columns). place int32 (1 + nodes,): row of
// `sums` of closed rows and of each node, negative for none; with by_class, the class is added to
// it. wide int64 (trees or 1, n_samples, n_columns), times the weight if `draws`.
extern "C" __global__ void __launch_bounds__(BLOCK_ROWS_THREADS, BLOCK_ROWS_BLOCKS)
add_block_leaves(In<int32> node, In<int32> place, In<uint32> weight, In<int32> value,
                 In<int64> wide, int64 n_samples, int64 weight_stride, int64 value_stride,
                 int64 wide_stride, int32 n_columns, int32 by_class, int32 draws, Out<int64> sums)
{
    const int64 tree = blockIdx.z;
    for (int64 row = first_row_of_thread(); row < n_samples; row += rows_of_grid()) {
        int64 leaf = place[1 + node[tree * n_samples + row]];
        if (leaf < 0) continue;
        if (by_class) leaf += value[tree * value_stride + row];
        const int64 factor = draws ? (int64)weight[tree * weight_stride + row] : 1;
        const int64* own = wide + tree * wide_stride + row * n_columns;
        for (int32 p = 0; p < n_columns; ++p) add_to(sums + leaf * n_columns + p, factor * own[p]);
    }
}

// Set found, int32 (trees, n_samples), to the number of the leaf of each row that is in one. number
// int32 (1 + nodes,): number of each node after that of closed rows, negative for none.
extern "C" __global__ void __launch_bounds__(BLOCK_ROWS_THREADS, BLOCK_ROWS_BLOCKS)
record_block_leaves(In<int32> node, In<int32> number, int64 n_samples, Out<int32> found)
{
    const int64 first = blockIdx.z * n_samples;
    for (int64 row = first_row_of_thread(); row < n_samples; row += rows_of_grid()) {
        const int32 leaf = number[1 + node[first + row]];
        if (leaf >= 0) found[first + row] = leaf;
    }
}
