// Whether the best split of a node is accepted: `gains` and `good_enough` of
// gpuboost/engine/growth/policy.py.

struct AcceptRule {
    int32 criterion;
    double unit;          // factor from a gain to a decrease of weight times impurity
    double min_impurity_decrease;  // per weight of the root
    bool needs_gain;      // whether splits of gain 0 are rejected

    // The gain of a split with this score; -1 if the split is not accepted.
    __device__ __forceinline__ double gain(double score, int64 hessian, int64 root_hessian) const
    {
        if (score < 0.0) return -1.0;
        const double found = Criteria::gain(criterion, score, (double)hessian);
        if (needs_gain && found == 0.0) return -1.0;
        const double decrease = found * unit / (double)root_hessian + EPSILON;
        return min_impurity_decrease > 0.0 && decrease < min_impurity_decrease ? -1.0 : found;
    }
};
