// The histogram of a block in shared memory, and the pieces of rows that it sums: for histogram.cu.

// Index of the first piece whose slot is at least `first_slot`, n_pieces if there is none; pieces
// are sorted by slot.
__device__ __forceinline__ int32 first_piece(In<int32> slot, int32 n_pieces, int32 first_slot)
{
    const int32 end = first_slot == 0 ? 0 : n_pieces;
    return first_not(0, end, [&](int32 piece) { return slot[piece] < first_slot; });
}

// The numbers of one row, which a lane adds to a cell of its feature.
struct Entry {
    uint32 cell = NO_CELL;  // index in a plane of shared memory; NO_CELL if there is no row
    uint32 weight;
    int64 value;  // gradient of the row
};

// The codes of one lane's feature.
struct LaneColumn {
    const uint8* codes;  // null if the lane has no feature
    int64 stride;        // from one row to the next
    int32 lane;          // among the TILE lanes of a row

    __device__ __forceinline__ uint32 cell(uint32 row) const
    {
        return __ldg(codes + row * stride) * TILE + lane;
    }
};

// Index in the feature list of the feature that a lane sums rows for.
__device__ __forceinline__ int32 entry_of(int32 lane) { return (int32)blockIdx.y * TILE + lane; }

__device__ __forceinline__ LaneColumn lane_column(const uint8* codes, const int32* listed,
                                                  int32 n_listed, int64 n_samples, int32 tile)
{
    const int32 lane = threadIdx.x % TILE, entry = entry_of(lane);
    const int32 f = entry < n_listed ? listed[entry] : -1;
    if (f < 0) return {nullptr, 0, lane};
    return {codes + (f / tile) * n_samples * tile + f % tile, tile, lane};
}

__device__ __forceinline__ void zero(uint32* cells, int32 n_cells)
{
    for (int32 i = threadIdx.x; i < n_cells; i += HISTOGRAM_THREADS) cells[i] = 0;
}

// Pointer to the sums in the global histogram that a cell of shared memory is added to; null if the
// cell's lane is beyond the end of `listed`. `slot` counts from the first slot of the launch.
__device__ __forceinline__ int64* output_cell(int64* histogram, int32 slot, int32 n_listed,
                                              int32 width, int32 planes, int32 cell)
{
    const int32 entry = entry_of(cell % TILE);
    if (entry >= n_listed) return nullptr;
    return histogram + (((int64)slot * n_listed + entry) * width + cell / TILE) * planes;
}

// Return the sum in a cell and clear it for the next piece or segment.
__device__ __forceinline__ uint32 take(uint32* cell)
{
    const uint32 sum = *cell;
    if (sum != 0) *cell = 0;
    return sum;
}
