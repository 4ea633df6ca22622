// Sums over the rows of nodes: hessians and gradients of nodes (of the roots only, unless leaf
// values are medians), ranges of targets, and leaf sums.
//
//   row, weight   uint32 (n_rows,)   target int32 (columns, n_rows), see histogram_values.cu
//   n_pieces      int32 (1,)       number of pieces, at most the length of their arrays
//   slot, first, rows   int32, int64, int32 (pieces,)    node, position of the piece's first
//                                                        row, number of rows
//
// Launch: any number of blocks of SUMS_THREADS threads, no shared memory. Blocks loop over pieces
// with the stride of the grid. Each warp sums over its rows, or finds their smallest and largest
// target, and updates the numbers of the node in global memory by one integer atomic each.

constexpr int32 SUMS_THREADS = 256;
constexpr int32 SUMS_BLOCKS = 4;  // per multiprocessor; more would spill registers
constexpr int32 RANGES_BLOCKS = 8;  // per multiprocessor, for target_ranges

// The range of classes in a piece. With more than two classes, rows are sorted by class, so it is
// found from the first and last row; otherwise, it contains all classes.
struct Classes {
    int32 first;
    int32 end;
};

__device__ __forceinline__ Classes classes_of(const int32* target, int32 rows, int32 n_classes)
{
    if (n_classes <= 2) return {0, n_classes};
    return {target[0], target[rows - 1] + 1};
}

// Compute hessian int64 (nodes,) and gradient int64 (nodes, n_channels), both zero before the
// launch. With by_class (more than two classes), gradients are the weights of the classes;
// otherwise, they are sums of weight * target[k], or of target[k] if targets are gradients.
extern "C" __global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
node_sums(In<uint32> weight, In<int32> target, In<int32> n_pieces, In<int32> slot, In<int64> first,
          In<int32> rows, int64 n_rows, int32 n_channels, int32 by_class, Out<int64> hessian,
          Out<int64> gradient)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int64 begin = first[piece], node = slot[piece];
        const int32 end = rows[piece];
        int64 sum = 0;
        for (int32 at = threadIdx.x; at < end; at += SUMS_THREADS) sum += weight[begin + at];
        add_warp(hessian + node, sum);
        Classes channels = {0, n_channels};
        if (by_class) channels = classes_of(target + begin, end, n_channels);
        for (int32 k = channels.first; k < channels.end; ++k) {
            const int32* values = by_class ? target : target + k * n_rows;
            sum = 0;
            for (int32 at = threadIdx.x; at < end; at += SUMS_THREADS) {
                const int64 w = weight[begin + at];
                const int32 value = values[begin + at];
                sum += by_class ? (value == k ? w : 0) : GRADIENTS ? value : w * value;
            }
            add_warp(gradient + node * n_channels + k, sum);
        }
    }
}

// Find low and high, int32 (nodes, n_channels): smallest and largest target of the rows of positive
// weight. Before the launch, low must be 2**31 - 1 and high must be -(2**31 - 1).
extern "C" __global__ void __launch_bounds__(SUMS_THREADS, RANGES_BLOCKS)
target_ranges(In<uint32> weight, In<int32> target, In<int32> n_pieces, In<int32> slot,
              In<int64> first, In<int32> rows, int64 n_rows, int32 n_channels, Out<int32> low,
              Out<int32> high)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int64 begin = first[piece], node = slot[piece];
        const int32 end = rows[piece];
        for (int32 k = 0; k < n_channels; ++k) {
            int32 smallest = 0x7fffffff, largest = -0x7fffffff;
            for (int32 at = threadIdx.x; at < end; at += SUMS_THREADS) {
                const int32 value = target[k * n_rows + begin + at];
                if (weight[begin + at] == 0) continue;
                smallest = min(smallest, value);
                largest = max(largest, value);
            }
            smallest = warp_min(smallest);
            largest = -warp_min(-largest);
            if (threadIdx.x % WARP == 0) {
                atomicMin(low + node * n_channels + k, smallest);
                atomicMax(high + node * n_channels + k, largest);
            }
        }
    }
}

// Compute sums, int64 (nodes, n_classes * n_columns), zero before the launch: for every node of
// more than `small_rows` rows that is not split, the sums of the columns of `wide` (times the
// weight, if `draws`) over the rows of each class; with n_classes = 1, over all rows. wide int64 (1
// or trees, n_samples, n_columns); wide_of int32 (trees,): index of each tree in `wide`.
extern "C" __global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
leaf_sums(In<uint32> row, In<uint32> weight, In<int32> target, In<int64> wide, In<int32> wide_of,
          In<int32> tree, In<int64> count, In<uint8> accepted, In<int32> n_pieces, In<int32> slot,
          In<int64> first, In<int32> rows, int64 n_samples, int64 small_rows, int32 n_columns,
          int32 n_classes, int32 draws, Out<int64> sums)
{
    for (int32 piece = blockIdx.x; piece < *n_pieces; piece += (int32)gridDim.x) {
        const int64 begin = first[piece], leaf = slot[piece];
        const int32 end = rows[piece];
        if (accepted[leaf] != 0 || count[leaf] <= small_rows) continue;
        const int64* own = wide + wide_of[tree[leaf]] * n_samples * n_columns;
        const Classes classes = classes_of(target + begin, end, n_classes);
        for (int32 c = classes.first; c < classes.end; ++c) {
            for (int32 p = 0; p < n_columns; ++p) {
                int64 sum = 0;
                for (int32 at = threadIdx.x; at < end; at += SUMS_THREADS) {
                    if (n_classes > 1 && target[begin + at] != c) continue;
                    const int64 value = own[row[begin + at] * (int64)n_columns + p];
                    sum += draws ? value * weight[begin + at] : value;
                }
                add_warp(sums + (leaf * n_classes + c) * n_columns + p, sum);
            }
        }
    }
}
