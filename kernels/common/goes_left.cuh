// Which child a row goes to, in partitions, subtrees, finished trees and predictions; also which
// codes of a histogram belong to the left child.
//
//   x                           the row goes left if
//   missing                     the split sends missing values left
//   of a categorical feature    x is in the split's set of codes
//   of a numeric feature        x is at most the split's bin, or threshold
//
// Nodes are stored in several layouts. Each layout has a type with these methods:
//
//   is_missing(x)    missing_left()    is_categorical()    in_set(x)    at_most(x)

// The largest code that a set may contain. Larger values of a categorical feature are replaced by
// it: no category has this code, so they go where the split sends unknown categories.
constexpr int32 LAST_CODE = 255;

// Whether a set of codes contains `code`, given word number code / WARP of the set.
__device__ __forceinline__ bool has_code(uint32 word, uint32 code)
{
    return (word >> (code % WARP) & 1) != 0;
}

// Whether a row goes left; `x` is its code or its value.
template <typename Split, typename Value>
__device__ __forceinline__ bool goes_left(const Split& split, Value x)
{
    if (split.is_missing(x)) return split.missing_left();
    return split.is_categorical() ? split.in_set(x) : split.at_most(x);
}
