"""Explanations of models: SHAP values, importances, rules, and where their errors come from."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuboost.explain.shap_summaries import (
        mean_absolute_shap,
        shap_batches,
        top_shap,
        write_shap_values,
    )

__all__ = ["mean_absolute_shap", "shap_batches", "top_shap", "write_shap_values"]

_NAMES = {
    "shap_summaries": ("mean_absolute_shap", "shap_batches", "top_shap", "write_shap_values"),
}
_PUBLIC = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import gpuboost` is fast."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return found
