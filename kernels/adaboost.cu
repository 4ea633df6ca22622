// Rounds of AdaBoost: what a tree says of the rows, its error, the weights that follow, and the
// rows drawn by them. The same numbers as gpuboost/engine/adaboost.py.
//
//   weights     float64 (n,)      they add up to 1; 0 of rows that never have any
//   says        int32 or float64 (nodes,)    class or value of each leaf
//   wrong       uint8 (n,)        whether the tree says another class than the row has
//   loss        float64 (n,)      of a regression, from 0 to 1; -1 of rows that have no weight
//   sums        int64 (2,)        fixed-point sums: of what is wrong or lost, and of all weights
//   largest     uint64 (1,)       bits of the largest of some numbers, none of them negative
//   factors     float64 (2,)      what weights of right and of wrong rows are multiplied by; of a
//                                 regression the first: by what power of e they fall without loss
//
// What is summed, or found to be the largest, is zero before the launch.
//
// Launch unless said otherwise: blocks of BOOST_THREADS threads, as many as are wanted, which take
// the rows in turn; no dynamic shared memory.

#include "rounds.cuh"
#include "placed.cuh"
#include "running_sum.cuh"

constexpr double FIXED_POINT = 2305843009213693952.0;  // 2**61
constexpr double LEAST_WEIGHT = 6.223015277861142e-61;  // 2**-200
constexpr int32 LINEAR = 0, SQUARE = 1, EXPONENTIAL = 2;
constexpr int32 WEIGHT_PART = 4096;  // rows that a block makes a running sum of

__device__ __forceinline__ int64 fixed_point(double weight)
{
    return (int64)rint(weight * FIXED_POINT);
}

__device__ __forceinline__ int64 threads_of_grid() { return (int64)gridDim.x * BOOST_THREADS; }

// Add what the threads of a warp have to two sums.
__device__ __forceinline__ void add_to(int64* sums, int64 first, int64 second)
{
    first = warp_sum(first);
    second = warp_sum(second);
    if (threadIdx.x % WARP != 0) return;
    if (first != 0) atomicAdd((uint64*)sums, (uint64)first);
    if (second != 0) atomicAdd((uint64*)sums + 1, (uint64)second);
}

// ---- What the leaves of a level say ------------------------------------------------------------
//
// Nodes of a level are numbered from `first_node` on; of those that were not split, left is 0.
// Launch: one block of BOOST_THREADS threads for so many nodes.

// Classes of the largest share, the first of equals. hessian int64 (m,), gradient int64 (m, K):
// weight of the node, and of each class, or of two classes of the second.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
say_classes(const int32* __restrict__ size, const uint8* __restrict__ accepted,
            const int64* __restrict__ hessian, const int64* __restrict__ gradient,
            int32 n_channels, int32 n_classes, int32 first_node, int32* __restrict__ left,
            int32* __restrict__ says)
{
    const int64 node = row_of_thread();
    if (node >= *size || accepted[node] != 0) return;
    const int64* own = gradient + node * n_channels;
    double total = 0.0;
    for (int32 k = 0; k < n_classes; ++k) {
        const int64 sum = n_channels > 1 ? own[k] : k == 1 ? own[0] : hessian[node] - own[0];
        total = total + (double)sum;
    }
    int32 best = 0;
    double most = -1.0;
    for (int32 k = 0; k < n_classes; ++k) {
        const int64 sum = n_channels > 1 ? own[k] : k == 1 ? own[0] : hessian[node] - own[0];
        const double share = (double)sum / total;
        if (share > most) {
            most = share;
            best = k;
        }
    }
    left[first_node + node] = 0;
    says[first_node + node] = best;
}

// Means. sums int64 (m, n_sums): the first two are planes of what is added up, at 2**high and
// 2**low; mean: what targets were centred on.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
say_values(const int32* __restrict__ size, const uint8* __restrict__ accepted,
           const int64* __restrict__ hessian, const int64* __restrict__ sums, int32 n_sums,
           int32 high, int32 low, double mean, int32 first_node, int32* __restrict__ left,
           double* __restrict__ says)
{
    const int64 node = row_of_thread();
    if (node >= *size || accepted[node] != 0) return;
    const int64* own = sums + node * n_sums;
    const double total = ldexp((double)own[0], -high) + ldexp((double)own[1], -low);
    left[first_node + node] = 0;
    says[first_node + node] = mean + total / (double)hessian[node];
}

// ---- Errors ------------------------------------------------------------------------------------

// label int32 (n,): classes of the rows, of codes uint8 (F, n).
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
judge_classes(const uint8* __restrict__ codes, int64 n, int32 missing_code, int32 has_masks,
              const int32* __restrict__ feature, const int32* __restrict__ code,
              const int32* __restrict__ left, const uint8* __restrict__ missing_left,
              const uint32* __restrict__ mask, const int32* __restrict__ says,
              const int32* __restrict__ label, const double* __restrict__ weights,
              uint8* __restrict__ wrong, int64* __restrict__ sums)
{
    const PlacedNodes nodes = {feature, code, left, missing_left, mask, has_masks != 0};
    int64 missed = 0, all = 0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        const int64 leaf = nodes.leaf_of(codes, n, row, missing_code, 0);
        const bool misses = says[leaf] != label[row];
        const int64 fixed = fixed_point(weights[row]);
        wrong[row] = misses;
        missed += misses ? fixed : 0;
        all += fixed;
    }
    add_to(sums, missed, all);
}

// miss float64 (n,): absolute errors of rows that have weight, -1 of others.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_misses(const uint8* __restrict__ codes, int64 n, int32 missing_code, int32 has_masks,
            const int32* __restrict__ feature, const int32* __restrict__ code,
            const int32* __restrict__ left, const uint8* __restrict__ missing_left,
            const uint32* __restrict__ mask, const double* __restrict__ says,
            const double* __restrict__ y, const double* __restrict__ weights,
            double* __restrict__ miss, uint64* __restrict__ largest)
{
    const PlacedNodes nodes = {feature, code, left, missing_left, mask, has_masks != 0};
    __shared__ uint64 of_warp[BOOST_WARPS];
    double most = 0.0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        double own = -1.0;
        if (weights[row] > 0.0) {
            own = fabs(says[nodes.leaf_of(codes, n, row, missing_code, 0)] - y[row]);
            most = max(most, own);
        }
        miss[row] = own;
    }
    keep_largest(of_warp, largest, most);
}

__device__ __forceinline__ double loss_of(int32 kind, double share)
{
    if (kind == LINEAR) return share;
    return kind == SQUARE ? share * share : 1.0 - natural_exp(-share);
}

// loss: before the launch, what find_misses leaves.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
judge_values(int32 kind, int64 n, const uint64* __restrict__ largest,
             const double* __restrict__ weights, double* __restrict__ loss,
             int64* __restrict__ sums)
{
    const double most = __longlong_as_double((int64)*largest);
    int64 lost = 0, all = 0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        const double miss = loss[row];
        if (miss < 0.0) continue;
        const double own = loss_of(kind, most > 0.0 ? miss / most : miss);
        loss[row] = own;
        lost += fixed_point(weights[row] * own);
        all += fixed_point(weights[row]);
    }
    add_to(sums, lost, all);
}

// ---- Weights of the next round -----------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
reweigh_classes(const uint8* __restrict__ wrong, const double* __restrict__ factors, int64 n,
                double* __restrict__ weights)
{
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        const double weight = weights[row];
        if (weight > 0.0) weights[row] = max(weight * factors[wrong[row]], LEAST_WEIGHT);
    }
}

// They do not add up to 1 yet: sums has what they do add up to.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
reweigh_values(const double* __restrict__ loss, const double* __restrict__ factors, int64 n,
               double* __restrict__ weights, int64* __restrict__ sums)
{
    const double step = factors[0];
    int64 all = 0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        if (loss[row] < 0.0) continue;
        const double weight = weights[row] * natural_exp((loss[row] - 1.0) * step);
        weights[row] = weight;
        all += fixed_point(weight);
    }
    add_to(sums, 0, all);
}

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
normalise(const double* __restrict__ loss, const int64* __restrict__ sums, int64 n,
          double* __restrict__ weights)
{
    const double total = (double)sums[1] / FIXED_POINT;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        if (loss[row] >= 0.0) weights[row] = max(weights[row] / total, LEAST_WEIGHT);
    }
}

// ---- Rows drawn by their weights ---------------------------------------------------------------
//
//   of_class float64 (K,)     what the weight of a row is multiplied by, by its label int32 (n,);
//                             neither is read unless they are `weighted`

__device__ __forceinline__ double weight_for_tree(const double* __restrict__ weights,
                                                  const double* __restrict__ of_class,
                                                  const int32* __restrict__ label, int32 weighted,
                                                  int64 row)
{
    return weighted == 0 ? weights[row] : weights[row] * of_class[label[row]];
}

extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
find_heaviest(const double* __restrict__ weights, const double* __restrict__ of_class,
              const int32* __restrict__ label, int32 weighted, int64 n,
              uint64* __restrict__ largest)
{
    __shared__ uint64 of_warp[BOOST_WARPS];
    double most = 0.0;
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        most = max(most, weight_for_tree(weights, of_class, label, weighted, row));
    }
    keep_largest(of_warp, largest, most);
}

// kept int64 (parts,): fixed-point weight of each part of WEIGHT_PART rows; all of them have so
// many bits. Launch: a block a part.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
sum_parts(const double* __restrict__ weights, const double* __restrict__ of_class,
          const int32* __restrict__ label, int32 weighted, int64 n,
          const uint64* __restrict__ largest, int32 bits, int64* __restrict__ kept)
{
    const int32 exponent = bits - exponent_above(*largest);
    const int64 first = (int64)blockIdx.x * WEIGHT_PART, end = min(n, first + WEIGHT_PART);
    int64 own = 0;
    for (int64 row = first + threadIdx.x; row < end; row += BOOST_THREADS) {
        const double weight = weight_for_tree(weights, of_class, label, weighted, row);
        own += (int64)rint(scaled(weight, exponent));
    }
    own = warp_sum(own);
    if (threadIdx.x % WARP == 0 && own != 0) atomicAdd((uint64*)kept + blockIdx.x, (uint64)own);
}

// cumulative uint64 (n,): running sum of these weights; first int64 (parts,): that of the parts
// before. Launch: a block a part.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
add_up(const double* __restrict__ weights, const double* __restrict__ of_class,
       const int32* __restrict__ label, int32 weighted, int64 n,
       const uint64* __restrict__ largest, int32 bits, const int64* __restrict__ first,
       uint64* __restrict__ cumulative)
{
    __shared__ int64 warp_sums[BOOST_WARPS];
    const int32 exponent = bits - exponent_above(*largest);
    const int64 begin = (int64)blockIdx.x * WEIGHT_PART, end = min(n, begin + WEIGHT_PART);
    int64 before = first[blockIdx.x];
    for (int64 start = begin; start < end; start += BOOST_THREADS) {
        const int64 row = start + threadIdx.x;
        int64 own = 0;
        if (row < end) {
            const double weight = weight_for_tree(weights, of_class, label, weighted, row);
            own = (int64)rint(scaled(weight, exponent));
        }
        const RunningSum sum = running_sum(warp_sums, own);
        if (row < end) cumulative[row] = (uint64)(before + sum.before + own);
        before += sum.all;
    }
}

// Draw counts, uint32 (n,), of which none is to be above `most`.
extern "C" __global__ void __launch_bounds__(BOOST_THREADS, BOOST_BLOCKS)
cap_draws(uint32* __restrict__ drawn, int64 n, uint32 most)
{
    for (int64 row = row_of_thread(); row < n; row += threads_of_grid()) {
        drawn[row] = min(drawn[row], most);
    }
}
