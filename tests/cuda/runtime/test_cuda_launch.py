"""Kernels are launched by name, and their parameters are bound by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.runtime import launch as launches
from gpuboost.backends.cuda.runtime import signatures
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.signatures import Parameter, find_kernels, kernel_signatures
from gpuboost.backends.cuda.runtime.source import constant, kernel_folder
from tests.sizes import SOURCES, module_of


class LaunchLog:
    """A runtime that launches nothing and logs the arguments."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        def kept(grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
            self.kept.append((file_name, name, dict(constants), grid, block, args, shared_mem))

        return kept


@dataclass
class Places:
    """A record with parameters of ``mark_splits``, one of which is a property."""

    length: str = "lengths"
    capacity: int = 5
    unused: int = 0

    @property
    def node(self) -> str:
        return f"nodes of {self.capacity}"


@dataclass
class Other:
    """A record with one of the same parameters."""

    capacity: int = 7


@dataclass
class Made:
    """A record of output arrays."""

    row: str = "rows"
    weight: str = "weights"
    target: str = "targets"


def launched(name: str, grid: Any, *records: Any, **values: Any) -> Any:
    runtime: Any = LaunchLog()
    launch(runtime, name, grid, *records, **values)
    (kept,) = runtime.kept
    return kept


def test_arguments_come_from_keywords_fields_and_properties() -> None:
    found = launched("mark_splits", 3, Places(), is_split="marks")
    threads = constant("growth/best_first.cu", "QUEUE_THREADS")
    args = ("lengths", "nodes of 5", np.int32(5), "marks")
    assert found == ("growth/best_first.cu", "mark_splits", {}, (3,), (threads,), args, 0)
    assert type(found[5][2]) is np.int32


def test_keywords_take_precedence_over_records() -> None:
    records = (Places(), Other())
    given = {"capacity": 9, "length": "others", "is_split": "marks"}
    with pytest.raises(TypeError, match="does not use Other"):
        launched("mark_splits", 3, *records, **given)
    assert launched("mark_splits", 3, Places(), **given)[5][::2] == ("others", 9)


def test_launch_options_and_types_of_numbers() -> None:
    given = {"to": "array", "n": 2, "value": -1.5}
    with pytest.raises(OverflowError):  # numbers are not truncated
        launched("fill_bytes", (1, 2), **{**given, "value": 300})
    given |= {"value": 200, "block": (8, 4), "shared_mem": 64, "constants": {"A": 1}}
    *what, args, shared = launched("fill_bytes", (1, 2), **given)
    assert what == ["common/fill.cu", "fill_bytes", {"A": 1}, (1, 2), (8, 4)] and shared == 64
    assert [type(arg) for arg in args] == [str, np.int64, np.uint8]


def test_fields_of_out_are_bound_by_the_end_of_the_name() -> None:
    given = {"drawn": "d", "stride": 1, "first": "f", "order": "o", "ordered": True, "target": "t"}
    given |= {"n_samples": 1, "n_columns": 2, "target_stride": 3}
    args = launched("list_drawn", 1, out=Made(), **given)[5]
    assert args == ("d", 1, "f", "o", 1, "t", 1, 2, 3, "rows", "weights", "targets")
    with pytest.raises(TypeError, match="fill_bytes does not use Made"):
        launched("fill_bytes", 1, out=Made(), to="a", n=1, value=0)


@pytest.mark.parametrize(
    ("records", "values", "reason"),
    [
        ((Places(), Other()), {"is_split": 0}, "mark_splits: 2 records offer capacity"),
        ((Places(),), {}, "mark_splits: nothing offers is_split"),
        ((Other(),), {"is_split": 0}, "mark_splits: nothing offers length"),
        ((Places(),), {"is_split": 0, "n": 1}, "mark_splits does not use n"),
        ((Places(), Made()), {"is_split": 0}, "mark_splits does not use Made"),
        ((Places(), {"x": 1}), {"is_split": 0}, "mark_splits does not use dict"),
    ],
)
def test_missing_and_extra_arguments_are_errors(records: Any, values: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        launched("mark_splits", 1, *records, **values)


def test_unknown_kernels_are_errors() -> None:
    with pytest.raises(LookupError, match="no kernel file has a kernel mark_spits"):
        launched("mark_spits", 1)


def test_a_binding_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings: dict[Any, Any] = {}
    monkeypatch.setattr(launches, "_bindings", bindings)
    for capacity in (1, 2, 3):
        launched("mark_splits", 3, Places(capacity=capacity), is_split="marks")
    assert len(bindings) == 1


# ---- the kernel files ----------------------------------------------------------------------------


def test_all_kernels_can_be_launched() -> None:
    """The block size and the types of scalar parameters of every kernel are known."""
    for name, kernel in kernel_signatures().items():
        assert 1 <= kernel.n_threads <= 1024, name
        numbers = [each for each in kernel.declaration.parameters if not each.is_pointer]
        assert {each.type_name for each in numbers} <= set(launches._SCALARS), name


def test_two_kernels_do_not_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files with kernels of one name are an error; here all files have the same text."""
    text = 'extern "C" __global__ void same(int32 n) {}'
    monkeypatch.setattr(signatures, "file_text", lambda name: text)
    with pytest.raises(ValueError, match="both have a kernel same"):
        kernel_signatures.__wrapped__()


_STRUCT = re.compile(r"^(?:struct|enum|union|typedef .*) (\w+)\s*[:{;]", re.MULTILINE)
_CONSTANT = re.compile(r"^constexpr [^;]*;", re.MULTILINE)
_FUNCTION = re.compile(
    r'^(?:__device__|extern "C" __global__)[^;{}]*?(\w+)\((?=[^;{}]*\{)', re.MULTILINE
)


def definitions(text: str) -> set[str]:
    """Structs, functions and constants that a kernel file defines; overloads have one name.

    Methods are left out: types that a template takes must call them the same.
    """
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"__launch_bounds__\([^)]*\)", "", text)
    constants = " ".join(_CONSTANT.findall(text))
    return {
        *_STRUCT.findall(text),
        *_FUNCTION.findall(text),
        *re.findall(r"(\w+) =(?!=)", constants),
    }


def test_a_name_is_defined_in_one_kernel_file() -> None:
    """A struct, function or constant of the kernels has one meaning."""
    files: dict[str, list[str]] = {}
    for path in sorted(kernel_folder().rglob("*.cu*")):
        for name in definitions(path.read_text(encoding="utf-8")):
            files.setdefault(name, []).append(path.name)
    assert len(files) > 400 and files["goes_left"] == ["goes_left.cuh"]
    assert {"Chunk", "take_splits", "Value", "WARP"} <= set(files)
    repeated = {name: found for name, found in files.items() if len(found) > 1}
    assert not repeated, repeated


def test_definitions_are_found() -> None:
    text = """
    struct Inside { int32 n; };  // an indented line is not the file's own
struct Split : Base {
    __device__ __forceinline__ int32 method() const { return 1; }
};
typedef float Value;
constexpr int32 FIRST = 1, LAST = 2 + FIRST;
constexpr bool IS_SAME = FIRST == LAST;
template <int32 N>
__device__ __forceinline__ Split split_of(int32 (&numbers)[N],
                                          int32 n)
{
    return other(n);
}
extern "C" __global__ void __launch_bounds__(WARP * 4, 2)
add(In<int64> a) {}
"""
    assert definitions(text) == {"Split", "Value", "FIRST", "LAST", "IS_SAME", "split_of", "add"}


def test_declarations_are_read() -> None:
    text = """
    // a kernel (of many)
    extern "C" __global__ void __launch_bounds__(WARP * 4, 2) add(
        In<int64> a,  // an array (int64)
        unsigned int* b, double x)
    {}
    """
    (found,) = find_kernels(text)
    assert (found.name, found.bound) == ("add", "WARP * 4, 2")
    assert found.parameters == (
        Parameter("a", "int64", True, True),
        Parameter("b", "unsigned int", True, False),
        Parameter("x", "double", False, False),
    )


# ---- the callers ---------------------------------------------------------------------------------

RUNTIMES = ("cupy", "graph", "shape_arrays", "protocol")  # they create kernels and pass them on
LAUNCHER = "gpuboost.backends.cuda.runtime.launch"


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_no_kernel_is_called_by_position(path: Path) -> None:
    own = module_of(path)
    if own == LAUNCHER or own in [f"gpuboost.backends.cuda.runtime.{name}" for name in RUNTIMES]:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        is_kernel = isinstance(node, ast.Attribute) and node.attr == "kernel"
        assert not is_kernel, f"{own}, line {node.lineno}: launch kernels by `launch`"
