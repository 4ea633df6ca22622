"""Sources with one barrier deleted, to learn whether the tests would notice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.cuda_shim.source import without_comments

_BARRIER = re.compile(r"\b__sync(?:threads|warp)\s*\([^();]*\)\s*;")


@dataclass(frozen=True)
class Mutant:
    """A source that lacks one barrier: which one, on which line, and the text without it."""

    line: int
    barrier: str
    source_text: str


def barrier_mutants(source_text: str) -> Iterator[Mutant]:
    """Yield the source with each ``__syncthreads();`` and ``__syncwarp();`` deleted in turn.

    A barrier that also votes (``__syncthreads_or``) returns a value and is left alone.
    """
    for match in _BARRIER.finditer(without_comments(source_text)):
        line = source_text.count("\n", 0, match.start()) + 1
        blank = "\n" * match[0].count("\n")
        without = source_text[: match.start()] + ";" + blank + source_text[match.end() :]
        yield Mutant(line, match[0].rstrip("; \n"), without)
