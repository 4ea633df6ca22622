"""Estimators by the names of the command line, and their parameters as ``name=value``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import gpuboost
from gpuboost.cli.similar import near

DEFAULT_MODEL = "boosting"
ESTIMATORS = {
    DEFAULT_MODEL: "GradientBoosting",
    "hist": "HistGradientBoosting",
    "forest": "RandomForest",
    "extra-trees": "ExtraTrees",
    "tree": "DecisionTree",
    "extra-tree": "ExtraTree",
    "bagging": "Bagging",
    "adaboost": "AdaBoost",
}
NESTED = "estimator__"  # begins parameters of the trees of bagging and AdaBoost
_TREE_DEPTH = {"AdaBoostClassifier": 1, "AdaBoostRegressor": 3}  # without an `estimator`
_BY_OPTION = {
    "device": "use --device",
    "estimator": f"set the parameters of its trees, such as {NESTED}max_depth=3",
    "verbose": "the command shows progress itself",
    "callbacks": "they are Python code",
    "keep_on_interrupt": "Ctrl-C always keeps the trees so far",
    "warm_start": "each command starts anew",
}
_LITERALS = {"None": None, "none": None, "True": True, "False": False}


def parameter_value(text: str) -> Any:
    """The value in ``name=value``: a literal of JSON or TOML, None, or else a string."""
    if text in _LITERALS:
        return _LITERALS[text]
    with suppress(ValueError):
        return json.loads(text)
    with suppress(tomllib.TOMLDecodeError):
        return tomllib.loads(f"value = {text}")["value"]
    return text


def parsed_parameters(pairs: Iterable[str]) -> dict[str, Any]:
    """The parameters in texts ``name=value``; of several for one name, the last counts.

    Raises
    ------
    ValueError
        If a text has no equals sign.
    """
    found = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"--set takes name=value, got {pair!r}")
        found[name.strip()] = parameter_value(text.strip())
    return found


def make_estimator(
    model: str, is_classification: bool, parameters: Mapping[str, Any], **machine: Any
) -> Any:
    """An unfitted estimator with parameters of the user.

    Parameters
    ----------
    model : str
        A key of `ESTIMATORS`.
    is_classification : bool
        Whether it is a classifier.
    parameters : mapping of str to object
        Its parameters; those that begin with ``estimator__`` are of the trees of an ensemble.
    **machine
        Parameters of the command itself: the device and the seed.

    Raises
    ------
    ValueError
        If the estimator has no such parameter; the message lists similar ones.
    """
    kind = "Classifier" if is_classification else "Regressor"
    estimator = getattr(gpuboost, ESTIMATORS[model] + kind)(**machine)
    nested = {name: value for name, value in parameters.items() if name.startswith(NESTED)}
    if nested and "estimator" in estimator.get_params():
        depth = _TREE_DEPTH.get(type(estimator).__name__)
        trees: Any = getattr(gpuboost, f"DecisionTree{kind}")
        estimator.set_params(estimator=trees(max_depth=depth))
    known = [name for name in estimator.get_params() if name not in _BY_OPTION]
    for name in parameters:
        if name in _BY_OPTION:
            raise ValueError(f"the parameter {name!r} cannot be set: {_BY_OPTION[name]}")
        if name not in known:
            owner = type(estimator).__name__
            raise ValueError(f"{owner} has no parameter {name!r}{near(name, known)}")
    return estimator.set_params(**parameters)


def n_planned_trees(estimator: Any) -> int:
    """Number of trees, or rounds, of a fit that nothing ends before."""
    parameters = estimator.get_params(deep=False)
    count = parameters.get("n_estimators", parameters.get("max_iter", 1))
    return count if isinstance(count, int) else 1
