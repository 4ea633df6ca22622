// The rows of all trees, one tree after the other, for draw.cu.

// The order in which the rows of a tree are listed, the same for every tree.
struct Order {
    In<uint32> rows;  // (n,), read only if `given`
    bool given;

    __device__ __forceinline__ int64 row(int64 place) const { return given ? rows[place] : place; }
};

// The rows of all trees, one tree after the other.
struct RowList {
    In<int32> target;  // (C, n)
    int64 n_samples;
    int32 n_columns;
    int64 target_stride;  // between columns of target_out
    Out<uint32> row;
    Out<uint32> weight;
    Out<int32> target_out;
};

__device__ __forceinline__ void write_row(const RowList& rows, int64 to, int64 row, uint32 weight)
{
    rows.row[to] = (uint32)row;
    rows.weight[to] = weight;
    for (int32 c = 0; c < rows.n_columns; ++c) {
        rows.target_out[c * rows.target_stride + to] = rows.target[c * rows.n_samples + row];
    }
}
