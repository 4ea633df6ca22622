"""How many functions X passes between ``fit`` and the backend that grows the trees."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pytest

from gpuboost import RandomForestClassifier
from tests.estimators.estimator_cases import NAMES, make

N_ROWS, N_FEATURES = 401, 7  # more rows than bins: tables of bins have another shape
LAYERS = ("engine", "data", "backends", "estimators")  # the lowest first
MAX_FUNCTIONS, MAX_RETURNS = 25, 3
END = ("grow_finished", "booster", "reweighter")  # of a backend: what grows


def holds_table(value: Any, depth: int = 3) -> bool:
    """Whether something is X or what was made of it: an array of its shape, or what holds one."""
    if isinstance(value, np.ndarray):
        return value.shape in ((N_ROWS, N_FEATURES), (N_FEATURES, N_ROWS))
    if depth == 0:
        return False
    if isinstance(value, (tuple, list)):
        return any(holds_table(each, depth - 1) for each in value[:8])
    own = type(value).__module__.startswith("gpuboost.") and hasattr(value, "__dict__")
    return own and any(holds_table(each, depth - 1) for each in vars(value).values())


@dataclass
class Step:
    """A call of a function of the project that is given the table.

    Attributes
    ----------
    name : str
    layer : int
    hands_on : bool
        It gives the table to a function in turn, or returns it. A function that does neither only
        asks something of it, as what kind of array it is.
    """

    name: str
    layer: int
    hands_on: bool = False


def way_of(estimator: Any) -> list[Step]:
    """Calls after ``fit`` and before the backend grows, in their order.

    Methods count for the table their object holds. Comprehensions and the constructors of records
    are no functions here, and a function that is given one column of X is not on the way.
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
        given = [frame.f_locals.get(name) for name in code.co_varnames[:n_given]]
        if not any(map(holds_table, given)):
            return
        if code.co_name in END:
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

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_ROWS, N_FEATURES)), rng.integers(0, 2, N_ROWS)
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
    """How often the table comes back to a higher layer than the one it was handed on in."""
    layers = [step.layer for step in steps if step.hands_on]
    return sum(after > before for before, after in pairwise(layers))


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_the_way_of_a_fit_is_short(device: str) -> None:
    steps = way_of(RandomForestClassifier(5, device=device, random_state=0, n_jobs=1))
    functions = list(dict.fromkeys(step.name for step in steps))
    print(f"{len(functions)} functions, {n_returns(steps)} returns", *functions, sep="\n  ")
    assert 10 < len(functions) <= MAX_FUNCTIONS and n_returns(steps) <= MAX_RETURNS


@pytest.mark.parametrize("name", NAMES)
def test_all_estimators_go_one_way(name: str) -> None:
    steps = {step.name for step in way_of(make(name))}
    assert {
        "estimators.fitting.pipeline.prepare",
        "estimators.inputs.features.TrainingTable.bin",
    } < steps


def test_few_classes_stand_above_an_estimator() -> None:
    above = [c for c in RandomForestClassifier.__mro__[1:] if c.__module__.startswith("gpuboost.")]
    assert len(above) <= 5, above
