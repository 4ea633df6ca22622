"""Importances of features by the splits of a model, chosen in one way for all estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.parameters import one_of
from gpuboost.estimators.boosting.parameters import IMPORTANCES


def feature_importances(estimator: Any, kind: str = "gain") -> np.ndarray:
    """Importance of each feature, by the gains or by the number of its splits.

    Both kinds depend on the training rows only and favour features with many values. Permutation
    importance does neither: see `oob_permutation_importance` of forests and bagging, and
    scikit-learn's `permutation_importance` for rows that were held out.

    Parameters
    ----------
    estimator : fitted estimator of gpuboost
        It can be an imported model of another library.
    kind : {'gain', 'count'}
        'gain' means the impurity decrease of the feature's splits: in trees, forests and bagging,
        its fraction of the total decrease of a tree, averaged over trees (Breiman and others 1984,
        section 5.3); in AdaBoost, this average is weighted by the trees' weights; in gradient
        boosting and imported models, the fraction of the total decrease of all trees (Friedman
        2001, section 8.1). 'count' means the fraction of all splits of the model.

    Returns
    -------
    ndarray of float64 of shape (n_features,)
        The importances, which sum to 1 unless trees have no gains. With 'gain', they are
        ``feature_importances_`` (of gradient boosting, those with ``importance_type='gain'``).

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    TypeError
        The model is not made of gpuboost's trees.
    ValueError
        ``kind`` is neither 'gain' nor 'count'.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuboost import RandomForestClassifier
    >>> from gpuboost.explain import feature_importances
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
    >>> feature_importances(forest, "count").shape
    (4,)
    """
    one_of("kind", kind, IMPORTANCES)
    check_is_fitted(estimator)
    own = getattr(estimator, "_boosting", None) or estimator
    model: Any = getattr(own, "_model", None)
    if not hasattr(model, "importances"):
        raise TypeError(
            f"feature_importances takes a model of gpuboost's trees, got {estimator!r:.80}; use "
            "sklearn.inspection.permutation_importance for other models"
        )
    return model.importances(own.n_features_in_, kind)
