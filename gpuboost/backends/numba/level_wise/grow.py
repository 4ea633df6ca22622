"""All levels of the trees of a round in one compiled call, by all threads of a team.

    words of several trees side by side        blocks of rows
    until no node is left:
        histograms of the smaller siblings     chunks of rows and tiles of features
        best splits                            families and tiles
        which are taken                        one thread
        which rows go left                     chunks of rows
        places and children                    one thread
        rows to their children                 chunks of rows
    sums of leaves                             chunks of rows

Of deep trees small nodes are left as they are, and so are the sums: see `level_subtrees`.
What a pass leaves to a later one lies in the arrays of `level_layout`.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from gpuboost.backends.numba.compiler import entry_without_counts, spliced
from gpuboost.backends.numba.level_wise.histograms import sum_chunks
from gpuboost.backends.numba.level_wise.partition import decide_chunks, move_chunks, sum_ends
from gpuboost.backends.numba.level_wise.policy import ROOM, list_ends, place, plan, plant, settle
from gpuboost.backends.numba.level_wise.root_histograms import lay_across, sum_roots
from gpuboost.backends.numba.level_wise.search import search_tasks
from gpuboost.backends.numba.threads.barrier import go_on, is_last, meet

# Words of ``level``: its open nodes, families and chunks.
OPEN, FAMILIES, CHUNKS = range(3)


@spliced
def find_splits(problem, samples, grove, work, partial, level, is_first, team):
    """Histograms and best splits of a level."""
    n_tiles = work.found.shape[1]
    if is_first and samples.across.size > 0:
        sum_roots(samples, grove, work, level[FAMILIES], partial, team)
    else:
        sum_chunks(samples, grove, work, partial, level[CHUNKS] * n_tiles, team)
    meet(team)
    search_tasks(problem, samples, grove, work, level[FAMILIES] * n_tiles, team)


@spliced
def part_rows(problem, samples, grove, work, level, rooms, team):
    """Rows of a level to the children."""
    missing_code = problem.matrix.missing_code
    decide_chunks(samples, grove, work, missing_code, level[CHUNKS], team)
    if is_last(team):
        level[OPEN] = place(problem, grove, work, level[CHUNKS], rooms[ROOM])
        go_on(team)
    move_chunks(grove, work, level[CHUNKS], team)


@spliced
def grow_levels(problem, samples, grove, work, partial, level, rooms, team):
    """Grow trees whose roots are planned, until no node is split.

    Best-first growth splits one node of each tree at a time.
    """
    is_first = True
    while True:
        find_splits(problem, samples, grove, work, partial, level, is_first, team)
        if is_last(team):
            level[CHUNKS] = settle(problem, grove, work, level[OPEN], rooms)
            go_on(team)
        if level[CHUNKS] == 0:
            return
        part_rows(problem, samples, grove, work, level, rooms, team)
        if is_last(team):
            level[FAMILIES], level[CHUNKS] = plan(problem, grove, work, level[OPEN], rooms)
            go_on(team)
        is_first = False


@entry_without_counts
def grow_together(problem, shared, partial, team):
    """Grow all trees and sum up their leaves; ``level[CHUNKS]`` is then the number of the sums.

    Where nodes are left for `level_subtrees.finish_together`, that one does the sums.

    Called by every thread with what they share, a `level_layout.Growth`, and a problem and partial
    sums of its own.
    """
    samples, grove, work, leaves, roots, keys, level, rooms = shared
    if not meet(team):
        return
    if is_last(team):
        level[OPEN] = plant(problem, grove, roots, keys, rooms[ROOM])
        level[FAMILIES], level[CHUNKS] = plan(problem, grove, work, level[OPEN], rooms)
        go_on(team)
    if samples.across.size > 0:
        lay_across(samples, grove, team)
        meet(team)
    grow_levels(problem, samples, grove, work, partial, level, rooms, team)
    if grove.n_small[0] > 0:
        return
    if is_last(team):
        level[CHUNKS] = list_ends(problem, grove, work, rooms)
        go_on(team)
    places = (problem.matrix.missing_code, rooms[ROOM])
    sum_ends(samples, grove, work, leaves, places, level[CHUNKS], team)
