"""Fitted trees and ensembles of scikit-learn.

Trees of scikit-learn round X to float32 and compare with float64 thresholds; those of
HistGradientBoosting compare float64 and have categories. Sums are float64, in the order of the
trees, as scikit-learn computes them in one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import sklearn.ensemble
import sklearn.tree
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.arrays import is_missing_label
from gpuboost.estimators.imported.columns import KNOWN
from gpuboost.estimators.imported.estimators import ImportedEstimator
from gpuboost.estimators.imported.model import (
    ABOVE_ZERO,
    ALL_COLUMNS,
    BY_PROBABILITY,
    FROM_ZERO,
    ImportedTrees,
    LeafSum,
    PredictionLink,
)
from gpuboost.interchange.fields import no_schema, numbered, with_categories
from gpuboost.interchange.trees import LEAF_CHILD, CategorySplit, SourceTree, ensemble_of

SKLEARN_NAME = "scikit-learn"
_TREES = sklearn.tree.BaseDecisionTree
KINDS = (
    "decision trees, extra-trees, random forests, bagging and AdaBoost of trees, "
    "GradientBoosting* and HistGradientBoosting*"
)


def from_sklearn(estimator: Any) -> ImportedEstimator:
    """A fitted tree or ensemble of scikit-learn as an estimator of gpuboost.

    Raw predictions are equal to those of scikit-learn with ``n_jobs=1``, bit for bit.

    Parameters
    ----------
    estimator : estimator
        A decision tree, extra-tree, random forest, extra-trees, bagging or AdaBoost of such trees,
        GradientBoosting* or HistGradientBoosting* of scikit-learn.

    Returns
    -------
    ImportedClassifier or ImportedRegressor

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        If it has something that cannot be kept: base learners that are not trees, or an ``init``
        estimator that is not constant.
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    """
    if not type(estimator).__module__.startswith("sklearn."):
        raise TypeError(f"from_sklearn takes {KINDS} of scikit-learn, got {estimator!r:.80}")
    check_is_fitted(estimator)
    read = next((read for kinds, read in _READERS if isinstance(estimator, kinds)), None)
    if read is None:
        raise TypeError(f"from_sklearn takes {KINDS}, got {estimator!r:.80}")
    model = read(estimator)
    classes = estimator.classes_ if is_classifier(estimator) else None
    several = classes is None or isinstance(classes, list)
    return ImportedEstimator.of(model, classes if several else np.asarray(classes))


def _mean_of_trees(estimator: Any) -> ImportedTrees:
    """The model of a tree, or of trees whose predictions are averaged."""
    members = [estimator] if isinstance(estimator, _TREES) else list(estimator.estimators_)
    features = getattr(estimator, "estimators_features_", [None] * len(members))
    for number, member in enumerate(members):
        _check_member(estimator, member)
        if is_classifier(estimator) and not np.array_equal(member.n_classes_, estimator.n_classes_):
            raise ValueError(
                f"tree {number} of this {type(estimator).__name__} saw only {member.n_classes_} of "
                f"{estimator.n_classes_} classes, and its probabilities cannot be averaged with "
                "those of the others; fit with larger samples"
            )
    trees = [_tree(m.tree_, 1.0, own) for m, own in zip(members, features, strict=True)]
    base = np.zeros(trees[0].value.shape[1])
    column = np.full(len(trees), ALL_COLUMNS, dtype=np.int32)
    rule = LeafSum(column, base, divisor=float(len(trees)))
    return _model(estimator, trees, rule, PredictionLink("identity"))


def _check_member(estimator: Any, member: Any) -> None:
    """Check that a base learner is a tree."""
    if not isinstance(member, _TREES):
        raise ValueError(
            f"only {type(estimator).__name__} of decision trees can be imported, got one of "
            f"{type(member).__name__}"
        )


def _adaboost(estimator: Any) -> ImportedTrees:
    """The model of AdaBoost, of whose trees not all may have been fitted."""
    members = estimator.estimators_
    for member in members:
        _check_member(estimator, member)
    weights = np.asarray(estimator.estimator_weights_, dtype=np.float64)
    trees = [_tree(member.tree_, 1.0) for member in members]
    if not is_classifier(estimator):
        column = np.zeros(len(trees), dtype=np.int32)
        rule = LeafSum(column, np.zeros(1), median_weights=weights[: len(trees)])
        return _model(estimator, trees, rule, PredictionLink("identity"))
    classes = estimator.classes_
    for tree, member, weight in zip(trees, members, weights.tolist(), strict=False):
        tree.value = _votes(tree.value, member.classes_, weight, classes)
    width, link = 1, PredictionLink("sigmoid")
    if len(classes) > 2:
        width, link = len(classes), PredictionLink("softmax", divisor=len(classes) - 1.0)
    column = np.full(len(trees), ALL_COLUMNS if width > 1 else 0, dtype=np.int32)
    rule = LeafSum(column, np.zeros(width), divisor=float(weights.sum()))
    decision = ABOVE_ZERO if len(classes) > 1 else BY_PROBABILITY
    return replace(_model(estimator, trees, rule, link), decision=decision)


def _votes(
    value: np.ndarray, of_tree: np.ndarray, weight: float, classes: np.ndarray
) -> np.ndarray:
    """Votes of the nodes: the weight w for a class, and -w / (K - 1) for each other class.

    Of two classes, there is one column: that of the second class, which is minus the first, twice.
    """
    if len(classes) == 1:
        return np.full((len(value), 1), weight)
    voted = np.searchsorted(classes, of_tree)[value.argmax(axis=1)]
    others = -1 / (len(classes) - 1) * weight
    votes = np.where(voted[:, None] == np.arange(len(classes)), weight, others)
    return 2.0 * votes[:, 1:] if len(classes) == 2 else votes


def _tree(tree: Any, factor: float, features: Any = None) -> SourceTree:
    """A tree of scikit-learn, with its values times ``factor``."""
    m, left, right = tree.node_count, tree.children_left, tree.children_right
    feature = np.maximum(tree.feature, 0)
    feature = feature if features is None else np.asarray(features)[feature]
    value = tree.value.reshape(m, -1)  # outputs have equally many columns of classes
    cost, inner = tree.weighted_n_node_samples * tree.impurity, left != LEAF_CHILD
    gain = np.zeros(m)
    gain[inner] = cost[inner] - cost[left[inner]] - cost[right[inner]]
    return SourceTree(
        left.astype(np.int64),
        right.astype(np.int64),
        np.where(inner, feature, -1),
        tree.threshold,
        getattr(tree, "missing_go_to_left", np.zeros(m)).astype(bool),
        factor * value,
        gain=np.maximum(gain, 0.0) / tree.weighted_n_node_samples[0],
        weight=tree.weighted_n_node_samples,
        count=tree.n_node_samples,
    )


def _boosting(estimator: Any) -> ImportedTrees:
    """The model of GradientBoosting*."""
    is_constant = isinstance(estimator.init_, (DummyClassifier, DummyRegressor))
    if not (is_constant or estimator.init_ == "zero"):
        raise ValueError(
            f"init={estimator.init_!r:.80} predicts from X, which an imported model cannot do; fit "
            "with init=None or init='zero'"
        )
    stages = estimator.estimators_
    base = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_)))[0]
    trees = [_tree(own.tree_, estimator.learning_rate) for own in stages.ravel()]
    column = np.arange(len(trees), dtype=np.int32) % stages.shape[1]
    link = _link(estimator, stages.shape[1])
    if estimator.loss == "exponential":
        link = replace(link, scale=2.0)
    model = _model(estimator, trees, LeafSum(column, base), link)
    return replace(model, decision=FROM_ZERO) if is_classifier(estimator) else model


def _link(estimator: Any, n_columns: int) -> PredictionLink:
    """The link of the losses of boosting."""
    if is_classifier(estimator):
        return PredictionLink("sigmoid" if n_columns == 1 else "softmax")
    return PredictionLink("exp" if estimator.loss in ("poisson", "gamma") else "identity")


def _model(
    estimator: Any,
    trees: list[SourceTree],
    rule: LeafSum,
    link: PredictionLink,
    codes: dict[int, np.ndarray] | None = None,
) -> ImportedTrees:
    """The model of trees; ``codes`` are all categories by feature if it compares float64."""
    n_features = estimator.n_features_in_
    ensemble, columns = ensemble_of(trees, n_features, codes is None, KNOWN, codes)
    schema = no_schema(n_features, getattr(estimator, "feature_names_in_", None))
    return ImportedTrees(ensemble, columns, rule, link, schema, SKLEARN_NAME)


# ---- HistGradientBoosting ----------------------------------------------------------------------


def _histogram_boosting(estimator: Any) -> ImportedTrees:
    """The model of HistGradientBoosting*, whose categories come before its numbers."""
    is_categorical = np.zeros(estimator.n_features_in_, dtype=bool)
    known: dict[int, dict[Any, int]] = {}
    if estimator._preprocessor is not None:
        is_categorical = np.asarray(estimator.is_categorical_, dtype=bool)
        encoder = estimator._preprocessor.named_transformers_["encoder"]
        for feature, own in zip(np.flatnonzero(is_categorical), encoder.categories_, strict=True):
            pairs = numbered(np.asarray(own).tolist()).items()
            known[int(feature)] = {each: code for each, code in pairs if not is_missing_label(each)}
    sources = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
    trees = [_histogram_tree(own, sources) for stage in estimator._predictors for own in stage]
    codes = {feature: np.array(sorted(own.values())) for feature, own in known.items()}
    n_columns = estimator.n_trees_per_iteration_
    column = np.arange(len(trees), dtype=np.int32) % n_columns
    base = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    rule = LeafSum(column, np.broadcast_to(base, (n_columns,)).copy())
    model = _model(estimator, trees, rule, _link(estimator, n_columns), codes)
    decision = ABOVE_ZERO if is_classifier(estimator) else BY_PROBABILITY
    return replace(model, schema=with_categories(model.schema, known), decision=decision)


def _histogram_tree(predictor: Any, sources: np.ndarray) -> SourceTree:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    sides = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    left, right = (np.where(is_leaf, LEAF_CHILD, side) for side in sides)
    by_category = {}
    for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf).tolist():
        bits = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        inside = np.unpackbits(np.ascontiguousarray(bits, "<u4").view(np.uint8), bitorder="little")
        by_category[node] = CategorySplit(frozenset(np.flatnonzero(inside).tolist()), True)
    return SourceTree(
        left,
        right,
        np.where(is_leaf, -1, sources[np.where(is_leaf, 0, nodes["feature_idx"])]),
        nodes["num_threshold"],
        nodes["missing_go_to_left"].astype(bool),
        nodes["value"][:, None],
        by_category=by_category,
        gain=np.maximum(nodes["gain"], 0.0),
        count=nodes["count"].astype(np.int64),
    )


def _classes_of(*kinds: str) -> tuple[type, ...]:
    """The classifiers and regressors of scikit-learn's ensembles."""
    endings = ("Classifier", "Regressor")
    return tuple(getattr(sklearn.ensemble, kind + ending) for kind in kinds for ending in endings)


_READERS: tuple[tuple[tuple[type, ...], Callable[[Any], ImportedTrees]], ...] = (
    (_classes_of("HistGradientBoosting"), _histogram_boosting),
    (_classes_of("GradientBoosting"), _boosting),
    (_classes_of("AdaBoost"), _adaboost),
    ((_TREES, *_classes_of("RandomForest", "ExtraTrees", "Bagging")), _mean_of_trees),
)
