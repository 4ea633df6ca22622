"""The text of kernel files: reading, splicing the prelude, finding the kernels in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpuboost.backends.cuda.runtime.source import spliced

KERNEL_FOLDER = Path(__file__).resolve().parents[2] / "kernels"
PRELUDE = "common/common.cuh"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NESTED = r"[^()]*(?:\([^()]*\)[^()]*)*"
_BOUND = r"(?:__launch_bounds__\s*\((?P<{}>" + _NESTED + r")\)\s*)?"
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+'
    + _BOUND.format("early_bound")
    + r"void\s+"
    + _BOUND.format("bound")
    + r"(?P<name>\w+)\s*\("
)


@dataclass(frozen=True)
class KernelDeclaration:
    """What the source says of a kernel.

    Attributes
    ----------
    name : str
    bound : str
        The text between the brackets of ``__launch_bounds__``, 1024 without.
    parameters : tuple of str
        Their names.
    restricted : frozenset of str
        Those that are declared ``__restrict__``.
    """

    name: str
    bound: str
    parameters: tuple[str, ...]
    restricted: frozenset[str]


def kernel_text(file_name: str) -> str:
    """The text of one file of ``kernels/``, without the prelude."""
    return (KERNEL_FOLDER / file_name).read_text(encoding="utf-8")


def splice_prelude(source_text: str, file_name: str) -> str:
    """The prelude followed by the source, each with its own line numbers.

    A source that has the prelude already, with constants in front of it, is left as it is.
    """
    if f'#line 1 "{PRELUDE}"' in source_text:
        return source_text
    prelude, text = spliced(PRELUDE), spliced(file_name, source_text)
    return f'#line 1 "{PRELUDE}"\n{prelude}\n#line 1 "{file_name}"\n{text}\n'


def without_comments(source_text: str) -> str:
    """The source with comments blanked out; every other character keeps its place."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source_text)


def find_kernels(source_text: str) -> list[KernelDeclaration]:
    """The ``extern "C" __global__`` functions of a source, in order.

    Raises
    ------
    ValueError
        There is none, or something ``__global__`` is written in another way.
    """
    code = without_comments(source_text)
    kernels = [_declaration(match) for match in _KERNEL.finditer(code)]
    globals_ = len(re.findall(r"\b__global__\b", code))
    if not kernels or globals_ != len(kernels):
        raise ValueError(
            f"{len(kernels)} kernels found and {globals_} times __global__: declare every kernel "
            'as extern "C" __global__ void name('
        )
    return kernels


def _declaration(match: re.Match[str]) -> KernelDeclaration:
    """What `_KERNEL` has found; the parameters, none of which holds a bracket, follow it."""
    text = match.string[match.end() : match.string.index(")", match.end())]
    declared = [part.split() for part in re.sub(r"[*&]", " ", text).split(",") if part.strip()]
    restricted = frozenset(words[-1] for words in declared if "__restrict__" in words)
    bound = (match["bound"] or match["early_bound"] or "1024").strip()
    return KernelDeclaration(
        match["name"], bound, tuple(words[-1] for words in declared), restricted
    )
