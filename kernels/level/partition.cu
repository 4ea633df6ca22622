// Stable partition of the rows of the nodes that are split: each row moves to a child of its node.
//
//   before   node a: l r l l r      node b (a leaf): x x      node c: r l
//   after    node a: l l l | r r                              node c: l | r
//
// The partition is stable, so rows that are sorted by class stay sorted. The rows of the level are
// cut into pieces, and pieces into words of WARP rows. The first pass stores one bit per row, set
// if the row goes left, and counts the bits. children.cu turns counts into places. The second pass
// moves the rows.
//
//   codes      uint8 (n_features, n_samples)   is_categorical uint8 (n_features,)
//   row, weight   uint32 (n_rows,)   target int32 (n_columns, n_rows)
//   n_pieces   int32 (1,)          number of pieces, at most the length of their arrays
//   node, first, rows   int32, int64, int32 (pieces,)    node, position of the piece's first row,
//                                                        number of rows
//   accepted, feature, bin, missing   uint8, int32, int16, int8 (nodes,)   from select_split.cu;
//                                     best_first.cu may clear `accepted`
//   mask       uint32 (nodes, MASK_WORDS)      masks of categorical splits
//   turns      uint32 (pieces, PIECE_WORDS)   one bit per row of a piece, set if the row goes left;
//                                             undefined unless the piece's node is accepted
//
// Launch: any number of blocks of PARTITION_THREADS threads; blocks loop over pieces with the
// stride of the grid. A warp takes every PARTITION_WARPS-th word of a piece. No dynamic shared
// memory.

#include "common/goes_left.cuh"

constexpr int32 PARTITION_THREADS = 256;
constexpr int32 PARTITION_WARPS = PARTITION_THREADS / WARP;
constexpr int32 PIECE_WORDS = 32;  // largest number of words of a piece; a lane of a warp holds one
constexpr int32 WARP_WORDS = PIECE_WORDS / PARTITION_WARPS;

// The split of a node of the level, for `goes_left`.
struct LevelSplit {
    const uint8* codes;   // of the split's feature
    const uint32* mask;   // null for a numeric feature
    int32 bin;
    int32 missing_code;
    bool is_left;         // whether missing values go left

    __device__ __forceinline__ int32 code(uint32 row) const { return __ldg(codes + row); }
    __device__ __forceinline__ bool is_missing(int32 code) const { return code == missing_code; }
    __device__ __forceinline__ bool missing_left() const { return is_left; }
    __device__ __forceinline__ bool is_categorical() const { return mask != nullptr; }
    __device__ __forceinline__ bool in_set(int32 code) const
    {
        return has_code(__ldg(mask + code / WARP), code);
    }
    __device__ __forceinline__ bool at_most(int32 code) const { return code <= bin; }
};

__device__ __forceinline__ LevelSplit split_of(int32 node, In<uint8> codes, In<int32> feature,
                                               In<int16> bin, In<int8> missing,
                                               In<uint8> is_categorical, In<uint32> mask,
                                               int64 n_samples, int32 missing_code)
{
    const int32 f = feature[node];
    return {codes + f * n_samples, is_categorical[f] ? mask + (int64)node * MASK_WORDS : nullptr,
            bin[node], missing_code, missing[node] == MISSING_LEFT};
}

// left int64 (pieces,): number of rows of each piece that go left, written only for pieces of
// accepted nodes. n_left int64 (nodes,): the same for each node, zero before the launch.
extern "C" __global__ void __launch_bounds__(PARTITION_THREADS)
partition_count(In<uint8> codes, In<uint32> row, In<int32> n_pieces, In<int32> node,
                In<int64> first, In<int32> rows, In<uint8> accepted, In<int32> feature,
                In<int16> bin, In<int8> missing, In<uint8> is_categorical, In<uint32> mask,
                int64 n_samples, int32 missing_code, Out<uint32> turns, Out<int64> left,
                Out<int64> n_left)
{
    __shared__ int32 left_of_warp[PARTITION_WARPS];
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int64 piece = blockIdx.x; piece < *n_pieces; piece += gridDim.x) {
        const int32 own = node[piece];
        if (accepted[own] == 0) continue;
        const LevelSplit split = split_of(own, codes, feature, bin, missing, is_categorical, mask,
                                          n_samples, missing_code);
        const uint32* own_row = row + first[piece];
        const int32 end = rows[piece];
        int32 count = 0;
        #pragma unroll
        for (int32 k = 0; k < WARP_WORDS; ++k) {
            const int32 word = k * PARTITION_WARPS + warp, at = word * WARP + lane;
            const bool left_row = at < end && goes_left(split, split.code(own_row[at]));
            const uint32 votes = __ballot_sync(FULL_MASK, left_row);
            if (lane == 0) turns[piece * PIECE_WORDS + word] = votes;
            count += __popc(votes);
        }
        if (lane == 0) left_of_warp[warp] = count;
        __syncthreads();
        if (threadIdx.x == 0) {
            int64 sum = 0;
            for (int32 w = 0; w < PARTITION_WARPS; ++w) sum += left_of_warp[w];
            left[piece] = sum;
            add_to(&n_left[own], sum);
        }
        __syncthreads();
    }
}

// left_at, right_at int64 (pieces,): new position of the piece's first row that goes left, or
// right.
extern "C" __global__ void __launch_bounds__(PARTITION_THREADS)
partition_move(In<uint32> row, In<uint32> weight, In<int32> target, In<int32> n_pieces,
               In<int32> node, In<int64> first, In<int32> rows, In<uint8> accepted,
               In<uint32> turns, In<int64> left_at, In<int64> right_at, int32 n_columns,
               int64 n_rows, Out<uint32> row_out, Out<uint32> weight_out, Out<int32> target_out)
{
    const int32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int64 piece = blockIdx.x; piece < *n_pieces; piece += gridDim.x) {
        if (accepted[node[piece]] == 0) continue;
        const int64 begin = first[piece], left_base = left_at[piece], right_base = right_at[piece];
        const int32 end = rows[piece];

        // Each lane holds one word of the piece and the number of rows in earlier words that go
        // left.
        const uint32 turn = turns[piece * PIECE_WORDS + lane];
        const int32 before = warp_running_sum(__popc(turn)) - __popc(turn);

        #pragma unroll
        for (int32 k = 0; k < WARP_WORDS; ++k) {
            const int32 word = k * PARTITION_WARPS + warp, at = word * WARP + lane;
            const uint32 votes = __shfl_sync(FULL_MASK, turn, word);
            const int32 rank = __shfl_sync(FULL_MASK, before, word)
                               + __popc(votes & ((1u << lane) - 1u));
            if (at >= end) continue;
            const int64 from = begin + at;
            const int64 to = (votes >> lane & 1) != 0 ? left_base + rank : right_base + (at - rank);
            row_out[to] = row[from];
            weight_out[to] = weight[from];
            for (int32 c = 0; c < n_columns; ++c) {
                target_out[c * n_rows + to] = target[c * n_rows + from];
            }
        }
    }
}
