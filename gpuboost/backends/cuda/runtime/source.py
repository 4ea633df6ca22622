"""Source of the kernels: the folder of the files, and the single text that the compiler gets.

A cache of compiled kernels would not notice changes of included files, so the compiler gets a
single text: constants chosen at run time, then ``common.cuh``, then the file. The first line such
as ``#include "level/split.cuh"`` is replaced by the text of that file, and repetitions are removed,
so files need no include guards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

PRELUDE = "common/common.cuh"
_PACKAGE = Path(__file__).resolve().parents[3]
INCLUDE = re.compile(r'^#include "([\w/]+\.cuh)"$', re.MULTILINE)
_CONSTANT = r"\b{}\s*=\s*(-?\d+)\s*[;,]"


@cache
def kernel_folder() -> Path:
    """Return the folder of the kernels, inside an installed package or beside it in a checkout.

    Raises
    ------
    FileNotFoundError
        The folder is in neither of these places.
    """
    places = (_PACKAGE / "kernels", _PACKAGE.parent / "kernels")
    for folder in places:
        if (folder / PRELUDE).is_file():
            return folder
    raise FileNotFoundError(
        f"the CUDA kernels ({PRELUDE} and others) are neither in {places[0]} nor in {places[1]}; "
        "reinstall gpuboost, the installation is incomplete"
    )


@cache
def file_text(file_name: str) -> str:
    """Return the text of a file in the folder of the kernels."""
    return (kernel_folder() / file_name).read_text(encoding="utf-8")


def kernel_source(file_name: str, constants: Mapping[str, int]) -> str:
    """Return the source of a kernel file as the compiler receives it.

    Parameters
    ----------
    file_name : str
        For example ``"level/split.cu"``.
    constants : mapping of str to int
        Macros that are defined before the first line, in alphabetical order.
    """
    defines = "".join(f"#define {name} {value}\n" for name, value in sorted(constants.items()))
    parts = [defines]
    for name in (PRELUDE, file_name):
        parts.append(f'#line 1 "{name}"\n{spliced(name)}\n')
    return "".join(parts)


def spliced(file_name: str, text: str | None = None) -> str:
    """Return a file's text (``text`` if given) with included files inserted.

    A file that is included several times is inserted only at its first include.
    """
    included: set[str] = set()

    def expand(name: str, own: str) -> str:
        def splice(match: re.Match[str]) -> str:
            if match[1] in included:
                return ""
            included.add(match[1])
            line = match.string.count("\n", 0, match.end()) + 2
            text_of_file = expand(match[1], file_text(match[1]))
            return f'#line 1 "{match[1]}"\n{text_of_file}\n#line {line} "{name}"'

        return INCLUDE.sub(splice, own)

    return expand(file_name, file_text(file_name) if text is None else text)


@cache
def constant(file_name: str, name: str) -> int:
    """Value of an integer constant that a kernel file writes as ``name = value``.

    Included files are not searched. Launches read block sizes this way, so that each is written
    only once.

    Raises
    ------
    LookupError
        The file has no such constant.
    """
    return constant_of(file_text(file_name), name, file_name)


def constant_of(text: str, name: str, file_name: str) -> int:
    """Value of an integer constant in ``text``; the error for a missing one names ``file_name``."""
    match = re.search(_CONSTANT.format(re.escape(name)), text)
    if match is None:
        raise LookupError(f"{file_name} has no integer constant {name}")
    return int(match[1])
