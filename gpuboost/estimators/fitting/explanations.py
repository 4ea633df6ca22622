"""Methods of all estimators that explain predictions by exact SHAP values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.prediction_cost import explanation_work
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.explanations.dependence import expected_outputs
from gpuboost.estimators.fitting.dependence import partial_dependence_by_recursion
from gpuboost.estimators.model.explained import Explanation, as_explained


class ShapExplained:
    """Exact SHAP values and partial dependence of the trees of a fitted estimator."""

    # scikit-learn's `partial_dependence` calls it.
    _compute_partial_dependence_recursion = partial_dependence_by_recursion

    def shap_values(self: Any, X: Any, *, background: Any = None) -> Any:
        """Exact SHAP values: how much each feature adds to the prediction of each row.

        They explain what the trees add up to. In trees, forests and bagging, this is `predict` or
        ``predict_proba``; in gradient boosting, the raw prediction (of classes, the log-odds); in
        `AdaBoostClassifier`, the decision function. This output is the sum of the row's values and
        of `shap_expected_value`.

        Without ``background``, a split on an unknown feature goes both ways, by the weights of the
        training rows in the children (path-dependent values). With ``background``, unknown features
        have the values of a background row, and results are means over all background rows
        (interventional values); the time is proportional to their number.

        The definitions are those of Lundberg et al. 2020, "From local explanations to global
        understanding with explainable AI for trees", algorithms 1 and 3.

        Values are sums of integers, so they are equal bit for bit on every device, for every number
        of threads and in any batches of rows.

        Parameters
        ----------
        X : table or Dataset of shape (n_samples, n_features)
            As in `predict`. The rows of a Dataset are explained by their codes.
        background : table or Dataset of shape (n_background, n_features), optional
            Rows that unknown features are taken from; 100 to 1,000 are usual.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
            The last dimension has the columns of the explained output, if there are several; the
            probabilities of two classes have two. Classifiers with several outputs return a list
            with an array for each.

        Raises
        ------
        ValueError
            The prediction is not a sum of trees (the median of `AdaBoostRegressor`), or starts from
            an ``init`` estimator; or an imported model lacks the weights of its nodes, and
            ``background`` is not given.
        """
        explanation = explanation_of(self, X, background)
        return shaped(self, _joined(explanation.values(), len(explanation.data)))

    def shap_interaction_values(self: Any, X: Any) -> Any:
        """Exact SHAP interaction values of pairs of features, path-dependent; see `shap_values`.

        Each row of X has a symmetric matrix. The elements of its row i add up to the SHAP value of
        feature i. An interaction is divided equally between its two elements; the diagonal has the
        main effects.

        Parameters
        ----------
        X : table or Dataset of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features, n_features[, n_outputs]), or a list
            See `shap_values`.

        Raises
        ------
        ValueError
            See `shap_values`.
        """
        explanation = explanation_of(self, X, None)
        return shaped(self, _joined(explanation.interactions(), len(explanation.data)))

    def shap_expected_value(self: Any, *, background: Any = None) -> Any:
        """The output that SHAP values are relative to: the prediction when no feature is known.

        Parameters
        ----------
        background : table of shape (n_background, n_features), optional
            As in `shap_values`; the result is then the mean output of these rows.

        Returns
        -------
        float, or ndarray of float64 of shape (n_outputs,), or a list of these
            See `shap_values`.

        Raises
        ------
        ValueError
            See `shap_values`.
        """
        if background is None:
            found = expected_outputs(additive_model(self))
        else:
            found = explanation_of(self, background, background).expected()
        return shaped(self, found)

    def _additive_model(self: Any) -> AdditiveModel:
        """The sum of trees that SHAP values explain."""
        if self._model is None:
            raise ValueError(
                f"this {type(self).__name__} was fitted with base learners that are not trees of "
                "gpuboost, so it has no exact SHAP values; explain its predictions with "
                "shap.Explainer(model, X)"
            )
        return self._model.additive(self._voting_rule())

    def _explanation(self: Any, X: Any, background: Any) -> Explanation:
        """The `Explanation` of the rows of X."""
        model, other = self._additive_model(), None
        if background is not None:
            with naming_background():
                other = self._run(background, lambda model, data, *rest: data)

        def explain(trees: Any, data: Any, backend: Any, n_threads: int) -> Explanation:
            rows = None if other is None else as_explained(other, data, trees.mapper, backend)
            return Explanation(model, data, backend, n_threads, rows)

        return self._run(X, explain, times_of(other))


@contextmanager
def naming_background() -> Iterator[None]:
    """Let errors of reading say that they are about ``background``."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"background: {error}") from error


def times_of(background: Any) -> Any:
    """The function that estimates the seconds of an explanation in each backend."""
    return partial(explanation_work, n_background=1 if background is None else len(background))


def additive_model(estimator: Any) -> AdditiveModel:
    """The sum of trees that SHAP values of a fitted estimator explain."""
    return _with_trees(estimator)._additive_model()


def explanation_of(estimator: Any, X: Any, background: Any = None) -> Explanation:
    """The `Explanation` of the rows of X."""
    return _with_trees(estimator)._explanation(X, background)


def _with_trees(estimator: Any) -> Any:
    """The fitted estimator that has the trees."""
    check_is_fitted(estimator)
    return getattr(estimator, "_boosting", None) or estimator


def names_of_outputs(estimator: Any, n_outputs: int) -> list[list[str]]:
    """Names of the outputs of `shaped` values: one list, or one for each output of classes."""
    if n_outputs == 1:
        return [[""]]
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list):
        return [[f"{k}: {each}" for each in own] for k, own in enumerate(classes)]
    return [[str(each) for each in (range(n_outputs) if classes is None else classes)]]


def shaped(estimator: Any, found: np.ndarray) -> Any:
    """Values with the outputs last, as users get them: without these if there is only one."""
    if found.shape[-1] == 1:
        return found[..., 0] if found.ndim > 1 else float(found[0])
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, list):
        return found
    width = found.shape[-1] // len(classes)
    return [found[..., k * width : k * width + len(own)] for k, own in enumerate(classes)]


def _joined(blocks: Iterable[np.ndarray], n_rows: int) -> np.ndarray:
    """All blocks of rows in one array."""
    whole, at = None, 0
    for block in blocks:
        if len(block) == n_rows:
            return block
        if whole is None:
            whole = np.empty((n_rows, *block.shape[1:]))
        whole[at : at + len(block)] = block
        at += len(block)
    assert whole is not None
    return whole
