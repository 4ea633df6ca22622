"""Fits whose models must stay as they are: their options, and the SHA-256 of each model.

``python -m tests.golden_fits`` writes ``tests/data/golden_fits.json`` anew, with NumPy, and prints
the fits whose models change. Do that only for a change that CHANGELOG.md lists under "Models that
change".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.estimators.device_cases import BOOSTED, CASES, REPLAYED_FORESTS, Case
from tests.estimators.estimator_cases import WITH_TREES, make

FILE = Path(__file__).parent / "data" / "golden_fits.json"
FIRST_TREES = 2  # trees or rounds of the first fit of a warm start
FOREST, CLASSES, VALUES = (
    "RandomForestClassifier",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
)
# Options that no case of `tests.estimators.device_cases` has.
OTHER_OPTIONS = [
    Case("DecisionTreeClassifier", {"criterion": "twoing"}),
    Case(FOREST, {"criterion": "twoing"}, weights="real", target="many"),
    Case("ExtraTreesClassifier", {"criterion": "twoing"}, weights="counts", target="categories"),
    Case(VALUES, {"loss": "log_cosh"}),
    Case(VALUES, {"loss": "log_cosh", "subsample": 0.6, "max_leaf_nodes": 6}, weights="real"),
    Case(FOREST, {"warm_start": True}, weights="counts"),
    Case("ExtraTreesRegressor", {"warm_start": True}, weights="real"),
    Case("BaggingRegressor", {"warm_start": True, "max_samples": 0.5, "max_features": 0.5}),
    Case(VALUES, {"warm_start": True, "subsample": 0.6}, weights="real"),
    Case(VALUES, {"warm_start": True, "loss": "absolute_error"}, weights="counts"),
    Case(CLASSES, {"warm_start": True, "max_features": 3}, target="many"),
    Case(FOREST, {"voting": "hard"}, weights="real"),
    Case("BaggingClassifier", {"voting": "hard"}, target="many"),
    Case("ExtraTreesClassifier", {"voting": "hard", "warm_start": True}, target="binary"),
]
BACKENDS = {160: ("numpy", "numba", "cuda"), 600: ("numpy", "numba")}  # by number of rows


@dataclass(frozen=True)
class GoldenFit:
    """A fit of one case to a table of ``n_rows`` rows."""

    case: Case
    n_rows: int

    def __str__(self) -> str:
        return f"{self.case}, {self.n_rows} rows"

    def fingerprint(self, device: str) -> str:
        """SHA-256 of the model fitted on a device.

        A warm start is two fits. ``voting`` is applied in predictions, so their bits are included.
        """
        X, y, words = self.case.given(self.n_rows)
        weight = words.pop("sample_weight", None)
        model: Any = make(self.case.name, **words).set_params(device=device)
        if "warm_start" in words:
            n_trees = model.n_estimators
            model.set_params(n_estimators=FIRST_TREES).fit(X, y, weight)
            model.set_params(n_estimators=n_trees)
        found = model.fit(X, y, weight).fingerprint()
        if "voting" in words:
            shares = np.ascontiguousarray(model.predict_proba(X), dtype="<f8")
            found = hashlib.sha256(found.encode() + shares.tobytes()).hexdigest()
        return found


def golden_fits() -> Iterator[GoldenFit]:
    """All golden fits: every estimator with its defaults and with each of its options."""
    every = (*map(Case, WITH_TREES), *CASES, *REPLAYED_FORESTS, *BOOSTED, *OTHER_OPTIONS)
    cases = {str(case): case for case in every}  # some cases are in two lists
    for n_rows in BACKENDS:
        yield from (GoldenFit(case, n_rows) for case in cases.values())


def recorded() -> dict[str, str]:
    """The recorded SHA-256 of each fit, by the string of the fit."""
    return json.loads(FILE.read_text(encoding="utf-8"))["fits"]


def main() -> int:
    """Write the file, and print the fits whose models differ from those recorded before."""
    before = recorded() if FILE.exists() else {}
    now = {str(fit): fit.fingerprint("numpy") for fit in golden_fits()}
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            print(f"{name}: {before.get(name)} becomes {now.get(name)}")
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({"fits": now}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
