"""How many histograms of a level are in memory at once."""

from __future__ import annotations

from dataclasses import dataclass

from gpuboost.backends.cuda.level.policy import Policy

# Launches of a slice: a fill and a sum of histograms, a search, a decision; where nodes look at few
# features (of lists) also these, a fill, and those that are listed at next: counted.
SLICE_LAUNCHES, LISTED_SLICE_LAUNCHES = 4, 8
# Launches that may find no node on a level. Replayed they take 1.5 us each, 84 us in all: what the
# 14 launches of a level take longer if the host makes them, as it does where it asks for nodes.
# To search a level of so many rows takes as long again, see `cost.ROW_TRAFFIC`.
EMPTY_LAUNCHES, ROWS_OF_LEVEL = 56, 1 << 20


@dataclass(frozen=True)
class Slices:
    """The slots of the levels of one batch of trees, searched some at a time.

    Parameters
    ----------
    policy : Policy
    at_once : int
        Histograms that fit the memory budget.
    n_launches : int
        Of a slice.
    """

    policy: Policy
    at_once: int
    n_launches: int

    @classmethod
    def of(cls, policy: Policy, budget: int, bytes_per_node: int, by_lists: bool) -> Slices:
        """Those of a budget, which has room for one histogram at least.

        ``by_lists`` says whether nodes look at few features.
        """
        n_launches = LISTED_SLICE_LAUNCHES if by_lists else SLICE_LAUNCHES
        return cls(policy, max(1, budget // bytes_per_node), n_launches)

    def keep(self, n_histograms: int, max_nodes: int, depth: int) -> bool:
        """Whether so many histograms fit together with those of the next level.

        ``max_nodes`` are those of the level at ``depth``, which has the ``n_histograms``.
        """
        below = self.policy.max_nodes(max_nodes, depth)
        return n_histograms + self.policy.max_slots(below, depth + 1, True) <= self.at_once

    def are_few(self, max_nodes: int, depth: int) -> bool:
        """Whether a level may be searched in slices for all nodes there could be.

        If there are none, that takes no more time than the host would to ask, and than a level
        that has all rows.
        """
        n_slots = self.policy.max_slots(max_nodes, depth, False)
        further = -(-n_slots // self.at_once) - 1
        max_empty = EMPTY_LAUNCHES * (1 + self.policy.n_rows / ROWS_OF_LEVEL)
        return further * self.n_launches <= max_empty
