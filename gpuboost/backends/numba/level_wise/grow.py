"""Growth of all trees of a round, level by level; each thread makes one compiled call.

    roots                                      one thread
    until no node is split:
        sibling pairs                          one thread
        histograms of the smaller siblings     chunks of rows and tiles of columns
        best splits                            sibling pairs and strips of tiles
        accepted splits                        one thread
        partition of rows                      nodes and segments of rows
    leaves of rows                             nodes and segments of rows
    leaf sums                                  chunks of rows

The right column says who runs a step: one thread, or all threads, which take tasks of the given
kind. If there can be small nodes, `subtrees` splits them and finds the leaves, in a second call; in
small tables, where roots are small, it is the only one.
The arrays that connect the passes are in `records`.
"""

from __future__ import annotations

from gpuboost.backends.numba.compiler import spliced
from gpuboost.backends.numba.intrinsics import reference_at
from gpuboost.backends.numba.level_wise.histograms import STRIPS, sum_chunks
from gpuboost.backends.numba.level_wise.leaves import finish_leaves
from gpuboost.backends.numba.level_wise.partition import partition_segments
from gpuboost.backends.numba.level_wise.policy import (
    CAPACITY,
    CHUNKS,
    OPEN,
    PAIRS,
    accept_splits,
    make_roots,
    open_children,
    plan,
)
from gpuboost.backends.numba.level_wise.search import search_tasks
from gpuboost.backends.numba.threads.barrier import barrier_wait, last_arrives, release
from gpuboost.backends.numba.threads.commands import SharedFunction

SEARCHES_PER_THREAD = 8  # so many sibling pairs and tiles keep every thread busy to the end


@spliced
def find_splits(own, samples, state, work, level, barrier):
    """Compute the histograms and best splits of a level.

    If the sibling pairs are enough tasks for all threads, each histogram is searched where it was
    summed, while it is in the L2 cache (see `grower.TILE`).
    """
    problem, channels, partial = own.problem, own.channels, own.partial
    n_pairs, n_tiles = level[PAIRS], work.found.shape[1] // STRIPS
    few = SEARCHES_PER_THREAD * (barrier.n_threads - 1)
    is_summed = level[CHUNKS] > n_pairs or n_pairs * n_tiles < few
    if is_summed:
        sum_chunks(samples, state, work, partial, level[CHUNKS] * n_tiles, barrier)
        barrier_wait(barrier)
    search_tasks(problem, channels, samples, state, work, partial, n_pairs, is_summed, barrier)


@spliced
def grow_levels(own, samples, state, work, level, capacities, barrier):
    """Grow trees until no node is split; `plan` must have listed the roots.

    Small nodes are listed, not split. Best-first growth splits one node of each tree per pass,
    besides nodes whose children are not searched: they have maximum depth or are the last ones.
    """
    problem, missing_code = own.problem, own.problem.matrix.missing_code
    while True:
        find_splits(own, samples, state, work, level, barrier)
        if last_arrives(barrier):
            level[OPEN] = accept_splits(problem, state, work, level[OPEN], capacities)
            release(barrier)
        n_nodes = level[OPEN]
        if n_nodes == 0:
            return
        partition_segments(samples, state, missing_code, capacities[CAPACITY], n_nodes, barrier)
        if last_arrives(barrier):
            level[OPEN] = open_children(state, n_nodes, capacities[CAPACITY])
            level[PAIRS], level[CHUNKS] = plan(problem, state, work, level[OPEN], capacities)
            release(barrier)


def grow_together(shared, barrier):
    """Grow all trees, and fill `leaves.Leaves`; ``shared`` is a `records.SharedArrays`.

    If small nodes are left, they are not split here, and `subtrees.finish_together` finds the
    leaves instead.
    """
    samples, state, work = shared.samples, shared.state, shared.work
    roots, keys, level, capacities = shared.roots, shared.keys, shared.level, shared.capacities
    own = reference_at(shared.threads, barrier.thread, shared.first_thread)
    problem = own.problem
    if not barrier_wait(barrier):
        return
    if last_arrives(barrier):
        level[OPEN] = make_roots(problem, state, roots, keys, capacities[CAPACITY])
        level[PAIRS], level[CHUNKS] = plan(problem, state, work, level[OPEN], capacities)
        release(barrier)
    grow_levels(own, samples, state, work, level, capacities, barrier)
    if state.n_small[0] == 0:
        finish_leaves(problem, shared, barrier)


GROW_TOGETHER = SharedFunction(grow_together)
