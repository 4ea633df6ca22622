"""How many histograms of a level are in memory at once."""

from __future__ import annotations

from dataclasses import dataclass

from gpuboost.backends.cuda.level.policy import Policy

# Launches of a slice, counted: fill and sum histograms, search features, select splits. With
# feature lists also: choose the lists, fill, try the next features, select splits.
SLICE_LAUNCHES, LISTED_SLICE_LAUNCHES = 4, 8
# Largest number of launches on an empty level. Replayed, they take 1.5 us each and 84 us in all.
# Reading back the number of nodes costs as much: the host must then make the 14 launches of a
# level one by one. Searching a level of ROWS_OF_LEVEL rows also takes as long (`cost.ROW_TRAFFIC`).
EMPTY_LAUNCHES, ROWS_OF_LEVEL = 56, 1 << 20


@dataclass(frozen=True)
class Slices:
    """Divides the histogram slots of a level into slices that fit the memory budget.

    Parameters
    ----------
    policy : Policy
    at_once : int
        Number of histograms that fit the memory budget.
    n_launches : int
        Launches of a slice.
    """

    policy: Policy
    at_once: int
    n_launches: int

    @classmethod
    def of(cls, policy: Policy, budget: int, bytes_per_node: int, by_lists: bool) -> Slices:
        """Make the slices for a budget in bytes; a slice has at least one histogram.

        ``by_lists`` is whether nodes have feature lists.
        """
        n_launches = LISTED_SLICE_LAUNCHES if by_lists else SLICE_LAUNCHES
        return cls(policy, max(1, budget // bytes_per_node), n_launches)

    def keep(self, n_histograms: int, max_nodes: int, depth: int) -> bool:
        """Whether the histograms of a level and of the next level fit the budget together.

        The level at ``depth`` has ``n_histograms`` histograms and at most ``max_nodes`` nodes.
        """
        below = self.policy.max_nodes(max_nodes, depth)
        return n_histograms + self.policy.max_slots(below, depth + 1, True) <= self.at_once

    def are_few(self, max_nodes: int, depth: int) -> bool:
        """Whether a level is searched in slices for as many nodes as it could have.

        The bound on the number of slices is such that, even if the level turns out to be empty,
        this costs no more than reading back the number of nodes and searching a full level.
        """
        n_slots = self.policy.max_slots(max_nodes, depth, False)
        further = -(-n_slots // self.at_once) - 1
        max_empty = EMPTY_LAUNCHES * (1 + self.policy.n_rows / ROWS_OF_LEVEL)
        return further * self.n_launches <= max_empty
