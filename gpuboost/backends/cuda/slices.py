"""How many histograms of a level are in memory at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuboost.backends.cuda.policy import Policy

# A slice of a level without nodes is five launches, or eight where nodes look at few features:
# about 20 us. A level of so many rows takes four times as long, see `cost.ROW_TRAFFIC`.
ROWS_OF_SLICE = 1 << 20


@dataclass(frozen=True)
class Slices:
    """The slots of the levels of one batch of trees, searched some at a time.

    Parameters
    ----------
    policy : Policy
    at_once : int
        Histograms that fit the memory budget.
    """

    policy: Policy
    at_once: int

    @classmethod
    def of(cls, policy: Policy, budget: int, bytes_per_node: int) -> Slices:
        """Those of a budget, which has room for one histogram at least."""
        return cls(policy, max(1, budget // bytes_per_node))

    def keep(self, n_histograms: int, most_nodes: int, depth: int) -> bool:
        """Whether so many histograms fit together with those of the next level.

        ``most_nodes`` are those of the level at ``depth``, which has the ``n_histograms``.
        """
        below = self.policy.most_nodes(most_nodes, depth)
        return n_histograms + self.policy.most_slots(below, depth + 1, True) <= self.at_once

    def are_few(self, most_nodes: int, depth: int) -> bool:
        """Whether a level may be searched in slices for all nodes there could be.

        If there are none, that takes little time beside a level that has all rows.
        """
        n_slots = self.policy.most_slots(most_nodes, depth, False)
        further = -(-n_slots // self.at_once) - 1
        return further * ROWS_OF_SLICE <= self.policy.n_rows
