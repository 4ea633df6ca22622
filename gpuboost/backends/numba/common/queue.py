"""The heap of nodes that wait to be split in best-first growth."""

from __future__ import annotations

from gpuboost.backends.numba.compiler import helper, inlined


@inlined
def precedes(nodes, a, b):
    """Whether best-first growth splits node ``a`` before ``b``."""
    gain, other = nodes[a].gain, nodes[b].gain
    return (gain > other) | ((gain == other) & (nodes[a].key < nodes[b].key))


@helper
def push_heap(heap, size, nodes, k):
    """Add node ``k`` to a heap of ``size`` nodes; the caller raises ``size``."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not precedes(nodes, k, heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = k


@helper
def pop_heap(heap, size, nodes):
    """Remove the first of ``size`` nodes and return it; the caller lowers ``size``."""
    first, last = heap[0], heap[size - 1]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size - 1:
            break
        if below + 1 < size - 1 and precedes(nodes, heap[below + 1], heap[below]):
            below += 1
        if not precedes(nodes, heap[below], last):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    return first
