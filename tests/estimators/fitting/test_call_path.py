"""The number of functions that X, or its codes, pass through between ``fit`` and the kernels."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pytest

from gpuboost import RandomForestClassifier
from tests import cuda_shim
from tests.estimators.estimator_cases import NAMES, make
from tests.fakes.fake_cupy import Array

N_ROWS, N_FEATURES = 401, 7  # more rows than bins, so that no array of bins has X's shape
LAYERS = ("engine", "data", "backends", "estimators")  # the lowest first
# All functions up to the growth of trees, and returns to a higher layer.
MAX_FUNCTIONS, MAX_RETURNS = 25, 3
# The same of the whole fit, which includes functions that get a `GrowTask` and read other parts of
# it. All compiled functions or kernels together count as one more, and so does the property that
# makes codes of sparse features dense.
MAX_OF_WHOLE_WAY = {"numba": (36, 3), "cuda": (95, 6)}
# Functions of the whole fit that hand the table on. On NumPy, each step of a level is a Python
# function of its own; on CUDA, functions that plan memory and launches get the codes, too.
MAX_HANDING_ON = {"numpy": 30, "numba": 25, "cuda": 65}
END = ("grow_finished", "booster", "reweighter")  # methods of a backend that grow trees
needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(N_ROWS, N_FEATURES)), rng.integers(0, 2, N_ROWS)


def holds_table(value: Any, depth: int = 3) -> bool:
    """Whether ``value`` is an array of X's shape on any device, such as codes, or contains one."""
    if isinstance(value, (np.ndarray, Array)):
        return value.shape in ((N_ROWS, N_FEATURES), (N_FEATURES, N_ROWS))
    if depth == 0:
        return False
    if isinstance(value, (tuple, list)):
        return any(holds_table(each, depth - 1) for each in value[:8])
    if isinstance(value, dict):
        return any(holds_table(each, depth - 1) for each in value.values())
    own = type(value).__module__.startswith("gpuboost.") and hasattr(value, "__dict__")
    return own and any(holds_table(each, depth - 1) for each in vars(value).values())


@dataclass
class Step:
    """A call of one of the project's functions with the table as an argument.

    Attributes
    ----------
    name : str
    layer : int
    hands_on : bool
        Whether the function passes the table on to another function or returns it. A function that
        does neither uses the table itself: it checks, bins or sums it.
    """

    name: str
    layer: int
    hands_on: bool = False


def way_of(estimator: Any, end: tuple[str, ...] = ()) -> list[Step]:
    """Calls that get the table or its codes as an argument, in order, up to functions ``end``.

    An argument may be a record that contains the table, such as a `GrowTask`. Methods count if the
    table is an attribute of their object, or one of their arguments. Comprehensions, constructors
    of records, and functions that receive a single column of X do not count. Of compiled functions
    and kernels, this finds the Python function that calls or launches them.
    """
    steps: list[Step] = []
    open_calls: dict[FrameType, Step] = {}

    def note(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and frame in open_calls:
            open_calls[frame].hands_on |= holds_table(result)
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        is_hidden = code.co_name.startswith("<") or "__create_fn__" in code.co_qualname
        if event != "call" or not module.startswith("gpuboost.") or is_hidden:
            return
        n_given = code.co_argcount + code.co_kwonlyargcount
        n_given += bool(code.co_flags & 4) + bool(code.co_flags & 8)
        names = code.co_varnames[:n_given]
        given = [frame.f_locals.get(name) for name in names if name != "self"]
        owner = frame.f_locals.get("self") if "self" in names else None
        if not (any(map(holds_table, given)) or holds_table(owner, depth=1)):
            return
        if code.co_name in end:
            raise StopIteration
        caller = frame.f_back
        while caller is not None and caller not in open_calls:
            caller = caller.f_back
        if caller is not None:
            open_calls[caller].hands_on = True
        name = f"{module.removeprefix('gpuboost.')}.{code.co_qualname}"
        step = Step(name, LAYERS.index(module.split(".")[1]))
        steps.append(step)
        open_calls[frame] = step

    X, y = table()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        estimator.fit(X, y)
    except (StopIteration, RuntimeError):
        pass
    finally:
        sys.setprofile(before)
    return steps[1:]  # without fit


def n_returns(steps: list[Step]) -> int:
    """How often the table passes from a lower layer back to a higher one."""
    layers = [step.layer for step in steps if step.hands_on]
    return sum(after > before for before, after in pairwise(layers))


def functions_of(steps: list[Step]) -> list[str]:
    """Print and return the names of the functions, in the order of their first calls."""
    functions = list(dict.fromkeys(step.name for step in steps))
    print(f"{len(functions)} functions, {n_returns(steps)} returns", *functions, sep="\n  ")
    return functions


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_a_fit_calls_few_functions(device: str) -> None:
    steps = way_of(RandomForestClassifier(5, device=device, random_state=0, n_jobs=1), END)
    functions = functions_of(steps)
    assert 10 < len(functions) <= MAX_FUNCTIONS and n_returns(steps) <= MAX_RETURNS


@pytest.mark.parametrize("device", ["numpy", "numba", pytest.param("cuda", marks=needs_compiler)])
def test_the_whole_way_does_not_grow(device: str, request: pytest.FixtureRequest) -> None:
    if device == "cuda":
        request.getfixturevalue("machine")
    model = RandomForestClassifier(5, device=device, random_state=0, n_jobs=1)
    model.fit(*table())  # compiles, without the profiler
    steps = way_of(model)
    functions, handing_on = functions_of(steps), {step.name for step in steps if step.hands_on}
    assert functions[-1] == "estimators.fitting.pipeline.keep"  # the fit has ended
    assert 10 < len(handing_on) + 1 <= MAX_HANDING_ON[device]
    if device in MAX_OF_WHOLE_WAY:
        max_functions, max_returns = MAX_OF_WHOLE_WAY[device]
        assert len(functions) + 1 <= max_functions and n_returns(steps) <= max_returns


@pytest.mark.parametrize("name", NAMES)
def test_all_estimators_share_one_fit_pipeline(name: str) -> None:
    steps = {step.name for step in way_of(make(name), END)}
    assert {
        "estimators.fitting.pipeline.prepare",
        "estimators.inputs.features.TrainingTable.bin",
    } < steps


def test_an_estimator_has_few_base_classes() -> None:
    above = [c for c in RandomForestClassifier.__mro__[1:] if c.__module__.startswith("gpuboost.")]
    assert len(above) <= 5, above
