"""Explanations of models: SHAP values, importances, rules, and where their errors come from."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuboost.explain.decomposition import BiasVariance, bias_variance
    from gpuboost.explain.importances import feature_importances
    from gpuboost.explain.shap_summaries import (
        mean_absolute_shap,
        shap_batches,
        top_shap,
        write_shap_values,
    )
    from gpuboost.explain.staged_scores import LearningCurve, learning_curve
    from gpuboost.explain.trees.graphviz import export_graphviz
    from gpuboost.explain.trees.rules import export_rules
    from gpuboost.explain.trees.table import trees_to_dataframe
    from gpuboost.explain.trees.text import export_text

__all__ = [
    "BiasVariance",
    "LearningCurve",
    "bias_variance",
    "export_graphviz",
    "export_rules",
    "export_text",
    "feature_importances",
    "learning_curve",
    "mean_absolute_shap",
    "shap_batches",
    "top_shap",
    "trees_to_dataframe",
    "write_shap_values",
]

_NAMES = {
    "decomposition": ("BiasVariance", "bias_variance"),
    "importances": ("feature_importances",),
    "shap_summaries": ("mean_absolute_shap", "shap_batches", "top_shap", "write_shap_values"),
    "trees.graphviz": ("export_graphviz",),
    "trees.rules": ("export_rules",),
    "trees.table": ("trees_to_dataframe",),
    "trees.text": ("export_text",),
    "staged_scores": ("LearningCurve", "learning_curve"),
}
_PUBLIC = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import gpuboost` is fast."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return found
