"""The table of scores that gradient boosting prints while it fits, with ``verbose``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_MINUTE = 60.0


@dataclass(eq=False)
class ScoreTable:
    """Prints the scores of rounds to standard output, in the columns of scikit-learn's table.

    Attributes
    ----------
    verbose : int
        1 prints the rounds 1 to 10, 20 to 100 in steps of 10, and so on; 2 or more all rounds.
    first, n_rounds : int
        Number of the first round, from 0, and of all rounds, including those before a warm start.
    """

    verbose: int
    first: int
    n_rounds: int
    _began: float = field(default_factory=time.perf_counter)
    _has_header: bool = False

    def shows(self, number: int) -> bool:
        """Whether the round with this number, from 0, is printed."""
        done = number - self.first + 1
        return self.verbose > 1 or (self.verbose == 1 and done % 10 ** (len(str(done)) - 1) == 0)

    def print_round(self, number: int, scores: dict[str, float]) -> None:
        """Print the scores of a round, by their titles; all rounds have the same titles."""
        widths = {title: max(len(title), 16) for title in scores}
        if not self._has_header:
            titles = [f"{title:>{width}}" for title, width in widths.items()]
            print(f"{'Iter':>10}", *titles, f"{'Remaining Time':>16}")
            self._has_header = True
        shown = [f"{score:>{widths[title]}.4f}" for title, score in scores.items()]
        print(f"{number + 1:>10d}", *shown, f"{self._remaining(number):>16}", flush=True)

    def _remaining(self, number: int) -> str:
        """The estimated time of the rounds that follow."""
        per_round = (time.perf_counter() - self._began) / (number - self.first + 1)
        seconds = per_round * (self.n_rounds - number - 1)
        return f"{seconds / _MINUTE:.2f}m" if seconds > _MINUTE else f"{seconds:.2f}s"
