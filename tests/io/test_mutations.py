"""Damaged model files are refused, and no check of them can be left out."""

from __future__ import annotations

import ast
import random
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import gpuboost.estimators
from tests.io import mutations
from tests.io.damages import DAMAGES, EDITS, damaged, edited
from tests.io.small_models import stump

PACKAGE = Path(gpuboost.__file__).parent
FILES = [*PACKAGE.glob("io/*.py"), *PACKAGE.glob("estimators/files/*.py")]
SEED = 7


def call_sites() -> list[tuple[str, int]]:
    """File and line of each check."""
    return [
        (str(path), node.lineno)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require"
    ]


class Recorder:
    """Takes the place of `require`: leaves out one check, and knows which one failed last."""

    def __init__(self) -> None:
        self.skipped: Any = None
        self.failed: Any = None

    def __call__(self, holds: Any, problem: str) -> None:
        frame = sys._getframe(1)
        site = frame.f_code.co_filename, frame.f_lineno
        if not holds and site != self.skipped:
            self.failed = site
            raise ValueError(problem)


def outcome(data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mutations.outcome(data)


@pytest.mark.parametrize("make", [mutations.raw, mutations.decoded])
def test_damaged_files_are_refused_or_predict_within_bounds(make: Any) -> None:
    found = mutations.run(make, 2000, random.randrange(10**6))
    assert found["refused"] > 1000


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_refused(name: str) -> None:
    assert outcome(damaged(name)) == "refused"


@pytest.mark.parametrize("old, new", EDITS.values(), ids=EDITS)
def test_damaged_json_is_refused(old: str, new: str) -> None:
    assert outcome(edited(stump(), old, new)) == "refused"


def test_files_without_damage_are_loaded() -> None:
    for _, _, data in mutations.files():
        assert outcome(data) == "loaded"


def test_no_check_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one check, some file that it refused is loaded, or causes another error."""
    recorder, refused = Recorder(), defaultdict(list)
    for name, module in list(sys.modules.items()):
        if name.startswith("gpuboost.") and hasattr(module, "require"):
            monkeypatch.setattr(module, "require", recorder)
    files = [damaged(name) for name in DAMAGES]
    files += [edited(stump(), *edit) for edit in EDITS.values()]
    files += [mutations.decoded(random.Random(f"{SEED} {i}")) for i in range(6000)]
    files += [mutations.raw(random.Random(f"{SEED} {i}")) for i in range(500)]
    for data in files:
        recorder.failed = None
        if outcome(data) == "refused" and recorder.failed and len(refused[recorder.failed]) < 40:
            refused[recorder.failed].append(data)
    needless = []
    for site in call_sites():
        recorder.skipped = site
        if not any(breaks(data) for data in refused[site]):
            needless.append(f"{site[0]}:{site[1]} ({len(refused[site])} files)")
    assert not needless, "\n".join(["no file needs the checks", *needless])


def breaks(data: bytes) -> bool:
    """Whether a file is loaded, or causes an error other than a ValueError."""
    try:
        return outcome(data) == "loaded"
    except Exception:
        return True
