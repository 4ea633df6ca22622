"""The path of a warp through a loop of machine code, and its cycles if the warp runs alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.gpu.predictions.instructions import Code, Frame, Instruction, Loop, depth_first

# Assumed cycles from the issue of an instruction to its result, for instructions whose results are
# waited for: shared memory and conversions; atomics in shared memory and barriers; the L2 cache.
# The papers arXiv 2402.13499 and arXiv 2501.12084 measure latencies on Hopper.
LATENCY = {
    **dict.fromkeys(("LDS", "STS", "SHFL", "MUFU", "S2R", "I2F", "F2I", "POPC", "FLO"), 30),
    **dict.fromkeys(("ATOMS", "BAR"), 60),
    **dict.fromkeys(("LDG", "ATOMG", "STG", "REDG"), 300),
}
USUAL_LATENCY = 20  # of other instructions whose results are waited for
OPERANDS_READ = 20  # cycles until operands may be overwritten
N_BARRIERS = 6
# Length of an instruction of an excluded function. It is negative, so the longest path avoids them;
# they are not forbidden, because the compiler merges blocks and a few may lie on every path.
EXCLUDED_LENGTH = -9

Counts = tuple[int, ...]

_FUNCTION = re.compile(r"^( *)__device__[^;{]*?\b(\w+)\(", re.MULTILINE)


class NoPathError(LookupError):
    """The kernel has no such loop, or the loop no such path."""


@dataclass(frozen=True)
class LoopPath:
    """A loop of a kernel, and the path through it that is counted.

    Attributes
    ----------
    loop : str
        Part of the source line with the loop's head; empty for the whole kernel.
    excludes : tuple of str
        Functions that are not called: the path has as few of their instructions as possible.
    opcode_counts : mapping of str to int
        The exact numbers of instructions with these opcodes on the path.
    trip_counts : mapping of str to int
        Numbers of iterations of inner loops, by parts of their source lines; other inner loops have
        one. The compiler may turn one loop into several, for many items at once and for the rest.
        Of these, the smallest is counted; of loops that are named here, the one on the longest
        path.
    """

    loop: str = ""
    excludes: tuple[str, ...] = ()
    opcode_counts: Mapping[str, int] = field(default_factory=dict)
    trip_counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """The source texts of the kernel files, by name."""

    texts: Mapping[str, str]

    def line(self, frame: Frame) -> str:
        """The source line of a frame; empty if its file is unknown."""
        name, number = frame
        return self.texts[name].splitlines()[number - 1] if name in self.texts else ""

    def functions(self, names: Iterable[str]) -> set[Frame]:
        """All source lines of these functions."""
        wanted, found, met = set(names), set(), set()
        for file, text in self.texts.items():
            for indent, name, start in (
                (match[1], match[2], match.start()) for match in _FUNCTION.finditer(text)
            ):
                if name in wanted:
                    first = text.count("\n", 0, start) + 1
                    last = text.count("\n", 0, text.index(f"\n{indent}}}", start)) + 2
                    found |= {(file, number) for number in range(first, last + 1)}
                    met.add(name)
        if met != wanted:
            raise NoPathError(f"no file has the functions {sorted(wanted - met)}")
        return found


@dataclass(frozen=True)
class _Step:
    """The path so far: the earlier steps, followed by ``own``, repeated ``times`` times."""

    length: int  # of the whole path, in which excluded instructions count as `EXCLUDED_LENGTH`
    before: _Step | None
    own: Sequence[Instruction]
    times: int

    def instructions(self) -> list[Instruction]:
        parts, step = [], self
        while True:
            parts.append(list(step.own) * step.times)
            if step.before is None:
                return [one for part in reversed(parts) for one in part]
            step = step.before


class PathFinder:
    """Finds the longest path through a loop of a kernel, as a `LoopPath` describes it."""

    def __init__(self, code: Code, source: Source, path: LoopPath) -> None:
        self._code, self._source, self._path = code, source, path
        self._excluded = source.functions(path.excludes)

    def path(self) -> list[Instruction]:
        """The instructions from the head of the loop back to it.

        Raises
        ------
        NoPathError
            If there is no such path.
        """
        loops = [self._code.whole] if not self._path.loop else self._loops()
        for loop in loops:
            found = self.longest(loop).get(tuple(self._path.opcode_counts.values()))
            if found is not None:
                return found.instructions()
        raise NoPathError(f"no path for {self._path}")

    def _loops(self) -> list[Loop]:
        """Loops whose source line matches, the smallest first."""
        text = self._path.loop
        named = [
            loop
            for loop in self._code.loops
            if any(text in self._source.line(frame) for frame in self._code.lines(loop))
        ]
        return sorted(named, key=self._code.size)

    def longest(self, loop: Loop, is_inner: bool = False) -> dict[Counts, _Step]:
        """The longest path through a loop for each combination of counts of the given opcodes."""
        opcodes = () if is_inner else tuple(self._path.opcode_counts)
        region = _Region.of(self._code, loop, *self._inner_loops(loop))
        known: dict[int, dict[Counts, _Step]] = {}
        ends: dict[Counts, _Step] = {}
        nothing: dict[Counts, _Step | None] = {(0,) * len(opcodes): None}
        for node in region.order():
            own, trips = self._of_node(node, region)
            found = [trips * sum(one.opcode == opcode for one in own) for opcode in opcodes]
            for times, step in (nothing if node == loop.head else known.pop(node)).items():
                length = (step.length if step else 0) + trips * self._length(own)
                new = _Step(length, step, own, trips)
                now = tuple(a + b for a, b in zip(times, found, strict=True))
                if loop.tails & region.blocks(node):
                    _keep(ends, now, new)
                for to in set(region.after(node)):
                    _keep(known.setdefault(to, {}), now, new)
        return ends

    def _length(self, own: Iterable[Instruction]) -> int:
        return sum(1 if self._excluded.isdisjoint(one.frames) else EXCLUDED_LENGTH for one in own)

    def _of_node(self, node: int, region: _Region) -> tuple[Sequence[Instruction], int]:
        """The instructions of a block or of one iteration of an inner loop, and its trip count."""
        if node not in region.inner:
            return self._code.block(node), 1
        loop = region.inner[node]
        paths, trips = self.longest(loop, is_inner=True), self._trip_count(loop)
        return (paths[()].instructions() if paths else []), (1 if trips is None else trips)

    def _trip_count(self, loop: Loop) -> int | None:
        """Trip count of an inner loop, or None if none is given."""
        lines = [self._source.line(frame) for frame in self._code.lines(loop)]
        named = self._path.trip_counts.items()
        trips = [n for text, n in named if any(text in one for one in lines)]
        return trips[0] if trips else None

    def _inner_loops(self, loop: Loop) -> tuple[list[Loop], set[int]]:
        """The loops directly inside a loop that are counted, and the blocks of the others."""
        inside = [
            one for one in self._code.loops if one.blocks < loop.blocks and one.head != loop.head
        ]
        outermost = [
            one for one in inside if not any(one.blocks < other.blocks for other in inside)
        ]
        smallest: dict[frozenset[tuple[Frame, ...]], Loop] = {}
        for one in sorted(outermost, key=self._code.size):
            places = frozenset(self._code.block(tail)[-1].frames for tail in one.tails)
            smallest.setdefault(places, one)
        kept = [
            one
            for one in outermost
            if one in smallest.values() or self._trip_count(one) is not None
        ]
        return kept, {block for one in outermost if one not in kept for block in one.blocks}


@dataclass(frozen=True)
class _Region:
    """A loop as a graph; its nodes are blocks and whole inner loops, named by their heads."""

    code: Code
    loop: Loop
    inner: Mapping[int, Loop]
    node_of: Mapping[int, int]  # the node of each block in an inner loop
    left_out: set[int]

    @classmethod
    def of(cls, code: Code, loop: Loop, inner: Sequence[Loop], left_out: set[int]) -> _Region:
        heads = {block: one.head for one in inner for block in one.blocks}
        return cls(code, loop, {one.head: one for one in inner}, heads, left_out)

    def blocks(self, node: int) -> frozenset[int]:
        """The blocks of a node."""
        return self.inner[node].blocks if node in self.inner else frozenset({node})

    def after(self, node: int) -> Iterator[int]:
        """Nodes that may follow a node in the same iteration."""
        for block in self.blocks(node):
            for there in self.code.after[block]:
                to = self.node_of.get(there, there)
                inside = there in self.loop.blocks and there not in self.left_out
                if inside and to != node and there != self.loop.head:
                    yield to

    def order(self) -> list[int]:
        """All reachable nodes, each before its successors."""
        return depth_first(self.loop.head, self.after)


def _keep(known: dict[Counts, _Step], times: Counts, step: _Step) -> None:
    if times not in known or known[times].length < step.length:
        known[times] = step


def cycles(path: Iterable[Instruction], latency: Mapping[str, int] = LATENCY) -> int:
    """Cycles that a warp takes for the instructions of a path if no other warp competes with it.

    A warp issues in order. The assembler encodes in each instruction how long the next one must
    wait, which barriers it holds until its result is ready or its operands are read, and which
    barriers it waits for.
    """
    now, opened = 0, [0] * N_BARRIERS
    for one in path:
        now = max([now, *(opened[barrier] for barrier in one.waits)])
        result = latency.get(one.opcode, USUAL_LATENCY)
        for barrier, after in ((one.sets, result), (one.frees, OPERANDS_READ)):
            if barrier < N_BARRIERS:
                opened[barrier] = max(opened[barrier], now + after)
        now += max(one.stall, 1) + (latency["BAR"] if one.opcode == "BAR" else 0)
    return max([now, *opened])
