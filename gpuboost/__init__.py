"""Tree ensembles on NVIDIA GPUs and laptops, with the same model, bit for bit, on any device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuboost.estimators import (
        AdaBoostClassifier,
        AdaBoostRegressor,
        BaggingClassifier,
        BaggingRegressor,
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        ExtraTreeClassifier,
        ExtraTreeRegressor,
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from gpuboost.estimators.inputs.dataset import Dataset
    from gpuboost.estimators.memory.estimate import estimate_memory

__version__ = "0.1.0"

__all__ = [
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "BaggingClassifier",
    "BaggingRegressor",
    "Dataset",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "__version__",
    "estimate_memory",
]

# Modules of the public names that are not in `gpuboost.estimators`.
_HOMES = {
    "Dataset": "gpuboost.estimators.inputs.dataset",
    "estimate_memory": "gpuboost.estimators.memory.estimate",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import gpuboost` is fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "gpuboost.estimators")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
