"""Refuses arguments that overlap in memory although a kernel declares that they do not.

Memory that is written through one pointer must not be accessed through another one if either of
them is ``__restrict__``, since the compiler keeps values in registers and reorders accesses.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuboost.backends.cuda.runtime.signatures import KernelDeclaration
from tests.cuda_shim.arguments import Parameter

# Pairs of parameters of a kernel that may overlap, with the reason why this is correct.
_STAND_IN = "one stands in for an optional array that is absent, which the kernel never touches"
_FIRST_LEVEL = "no node of the first level has a parent, so the histograms before it are never read"
_PARTS = "`largest` is the third of the sums, and the kernel adds to the first two"
ALLOWED: dict[tuple[str, str, str], str] = {
    ("finish_nodes", "bin", "narrow_feature"): _STAND_IN,
    ("finish_nodes", "feature", "wide_feature"): _STAND_IN,
    ("finish_nodes", "count", "whole_weight"): _STAND_IN,
    ("finish_nodes", "gain", "weight"): _STAND_IN,
    ("finish_nodes", "left", "category_out"): _STAND_IN,
    ("finish_nodes", "left", "number_of"): _STAND_IN,
    ("finish_nodes", "category_out", "number_of"): _STAND_IN,
    ("evaluate_values", "largest", "sums"): _PARTS,
    ("key_residuals", "weights", "weight"): _STAND_IN,
    ("key_traversed", "weights", "weight"): _STAND_IN,
    ("row_losses", "drawn", "largest"): _STAND_IN,
    ("split_features", "histogram", "previous"): _FIRST_LEVEL,
    ("sum_planes", "drawn", "sums"): _STAND_IN,
}


def check_aliases(
    kernel: KernelDeclaration,
    parameters: Sequence[Parameter],
    memory: Sequence[tuple[int, int, int]],
) -> None:
    """Raise ValueError if two arrays of a launch overlap and must not.

    Parameters
    ----------
    kernel : KernelDeclaration
    parameters : sequence of Parameter
    memory : sequence of (begin, end, position)
        Address ranges and positions of the array arguments, in any order.
    """
    spans = sorted(memory)
    furthest = 0
    for number, (begin, end, _) in enumerate(spans):
        if begin < furthest and begin < end:
            _check_last(kernel, parameters, spans[: number + 1])
        furthest = max(furthest, end)


def _check_last(
    kernel: KernelDeclaration,
    parameters: Sequence[Parameter],
    spans: Sequence[tuple[int, int, int]],
) -> None:
    """Check the last array against those that begin before it."""
    *others, (begin, _, last) = spans
    for place in (place for start, end, place in others if max(start, begin) < end):
        one, other = (kernel.parameters[i] for i in sorted((place, last)))
        written = not (parameters[place].is_const and parameters[last].is_const)
        if not (written and (one.is_restricted or other.is_restricted)):
            continue
        if (kernel.name, one.name, other.name) not in ALLOWED:
            raise ValueError(
                f"{kernel.name}: the arrays given for {one.name} and {other.name} overlap in "
                "memory, one of them is written to, and one is __restrict__: give arrays that lie "
                "apart"
            )
