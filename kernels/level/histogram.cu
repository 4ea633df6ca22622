// Histograms of the nodes of a level: sums over rows for each node, feature and code.
//
//   codes      uint8 (tiles, n_samples, tile)    a row's codes of the features of a tile are side
//                                                by side
//   listed     int32 (slots, n_listed) or (n_listed,)    features whose histograms are built;
//                                                unused entries at the end are -1. `stride` is the
//                                                number of entries from the list of a slot to that
//                                                of the next, 0 if all slots share one list
//   row        uint32 (n_rows,)                  rows of the matrix; a node's rows are contiguous
//   weight     uint32 (n_rows,)                  at most 2**31 - 1
//   target     int32 (columns, n_rows)           a value, sign (for medians) or gradient per
//                                                channel; two classes: 1 for the second class, else
//                                                0; more classes: the class, ascending in each node
//   n_pieces   int32 (1,)                        number of pieces, at most the length of the
//                                                arrays of pieces
//   slot, first, rows   int32, int64, int32 (pieces,)    pieces of rows, from policy.cu
//   histogram  int64 (slots, n_listed, width, 2 + channels)   sum of weights, number of rows (only
//                                                if `counted`), and gradients; zero before the
//                                                launch
//
// Launch: grid (any, n_listed / TILE rounded up, channels; 1 with more than two classes),
// HISTOGRAM_THREADS threads, shared memory below. Blocks loop over the pieces of the `n_slots`
// slots from `first_slot` on; pieces are sorted by slot. The first item of `histogram`, and of
// `listed` if slots have their own lists, belongs to `first_slot`.
// All rows of a piece belong to one node (slot). A block sums the rows for TILE features: one
// channel of gradients or, with more than two classes, all channels. A warp takes 32 / TILE rows at
// a time, and a lane takes one feature:
//
//                lane 0   lane 1   ...  lane 31
//   row 7        code 3   code 9        code 3
//   adds to      [3][0]   [9][1]        [3][31]    of a plane [bin][lane]: with TILE = 32, every
//                                                lane has its own bank
//
// Shared memory: uint32 [plane][width][TILE]. Only 32-bit shared atomics are native. So weights
// must not overflow their plane (the host limits the rows of a piece by the largest weight), and a
// gradient has two planes, with a carry from the low half to the high half. With more than two
// classes, gradients are weights, and one plane is enough.

#ifndef TILE
#define TILE 32  // features per block: fewer if few are listed or shared memory is small
#endif

constexpr int32 HISTOGRAM_THREADS = 512;
constexpr int32 VALUE_PLANES = 4;        // low and high half; weight; number of rows if counted
constexpr int32 CLASS_PLANES = 3;        // weight of one class; of all classes; rows if counted
constexpr int32 CLASS_STATIC_BYTES = 16;  // static shared memory, apart from the planes
constexpr int32 HISTOGRAM_BLOCKS = 2;    // per multiprocessor; more would spill registers
constexpr int32 ROWS_AHEAD = 4;          // rows that a lane loads before it adds them
constexpr int32 ROW_STRIDE = HISTOGRAM_THREADS / TILE;  // rows that a block takes at once
constexpr uint32 NO_CELL = 0xffffffffu;

#include "level/shared_histogram.cuh"

// The planes of one channel in shared memory.
struct ValuePlanes {
    uint32* low;
    uint32* high;
    uint32* weights;
    uint32* counts;
    bool has_weights;
    bool has_counts;

    __device__ __forceinline__ int32 n_planes() const
    {
        return has_counts ? VALUE_PLANES : has_weights ? VALUE_PLANES - 1 : 2;
    }
    __device__ __forceinline__ void add(const Entry& entry) const
    {
        const uint32 cell = entry.cell;
        if (cell == NO_CELL) return;
        if (entry.value != 0) add_halves(low + cell, high + cell, entry.value);
        if (has_weights) atomicAdd(weights + cell, entry.weight);
        if (has_counts) atomicAdd(counts + cell, 1u);
    }
    // Add the sums of a cell to the histogram, if the cell has a place there, and clear the sums.
    __device__ __forceinline__ void flush(int32 cell, int64* out, int32 channel) const
    {
        if (out == nullptr) return;
        const uint64 upper = take(high + cell);
        add_to(out + 2 + channel, (int64)(upper << 32 | take(low + cell)));
        if (has_weights) add_to(out, take(weights + cell));
        if (has_counts) add_to(out + 1, take(counts + cell));
    }
};

// Regression, and two classes: channel blockIdx.z is the sum of weight * target[blockIdx.z]; for
// gradients, the sum of target[blockIdx.z]. Blocks of channel 0 also sum weights and, if `counted`,
// count rows.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS, HISTOGRAM_BLOCKS)
histogram_values(In<uint8> codes, In<uint32> row, In<uint32> weight, In<int32> target,
                 In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows,
                 int32 first_slot, int32 n_slots, In<int32> listed, int32 stride, int32 n_listed,
                 int64 n_samples, int32 tile, int64 n_rows, int32 width, int32 counted,
                 Out<int64> histogram)
{
    DYNAMIC_SHARED(uint32, low);
    const int32 end_slot = first_slot + n_slots;
    int32 piece = first_piece(slot, *n_pieces, first_slot) + (int32)blockIdx.x;
    if (piece >= *n_pieces || slot[piece] >= end_slot) return;
    const int32 cells = width * TILE, channel = blockIdx.z;
    const ValuePlanes sums = {low, low + cells, low + 2 * cells, low + 3 * cells, channel == 0,
                              channel == 0 && counted != 0};
    const int32* values = target + (int64)channel * n_rows;

    // zero
    zero(low, sums.n_planes() * cells);
    for (; piece < *n_pieces && slot[piece] < end_slot; piece += (int32)gridDim.x) {
        __syncthreads();

        // accumulate
        const int32 own = slot[piece] - first_slot;
        const LaneColumn column
            = lane_column(codes, listed + (int64)own * stride, n_listed, n_samples, tile);
        const int64 begin = first[piece];
        const int32 end = column.codes == nullptr ? 0 : rows[piece];
        for (int32 at = threadIdx.x / TILE; at < end; at += ROWS_AHEAD * ROW_STRIDE) {
            Entry entry[ROWS_AHEAD];
            #pragma unroll
            for (int32 j = 0; j < ROWS_AHEAD; ++j) {
                const int32 local = at + j * ROW_STRIDE;
                if (local < end) {
                    entry[j].cell = column.cell(__ldg(row + begin + local));
                    entry[j].weight = __ldg(weight + begin + local);
                    const int64 value = __ldg(values + begin + local);
                    entry[j].value = GRADIENTS ? value : entry[j].weight * value;
                }
            }
            #pragma unroll
            for (int32 j = 0; j < ROWS_AHEAD; ++j) sums.add(entry[j]);
        }
        __syncthreads();

        // flush
        for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS) {
            int64* out = output_cell(histogram, own, n_listed, width, 2 + gridDim.z, cell);
            sums.flush(cell, out, channel);
        }
    }
}

// ---- More than two classes ---------------------------------------------------------------------
//
// The rows of a node are sorted by class, so a piece consists of segments of one class each. A code
// is read only once, regardless of the number of classes:
//
//   class       0 0 0 0 0 0 0 0   1 1   2   3 3 3 3 3 3 3 3 3
//   added to    shared, flushed | global  | shared, flushed
//
// Long segments are summed in shared memory and flushed. A flush reads every cell, so the rows of
// short segments are added directly to global memory, which takes about as many global atomics as a
// flush. The weights of all classes together, and row counts, are also summed in shared memory and
// flushed once per piece. Computing the total weights from the sums of classes later would be
// exact, too, but would read one number per class for each cell even if a node has few rows.

// Segments of at least width / SHORT rows are flushed. A 64-bit global atomic is assumed to cost as
// much as reading SHORT * SHORT * 2 words of shared memory: for each feature, a flush of r rows
// with random codes reads `width` words and saves about r * r / (2 * width) atomics.
constexpr int32 SHORT = 5;

// The rows of a piece.
struct ClassRows {
    In<uint32> row;
    In<uint32> weight;
    In<int32> target;
    int32 count;
};

// Planes in shared memory.
struct ClassPlanes {
    uint32* weights;  // of the rows of one segment
    uint32* totals;   // weights of all rows of the piece
    uint32* counts;   // null if rows are not counted
};

// The histogram of a slot in global memory.
struct Output {
    int64* histogram;
    int32 slot;
    int32 n_listed;
    int32 width;
    int32 planes;

    __device__ __forceinline__ int64* cell(int32 of_block) const
    {
        return output_cell(histogram, slot, n_listed, width, planes, of_block);
    }
};

// First and end row of the segments found in this iteration and the next, which alternate between
// the two entries.
struct Segment {
    int32 first[2];
    int32 end[2];
};
static_assert(sizeof(Segment) <= CLASS_STATIC_BYTES, "the host leaves no memory for more");

constexpr int32 ANY_CLASS = -1;

struct ClassEntry {
    uint32 cell;  // NO_CELL if there is no row, or if its class is not the wanted one
    uint32 weight;
    int32 own;  // the row's class
};

__device__ __forceinline__ ClassEntry class_entry(const LaneColumn& column, const ClassRows& rows,
                                                  int32 at, int32 end, int32 wanted)
{
    ClassEntry entry = {NO_CELL, 0, ANY_CLASS};
    if (at >= end) return entry;
    const uint32 row = __ldg(rows.row + at);
    entry.weight = __ldg(rows.weight + at);
    entry.own = __ldg(rows.target + at);
    if (wanted == ANY_CLASS || entry.own == wanted) entry.cell = column.cell(row);
    return entry;
}

// The first row from `at` on where a segment of at least `minimum` rows begins; rows.count if there
// is none. A segment must begin at `at`, and *first, in shared memory, must be rows.count. Every
// thread of the block takes part; the function has a barrier.
__device__ __forceinline__ int32 find_segment(const ClassRows& rows, int32 at, int32 minimum,
                                              int32* first)
{
    const int32 last = rows.count - minimum;
    for (int32 start = at;; start += HISTOGRAM_THREADS) {
        const int32 i = start + (int32)threadIdx.x;
        const bool begins = i <= last && rows.target[i] == rows.target[i + minimum - 1];
        if (begins) atomicMin(first, i);
        const int32 found = __syncthreads_or(begins);
        if (found || start + HISTOGRAM_THREADS > last) return *first;
    }
}

// Add the rows from `first` to `end`, of any classes, to the histogram in global memory, and to the
// totals and counts in shared memory.
__device__ __forceinline__ void add_scattered(const LaneColumn& column, const ClassRows& rows,
                                              int32 first, int32 end, const ClassPlanes& planes,
                                              const Output& output)
{
    for (int32 at = first + (int32)threadIdx.x / TILE; at < end; at += ROWS_AHEAD * ROW_STRIDE) {
        ClassEntry entry[ROWS_AHEAD];
        #pragma unroll
        for (int32 j = 0; j < ROWS_AHEAD; ++j) {
            entry[j] = class_entry(column, rows, at + j * ROW_STRIDE, end, ANY_CLASS);
        }
        #pragma unroll
        for (int32 j = 0; j < ROWS_AHEAD; ++j) {
            const uint32 cell = entry[j].cell;
            if (cell == NO_CELL) continue;
            if (planes.counts != nullptr) atomicAdd(planes.counts + cell, 1u);
            if (entry[j].weight == 0) continue;
            atomicAdd(planes.totals + cell, entry[j].weight);
            add_to(output.cell((int32)cell) + 2 + entry[j].own, entry[j].weight);
        }
    }
}

// Add the rows of the segment that begins at `first` to the weights and counts in shared memory.
// *end must be rows.count before the call, and is the end of the segment after the next barrier.
__device__ __forceinline__ void add_segment(const LaneColumn& column, const ClassRows& rows,
                                            int32 first, const ClassPlanes& planes, int32* end)
{
    const int32 wanted = rows.target[first];
    int32 beyond = rows.count;  // the first of this thread's rows with another class
    for (int32 at = first + (int32)threadIdx.x / TILE; at < beyond; at += ROWS_AHEAD * ROW_STRIDE) {
        ClassEntry entry[ROWS_AHEAD];
        #pragma unroll
        for (int32 j = 0; j < ROWS_AHEAD; ++j) {
            entry[j] = class_entry(column, rows, at + j * ROW_STRIDE, rows.count, wanted);
        }
        #pragma unroll
        for (int32 j = 0; j < ROWS_AHEAD; ++j) {
            const uint32 cell = entry[j].cell;
            if (cell == NO_CELL) {
                beyond = min(beyond, at + j * ROW_STRIDE);
                continue;
            }
            atomicAdd(planes.weights + cell, entry[j].weight);
            if (planes.counts != nullptr) atomicAdd(planes.counts + cell, 1u);
        }
    }
    // The TILE threads of a row find the same end, so only the first of them writes it; that thread
    // always has a feature.
    if (threadIdx.x % TILE == 0 && beyond < rows.count) atomicMin(end, beyond);
}

// Add the weights of a segment, of class `own`, to global memory and to the totals of all classes,
// and clear the weights.
__device__ __forceinline__ void flush_segment(const ClassPlanes& planes, const Output& output,
                                              int32 cells, int32 own)
{
    for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS) {
        const uint32 weight = take(planes.weights + cell);
        if (weight == 0) continue;
        planes.totals[cell] += weight;
        add_to(output.cell(cell) + 2 + own, weight);
    }
}

// Add the rows of a piece, segment by segment. Every thread of the block takes part; a barrier is
// needed before the call, and another before the totals are read. A thread without a feature adds
// nothing.
__device__ __forceinline__ void add_classes(const LaneColumn& column, const ClassRows& rows,
                                            const ClassPlanes& planes, const Output& output,
                                            Segment& segment)
{
    const int32 cells = output.width * TILE, minimum = max(1, output.width / SHORT);
    const bool has_feature = column.codes != nullptr;
    for (int32 at = 0, turn = 0; at < rows.count; turn ^= 1) {
        const int32 first = find_segment(rows, at, minimum, segment.first + turn);
        if (threadIdx.x == 0) segment.first[turn ^ 1] = segment.end[turn ^ 1] = rows.count;
        if (has_feature) add_scattered(column, rows, at, first, planes, output);
        if (first == rows.count) break;
        if (has_feature) add_segment(column, rows, first, planes, segment.end + turn);
        __syncthreads();
        at = segment.end[turn];
        flush_segment(planes, output, cells, rows.target[first]);
    }
}

// Channel k is the weight of class k; the sum of weights is that of all classes. Rows are counted
// if `counted`.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS, HISTOGRAM_BLOCKS)
histogram_classes(In<uint8> codes, In<uint32> row, In<uint32> weight, In<int32> target,
                  In<int32> n_pieces, In<int32> slot, In<int64> first, In<int32> rows,
                  int32 first_slot, int32 n_slots, In<int32> listed, int32 stride, int32 n_listed,
                  int64 n_samples, int32 tile, int32 width, int32 n_channels, int32 counted,
                  Out<int64> histogram)
{
    DYNAMIC_SHARED(uint32, weights);
    __shared__ Segment segment;
    const int32 end_slot = first_slot + n_slots;
    int32 piece = first_piece(slot, *n_pieces, first_slot) + (int32)blockIdx.x;
    if (piece >= *n_pieces || slot[piece] >= end_slot) return;
    const int32 cells = width * TILE;
    uint32 *totals = weights + cells, *counts = totals + cells;
    const ClassPlanes planes = {weights, totals, counted != 0 ? counts : nullptr};

    // zero
    zero(weights, (counted ? CLASS_PLANES : CLASS_PLANES - 1) * cells);
    for (; piece < *n_pieces && slot[piece] < end_slot; piece += (int32)gridDim.x) {
        const int32 own = slot[piece] - first_slot;
        const int32* list = listed + (int64)own * stride;
        if (list[entry_of(0)] < 0) continue;
        const Output output = {histogram, own, n_listed, width, 2 + n_channels};
        const int64 begin = first[piece];
        const ClassRows own_rows = {row + begin, weight + begin, target + begin, rows[piece]};
        if (threadIdx.x < 2) {
            segment.first[threadIdx.x] = segment.end[threadIdx.x] = own_rows.count;
        }
        __syncthreads();

        // accumulate
        const LaneColumn column = lane_column(codes, list, n_listed, n_samples, tile);
        add_classes(column, own_rows, planes, output, segment);
        __syncthreads();

        // flush
        for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS) {
            int64* out = output.cell(cell);
            if (out == nullptr) continue;
            add_to(out, take(totals + cell));
            if (counted) add_to(out + 1, take(counts + cell));
        }
    }
}

// Zero the histograms of the `n_slots` slots from `first_slot` on, but only of slots that exist:
// the level has sizes[0] slots, see policy.cu. Each histogram has n_cells int64 numbers.
// Launch: any number of blocks of HISTOGRAM_THREADS threads.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS)
zero_histograms(In<int32> sizes, int32 first_slot, int32 n_slots, int64 n_cells,
                Out<int64> histogram)
{
    const int64 end = (int64)min(sizes[0] - first_slot, n_slots) * n_cells;
    const int64 step = (int64)gridDim.x * HISTOGRAM_THREADS;
    for (int64 i = (int64)blockIdx.x * HISTOGRAM_THREADS + threadIdx.x; i < end; i += step) {
        histogram[i] = 0;
    }
}
