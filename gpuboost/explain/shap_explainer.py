"""gpuboost's exact SHAP values behind ``shap.TreeExplainer`` and ``shap.Explainer``.

shap has a fixed list of the classes that its `TreeExplainer` takes. So `register` sets
``shap.Explainer.__new__``, which makes a `GpuboostExplainer` for estimators of gpuboost and leaves
all other models to shap.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import shap
from sklearn.utils.validation import check_is_fitted

from gpuboost.estimators.fitting.explanations import additive_model, names_of_outputs

MAX_BACKGROUND_ROWS = 100  # of a table; shap's maskers take as many
PERTURBATIONS = ("auto", "interventional", "tree_path_dependent")


def register(module: ModuleType) -> None:
    """Let the explainers of shap, whose module is given, take estimators of gpuboost."""

    def new(cls: type, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        is_ours = hasattr(type(model), "shap_expected_value")
        by_trees = kwargs.get("algorithm", "auto") in ("auto", "tree")
        if is_ours and cls is module.TreeExplainer:
            cls = GpuboostExplainer
        elif is_ours and cls is module.Explainer and by_trees:
            cls = GpuboostExplainer if _is_sum_of_trees(model) else _PredictionExplainer
        return object.__new__(cls)

    module.Explainer.__new__ = staticmethod(new)


def _is_sum_of_trees(model: Any) -> bool:
    check_is_fitted(model)
    try:
        additive_model(model)
    except ValueError:
        return False
    return True


class GpuboostExplainer(shap.TreeExplainer):
    """A `TreeExplainer` with the values of `ShapExplained.shap_values`, for the same output.

    Parameters
    ----------
    model : estimator
    data : table or masker, optional
        Background rows; of more than `MAX_BACKGROUND_ROWS` rows, shap's sample is taken.
    model_output : str
        "raw"; for classifiers whose raw output is probabilities, "probability", too.
    feature_perturbation : {"auto", "interventional", "tree_path_dependent"}
        Whether to use the background rows; "auto" uses them if there are any.
    feature_names : list of str, optional
        Default: the names that the estimator was fitted with.

    Raises
    ------
    ValueError
        The output is not available, or background rows are needed and not given; or the estimator
        has no exact values, see `ShapExplained.shap_values`.
    """

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        feature_names: Any = None,
        *,
        masker: Any = None,
        output_names: Any = None,
        link: Any = None,
        linearize_link: bool = True,
        algorithm: str = "tree",
        seed: Any = None,
        approximate: Any = None,
    ) -> None:
        data = masker if data is None else data
        _check(model, data, model_output, feature_perturbation)
        if link not in (None, shap.links.identity) or approximate:
            raise ValueError(
                "a link other than identity, and approximate=True, are not available for "
                "estimators of gpuboost; leave them out"
            )
        if feature_names is None:
            feature_names = getattr(model, "feature_names_in_", None)
        shap.Explainer.__init__(self, model, output_names=output_names, feature_names=feature_names)
        if feature_names is not None:
            self.data_feature_names = list(feature_names)
        is_used = data is not None and feature_perturbation != "tree_path_dependent"
        self.data = _background(data) if is_used else None
        self.feature_perturbation = "interventional" if is_used else "tree_path_dependent"
        self.model_output = model_output
        self.expected_value = _joined(model.shap_expected_value(background=self.data))
        n_outputs = len(np.atleast_1d(self.expected_value))
        if output_names is None and n_outputs > 1:
            parts = names_of_outputs(model, n_outputs)
            self.output_names = [name for part in parts for name in part]

    def shap_values(
        self, X: Any, y: Any = None, tree_limit: Any = None, approximate: bool = False, **_: Any
    ) -> Any:
        """SHAP values of rows, or of one row; see `ShapExplained.shap_values`.

        The outputs of a classifier with several outputs are joined in the last dimension.
        """
        if tree_limit is not None or approximate:
            raise ValueError(
                "tree_limit and approximate=True cannot be used with estimators of gpuboost: their "
                "values are exact and for all trees; leave both out"
            )
        return _of_rows(X, lambda rows: self.model.shap_values(rows, background=self.data))

    def shap_interaction_values(self, X: Any, y: Any = None, tree_limit: Any = None) -> Any:
        """Interaction values of rows, or of one row; they are path-dependent."""
        if self.data is not None:
            raise ValueError(
                "interaction values are path-dependent, but this explainer has background rows; "
                "make one without them: shap.TreeExplainer(model)"
            )
        return _of_rows(X, self.model.shap_interaction_values)

    def __call__(self, X: Any, **options: Any) -> Any:
        """A `shap.Explanation` of rows, with the names of the outputs."""
        found = super().__call__(X, **options)
        if self.output_names is not None:
            found.output_names = list(self.output_names)
        return found


class _PredictionExplainer(shap.Explainer):
    """Explains the predictions of an estimator without exact values by shap's own methods."""

    def __init__(self, model: Any, masker: Any = None, **others: Any) -> None:
        self.__class__ = shap.Explainer
        predict = getattr(model, "predict_proba", model.predict)
        self.__init__(predict, masker, **others)  # type: ignore[misc]


def _joined(found: Any) -> Any:
    """Values with all outputs in the last dimension."""
    return np.concatenate(found, axis=-1) if isinstance(found, list) else found


def _of_rows(X: Any, explain: Callable[[Any], Any]) -> Any:
    """``explain`` of all rows, or the result for a single one."""
    if getattr(X, "ndim", 2) == 1:
        return _joined(explain(np.asarray(X)[None]))[0]
    return _joined(explain(X))


def _check(model: Any, data: Any, model_output: str, feature_perturbation: str) -> None:
    """Check the options of `GpuboostExplainer`."""
    of_classes = hasattr(model, "predict_proba") and not hasattr(model, "decision_function")
    outputs = ("raw", "probability", "predict_proba") if of_classes else ("raw",)
    if model_output not in outputs:
        raise ValueError(
            f"model_output={model_output!r} is not available for {type(model).__name__}, allowed "
            f"are {', '.join(map(repr, outputs))}; explain other outputs with shap.Explainer of a "
            "function, such as shap.Explainer(model.predict_proba, X)"
        )
    if feature_perturbation not in PERTURBATIONS:
        raise ValueError(
            f"feature_perturbation={feature_perturbation!r} was given, allowed are "
            f"{', '.join(map(repr, PERTURBATIONS))}"
        )
    if feature_perturbation == "interventional" and data is None:
        raise ValueError(
            "feature_perturbation='interventional' needs background rows; pass data, such as 100 "
            "rows of the training data, or use 'tree_path_dependent'"
        )


def _background(data: Any) -> Any:
    """Background rows: those of a masker, or some rows of a table."""
    if isinstance(data, shap.maskers.Independent):
        return data.data
    if isinstance(data, shap.maskers.Masker):
        raise ValueError(
            f"a masker of type {type(data).__name__} cannot be used with trees; pass a table, or a "
            "shap.maskers.Independent"
        )
    n_rows = data.shape[0] if hasattr(data, "shape") else len(data)
    return data if n_rows <= MAX_BACKGROUND_ROWS else shap.utils.sample(data, MAX_BACKGROUND_ROWS)
