// The next level: the children of accepted nodes, and the new positions of their rows. Arrays of
// the nodes of a level, as in policy.cu:
//
//   accepted   uint8 (nodes,)    whether the node is split
//   n_left     int64 (nodes,)    number of the node's rows that go left; only read for accepted
//                                nodes
//   rank       int32 (nodes,)    number of accepted nodes before this one; the children of this one
//                                are nodes 2 rank and 2 rank + 1 of the next level
//   to         int64 (nodes,)    new position of the first row of the left child
//   gone       int64 (nodes,)    number of rows that go left in all accepted nodes before this one
//   cut        int32 (nodes,)    number of pieces of the children of all nodes before this one
//
// rank, to and gone are written for accepted nodes only. Arrays of the pieces of the level's rows:
//
//   piece_node, first, left   int32, int64, int64 (pieces,)   node, position of the piece's first
//                                                             row, number of rows that go left
//   left_at, right_at    int64 (pieces,)    new position of the piece's first row that goes left,
//                                           or right; the rows of siblings are contiguous, left
//                                           before right
//
// left, left_at and right_at are undefined for pieces of nodes that are not accepted.
//
// Running sums are computed by chunks, see chunks.cuh. The launches depend on the level's capacity:
//
//   one chunk of pieces                    place_rows
//   one chunk of nodes, several of pieces  place_nodes, place_pieces
//   several chunks of nodes                count_children, place_nodes, place_pieces
//
// make_children always follows.

#include "common/chunks.cuh"

constexpr int32 CHILD_THREADS = 256;
constexpr int32 CHILD_BLOCKS = 4;  // per multiprocessor

// ---- Places of nodes ---------------------------------------------------------------------------

struct Parents {
    In<int64> count;
    In<uint8> accepted;
    In<int64> n_left;
    int32 piece_rows;
};

// Counts that are summed over nodes; all are 0 for a node that is not accepted.
struct NodeCounts {
    int64 numbers;  // number of accepted nodes, packed with the number of their children's pieces
    int64 rows;     // number of rows of accepted nodes
    int64 left;     // number of these rows that go left
};

__device__ __forceinline__ NodeCounts counts_of(const Parents& parents, int64 node, bool inside)
{
    if (!inside || parents.accepted[node] == 0) return {0, 0, 0};
    const int64 rows = parents.count[node], left = parents.n_left[node];
    const int64 pieces =
        pieces_of(left, parents.piece_rows) + pieces_of(rows - left, parents.piece_rows);
    return {packed(1, pieces), rows, left};
}

// Sum the counts of nodes by chunks, if there are several. totals int64 (3, chunks): sums of the
// fields of NodeCounts over each chunk. Launch: grid (chunks of nodes), CHUNK_THREADS threads.
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
count_children(In<int32> size, In<int64> count, In<uint8> accepted, In<int64> n_left,
               int32 piece_rows, Out<int64> totals)
{
    __shared__ int64 warp_sums[CHUNK_WARPS];
    const Parents parents = {count, accepted, n_left, piece_rows};
    const Chunk chunk = chunk_of(*size, blockIdx.x, gridDim.x);
    NodeCounts sum = {0, 0, 0};
    for (int64 node = chunk.first + threadIdx.x; node < chunk.end; node += CHUNK_THREADS) {
        const NodeCounts own = counts_of(parents, node, true);
        sum = {sum.numbers + own.numbers, sum.rows + own.rows, sum.left + own.left};
    }
    int64* total = totals + blockIdx.x;
    write_total(warp_sums, total, sum.numbers);
    write_total(warp_sums, total + gridDim.x, sum.rows);
    write_total(warp_sums, total + 2 * gridDim.x, sum.left);
}

struct NodePlaces {
    Out<int32> rank;
    int64* to;
    int64* gone;
    Out<int32> cut;
    Out<int32> next_size;    // (1,): number of children
    Out<int32> next_pieces;  // (1,): number of pieces of their rows
};

__device__ __forceinline__ void place_chunk_of_nodes(int64 (&warp_sums)[CHUNK_WARPS],
                                                     const Parents& parents, int64 n_nodes,
                                                     In<int64> totals, int32 number,
                                                     int32 n_chunks, const NodePlaces& places)
{
    const Chunk chunk = chunk_of(n_nodes, number, n_chunks);
    const bool last = number == n_chunks - 1;
    if (chunk.is_empty() && !last) return;
    NodeCounts before = {sum_before(warp_sums, totals, number),
                    sum_before(warp_sums, totals + n_chunks, number),
                    sum_before(warp_sums, totals + 2 * n_chunks, number)};
    for (int64 tile = chunk.first; tile < chunk.end; tile += CHUNK_THREADS) {
        const int64 node = tile + threadIdx.x;
        const NodeCounts own = counts_of(parents, node, node < chunk.end);
        const RunningSum numbers = running_sum(warp_sums, own.numbers);
        const RunningSum rows = running_sum(warp_sums, own.rows);
        const RunningSum left = running_sum(warp_sums, own.left);
        if (node < chunk.end) places.cut[node] = high_of(before.numbers + numbers.before);
        if (own.numbers != 0) {
            places.rank[node] = low_of(before.numbers + numbers.before);
            places.to[node] = before.rows + rows.before;
            places.gone[node] = before.left + left.before;
        }
        before = {before.numbers + numbers.all, before.rows + rows.all, before.left + left.all};
    }
    if (last && threadIdx.x == 0) {
        *places.next_size = 2 * low_of(before.numbers);
        *places.next_pieces = high_of(before.numbers);
    }
}

// ---- Places of pieces --------------------------------------------------------------------------

struct Pieces {
    In<int64> start;  // of nodes
    In<uint8> accepted;
    In<int64> n_left;
    In<int32> node;
    In<int64> first;
    In<int64> left;

    // Whether the rows of the piece move to children.
    __device__ __forceinline__ bool moves(int64 piece) const { return accepted[node[piece]] != 0; }
};

__device__ __forceinline__ void count_chunk_of_pieces(int64 (&warp_sums)[CHUNK_WARPS],
                                                      const Pieces& pieces, int64 n_pieces,
                                                      int32 number, int32 n_chunks,
                                                      Out<int64> totals)
{
    const Chunk chunk = chunk_of(n_pieces, number, n_chunks);
    int64 own = 0;
    for (int64 piece = chunk.first + threadIdx.x; piece < chunk.end; piece += CHUNK_THREADS) {
        own += pieces.moves(piece) ? pieces.left[piece] : 0;
    }
    write_total(warp_sums, totals + number, own);
}

// Write the places of the pieces of a chunk. Of the rows that a piece's node has before the piece,
// `of_node` rows go left: the sum of `left` over all earlier pieces of accepted nodes, minus
// `gone`, the part of that sum that belongs to earlier nodes.
__device__ __forceinline__ void place_chunk_of_pieces(int64 (&warp_sums)[CHUNK_WARPS],
                                                      const Pieces& pieces, int64 n_pieces,
                                                      In<int64> totals, int32 number,
                                                      int32 n_chunks, const int64* to,
                                                      const int64* gone, Out<int64> left_at,
                                                      Out<int64> right_at)
{
    const Chunk chunk = chunk_of(n_pieces, number, n_chunks);
    if (chunk.is_empty()) return;
    int64 before = sum_before(warp_sums, totals, number);
    for (int64 tile = chunk.first; tile < chunk.end; tile += CHUNK_THREADS) {
        const int64 piece = tile + threadIdx.x;
        const bool moves = piece < chunk.end && pieces.moves(piece);
        const RunningSum sum = running_sum(warp_sums, moves ? pieces.left[piece] : 0);
        if (moves) {
            const int32 node = pieces.node[piece];
            const int64 of_node = before + sum.before - gone[node];
            const int64 rows_before = pieces.first[piece] - pieces.start[node];
            left_at[piece] = to[node] + of_node;
            right_at[piece] = to[node] + pieces.n_left[node] + rows_before - of_node;
        }
        before += sum.all;
    }
}

// ---- Launches ----------------------------------------------------------------------------------

// Compute the places of nodes, and sum `left` over the pieces whose rows move.
// Launch: one block of CHUNK_THREADS threads for each of the `n_chunks` chunks of nodes, then one
// for each chunk of pieces.
//
//   node_totals   int64 (3, n_chunks)         from count_children; not read if n_chunks is 1
//   totals        int64 (chunks of pieces,)   sums of `left` over each chunk of pieces
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
place_nodes(In<int32> size, In<int64> start, In<int64> count, In<uint8> accepted, In<int64> n_left,
            In<int32> n_pieces, In<int32> piece_node, In<int64> first, In<int64> left,
            int32 piece_rows, In<int64> node_totals, int32 n_chunks, Out<int32> rank, Out<int64> to,
            Out<int64> gone, Out<int32> cut, Out<int32> next_size, Out<int32> next_pieces,
            Out<int64> totals)
{
    __shared__ int64 warp_sums[CHUNK_WARPS];
    const int32 chunk = blockIdx.x;
    if (chunk < n_chunks) {
        const Parents parents = {count, accepted, n_left, piece_rows};
        const NodePlaces places = {rank, to, gone, cut, next_size, next_pieces};
        place_chunk_of_nodes(warp_sums, parents, *size, node_totals, chunk, n_chunks, places);
    } else {
        const Pieces pieces = {start, accepted, n_left, piece_node, first, left};
        count_chunk_of_pieces(warp_sums, pieces, *n_pieces, chunk - n_chunks,
                              (int32)gridDim.x - n_chunks, totals);
    }
}

// Compute the places of pieces, after place_nodes, which computes `totals`. Launch: one block of
// CHUNK_THREADS threads per chunk of pieces.
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
place_pieces(In<int64> start, In<uint8> accepted, In<int64> n_left, In<int32> n_pieces,
             In<int32> piece_node, In<int64> first, In<int64> left, In<int64> totals, In<int64> to,
             In<int64> gone, Out<int64> left_at, Out<int64> right_at)
{
    __shared__ int64 warp_sums[CHUNK_WARPS];
    const Pieces pieces = {start, accepted, n_left, piece_node, first, left};
    place_chunk_of_pieces(warp_sums, pieces, *n_pieces, totals, blockIdx.x, gridDim.x, to, gone,
                          left_at, right_at);
}

// Compute the places of nodes and pieces, if one chunk holds all pieces. A level takes 14 launches
// (docs/gpu.md); without this kernel it would take 15, which is 7% more time if launches dominate.
// Launch: one block of CHUNK_THREADS threads.
extern "C" __global__ void __launch_bounds__(CHUNK_THREADS, CHUNK_BLOCKS)
place_rows(In<int32> size, In<int64> start, In<int64> count, In<uint8> accepted, In<int64> n_left,
           In<int32> n_pieces, In<int32> piece_node, In<int64> first, In<int64> left,
           int32 piece_rows, Out<int32> rank, int64* to, int64* gone, Out<int32> cut,
           Out<int32> next_size, Out<int32> next_pieces, Out<int64> left_at, Out<int64> right_at)
{
    __shared__ int64 warp_sums[CHUNK_WARPS];
    const Parents parents = {count, accepted, n_left, piece_rows};
    const Pieces pieces = {start, accepted, n_left, piece_node, first, left};
    const NodePlaces places = {rank, to, gone, cut, next_size, next_pieces};
    place_chunk_of_nodes(warp_sums, parents, *size, nullptr, 0, 1, places);
    // The barriers of the first running sum over pieces make the places of nodes visible.
    place_chunk_of_pieces(warp_sums, pieces, *n_pieces, nullptr, 0, 1, to, gone, left_at,
                          right_at);
}

// ---- The children ------------------------------------------------------------------------------

// Index of the last number that is at most `value`; numbers ascend, and the first one must be at
// most `value`.
__device__ __forceinline__ int64 last_up_to(In<int32> numbers, int64 n, int64 value)
{
    return first_not((int64)1, n, [&](int64 i) { return numbers[i] <= value; }) - 1;
}

// Write the children of accepted nodes, and pieces of their rows; arrays of children end in `_out`.
//
//   left_hessian int64 (nodes,)   left_gradient int64 (nodes, K)    sums of left children
//
// A piece belongs to a child of the last node whose `cut` is at most the index of the piece. This
// node is accepted: a node that is not accepted has no children and adds no pieces, so its `cut`
// equals that of the next node or, if it is the last node of the level, the number of all pieces.
//
// Launch: any number of blocks of CHILD_THREADS threads, which loop over nodes and then over
// pieces.
extern "C" __global__ void __launch_bounds__(CHILD_THREADS, CHILD_BLOCKS)
make_children(In<int32> size, In<int32> tree, In<uint64> key, In<int64> count, In<int64> hessian,
              In<int64> gradient, In<uint8> accepted, In<int64> n_left, In<int32> rank,
              In<int64> to, In<int32> cut, In<int32> next_pieces, In<int32> slot,
              In<int64> left_hessian, In<int64> left_gradient, int32 n_channels, int32 piece_rows,
              Out<int32> tree_out, Out<uint64> key_out, Out<int64> start_out, Out<int64> count_out,
              Out<int64> hessian_out, Out<int64> gradient_out, Out<int32> parent_out,
              Out<int32> work_slot, Out<int64> work_first, Out<int32> work_rows)
{
    const int64 n_nodes = *size, n_pieces = *next_pieces;
    const int64 begin = (int64)blockIdx.x * CHILD_THREADS + threadIdx.x;
    const int64 step = (int64)gridDim.x * CHILD_THREADS;
    for (int64 node = begin; node < n_nodes; node += step) {
        if (accepted[node] == 0) continue;
        const int64 child = 2 * (int64)rank[node];
        tree_out[child] = tree_out[child + 1] = tree[node];
        key_out[child] = left_key(key[node]);
        key_out[child + 1] = right_key(key[node]);
        start_out[child] = to[node];
        start_out[child + 1] = to[node] + n_left[node];
        count_out[child] = n_left[node];
        count_out[child + 1] = count[node] - n_left[node];
        hessian_out[child] = left_hessian[node];
        hessian_out[child + 1] = hessian[node] - left_hessian[node];
        parent_out[child] = parent_out[child + 1] = slot[node];
        for (int32 k = 0; k < n_channels; ++k) {
            const int64 own = left_gradient[node * n_channels + k];
            gradient_out[child * n_channels + k] = own;
            gradient_out[(child + 1) * n_channels + k] = gradient[node * n_channels + k] - own;
        }
    }
    for (int64 piece = begin; piece < n_pieces; piece += step) {
        const int64 node = last_up_to(cut, n_nodes, piece);
        const int64 of_left = pieces_of(n_left[node], piece_rows), own = piece - cut[node];
        const bool right = own >= of_left;
        const int64 offset = (right ? own - of_left : own) * piece_rows;
        const int64 rows = right ? count[node] - n_left[node] : n_left[node];
        work_slot[piece] = 2 * rank[node] + (right ? 1 : 0);
        work_first[piece] = to[node] + (right ? n_left[node] : 0) + offset;
        work_rows[piece] = (int32)min((int64)piece_rows, rows - offset);
    }
}
