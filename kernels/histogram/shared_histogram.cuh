// What the kernels of histograms share: the pieces of rows of a launch, the codes of the listed
// features, and the histogram in global memory.
//
//   codes      uint8 (tiles, n_samples, CODE_TILE)   a row's codes of the features of a tile are
//                                                side by side, padded with zeros
//   listed     int32 (slots, n_listed) or (n_listed,)    features whose histograms are built;
//                                                unused entries at the end are -1. `stride` is the
//                                                number of entries from the list of a slot to that
//                                                of the next, 0 if all slots list all features
//   row        uint32 (n_rows,)                  rows of the matrix; a node's rows are contiguous
//   weight     uint32 (n_rows,)                  at most 2**31 - 1
//   n_pieces   int32 (1,)                        number of pieces, at most the length of the
//                                                arrays of pieces
//   slot, first, rows   int32, int64, int32 (pieces,)    pieces of rows, from policy.cu
//   histogram  int64 (slots, n_listed, 2 + channels, width)   sum of weights, number of rows (only
//                                                if `counted`), and gradients of each code; zero
//                                                before the launch
//
// Launch: grid (any, n_listed / TILE rounded up, ...), HISTOGRAM_THREADS threads. Blocks loop over
// the pieces of the `n_slots` slots from `first_slot` on; pieces are sorted by slot. The first item
// of `histogram`, and of `listed` if slots have their own lists, belongs to `first_slot`. All rows
// of a piece belong to one node (slot). A block sums the rows for TILE features.
//
// Only 32-bit shared atomics are native, and those that return nothing are the fastest. So the host
// limits the rows of a piece (`HistogramBuilder.rows_per_block`): no sum of weights, or of the
// halves of gradients, can leave 32 bits.

#ifndef TILE
#define TILE 32  // features per block: fewer if few are listed or shared memory is small
#endif
#ifndef CODE_TILE
#define CODE_TILE 32  // features whose codes of a row are side by side in memory
#endif

constexpr int32 HISTOGRAM_THREADS = 512;
constexpr int32 HISTOGRAM_BLOCKS = 2;  // per multiprocessor; more would spill registers
constexpr int32 MAX_PIECE_ROWS = 65536;  // the sums of the halves of so many gradients fit 32 bits

// The pieces of rows of a launch, sorted by slot.
struct PieceList {
    In<int32> slot;
    In<int64> first;
    In<int32> rows;
    int32 n;
    int32 first_slot;
    int32 end_slot;

    // The first piece of this block; each block takes every gridDim.x-th piece.
    __device__ __forceinline__ int32 first_of_block() const
    {
        const int32 end = first_slot == 0 ? 0 : n;
        const int32 first_piece = first_not(0, end, [&](int32 i) { return slot[i] < first_slot; });
        return first_piece + (int32)blockIdx.x;
    }
    __device__ __forceinline__ bool has(int32 piece) const
    {
        return piece < n && slot[piece] < end_slot;
    }
};

// Index in the feature list of the feature of a lane, one of the TILE lanes of a row.
__device__ __forceinline__ int32 entry_of(int32 lane) { return (int32)blockIdx.y * TILE + lane; }

// The codes of the listed features.
struct ListedCodes {
    In<uint8> codes;
    In<int32> listed;
    int32 stride;  // from the list of a slot to the next
    int32 n_listed;
    int64 n_samples;

    // The codes of a lane's feature in a slot's list, CODE_TILE apart; null if it has no feature.
    __device__ __forceinline__ const uint8* column(int32 slot, int32 lane) const
    {
        const int32 entry = entry_of(lane);
        const int32 f = entry < n_listed ? listed[(int64)slot * stride + entry] : -1;
        return f < 0 ? nullptr : codes + (f / CODE_TILE) * n_samples * CODE_TILE + f % CODE_TILE;
    }
};

// The histogram of a slot in global memory.
struct Output {
    int64* histogram;
    int32 slot;
    int32 n_listed;
    int32 width;
    int32 planes;

    // The first plane's sum of a code of a lane's feature; null if the lane has no feature.
    __device__ __forceinline__ int64* at(int32 code, int32 lane) const
    {
        const int32 entry = entry_of(lane);
        if (entry >= n_listed) return nullptr;
        return histogram + ((int64)slot * n_listed + entry) * planes * width + code;
    }
    __device__ __forceinline__ int64* cell(int32 of_block) const
    {
        return at(of_block / TILE, of_block % TILE);
    }
    __device__ __forceinline__ int32 class_plane(int32 own) const { return (2 + own) * width; }
};

__device__ __forceinline__ void zero(uint32* cells, int32 n_cells)
{
    for (int32 i = threadIdx.x; i < n_cells; i += HISTOGRAM_THREADS) cells[i] = 0;
}

// Return the sum in a cell and clear it for the next piece or segment.
__device__ __forceinline__ uint32 take(uint32* cell)
{
    const uint32 sum = *cell;
    if (sum != 0) *cell = 0;
    return sum;
}
