"""Pruning of fitted estimators: reduced-error pruning, and paths of cost-complexity pruning."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch

from gpuboost.data.arrays import copied_to_host
from gpuboost.data.class_labels import codes_among
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.pruning import pruning_path
from gpuboost.engine.growth.reduced_error import ClassRows, ValueRows, reduced_error_pruned
from gpuboost.estimators.inputs.features import read_targets
from gpuboost.estimators.inputs.targets import ValueLabels
from gpuboost.estimators.model.fitted import FittedTrees


def prune(self: Any, X_val: Any, y_val: Any, sample_weight: Any = None) -> Any:
    """Prune the trees by their errors on held-out rows (reduced-error pruning, Quinlan 1987).

    From the bottom up, a split is removed unless the rows below it have a smaller loss with it than
    without it; of equal losses, the smaller tree wins. So the loss of a tree on the held-out rows
    never rises, and no other pruned subtree has a smaller one. In an ensemble, each tree is pruned
    on its own, which does not minimise the loss of the ensemble.

    The loss of a classifier is the weight of the rows whose class is not the most probable class of
    their leaf; that of a regressor is the weighted squared error. With several outputs, losses are
    added up. They are compared as exact integers, so the result does not depend on the device, the
    number of threads or the order of the rows.

    The held-out rows choose the trees, so a score on these rows is too good: score the result on
    other rows. Rows that the trees were grown on hardly prune them.

    Parameters
    ----------
    X_val : array-like, sparse matrix, data frame or Dataset of shape (n_samples, n_features)
        Features of the held-out rows.
    y_val : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets of the held-out rows; classes must be known from `fit`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the held-out rows.

    Returns
    -------
    estimator
        A fitted copy with the smaller trees. Out-of-bag estimates of the larger trees are not part
        of it. This estimator does not change.

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    TypeError, ValueError
        An argument does not fit the model; the message says what is allowed.
    RuntimeError
        The device cannot be used here; the message says why.
    """
    leaves = copy_to_host(self._run(X_val, FittedTrees.apply))
    rows = known_rows(self, y_val, sample_weight, len(leaves), what="y_val")
    model = self._model
    ensemble = Ensemble.of(
        reduced_error_pruned(tree, rows.losses(tree, leaves[:, number]))
        for number, tree in enumerate(model.ensemble.trees)
    )
    pruned = copy(self)
    facts = {name: vars(self)[name] for name in self._fitted_names if not name.startswith("oob_")}
    pruned._adopt({**facts, "_model": replace(model, ensemble=ensemble)})
    return pruned


def refuse_to_prune(self: Any, X_val: Any, y_val: Any, sample_weight: Any = None) -> Any:
    """Boosting has no reduced-error pruning: each tree corrects the errors of those before it.

    Raises
    ------
    TypeError
        Always; the message says what to use instead.
    """
    raise TypeError(
        f"{type(self).__name__} has no reduced-error pruning: each of its trees was grown to "
        "correct the errors of the trees before it, so a tree has no held-out loss of its own, and "
        "a pruned tree would have changed all trees after it. Choose the number of rounds by "
        "held-out rows (early stopping, or staged_predict), or prune each tree before the next one "
        "grows, by ccp_alpha where there is this parameter (in AdaBoost, that of estimator)"
    )


def member_pruning_paths(self: Any, X: Any, y: Any, sample_weight: Any = None) -> list[Bunch]:
    """Values of ``ccp_alpha`` at which pruning removes splits, for each tree of the ensemble.

    A copy of this estimator is fitted with ``ccp_alpha=0`` (in bagging and AdaBoost, that of the
    base tree). In boosting and AdaBoost, a pruned tree changes the trees after it, so the paths are
    those of the trees that grow without pruning.

    Returns
    -------
    list of Bunch
        For each tree, in their order, ``ccp_alphas``, ascending from 0, and ``impurities``, the
        total impurity of the leaves for each value. The trees of gradient boosting have no
        impurity: it is NaN.
    """
    whole = clone(self)
    if hasattr(self, "ccp_alpha"):
        whole.set_params(ccp_alpha=0.0)
    elif self.estimator is not None:
        whole.set_params(estimator=clone(self._tree).set_params(ccp_alpha=0.0))
    whole.set_params(callbacks=None).fit(X, y, sample_weight)
    return [path_of(tree) for tree in whole._ensemble.trees]


def refuse_pruning_paths(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Boosting without ``ccp_alpha`` has no paths of cost-complexity pruning.

    Raises
    ------
    TypeError
        Always; the message says what to use instead.
    """
    raise TypeError(
        f"{type(self).__name__} has no cost_complexity_pruning_path, since it has no parameter "
        "ccp_alpha; use GradientBoostingClassifier or GradientBoostingRegressor, which have both"
    )


def path_of(tree: Any) -> Bunch:
    """The path of a finished tree."""
    alphas, impurities = pruning_path(tree)
    return Bunch(ccp_alphas=alphas, impurities=impurities)


def known_rows(
    estimator: Any, y: Any, sample_weight: Any, n_samples: int, *, what: str
) -> ClassRows | ValueRows:
    """Checked targets and weights of rows that a fitted estimator has predicted, on the host.

    ``what`` is the name of y in errors.
    """
    y, sample_weight = copied_to_host(y, sample_weight)
    labels, weights = read_targets(estimator._read_labels, y, sample_weight, n_samples)
    if labels.n_outputs != estimator.n_outputs_:
        raise ValueError(
            f"{what} has {labels.n_outputs} outputs, but {type(estimator).__name__} was fitted on "
            f"{estimator.n_outputs_}; both must have the same number of outputs"
        )
    weights = np.ones(n_samples) if weights is None else weights
    columns = labels.rows.reshape(n_samples, -1)
    if isinstance(labels, ValueLabels):
        return ValueRows(columns, weights)
    several = estimator.n_outputs_ > 1
    known = estimator.classes_ if several else [estimator.classes_]
    given: Any = labels.classes if several else [labels.classes]
    codes = [
        codes_among(own, column, classes, what)
        for own, column, classes in zip(known, columns.T, given, strict=True)
    ]
    return ClassRows(np.stack(codes, axis=1), weights)
