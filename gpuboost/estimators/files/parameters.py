"""Parameters of estimators, and unfitted estimators, as JSON.

``device`` and ``n_jobs`` say where and how to compute, so they are not part of a file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import sklearn.tree

from gpuboost.data.advice import warn_user
from gpuboost.io.checks import require
from gpuboost.io.json_values import NotStorable, from_json, to_json

OF_THE_MACHINE = ("device", "n_jobs")
_OF_THE_FIT = "callbacks"  # in a file they are None; a loaded model does not need them
ESTIMATOR = "estimator"  # the type of unfitted estimators in JSON
SKLEARN_TREES = (
    *("DecisionTreeClassifier", "DecisionTreeRegressor"),
    *("ExtraTreeClassifier", "ExtraTreeRegressor"),
)
_SKLEARN = "sklearn.tree."


def warn_of_lost_parameters(estimator: Any) -> None:
    """Warn of parameters that a file cannot hold."""
    found = known_parameters(estimator)
    for name, value in estimator.get_params(deep=False).items():
        if name not in found and name not in (*OF_THE_MACHINE, _OF_THE_FIT):
            warn_user(
                f"the file does not hold {name}={value!r:.80}, which is neither text nor numbers; "
                f"a loaded {type(estimator).__name__} has the default of {name} and predicts the "
                "same"
            )


def known_parameters(estimator: Any) -> dict[str, Any]:
    """The parameters by name, without those of the machine and those that no JSON can hold."""
    found = {}
    for name, value in estimator.get_params(deep=False).items():
        with suppress(NotStorable):
            if name not in OF_THE_MACHINE:
                found[name] = to_json(value, estimator_to_json)
    return found


def estimator_to_json(estimator: Any) -> dict[str, Any]:
    """JSON of an unfitted tree of gpuboost or scikit-learn."""
    kind = next((k for k in type(estimator).__mro__ if k.__module__.startswith("gpuboost.")), None)
    if type(estimator) in _sklearn_trees():
        name = _SKLEARN + type(estimator).__name__
    elif kind is not None and hasattr(estimator, "get_params"):
        name = kind.__name__
    else:
        raise NotStorable(f"{estimator!r:.80} cannot be stored in a file")
    return {ESTIMATOR: [name, known_parameters(estimator)]}


def estimator_from_json(kind: str, content: Any, classes: dict[str, type]) -> Any:
    """The unfitted estimator of the JSON of `estimator_to_json`."""
    require(kind == ESTIMATOR, f"a value has the unknown type {kind!r:.40}")
    is_pair = isinstance(content, list) and len(content) == 2 and isinstance(content[0], str)
    require(is_pair, "an estimator is not a list of a class and parameters")
    name, given = content
    known = classes | {_SKLEARN + own.__name__: own for own in _sklearn_trees()}
    require(name in known, f"there is no estimator {name!r:.60}")
    return unfitted(known[name], given, classes)


def unfitted(kind: Any, given: Any, classes: dict[str, type]) -> Any:
    """An estimator with the parameters of some JSON; those that are not given are defaults."""
    require(isinstance(given, dict), "the parameters of an estimator are not a JSON object")
    names = set(kind._get_param_names())
    unknown = sorted(set(given) - (names - set(OF_THE_MACHINE)))
    require(not unknown, f"{kind.__name__} has no parameters {unknown!r:.80}")

    def decode(name: str, content: Any) -> Any:
        return estimator_from_json(name, content, classes)

    return kind(**{name: from_json(value, decode) for name, value in given.items()})


def _sklearn_trees() -> tuple[type, ...]:
    return tuple(getattr(sklearn.tree, name) for name in SKLEARN_TREES)
