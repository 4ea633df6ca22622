// Histograms of the nodes of a level, for more than two classes: sums over rows for each node,
// feature and code; see shared_histogram.cuh.
//
//   target     int32 (1, n_rows)   the class, ascending in each node
//
// Shared memory: uint32 [plane][width][TILE]; a warp takes 32 / TILE rows, and a lane one feature.
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

#include "histogram/shared_histogram.cuh"

constexpr int32 CLASS_WORDS = 3;         // weight of one class; of all classes; rows if counted
constexpr int32 CLASS_STATIC_BYTES = 16;  // static shared memory, apart from the planes
constexpr int32 ROWS_AHEAD = 4;           // rows that a lane reads before it adds them
constexpr int32 ROW_STRIDE = HISTOGRAM_THREADS / TILE;  // rows that a block takes at once
constexpr uint32 NO_CELL = 0xffffffffu;

// The codes of one lane's feature.
struct LaneColumn {
    const uint8* codes;  // null if the lane has no feature
    int32 lane;          // among the TILE lanes of a row

    __device__ __forceinline__ uint32 cell(uint32 row) const
    {
        return __ldg(codes + (uint64)row * CODE_TILE) * TILE + lane;
    }
};

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
            add_to(output.cell((int32)cell) + output.class_plane(entry[j].own), entry[j].weight);
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
        add_to(output.cell(cell) + output.class_plane(own), weight);
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
                  int64 n_samples, int32 width, int32 n_channels, int32 counted,
                  Out<int64> histogram)
{
    DYNAMIC_SHARED(uint32, weights);
    __shared__ Segment segment;
    const PieceList pieces = {slot, first, rows, *n_pieces, first_slot, first_slot + n_slots};
    int32 piece = pieces.first_of_block();
    if (!pieces.has(piece)) return;
    const int32 cells = width * TILE;
    uint32 *totals = weights + cells, *counts = totals + cells;
    const ClassPlanes planes = {weights, totals, counted != 0 ? counts : nullptr};
    const ListedCodes features = {codes, listed, stride, n_listed, n_samples};

    // zero
    zero(weights, (counted ? CLASS_WORDS : CLASS_WORDS - 1) * cells);
    for (; pieces.has(piece); piece += (int32)gridDim.x) {
        const int32 own = slot[piece] - first_slot;
        if (features.column(own, 0) == nullptr) continue;
        const Output output = {histogram, own, n_listed, width, 2 + n_channels};
        const int64 begin = first[piece];
        const ClassRows own_rows = {row + begin, weight + begin, target + begin, rows[piece]};
        if (threadIdx.x < 2) {
            segment.first[threadIdx.x] = segment.end[threadIdx.x] = own_rows.count;
        }
        __syncthreads();

        // accumulate
        const int32 lane = (int32)threadIdx.x % TILE;
        const LaneColumn column = {features.column(own, lane), lane};
        add_classes(column, own_rows, planes, output, segment);
        __syncthreads();

        // flush
        for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS) {
            int64* out = output.cell(cell);
            if (out == nullptr) continue;
            add_to(out, take(totals + cell));
            if (counted) add_to(out + width, take(counts + cell));
        }
    }
}
