// Stable partition of the rows of the nodes that were split, to the left and right children.
//
//   before   node a: l r l l r      node b (a leaf): x x      node c: r l
//   after    node a: l l l | r r                              node c: l | r
//
// Stable, so that rows that lie by class still do. The rows of the level are cut into pieces. The
// first pass counts each piece's rows that go left; children.cu turns counts into places; the
// second pass moves the rows.
//
//   codes      uint8 (F, n)        code of each feature and row
//   row, weight   uint32 (r,)      target int32 (C, r), columns `n_rows` apart
//   n_pieces   int32 (1,)          the arrays have room for more
//   node, first, rows   int32, int64, int32 (pieces,)    node, first row, number of rows
//   accepted, feature, bin, missing   uint8, int32, int16, int8 (nodes,)   as pick.cu wrote them
//   mask       uint32 (nodes, 16)  of categorical splits
//
// Launch: grid (pieces), PARTITION_THREADS threads. No dynamic shared memory.

constexpr int32 PARTITION_THREADS = 256;
constexpr int32 PARTITION_WARPS = PARTITION_THREADS / WARP;

struct Split {
    const uint8* codes;   // of its feature
    const uint32* mask;   // null for a numeric feature
    int32 bin;
    int32 missing_code;
    bool missing_left;
};

__device__ __forceinline__ Split split_of(int32 node, const uint8* __restrict__ codes,
                                          const int32* __restrict__ feature,
                                          const int16* __restrict__ bin,
                                          const int8* __restrict__ missing,
                                          const uint8* __restrict__ is_categorical,
                                          const uint32* __restrict__ mask, int64 n_samples,
                                          int32 missing_code)
{
    const int32 f = feature[node];
    return {codes + f * n_samples, is_categorical[f] ? mask + (int64)node * MASK_WORDS : nullptr,
            bin[node], missing_code, missing[node] == MISSING_LEFT};
}

__device__ __forceinline__ bool goes_left(const Split& split, uint32 row)
{
    const int32 code = __ldg(split.codes + row);
    if (code == split.missing_code) return split.missing_left;
    if (split.mask != nullptr) return (__ldg(split.mask + (code >> 5)) >> (code & 31) & 1) != 0;
    return code <= split.bin;
}

// left int64 (pieces,): rows of each piece that go left. n_left int64 (nodes,): of each node, zero
// before the launch.
extern "C" __global__ void __launch_bounds__(PARTITION_THREADS)
partition_count(const uint8* __restrict__ codes, const uint32* __restrict__ row,
                const int32* __restrict__ n_pieces, const int32* __restrict__ node,
                const int64* __restrict__ first, const int32* __restrict__ rows,
                const uint8* __restrict__ accepted, const int32* __restrict__ feature,
                const int16* __restrict__ bin, const int8* __restrict__ missing,
                const uint8* __restrict__ is_categorical, const uint32* __restrict__ mask,
                int64 n_samples, int32 missing_code, int64* __restrict__ left,
                int64* __restrict__ n_left)
{
    __shared__ int32 left_of_warp[PARTITION_WARPS];
    const int32 piece = blockIdx.x;
    if (piece >= *n_pieces || accepted[node[piece]] == 0) return;
    const Split split = split_of(node[piece], codes, feature, bin, missing, is_categorical, mask,
                                 n_samples, missing_code);
    const int64 begin = first[piece];
    int32 count = 0;
    for (int32 at = threadIdx.x; at < rows[piece]; at += PARTITION_THREADS) {
        count += goes_left(split, row[begin + at]);
    }
    const int64 of_warp = warp_sum(count);
    if (threadIdx.x % WARP == 0) left_of_warp[threadIdx.x / WARP] = (int32)of_warp;
    __syncthreads();
    if (threadIdx.x != 0) return;
    int64 sum = 0;
    for (int32 w = 0; w < PARTITION_WARPS; ++w) sum += left_of_warp[w];
    left[piece] = sum;
    if (sum != 0) atomicAdd((uint64*)&n_left[node[piece]], (uint64)sum);
}

// left_at, right_at int64 (pieces,): places in the new order of the piece's first row of each side.
extern "C" __global__ void __launch_bounds__(PARTITION_THREADS)
partition_move(const uint8* __restrict__ codes, const uint32* __restrict__ row,
               const uint32* __restrict__ weight, const int32* __restrict__ target,
               const int32* __restrict__ n_pieces, const int32* __restrict__ node,
               const int64* __restrict__ first, const int32* __restrict__ rows,
               const uint8* __restrict__ accepted, const int32* __restrict__ feature,
               const int16* __restrict__ bin, const int8* __restrict__ missing,
               const uint8* __restrict__ is_categorical, const uint32* __restrict__ mask,
               const int64* __restrict__ left_at, const int64* __restrict__ right_at,
               int64 n_samples, int32 missing_code, int32 n_columns, int64 n_rows,
               uint32* __restrict__ row_out, uint32* __restrict__ weight_out,
               int32* __restrict__ target_out)
{
    __shared__ int32 left_of_warp[PARTITION_WARPS];
    const int32 piece = blockIdx.x;
    if (piece >= *n_pieces || accepted[node[piece]] == 0) return;
    const Split split = split_of(node[piece], codes, feature, bin, missing, is_categorical, mask,
                                 n_samples, missing_code);
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int32 end = rows[piece];
    int64 left_base = left_at[piece], right_base = right_at[piece];
    for (int32 start = 0; start < end; start += PARTITION_THREADS) {
        const int32 at = start + threadIdx.x;
        const bool inside = at < end;
        const int64 from = first[piece] + at;
        const uint32 own_row = inside ? row[from] : 0;
        const bool left = inside && goes_left(split, own_row);

        // How many rows before this one go left: in the warp by a vote, then over the warps.
        const uint32 votes = __ballot_sync(FULL_MASK, left);
        if (lane == 0) left_of_warp[warp] = __popc(votes);
        __syncthreads();
        int32 before = __popc(votes & ((1u << lane) - 1u)), total = 0;
        for (int32 w = 0; w < PARTITION_WARPS; ++w) {
            before += w < warp ? left_of_warp[w] : 0;
            total += left_of_warp[w];
        }
        __syncthreads();

        if (inside) {
            const int64 to = left ? left_base + before : right_base + ((int32)threadIdx.x - before);
            row_out[to] = own_row;
            weight_out[to] = weight[from];
            for (int32 c = 0; c < n_columns; ++c) {
                target_out[c * n_rows + to] = target[c * n_rows + from];
            }
        }
        left_base += total;
        right_base += min(PARTITION_THREADS, end - start) - total;
    }
}
