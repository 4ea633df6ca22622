"""dtreeviz and supertree draw the models that `to_sklearn` makes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuboost
from tests.plots.picture_cases import CLASSES, FAST, NUMBERS, Y

dtreeviz = pytest.importorskip("dtreeviz")
supertree = pytest.importorskip("supertree")

NAMES = ["size", "age"]
MODELS: dict[str, dict[str, Any]] = {
    "DecisionTreeClassifier": {"max_depth": 2},
    "DecisionTreeRegressor": {"max_depth": 2},
    "RandomForestClassifier": {"n_estimators": 2, "max_depth": 2},
    "ExtraTreesRegressor": {"n_estimators": 2, "max_depth": 2},
    "GradientBoostingRegressor": {"n_estimators": 2, "max_depth": 2},
    "GradientBoostingClassifier": {"n_estimators": 2, "max_depth": 2},
}
HIST = {"HistGradientBoostingRegressor": {"max_iter": 2, "max_depth": 2}}


def converted(name: str) -> tuple[Any, Any, Any]:
    """A model, the one that it is converted to, and the targets."""
    y = np.unique(CLASSES, return_inverse=True)[1] if name.endswith("Classifier") else Y
    model = getattr(gpuboost, name)(**FAST, **(MODELS | HIST)[name]).fit(NUMBERS, y)
    return model, model.to_sklearn(), y


@pytest.mark.parametrize("name", MODELS)
def test_dtreeviz_draws_single_trees(name: str) -> None:
    """It draws each tree of an ensemble of scikit-learn, except for histogram boosting."""
    model, theirs, y = converted(name)
    tree = np.ravel(getattr(theirs, "estimators_", theirs))[0]
    names = {"class_names": ["low", "middle", "high"]} if hasattr(tree, "classes_") else {}
    picture = dtreeviz.model(
        tree, X_train=NUMBERS, y_train=y, feature_names=NAMES, target_name="y", **names
    )
    text = picture.view(fancy=False).dot
    ours = model._model.ensemble.trees[0]
    assert len(set(re.findall(r"\bleaf\d+ \[", text))) == (ours.left == 0).sum()
    for feature, threshold in zip(ours.feature, ours.threshold, strict=True):
        assert feature < 0 or f"{NAMES[feature]}@{threshold:.2f}" in text.replace(" ", "")


@pytest.mark.parametrize("name", [*MODELS, *HIST])
def test_supertree_draws_ensembles(name: str, tmp_path: Path) -> None:
    model, theirs, y = converted(name)
    labels = [str(label) for label in model.classes_] if hasattr(model, "classes_") else "y"
    picture = supertree.SuperTree(theirs, NUMBERS, y, NAMES, labels)
    picture.save_json_tree(str(tmp_path / "tree.json"), which_tree=0)
    found = json.dumps(json.loads((tmp_path / "tree.json").read_text()))
    ours = getattr(model, "_boosting", model)._model.ensemble.trees[0]
    shown = sorted(float(x) for x in re.findall(r'"threshold": (-?[\d.e-]+)', found))
    inner = ours.left > 0
    for threshold in ours.threshold[inner]:
        assert np.isclose(shown, threshold, atol=1e-6).any()
