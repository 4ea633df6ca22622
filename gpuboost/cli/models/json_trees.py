"""A model as JSON that other programs can read: its features, and the nodes of its trees.

    {"estimator": ..., "classes": [...] or null, "features": [{"name", "categories"}, ...],
     "combine": ..., "baseline": [...], "trees_per_round": ..., "tree_weights": [...],
     "trees": [[node, ...], ...]}

docs/command_line.md says how the values of the leaves are combined.

A tree is a list of nodes, the root first. A leaf is ``{"value": [...]}``. A split has the index of
its ``feature``, the nodes ``left`` and ``right``, and ``missing``, the one of these where missing
values and unknown categories go. Numbers go left if they are at most ``threshold`` (all do if it is
null), categories if they are listed in ``categories``.
"""

from __future__ import annotations

import math
from typing import Any

from gpuboost.cli.models.contents import classes_of, features_of
from gpuboost.cli.models.training import trees_of
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.adaboost.model import AdaBoostTrees
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.model.fitted import FittedTrees
from gpuboost.interchange.export.category_numbers import bits_of_masks


def model_to_json(model: Any) -> dict[str, Any]:
    """The JSON of a fitted estimator.

    Raises
    ------
    ValueError
        If predictions start from those of another estimator (``init``), or the model was imported.
    """
    fitted = trees_of(model)
    if not isinstance(fitted, FittedTrees):
        raise ValueError("an imported model cannot be converted to JSON; use its own library")
    if getattr(fitted, "init", None) is not None:
        raise ValueError("a model with the parameter init cannot be converted to JSON")
    boosted = fitted if isinstance(fitted, BoostedRounds) else None
    combine, weights = combination_of(model, fitted)
    codes = fitted.schema.codes
    return {
        "estimator": type(model).__name__,
        "fingerprint": model.fingerprint(),
        "classes": classes_of(model),
        "n_outputs": fitted.n_outputs,
        "features": [
            {name: own[name] for name in ("name", "categories")}
            for own in features_of(model, fitted)
        ],
        "combine": combine,
        "loss": boosted and boosted.loss.facts.name,
        "baseline": boosted and boosted.baseline.tolist(),
        "trees_per_round": boosted and boosted.trees_per_round,
        "tree_weights": weights,
        "trees": [nodes_of(tree, codes) for tree in fitted.ensemble.trees],
    }


def combination_of(model: Any, fitted: FittedTrees) -> tuple[str, list[float] | None]:
    """How the leaves of all trees make a prediction, and the weights of the trees, if they vote."""
    if isinstance(fitted, BoostedRounds):
        return "sum", None
    if isinstance(fitted, AdaBoostTrees):
        is_classifier = hasattr(model, "classes_")
        return f"weighted_{'vote' if is_classifier else 'median'}", fitted.tree_votes.tolist()
    if getattr(model, "voting", "soft") == "hard":
        return "weighted_vote", [1.0] * fitted.ensemble.n_trees
    return "mean", None


def nodes_of(tree: Tree, codes: tuple[dict[Any, int] | None, ...]) -> list[dict[str, Any]]:
    """The nodes of a tree; ``codes`` are those of the categories of each feature."""
    return [
        {"value": tree.value[node].tolist()}
        if feature < 0
        else _split(tree, node, codes[feature])
        for node, feature in enumerate(tree.feature.tolist())
    ]  # fmt: skip


def _split(tree: Tree, node: int, codes: dict[Any, int] | None) -> dict[str, Any]:
    left = int(tree.left[node])
    split: dict[str, Any] = {"feature": int(tree.feature[node])}
    if tree.category[node] >= 0:
        is_left = bits_of_masks(tree.masks[[tree.category[node]]])[0]
        split["categories"] = [name for name, code in (codes or {}).items() if is_left[code]]
    else:
        threshold = float(tree.threshold[node])
        split["threshold"] = threshold if math.isfinite(threshold) else None
    missing = left if tree.missing_left[node] else left + 1
    return {**split, "left": left, "right": left + 1, "missing": missing}
