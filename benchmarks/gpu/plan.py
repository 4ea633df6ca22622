"""The plan of a measurement, and the interface that stores its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.gpu.cases import GpuCase

Say = Callable[[str], None]
Record = dict[str, Any]


class Keep(Protocol):
    """Stores finished records."""

    def done(self, case: GpuCase, who: str) -> bool:
        """Whether there is a finished record of the case for ``who``."""

    def add(self, case: GpuCase, who: str, record: Record) -> None:
        """Store a record permanently."""


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    Attributes
    ----------
    seconds : float
        Seconds that the case may take; slow peers are repeated less often.
    repeat : int
        Maximal number of runs of each peer after the first one.
    seed : int
    """

    seconds: float
    repeat: int = 5
    seed: int = 0
