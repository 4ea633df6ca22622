"""Partial dependence by recursion, for scikit-learn's `partial_dependence` and its display.

scikit-learn accepts ``method="recursion"`` for instances of some of its classes, of which
gpuboost's are made virtual subclasses. For ``method="auto"``, scikit-learn chooses recursion for
the same classes, but for gradient boosting only where ``init`` is None. So other classes of
gpuboost, which are registered there, have another ``init``, and "auto" means brute force for them,
as it does for scikit-learn's estimators of the same names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.frames import apply_schema
from gpuboost.data.sparse_features import to_dense
from gpuboost.data.validation import check_features
from gpuboost.engine.explanations.dependence import partial_dependence
from gpuboost.estimators.fitting.import_hook import after_import

NO_BOOSTING = "not gradient boosting"  # the ``init`` of other estimators
AnyClass = TypeVar("AnyClass", bound=type)


def accepts_recursion(own: AnyClass) -> AnyClass:
    """Class decorator: scikit-learn chooses recursion if asked to, or if ``init`` is None."""
    after_import(
        "sklearn.ensemble", lambda ensemble: ensemble._gb.BaseGradientBoosting.register(own)
    )
    return own


def chooses_recursion(own: AnyClass) -> AnyClass:
    """Class decorator: scikit-learn also chooses recursion for ``method="auto"``."""

    def register(ensemble: Any) -> None:
        ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting.register(own)

    after_import("sklearn.ensemble", register)
    return own


def partial_dependence_by_recursion(
    self: Any, grid: np.ndarray, target_features: np.ndarray
) -> np.ndarray:
    """Mean output with the target features set to each row of ``grid``.

    scikit-learn's `partial_dependence` calls it. The output is what SHAP values explain: values or
    probabilities and, in boosting, raw predictions. A split on another feature sends every row both
    ways, by the weights of the training rows in its children; where weights of nodes are hessians
    of a loss, by the numbers of these rows.

    Returns
    -------
    ndarray of float64 of shape (n_outputs, n_points)
        Of the probabilities of two classes, only those of the second one.

    Raises
    ------
    TypeError, ValueError
        ``grid`` does not fit the target features, or the prediction is not a sum of trees.

    References
    ----------
    Friedman 2001, "Greedy function approximation: a gradient boosting machine", section 8.2.
    """
    check_is_fitted(self)
    own = getattr(self, "_boosting", None) or self
    model, known = _sum_of_trees(own), np.zeros(own.n_features_in_, dtype=bool)
    known[target_features] = True
    columns = own._columns_of_grid(np.asarray(grid), np.asarray(target_features))
    found = partial_dependence(model, columns, known).T
    has_two = len(found) == 2 and hasattr(own, "classes_")
    return found[1:] if has_two else found


def columns_of_grid(self: Any, grid: np.ndarray, target_features: np.ndarray) -> np.ndarray:
    """The columns that trees compare, at the points of a grid; those of other features are 0."""
    schema = self._model.schema.select(target_features)
    known = check_features(to_dense(apply_schema(grid, schema, self._shown_name)))
    columns = np.zeros((len(known), self.n_features_in_))
    columns[:, target_features] = known
    return columns


def _sum_of_trees(own: Any) -> Any:
    """The `AdditiveModel` of an estimator, whose cover is the weight of the training rows."""
    try:
        model = own._additive_model()
    except ValueError as error:
        raise ValueError(
            f"{type(own).__name__} has no partial dependence by recursion; use method='brute'"
        ) from error
    loss = getattr(own._model, "loss", None)
    if loss is None or loss.constant_hessian:
        return model
    return replace(model, cover=own._model.ensemble.count.astype(np.float64))
