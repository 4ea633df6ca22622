"""Tree ensembles on NVIDIA GPUs and laptops, with the same model, bit for bit, on any device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.ensemble import (
        BaseEnsemble,
        IsolationForest,
        RandomTreesEmbedding,
        StackingClassifier,
        StackingRegressor,
        VotingClassifier,
        VotingRegressor,
    )
    from sklearn.tree import BaseDecisionTree, export_graphviz, export_text, plot_tree

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
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from gpuboost.estimators.files.estimators import load
    from gpuboost.estimators.inputs.dataset import Dataset
    from gpuboost.estimators.memory.estimate import estimate_memory
    from gpuboost.interchange.from_lightgbm import from_lightgbm
    from gpuboost.interchange.from_sklearn import from_sklearn
    from gpuboost.interchange.from_treelite import from_treelite
    from gpuboost.interchange.from_xgboost import from_xgboost

__version__ = "0.1.0"

__all__ = [
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "BaggingClassifier",
    "BaggingRegressor",
    "BaseDecisionTree",
    "BaseEnsemble",
    "Dataset",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "IsolationForest",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomTreesEmbedding",
    "StackingClassifier",
    "StackingRegressor",
    "VotingClassifier",
    "VotingRegressor",
    "__version__",
    "estimate_memory",
    "export_graphviz",
    "export_text",
    "from_lightgbm",
    "from_sklearn",
    "from_treelite",
    "from_xgboost",
    "load",
    "plot_tree",
]

# Modules of the public names that are not in `gpuboost.estimators`, and their names. Those of
# scikit-learn are here so that a script need only change where it imports from.
_HOMES = {
    "gpuboost.estimators.files.estimators": ("load",),
    "gpuboost.estimators.inputs.dataset": ("Dataset",),
    **{
        f"gpuboost.interchange.from_{name}": (f"from_{name}",)
        for name in ("lightgbm", "sklearn", "treelite", "xgboost")
    },
    "gpuboost.estimators.memory.estimate": ("estimate_memory",),
    "sklearn.ensemble": (
        *("BaseEnsemble", "IsolationForest", "RandomTreesEmbedding"),
        *("StackingClassifier", "StackingRegressor", "VotingClassifier", "VotingRegressor"),
    ),
    "sklearn.tree": ("BaseDecisionTree", "export_graphviz", "export_text", "plot_tree"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import gpuboost` is fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = (home for home, names in _HOMES.items() if name in names)
    home = next(homes, "gpuboost.estimators")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
