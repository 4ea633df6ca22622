"""The shim refuses launches whose arrays overlap although a parameter is ``__restrict__``."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost.backends.cuda.runtime.signatures import find_kernels
from tests import cuda_shim
from tests.cuda_shim.aliases import ALLOWED
from tests.cuda_shim.launcher import Module
from tests.cuda_shim.source import KERNEL_FOLDER

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

SOURCE = """
extern "C" __global__ void add(In<int32> a, int32 n, const int32 *b,
                               Out<int32> out, int32* plain)
{
    for (int i = 0; i < n; ++i) out[i] = a[i] + b[i];
}
"""


def launch(own: dict[str, slice], flavour: str = "plain") -> None:
    """Launch a kernel on arrays of 4 numbers: separate ones, or parts of a common array."""
    common = np.arange(20, dtype=np.int32)
    arrays = {name: np.zeros(4, np.int32) for name in ("a", "b", "out", "plain")}
    arrays |= {name: common[part] for name, part in own.items()}
    a, b, out, plain = arrays.values()
    args = (a, np.int32(min(map(len, arrays.values()))), b, out, plain)
    Module(SOURCE, flavour).get_function("add")((1,), (1,), args)


@needs_compiler
@pytest.mark.parametrize("flavour", ["plain", "guard"])
@pytest.mark.parametrize("other", [slice(0, 4), slice(3, 7), slice(1, 2)], ids=str)
@pytest.mark.parametrize("names", [("a", "out"), ("b", "out"), ("out", "plain"), ("a", "plain")])
def test_overlaps_of_written_arrays_are_refused(
    names: tuple[str, str], other: slice, flavour: str
) -> None:
    one, two = names
    with pytest.raises(ValueError, match=f"^add: the arrays given for {one} and {two} overlap"):
        launch({one: slice(0, 4), two: other}, flavour)
    with pytest.raises(ValueError, match=f"^add: the arrays given for {one} and {two} overlap"):
        launch({one: other, two: slice(0, 4)}, flavour)


@needs_compiler
@pytest.mark.parametrize(
    "given",
    [
        {"a": slice(0, 4), "b": slice(0, 4)},  # neither is written
        {"b": slice(0, 4), "plain": slice(0, 4)},  # neither is __restrict__
        {"a": slice(0, 4), "out": slice(4, 8), "b": slice(8, 12)},
        {"a": slice(0, 4), "out": slice(2, 2)},
    ],
    ids=str,
)
def test_other_arrays_may_share_memory(given: dict[str, slice]) -> None:
    launch(given)


@needs_compiler
def test_an_array_is_checked_against_all_earlier_ones() -> None:
    with pytest.raises(ValueError, match="given for a and out overlap"):
        launch({"a": slice(0, 20), "b": slice(0, 2), "out": slice(10, 14)})


@needs_compiler
def test_exceptions_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALLOWED, ("add", "a", "out"), "a test")
    launch({"a": slice(0, 4), "out": slice(0, 4)})


@pytest.mark.parametrize(("kernel", "one", "other"), ALLOWED)
def test_exceptions_are_of_existing_kernels(kernel: str, one: str, other: str) -> None:
    texts = (path.read_text(encoding="utf-8") for path in KERNEL_FOLDER.rglob("*.cu"))
    found = {declared.name: declared for text in texts for declared in find_kernels(text)}
    first, second = (each for each in found[kernel].parameters if each.name in (one, other))
    assert (first.name, second.name) == (one, other)
    assert first.is_restricted or second.is_restricted
