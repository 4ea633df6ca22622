"""The machine code of a kernel: its instructions, blocks and loops.

The text is the output of ``nvdisasm`` with `FLAGS`, for code that was compiled with line
information, which changes no instruction. `loop_paths` finds a loop by its line in the source and
takes the longest path through it that avoids the excluded functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

FLAGS = ("--print-code", "--print-line-info-inline", "--print-instruction-encoding")
LINE_INFO = "--generate-line-info"  # of NVRTC

_LINE = re.compile(r'//## File "(?:[^"]*/)?([^"/]+)", line (\d+)')
_LABEL = re.compile(r"^(\.L_x_\d+|\$\S+):")
_CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z]\w*)((?:\.\w+)*)([^;]*);")
_HIGH_WORD = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_PREDICATE = re.compile(r"!?U?P\d")  # a predicate among the operands of a branch
_ENDS = ("BRA", "EXIT", "RET", "BRX")

Frame = tuple[str, int]  # file and line


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes
    ----------
    opcode : str
        Name up to the first dot.
    target : str or None
        Label that a branch may jump to.
    falls_through : bool
        Whether execution may continue with the next instruction.
    frames : tuple of (file, line)
        Its place in the source, then the places where that was inlined, innermost first.
    control : int
        The assembler's control bits: cycles to wait, barriers to set and to wait for.
    """

    opcode: str
    target: str | None
    falls_through: bool
    frames: tuple[Frame, ...]
    control: int

    @property
    def stall(self) -> int:
        """Cycles until the warp may issue its next instruction."""
        return self.control >> 41 & 15

    @property
    def sets(self) -> int:
        """The barrier that it holds until its result is ready; 7 for none."""
        return self.control >> 46 & 7

    @property
    def frees(self) -> int:
        """The barrier that it holds until its operands are read; 7 for none."""
        return self.control >> 49 & 7

    @property
    def waits(self) -> list[int]:
        """The barriers that it waits for."""
        return [barrier for barrier in range(6) if self.control >> 52 + barrier & 1]


def read_code(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Parse the instructions of a kernel, and the index of the instruction after each label."""
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    frames: list[Frame] = []
    fresh = True  # whether the next line comment begins a new list of frames
    parts: tuple[str, str | None, bool] | None = None
    for line in text.splitlines():
        if match := _LINE.search(line):
            frames = ([] if fresh else frames) + [(match[1], int(match[2]))]
            fresh = False
        elif match := _LABEL.match(line):
            labels[match[1]] = len(found)
        elif match := _CODE.match(line):
            parts, fresh = _parts(match), True
        elif parts is not None and (match := _HIGH_WORD.match(line)):
            found.append(Instruction(*parts, tuple(frames), int(match[1], 16)))
            parts = None
    return found, labels


def _parts(match: re.Match[str]) -> tuple[str, str | None, bool]:
    """Opcode, target, and whether execution may continue with the next instruction."""
    guard, opcode, kind, operands = match.groups()
    if opcode not in _ENDS:
        return opcode, None, True
    if opcode == "BRA" and ".DIV" in kind:
        return opcode, None, True  # only taken by diverged warps; none is assumed to diverge
    target = _TARGET.search(operands) if opcode == "BRA" else None
    conditional = _PREDICATE.search(operands.split("`")[0]) is not None and opcode == "BRA"
    return opcode, target and target[1], guard not in (None, "PT", "UPT") or conditional


@dataclass(frozen=True)
class Loop:
    """A loop of blocks, each named by the index of its first instruction."""

    head: int
    blocks: frozenset[int]
    tails: frozenset[int]  # blocks that branch back to the head


class Code:
    """The machine code of a kernel as basic blocks."""

    def __init__(self, text: str) -> None:
        self.instructions, labels = read_code(text)
        n = len(self.instructions)
        starts = {0, *labels.values()}
        starts |= {i + 1 for i, one in enumerate(self.instructions) if one.opcode in _ENDS}
        order = sorted(start for start in starts if start < n)
        self.end = dict(zip(order, [*order[1:], n], strict=True))
        self.after: dict[int, list[int]] = {}
        for start, end in self.end.items():
            last = self.instructions[end - 1]
            after = [end] if last.falls_through and end < n else []
            self.after[start] = after + ([labels[last.target]] if last.target else [])

    def block(self, start: int) -> list[Instruction]:
        """The instructions of a block."""
        return self.instructions[start : self.end[start]]

    def size(self, loop: Loop) -> int:
        """Number of instructions in all blocks of a loop."""
        return sum(self.end[start] - start for start in loop.blocks)

    def lines(self, loop: Loop) -> set[Frame]:
        """Source lines of the branches back to the head."""
        return {frame for tail in loop.tails for frame in self.block(tail)[-1].frames[:1]}

    @cached_property
    def whole(self) -> Loop:
        """The whole kernel, treated as a loop whose tails are its exits."""
        found = frozenset(depth_first(0, self.after.__getitem__))
        ends = frozenset(b for b in found if self.block(b)[-1].opcode == "EXIT")
        return Loop(0, found, ends)

    @cached_property
    def loops(self) -> list[Loop]:
        """All loops, inner ones before outer ones."""
        dominators = self._dominators()
        before: dict[int, list[int]] = {start: [] for start in dominators}
        tails: dict[int, set[int]] = {}
        for start in dominators:
            for there in self.after[start]:
                before[there].append(start)
                if there in dominators[start]:
                    tails.setdefault(there, set()).add(start)
        found = []
        for head, own in tails.items():
            body, left = {head}, list(own)
            while left:
                start = left.pop()
                if start not in body:
                    body.add(start)
                    left += before[start]
            found.append(Loop(head, frozenset(body), frozenset(own)))
        return sorted(found, key=lambda loop: len(loop.blocks))

    def _dominators(self) -> dict[int, set[int]]:
        """For each reachable block, the blocks that every path to it goes through."""
        order = depth_first(0, self.after.__getitem__)
        before: dict[int, list[int]] = {start: [] for start in order}
        for start in order:
            for there in self.after[start]:
                before[there].append(start)
        found = {start: set(order) for start in order}
        found[0] = {0}
        changed = True
        while changed:
            changed = False
            for start in order[1:]:
                new = {start} | set.intersection(*(found[b] for b in before[start]))
                changed |= new != found[start]
                found[start] = new
        return found


def depth_first(head: int, after: Callable[[int], Iterable[int]]) -> list[int]:
    """Nodes that can be reached from ``head``, each before its successors except along loops."""
    seen, done = {head}, []
    stack = [(head, iter(after(head)))]
    while stack:
        node, left = stack[-1]
        there = next((one for one in left if one not in seen), None)
        if there is None:
            done.append(node)
            stack.pop()
        else:
            seen.add(there)
            stack.append((there, iter(after(there))))
    return done[::-1]
