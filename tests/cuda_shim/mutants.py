"""Sources with one barrier deleted or weakened, for tests that must fail without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuboost.backends.cuda.runtime.signatures import without_comments

_VOTE = re.compile(r"\b__syncthreads_(or|and|count)\s*\(")
_OF_A_WARP = {
    "or": "__any_sync(FULL_MASK, {})",
    "and": "__all_sync(FULL_MASK, {})",
    "count": "__popc(__ballot_sync(FULL_MASK, {}))",
}
_BARRIER = re.compile(r"\b__sync(?:threads|warp)\s*\([^();]*\)\s*;")


@dataclass(frozen=True)
class Mutant:
    """A source without one barrier: the line and kind of the barrier, and the text."""

    line: int
    barrier: str
    source_text: str


def barrier_mutants(source_text: str) -> Iterator[Mutant]:
    """Yield the source with each ``__syncthreads();`` and ``__syncwarp();`` deleted in turn.

    A barrier that also votes (``__syncthreads_or``) returns a value and is left to `vote_mutants`.
    """
    for match in _BARRIER.finditer(without_comments(source_text)):
        line = source_text.count("\n", 0, match.start()) + 1
        blank = "\n" * match[0].count("\n")
        without = source_text[: match.start()] + ";" + blank + source_text[match.end() :]
        yield Mutant(line, match[0].rstrip("; \n"), without)


def vote_mutants(source_text: str) -> Iterator[Mutant]:
    """Yield the source with each barrier that votes replaced by a weaker vote.

    The replacements are the vote of the warp, and the thread's own value.
    """
    code = without_comments(source_text)
    for match in _VOTE.finditer(code):
        end = _closing(code, match.end())
        line, asked = source_text.count("\n", 0, match.start()) + 1, source_text[match.end() : end]
        for kind, weaker in (("warp", _OF_A_WARP[match[1]]), ("thread", "(({}) != 0)")):
            put = weaker.format(asked)
            text = source_text[: match.start()] + put + source_text[end + 1 :]
            yield Mutant(line, kind, text)


def _closing(code: str, start: int) -> int:
    """Position of the bracket that closes the one before ``start``."""
    depth = 1
    for place in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"a bracket before place {start} is not closed")
