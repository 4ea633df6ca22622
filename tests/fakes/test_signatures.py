"""The comparison of a stand-in with the real module finds planted mistakes."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.signatures import compare_names, signature_of


class Real:
    def __init__(self, block: bool = False, timing: bool = True) -> None: ...

    def launch(self, stream: Any = None) -> None: ...

    def compiled(self, *args: Any, **kwargs: Any) -> None:
        """Real.compiled(self, int axis=-1, kind=None, *, casting='same_kind') -> ndarray"""

    def silent(self, *args: Any, **kwargs: Any) -> None:
        """This docstring has no signature."""


def offenders(ours: dict[str, Any], unknown: list[str] | None = None) -> list[str]:
    """Differences of a class of a stand-in with the given attributes or constructor."""
    names = {"place": SimpleNamespace(Real=type("Real", (), ours))}
    told = [] if unknown is None else unknown
    return list(compare_names("m", names, SimpleNamespace(place=SimpleNamespace(Real=Real)), told))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("__init__", lambda self, *, timing=True: None),
        ("__init__", lambda self, block=False: None),
        ("launch", lambda self, stream=None: None),
        ("launch", lambda self, anything=None, /: None),
        ("compiled", lambda self, axis=-1, *, kind=None: None),
        ("compiled", lambda self, axis=-1, kind=None, *, casting="no": None),
    ],
)
def test_arguments_of_the_real_function_are_allowed(name: str, function: Any) -> None:
    assert offenders({name: function}) == []


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("__init__", lambda self, timing=True: None),
        ("launch", lambda self, streams=None: None),
        ("launch", lambda self, stream=None, /, mode=None: None),
        ("launch", lambda self, one, two, /: None),
        ("compiled", lambda self, kind=None: None),
        ("compiled", lambda self, axis=-1, kind=None, casting="no": None),
        ("lunch", lambda self: None),
    ],
)
def test_wrong_names_and_positions_are_found(name: str, function: Any) -> None:
    assert len(offenders({name: function})) == 1


def test_names_of_modules_and_values_are_compared() -> None:
    real = SimpleNamespace(status=700, sort=np.sort)
    ours = {"status": 701, "sort": partial(max), "sorted": None}
    found = list(compare_names("m", ours, real, []))
    assert found == ["m.sorted: there is no such name", "m.status: 701, the real one is 700"]


def test_functions_of_unknown_parameters_are_listed() -> None:
    unknown: list[str] = []
    assert offenders({"silent": lambda self: None}, unknown) == []
    assert unknown == ["m.place.Real.silent"]


def test_signatures_of_ufuncs_are_read() -> None:
    def frexp() -> None:
        r"""frexp(x[, out1, out2], / [, out=(None, None)], \*, casting='same_kind', dtype=None)"""

    frexp.__signature__ = 0  # type: ignore[attr-defined]  # inspect.signature raises
    found = signature_of(frexp)
    assert found is not None
    kinds = {name: one.kind.name for name, one in found.parameters.items()}
    assert kinds.pop("x") == kinds.pop("out1") == kinds.pop("out2") == "POSITIONAL_ONLY"
    assert kinds.pop("out") == "POSITIONAL_OR_KEYWORD"
    assert set(kinds.values()) == {"KEYWORD_ONLY"}
