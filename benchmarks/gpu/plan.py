"""How a case is measured, and where its records go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.gpu.cases import GpuCase

Say = Callable[[str], None]
Record = dict[str, Any]


class Keep(Protocol):
    """Where finished records go."""

    def done(self, case: GpuCase, who: str) -> bool:
        """Whether this was measured before."""

    def add(self, case: GpuCase, who: str, record: Record) -> None:
        """Keep a record for good."""


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    Attributes
    ----------
    seconds : float
        That the case may take; what is slow is repeated less often.
    repeat : int
    seed : int
    """

    seconds: float
    repeat: int = 5
    seed: int = 0
