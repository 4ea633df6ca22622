// The list of the rows of all trees and the order of its rows, for draw.cu.

// The order in which the rows of a tree are listed, the same for every tree.
struct Order {
    In<uint32> rows;  // (n,), read only if `given`
    bool given;

    __device__ __forceinline__ int64 row(int64 place) const { return given ? rows[place] : place; }
};

// The rows of all trees, one tree after the other, and the targets from which the list is made.
struct RowList {
    In<int32> target;      // (n_columns, n_samples), of the rows of the matrix
    int64 n_samples;
    int32 n_columns;
    int64 target_stride;   // between columns of target_out
    Out<uint32> row;       // rows of the matrix
    Out<uint32> weight;    // integer weights of the rows in their trees
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
