// Histograms of the nodes of a level, for regression and two classes: sums over rows for each node,
// feature and code; see shared_histogram.cuh.
//
//   target     int32 (channels, n_rows)   a value, sign (for medians) or gradient; two classes: 1
//                                         for the second class, else 0
//
// Shared memory: uint32 [width][words][TILE], so with TILE = 32 a feature has a bank of its own.
// A warp takes 32 / TILE rows, one feature a lane, or 4 times as many, four features a lane. Then
// the rows of a warp add their features in different orders, and the banks still differ. With TILE
// = 32:
//
//                lanes 0 .. 7, row 0        lanes 8 .. 15, row 1      lanes 16 .. 23, row 2
//   first        features 0, 4, .. 28       features 1, 5, .. 29      features 2, 6, .. 30
//   then         features 1, 5, .. 29       features 2, 6, .. 30      features 3, 7, .. 31
//
// Features that pad the last tile have code 0 in all rows; their sums are never read.

#include "histogram/shared_histogram.cuh"

#ifndef SIDE_BY_SIDE
#define SIDE_BY_SIDE 0  // whether a block's features are side by side in `codes`: all are listed
#endif

constexpr int32 CODES_READ = SIDE_BY_SIDE ? 4 : 1;    // codes of a row that a lane reads at once
constexpr int32 VALUES_AHEAD = SIDE_BY_SIDE ? 4 : 8;  // rows that a lane reads before it adds them
constexpr int32 VALUE_WORDS = BINARY_TARGETS ? 1 : 2;  // 32-bit words of a sum of values
constexpr int32 MAX_WORDS = 4;  // of a cell: two of values, the weight, and the number of rows
constexpr int32 HALF_BITS = 16;  // of a gradient
static_assert(VALUE_WORDS + 2 <= MAX_WORDS, "the host leaves no memory for more");
static_assert(MAX_PIECE_ROWS <= 1 << (32 - HALF_BITS), "a sum of halves could overflow");

constexpr int32 ROW_LANES = TILE / CODES_READ;  // lanes that share a row
constexpr int32 ROWS_AT_ONCE = HISTOGRAM_THREADS / ROW_LANES;

// The numbers of one row, which a lane adds to the cells of its features.
struct Entry {
    uint32 codes = 0;
    uint32 weight = 0;
    uint32 is_row = 0;  // 1, or 0 for no row
    int32 value = 0;
};

// The rows of a piece.
struct ValueRows {
    In<uint32> row;
    In<uint32> weight;
    In<int32> value;
    int32 count;

    __device__ __forceinline__ ValueRows from(int64 first) const
    {
        return {row + first, weight + first, value + first, count};
    }
};

// The features of a lane.
struct LaneFeatures {
    const uint8* codes;  // of the first feature; null if the lane has none
    // In the order of addition: each feature's number in the tile, and the byte with its code.
    int32 feature[CODES_READ];
    uint32 selector[CODES_READ];

    __device__ __forceinline__ uint32 read(uint32 row) const
    {
        const uint8* own = codes + (uint64)row * CODE_TILE;
        return CODES_READ == 1 ? __ldg(own) : __ldg((const uint32*)own);
    }
    __device__ __forceinline__ uint32 code(uint32 all, int32 j) const
    {
        return CODES_READ == 1 ? all : __byte_perm(all, 0, selector[j]);
    }
};

__device__ __forceinline__ LaneFeatures lane_features(const ListedCodes& codes, int32 slot)
{
    constexpr uint32 no_byte = 0x4440;  // of __byte_perm: the three upper bytes are 0
    const int32 turn = (int32)threadIdx.x / ROW_LANES;
    const int32 first = (int32)threadIdx.x % ROW_LANES * CODES_READ;
    LaneFeatures own;
    own.codes = codes.column(slot, first);
    for (int32 j = 0; j < CODES_READ; ++j) {
        const int32 place = (j + turn) % CODES_READ;
        own.feature[j] = first + place;
        own.selector[j] = no_byte | place;
    }
    return own;
}

// Sums of one channel in shared memory. EXTRAS is 0 for values alone, 1 for values and weights, and
// 2 for numbers of rows, too.
template <int32 EXTRAS>
struct BlockSums {
    static constexpr int32 CELL_STRIDE = (VALUE_WORDS + EXTRAS) * TILE;
    // Addresses of the cells of code 0 of the lane's features, in the order of addition. With
    // pointers, each addition would take one more instruction, which adds the address of the
    // block's memory.
    uint64 column[CODES_READ];

    __device__ __forceinline__ void add(const LaneFeatures& own, const Entry& entry) const
    {
        #pragma unroll
        for (int32 j = 0; j < CODES_READ; ++j) {
            const uint32 offset = own.code(entry.codes, j) * (4 * CELL_STRIDE);  // bytes
            uint32* cell = (uint32*)__cvta_shared_to_generic(column[j] + offset);
            if (BINARY_TARGETS) {
                atomicAdd(cell, (uint32)entry.value * entry.weight);
            } else if (GRADIENTS) {
                atomicAdd(cell, (uint32)entry.value & ((1u << HALF_BITS) - 1));
                atomicAdd(cell + TILE, (uint32)(entry.value >> HALF_BITS));
            } else {
                const uint64 product = (uint64)((int64)entry.weight * entry.value);
                const uint32 part = (uint32)product, before = atomicAdd(cell, part);
                const uint32 carry = before + part < before ? 1u : 0u;
                atomicAdd(cell + TILE, (uint32)(product >> 32) + carry);
            }
            if (EXTRAS > 0) atomicAdd(cell + VALUE_WORDS * TILE, entry.weight);
            if (EXTRAS > 1) atomicAdd(cell + (VALUE_WORDS + 1) * TILE, entry.is_row);
        }
    }
};

// Read the next rows of a thread, or those that exist if they are not ALL among `count`.
template <bool ALL>
__device__ __forceinline__ void read_rows(In<uint32> next, int32 count, uint32* row)
{
    #pragma unroll
    for (int32 j = 0; j < VALUES_AHEAD; ++j) {
        if (ALL || j * ROWS_AT_ONCE < count) row[j] = __ldg(next + j * ROWS_AT_ONCE);
    }
}

template <bool ALL>
__device__ __forceinline__ void read_entries(const LaneFeatures& own, const ValueRows& next,
                                             const uint32* row, Entry* entry)
{
    #pragma unroll
    for (int32 j = 0; j < VALUES_AHEAD; ++j) {
        if (!ALL && j * ROWS_AT_ONCE >= next.count) continue;
        entry[j].codes = own.read(row[j]);
        entry[j].weight = __ldg(next.weight + j * ROWS_AT_ONCE);
        entry[j].value = __ldg(next.value + j * ROWS_AT_ONCE);
        entry[j].is_row = 1;
    }
}

// Add the rows of a piece. The numbers of the rows of the next iteration are read ahead. The last
// iteration adds zeros for rows that do not exist; to leave them out would take registers.
template <int32 EXTRAS>
__device__ __forceinline__ void add_piece(const LaneFeatures& own, const ValueRows& rows,
                                           const BlockSums<EXTRAS>& sums)
{
    constexpr int32 step = VALUES_AHEAD * ROWS_AT_ONCE, last = step - ROWS_AT_ONCE;
    const int32 begin = (int32)threadIdx.x / ROW_LANES;
    ValueRows next = rows.from(begin);
    next.count -= begin;
    uint32 row[VALUES_AHEAD];
    if (next.count > last) read_rows<true>(next.row, next.count, row);
    #pragma unroll 1
    while (next.count > last) {
        Entry entry[VALUES_AHEAD];
        read_entries<true>(own, next, row, entry);
        next = next.from(step);
        next.count -= step;
        if (next.count > last) read_rows<true>(next.row, next.count, row);
        #pragma unroll
        for (int32 j = 0; j < VALUES_AHEAD; ++j) sums.add(own, entry[j]);
    }
    if (next.count <= 0) return;
    Entry entry[VALUES_AHEAD];
    read_rows<false>(next.row, next.count, row);
    read_entries<false>(own, next, row, entry);
    #pragma unroll
    for (int32 j = 0; j < VALUES_AHEAD; ++j) sums.add(own, entry[j]);
}

// The sum of values in a cell, which is cleared.
__device__ __forceinline__ int64 take_value(uint32* cell)
{
    const uint64 low = take(cell);
    if (BINARY_TARGETS) return (int64)low;
    const uint32 high = take(cell + TILE);
    return GRADIENTS ? (int64)low + (int64)(int32)high * (1 << HALF_BITS)
                     : (int64)((uint64)high << 32 | low);
}

// Codes of a feature that neighbouring lanes add to global memory: a sector of 32 bytes. In shared
// memory, they have one bank.
constexpr int32 FLUSHED_CODES = 4;

// Add the sums to a slot's histogram, in the given channel, and clear them.
template <int32 EXTRAS>
__device__ __forceinline__ void flush_values(uint32* cells, const Output& output, int32 channel)
{
    constexpr int32 stride = BlockSums<EXTRAS>::CELL_STRIDE;
    const int32 width = output.width, t = threadIdx.x, lane = t / FLUSHED_CODES % TILE;
    int64* weights = output.at(0, lane);
    if (weights == nullptr) return;
    int64 *counts = weights + width, *values = weights + (2 + channel) * width;
    int32 code = t / (FLUSHED_CODES * TILE) * FLUSHED_CODES + t % FLUSHED_CODES;
    #pragma unroll 2
    for (; code < width; code += HISTOGRAM_THREADS / TILE) {
        uint32* cell = cells + code * stride + lane;
        add_to(values + code, take_value(cell));
        if (EXTRAS > 0) add_to(weights + code, take(cell + VALUE_WORDS * TILE));
        if (EXTRAS > 1) add_to(counts + code, take(cell + (VALUE_WORDS + 1) * TILE));
    }
}

// Sum the pieces of this block, the first of which is `piece`, in shared memory at `cells`.
template <int32 EXTRAS>
__device__ __forceinline__ void sum_pieces(uint32* cells, const PieceList& pieces, int32 piece,
                                           const ListedCodes& codes, ValueRows rows,
                                           Output output, int32 channel)
{
    zero(cells, BlockSums<EXTRAS>::CELL_STRIDE * output.width);
    for (; pieces.has(piece); piece += (int32)gridDim.x) {
        __syncthreads();
        output.slot = pieces.slot[piece] - pieces.first_slot;
        const LaneFeatures own = lane_features(codes, output.slot);
        BlockSums<EXTRAS> sums;
        for (int32 j = 0; j < CODES_READ; ++j) {
            sums.column[j] = __cvta_generic_to_shared(cells + own.feature[j]);
        }
        rows.count = own.codes == nullptr ? 0 : pieces.rows[piece];
        add_piece(own, rows.from(pieces.first[piece]), sums);
        __syncthreads();
        flush_values<EXTRAS>(cells, output, channel);
    }
}

// Regression, and two classes: channel blockIdx.z is the sum of weight * target[blockIdx.z]; for
// gradients, the sum of target[blockIdx.z]. Blocks of channel 0 also sum weights and, if `counted`,
// count rows.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS, HISTOGRAM_BLOCKS)
histogram_values(In<uint8> codes, In<uint32> row, In<uint32> weight, In<int32> target,
                 In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows,
                 int32 first_slot, int32 n_slots, In<int32> listed, int32 stride, int32 n_listed,
                 int64 n_samples, int64 n_rows, int32 width, int32 counted,
                 Out<int64> histogram)
{
    DYNAMIC_SHARED(uint32, cells);
    const PieceList pieces = {slot, first, rows, *n_pieces, first_slot, first_slot + n_slots};
    const int32 piece = pieces.first_of_block();
    if (!pieces.has(piece)) return;
    const int32 channel = blockIdx.z;
    const ListedCodes features = {codes, listed, stride, n_listed, n_samples};
    const ValueRows of_launch = {row, weight, target + (int64)channel * n_rows, 0};
    const Output output = {histogram, 0, n_listed, width, 2 + (int32)gridDim.z};
    if (channel != 0) sum_pieces<0>(cells, pieces, piece, features, of_launch, output, channel);
    else if (!counted) sum_pieces<1>(cells, pieces, piece, features, of_launch, output, channel);
    else sum_pieces<2>(cells, pieces, piece, features, of_launch, output, channel);
}
