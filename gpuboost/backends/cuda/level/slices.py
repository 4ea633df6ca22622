"""Slices of a level: groups of histograms that are in memory at the same time."""

from __future__ import annotations

from dataclasses import dataclass

from gpuboost.backends.cuda.level.policy import Policy

# Number of launches of a slice, which clear and sum histograms, search features and select splits.
# With feature lists, four more launches choose the lists, clear the mask of undecided nodes, try
# the next features of undecided nodes and select splits again.
SLICE_LAUNCHES, LISTED_SLICE_LAUNCHES = 4, 8
# Largest number of launches of slices after the first for an empty level, if rows are few. These
# times are assumed: in a replayed batch, such launches take 1.5 us each, 84 us in all. Reading back
# the number of nodes takes the same time, because the host must then make the 14 launches of a
# level one by one. Searching ROWS_OF_LEVEL rows also takes this time; each row moves
# `gpuboost.backends.cost_model.ROW_TRAFFIC` bytes.
EMPTY_LAUNCHES, ROWS_OF_LEVEL = 56, 1 << 20


@dataclass(frozen=True)
class Slices:
    """Divides the histogram slots of a level into slices that fit the memory budget.

    Parameters
    ----------
    policy : Policy
    at_once : int
        Number of histograms that fit the memory budget, at least 1.
    n_launches : int
        Number of launches of a slice.
    """

    policy: Policy
    at_once: int
    n_launches: int

    @classmethod
    def of(cls, policy: Policy, budget: int, bytes_per_node: int, by_lists: bool) -> Slices:
        """Make the slices for a budget in bytes; a slice has at least one histogram.

        ``by_lists`` says whether nodes have feature lists.
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
        """Whether a level has so few slices that its number of nodes need not be read back.

        Slices are launched for the largest possible number of nodes. They are few if launching all
        but the first for an empty level takes at most the time of the readback plus the search of a
        full level.
        """
        n_slots = self.policy.max_slots(max_nodes, depth, False)
        further = -(-n_slots // self.at_once) - 1
        max_empty = EMPTY_LAUNCHES * (1 + self.policy.n_rows / ROWS_OF_LEVEL)
        return further * self.n_launches <= max_empty
