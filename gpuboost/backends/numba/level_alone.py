"""All levels in one compiled call: for one thread, and for trees too small to share.

The same passes as those of `level_grow`, one after the other.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from gpuboost.backends.numba._shared import allocating, entry
from gpuboost.backends.numba.level_histograms import sum_chunks
from gpuboost.backends.numba.level_partition import decide_chunks, move_chunks, sum_ends
from gpuboost.backends.numba.level_policy import list_ends, place, plan, plant, settle
from gpuboost.backends.numba.level_search import search_tasks


@allocating
def descend_once(problem, samples, grove, work, level, rooms):
    """Grow a level; ``level``: depth, open nodes, families, chunks. Returns the next one's."""
    depth, n_open, n_families, n_chunks = level
    counter, n_tiles = rooms[2:], work.found.shape[1]
    counter[0] = 0
    sum_chunks(samples, grove, work, n_chunks * n_tiles, depth, counter)
    counter[0] = 0
    search_tasks(problem, samples, grove, work, n_families * n_tiles, depth, counter)
    n_chunks = settle(problem, grove, work, n_open, rooms)
    if n_chunks == 0:
        return depth, n_open, 0, 0
    counter[0] = 0
    decide_chunks(samples, grove, work, problem.matrix.missing_code, n_chunks, depth, counter)
    n_open = place(problem, grove, work, n_chunks, rooms[0])
    counter[0] = 0
    move_chunks(grove, work, n_chunks, depth, counter)
    n_families, n_chunks = plan(problem, grove, work, n_open, rooms)
    return depth + 1, n_open, n_families, n_chunks


@entry
def grow_alone(problem, samples, grove, work, leaves, roots, keys, rooms):
    """Grow all trees and sum up their leaves; the number of chunks of these.

    ``rooms``: of a tree, rows per chunk, and a word for counting.
    """
    n_open = plant(problem, grove, roots, keys, rooms[0])
    n_families, n_chunks = plan(problem, grove, work, n_open, rooms)
    level = (0, n_open, n_families, n_chunks)
    while level[2] > 0:
        level = descend_once(problem, samples, grove, work, level, rooms)
    n_chunks = list_ends(problem, grove, work, rooms)
    rooms[2] = 0
    places = (problem.matrix.missing_code, rooms[0])
    sum_ends(samples, grove, work, leaves, places, n_chunks, rooms[2:])
    return n_chunks
