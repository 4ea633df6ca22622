// Codes of a matrix. The code of a value is the number of its feature's edges below the value. The
// values of a categorical feature are codes already. Missing values, and values of a categorical
// feature that are n_bins or more, get missing_code.
//
//   X          float32 or float64 (n, F), strides counted in values; NaN is missing
//   edges      the same type, (F, n_edges), padded with infinity; float32 edges are rounded down
//   n_bins     int32 (F,)       number of categories; for a numeric feature, number of value bins,
//                               which is not used
//   is_categorical  uint8 (F,)
//   codes      uint8 (F, n_total); columns first, ..., first + n - 1 are written
//   n_missing  int64 (F,)       the numbers of rows with missing_code are added to it
//
// Launch of bin_values: grid (blocks of rows, blocks of BIN_FEATURES features), BIN_THREADS
// threads, no dynamic shared memory. A block takes `rows_per_block` rows, BIN_THREADS at a time. It
// copies their values to shared memory, by coalesced reads if the rows or the columns of X are
// contiguous. Then each thread has one row, all lanes search the edges of one feature, and a warp
// writes 32 contiguous codes.

#include "data/tile.cuh"

constexpr int32 MAX_EDGES = 256;

// The number of edges below a value, found bit by bit from `top`, the largest power of two that is
// at most the number of edges (1 without edges). The edges must be padded with infinity.
__device__ __forceinline__ int32 edges_below(const Value* edges, Value x, int32 top)
{
    int32 found = 0;
    for (int32 step = top; step > 0; step >>= 1) {
        found += edges[found + step - 1] < x ? step : 0;
    }
    return found;
}

// The code of a value; `top` as in edges_below.
__device__ __forceinline__ int32 code_of(Value x, const Value* edges, int32 top, bool categorical,
                                         int32 n_bins, int32 missing_code)
{
    if (!categorical) return x != x ? missing_code : edges_below(edges, x, top);
    return x != x || x >= (Value)n_bins ? missing_code : (int32)x;
}

// Copy the edges of `n_own` features from feature `f0` on to shared memory, padded with infinity.
__device__ __forceinline__ void load_edges(Value (*edge)[MAX_EDGES], In<Value> edges, int32 n_edges,
                                           int32 f0, int32 n_own)
{
    for (int32 i = threadIdx.x; i < n_own * MAX_EDGES; i += BIN_THREADS) {
        const int32 f = i / MAX_EDGES, e = i % MAX_EDGES;
        const Value beyond = __longlong_as_double(0x7FF0000000000000ll);
        edge[f][e] = e < n_edges ? edges[(int64)(f0 + f) * n_edges + e] : beyond;
    }
}

extern "C" __global__ void __launch_bounds__(BIN_THREADS)
bin_values(In<Value> X, int64 n, int64 row_stride, int64 column_stride, int32 n_features,
           In<Value> edges, int32 n_edges, In<int32> n_bins, In<uint8> is_categorical,
           int32 missing_code, int64 rows_per_block, Out<uint8> codes, int64 n_total, int64 first,
           Out<int64> n_missing)
{
    __shared__ Value edge[BIN_FEATURES][MAX_EDGES];
    __shared__ Value tile[BIN_FEATURES][BIN_THREADS + 1];
    __shared__ int32 missing_of[BIN_FEATURES];
    const int32 f0 = blockIdx.y * BIN_FEATURES;
    const int32 n_own = min(BIN_FEATURES, n_features - f0);
    const int64 begin = blockIdx.x * rows_per_block;
    const int64 end = min(begin + rows_per_block, n);
    int32 top = 1;
    while (2 * top <= n_edges) top *= 2;

    load_edges(edge, edges, n_edges, f0, n_own);
    if (threadIdx.x < BIN_FEATURES) missing_of[threadIdx.x] = 0;

    for (int64 start = begin; start < end; start += BIN_THREADS) {
        const int32 n_rows = (int32)min((int64)BIN_THREADS, end - start);
        const Value* corner = X + start * row_stride + f0 * column_stride;
        load_tile(tile, corner, row_stride, column_stride, n_rows, n_own);
        __syncthreads();

        const bool inside = (int32)threadIdx.x < n_rows;
        uint8* own = codes + f0 * n_total + first + start + threadIdx.x;
        for (int32 f = 0; f < n_own; ++f) {
            const Value x = inside ? tile[f][threadIdx.x] : (Value)0;
            const int32 code = code_of(x, edge[f], top, is_categorical[f0 + f] != 0, n_bins[f0 + f],
                                       missing_code);
            if (inside) own[f * n_total] = (uint8)code;
            const uint32 votes = __ballot_sync(FULL_MASK, inside && code == missing_code);
            if (threadIdx.x % WARP == 0 && votes != 0) atomicAdd(&missing_of[f], __popc(votes));
        }
        __syncthreads();
    }

    if ((int32)threadIdx.x < n_own && missing_of[threadIdx.x] != 0) {
        const uint64 count = missing_of[threadIdx.x];
        atomicAdd((uint64*)&n_missing[f0 + threadIdx.x], count);
    }
}
