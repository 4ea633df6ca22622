// Histograms of a level before rows are added to them.

constexpr int32 ZERO_THREADS = 512;

// Zero the histograms of the `n_slots` slots from `first_slot` on, but only of slots that exist:
// the level has sizes[0] slots, see policy.cu. Each histogram has n_cells int64 numbers.
// Launch: any number of blocks of ZERO_THREADS threads.
extern "C" __global__ void __launch_bounds__(ZERO_THREADS)
zero_histograms(In<int32> sizes, int32 first_slot, int32 n_slots, int64 n_cells,
                Out<int64> histogram)
{
    const int64 end = (int64)min(sizes[0] - first_slot, n_slots) * n_cells;
    const int64 step = (int64)gridDim.x * ZERO_THREADS;
    for (int64 i = (int64)blockIdx.x * ZERO_THREADS + threadIdx.x; i < end; i += step) {
        histogram[i] = 0;
    }
}
