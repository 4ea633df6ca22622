"""Tree ensembles on NVIDIA GPUs and laptops, with the same model, bit for bit, on any device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuboost.estimators import HOMES as _HOMES_OF_ESTIMATORS
from gpuboost.estimators.fitting.import_hook import after_import as _after_import

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

    from gpuboost.estimators.adaboost.estimators import AdaBoostClassifier, AdaBoostRegressor
    from gpuboost.estimators.boosting.estimators import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
    )
    from gpuboost.estimators.boosting.hist_gradient_boosting import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from gpuboost.estimators.files.estimators import load
    from gpuboost.estimators.forest.bagging import BaggingClassifier, BaggingRegressor
    from gpuboost.estimators.forest.forest import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from gpuboost.estimators.inputs.dataset import Dataset
    from gpuboost.estimators.memory.estimate import estimate_memory
    from gpuboost.estimators.model.row_predictions import predict_batches, write_predictions
    from gpuboost.estimators.trees.tree import (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        ExtraTreeClassifier,
        ExtraTreeRegressor,
    )
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
    "predict_batches",
    "write_predictions",
]

# Names of scikit-learn, so that a script need only change where it imports from.
_NAMES_OF_SKLEARN = {
    "sklearn.ensemble": (
        *("BaseEnsemble", "IsolationForest", "RandomTreesEmbedding"),
        *("StackingClassifier", "StackingRegressor", "VotingClassifier", "VotingRegressor"),
    ),
    "sklearn.tree": ("BaseDecisionTree", "export_graphviz", "export_text", "plot_tree"),
}
# The module of each public name.
_HOMES = {
    **_HOMES_OF_ESTIMATORS,
    "load": "gpuboost.estimators.files.estimators",
    "Dataset": "gpuboost.estimators.inputs.dataset",
    "estimate_memory": "gpuboost.estimators.memory.estimate",
    **dict.fromkeys(
        ("predict_batches", "write_predictions"), "gpuboost.estimators.model.row_predictions"
    ),
    **{
        f"from_{library}": f"gpuboost.interchange.from_{library}"
        for library in ("lightgbm", "sklearn", "treelite", "xgboost")
    },
    **{name: module for module, names in _NAMES_OF_SKLEARN.items() for name in names},
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import gpuboost` is fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


_after_import("shap", lambda shap: import_module("gpuboost.explain.shap_explainer").register(shap))
