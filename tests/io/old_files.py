"""Model files that later versions must load for ever, with the predictions that they had.

``python -m tests.io.old_files`` writes those of the version that is written now. Files that exist
are never written again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import gpuboost
from gpuboost.estimators.files.estimators import FILE_VERSION
from tests.estimators.estimator_cases import NAMES

FOLDER = Path(__file__).parents[1] / "data" / "model_files"
COLORS = np.array(["red", "green", "blue", "grey"], dtype=object)


def table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, one of which is missing in places, and a column of categories; and values."""
    rng = np.random.default_rng(5)
    X = np.empty((n_rows, 3), dtype=object)
    X[:, :2] = rng.normal(size=(n_rows, 2)).round(1)
    X[::5, 1] = np.nan
    X[:, 2] = COLORS[rng.integers(0, 4, n_rows)]
    return X, X[:, 0].astype(float) + (X[:, 2] == "red")


def fitted(name: str) -> Any:
    """A small model of an estimator."""
    X, y = table(60)
    model = getattr(gpuboost, name)(device="numpy", random_state=3, categorical_features=[2])
    few = {"n_estimators": 4, "max_depth": 2, "max_iter": 4, "subsample": 0.7}
    model.set_params(**{key: few[key] for key in few if key in model.get_params(deep=False)})
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 1.0])]
    return model.fit(X, labels if name.endswith("Classifier") else y)


def expected(model: Any) -> dict[str, Any]:
    """What the model's file must come to in all later versions."""
    found = {"fingerprint": model.fingerprint(), "predict": model.predict(table(20)[0]).tolist()}
    if hasattr(model, "predict_proba"):
        found["predict_proba"] = model.predict_proba(table(20)[0]).tolist()
    return found


def main() -> None:
    folder = FOLDER / f"v{FILE_VERSION}"
    folder.mkdir(parents=True)
    found = {}
    for name in NAMES:
        model = fitted(name)
        model.save(folder / f"{name}.gpuboost")
        found[name] = expected(model)
    (FOLDER / f"{folder.name}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
