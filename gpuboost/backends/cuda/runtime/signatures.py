"""Declarations of kernels, read from their files: name, block size and parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import prod

from gpuboost.backends.cuda.runtime.source import (
    PRELUDE,
    constant_of,
    file_text,
    kernel_folder,
    spliced,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NESTED = r"[^()]*(?:\([^()]*\)[^()]*)*"
_BOUND = r"(?:__launch_bounds__\s*\((?P<{}>" + _NESTED + r")\)\s*)?"
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+'
    + _BOUND.format("early_bound")
    + r"void\s+"
    + _BOUND.format("bound")
    + r"(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)"
)
_GLOBAL = re.compile(r"\b__global__\b")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel, such as ``In<int64> count``, ``Out<double> gain`` or ``int32 n``.

    Attributes
    ----------
    name : str
    type_name : str
        Type of a number, or of the values that a pointer refers to.
    is_pointer : bool
        Whether the parameter is an array.
    is_restricted : bool
        Whether the pointer is declared as `In` or `Out`, so that no other pointer may alias it.
    """

    name: str
    type_name: str
    is_pointer: bool
    is_restricted: bool

    @classmethod
    def parse(cls, text: str) -> Parameter:
        """Parse the declaration of a parameter.

        Raises
        ------
        ValueError
            The declaration uses ``__restrict__`` instead of `In` or `Out` of common.cuh.
        """
        if "__restrict__" in text:
            raise ValueError(f"declare {text.strip()!r} as In<type> or Out<type>")
        *types, name = re.sub(r"[*&<>]", " ", text).split()
        is_restricted = types[0] in ("In", "Out")
        kept = [word for word in types if word not in ("const", "In", "Out")]
        return cls(name, " ".join(kept), is_restricted or "*" in text, is_restricted)


@dataclass(frozen=True)
class KernelDeclaration:
    """The declaration of a kernel in its source.

    Attributes
    ----------
    name : str
    bound : str
        Arguments of ``__launch_bounds__``; 1024 if there is none.
    parameters : tuple of Parameter
    """

    name: str
    bound: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class KernelSignature:
    """The declaration of a kernel and its file, such as ``"level/policy.cu"``."""

    file_name: str
    declaration: KernelDeclaration

    @property
    def n_threads(self) -> int:
        """Number of threads of a block: a product in ``__launch_bounds__``, or 1024 without it."""
        return _product(self.file_name, self.declaration.bound.split(",")[0])


@cache
def _product(file_name: str, text: str) -> int:
    """Evaluate a product of integers and of constants of a file, its includes and the prelude."""
    known = spliced(file_name) + spliced(PRELUDE)
    factors = (factor.strip() for factor in text.split("*"))
    return prod(int(n) if n.isdigit() else constant_of(known, n, file_name) for n in factors)


def without_comments(source_text: str) -> str:
    """Replace comments by spaces, so that all other characters keep their positions."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source_text)


def find_kernels(source_text: str) -> list[KernelDeclaration]:
    """Find the ``extern "C" __global__`` functions of a source, in order.

    Raises
    ------
    ValueError
        The source has no such function, or a ``__global__`` function is declared in another way.
    """
    code = without_comments(source_text)
    kernels = [_declaration(match) for match in _KERNEL.finditer(code)]
    n_globals = len(_GLOBAL.findall(code))
    if not kernels or n_globals != len(kernels):
        raise ValueError(
            f"{len(kernels)} kernels found and {n_globals} times __global__: declare every kernel "
            'as extern "C" __global__ void name('
        )
    return kernels


def _declaration(match: re.Match[str]) -> KernelDeclaration:
    """Convert a match of `_KERNEL` to a declaration."""
    declared = (part for part in match["parameters"].split(",") if part.strip())
    bound = (match["bound"] or match["early_bound"] or "1024").strip()
    return KernelDeclaration(match["name"], bound, tuple(map(Parameter.parse, declared)))


@cache
def kernel_signatures() -> dict[str, KernelSignature]:
    """Return the signatures of all kernels, by name.

    Raises
    ------
    ValueError
        Two kernels have the same name, or a file does not declare kernels as `find_kernels` needs.
    """
    found: dict[str, KernelSignature] = {}
    for path in sorted(kernel_folder().rglob("*.cu")):
        file_name = path.relative_to(kernel_folder()).as_posix()
        for declaration in find_kernels(file_text(file_name)):
            own = KernelSignature(file_name, declaration)
            other = found.setdefault(declaration.name, own)
            if other is not own:
                raise ValueError(
                    f"{file_name} and {other.file_name} both have a kernel {declaration.name}; "
                    "kernels are launched by name, rename one"
                )
    return found
