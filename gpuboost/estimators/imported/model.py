"""Trees of another library, and how it adds up their leaves."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.data.arrays import to_module_of
from gpuboost.data.frames import FeatureSchema
from gpuboost.engine.array_modules import array_module, copy_to_host, working_on
from gpuboost.engine.bins import BinMapper, PickledByFields
from gpuboost.engine.ensembles.adaboost import weighted_median
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.numerics import exp, log
from gpuboost.estimators.imported.columns import SplitColumns

LIGHTGBM_NAME = "LightGBM"
ALL_COLUMNS = -1  # of raw predictions
# How a classifier chooses a class: the most probable one, or the one of the largest raw prediction.
# If there is one raw prediction for two classes, the second one is chosen from 0 on, or above 0.
BY_PROBABILITY, FROM_ZERO, ABOVE_ZERO = "probability", "raw >= 0", "raw > 0"
DECISIONS = (BY_PROBABILITY, FROM_ZERO, ABOVE_ZERO)
SOFTPLUS_IS_LINEAR = 40.0  # log(1 + exp(x)) rounds to x from here on
LEAVES_OF_A_BLOCK = 2**24  # rows times trees, or rows times columns that trees split on


@dataclass(frozen=True, eq=False)
class LeafSum:
    """How raw predictions are computed from the values of leaves, in the order of the trees.

    Attributes
    ----------
    column : int32 (n_trees,)
        Column of raw predictions that each tree adds to; `ALL_COLUMNS` if its leaves have a value
        for each.
    base : float64 (n_columns,)
        Added before the first tree, in the type of the sums, or after the last one, in float64.
    base_first : bool
        Whether the base is added before the first tree.
    divisor : float
        The sum of the trees is divided by this number before a base that comes last is added.
    float32 : bool
        Whether sums are float32, not float64.
    median_weights : float64 (n_trees,) or None
        If given, the raw prediction is not a sum, but the weighted median of the trees' values, as
        in AdaBoost.R2.
    """

    column: np.ndarray
    base: np.ndarray
    base_first: bool = True
    divisor: float = 1.0
    float32: bool = False
    median_weights: np.ndarray | None = None

    @property
    def dtype(self) -> type:
        """Type of the sums."""
        return np.float32 if self.float32 else np.float64

    def update_hash(self, sha: Any) -> None:
        """Update a `hashlib` object with all rules."""
        sha.update(f"{self.base_first} {self.divisor!r} {self.float32}".encode())
        sha.update(self.column.astype("<i4").tobytes() + self.base.astype("<f8").tobytes())
        if self.median_weights is not None:
            sha.update(b"median" + self.median_weights.astype("<f8").tobytes())


@dataclass(frozen=True)
class PredictionLink:
    """How predictions are made of raw predictions.

    Attributes
    ----------
    name : str
        One of `LINKS`.
    scale : float
        Factor of raw predictions in a sigmoid.
    divisor : float
        Raw predictions are divided by this number first.
    """

    name: str
    scale: float = 1.0
    divisor: float = 1.0


@dataclass(frozen=True, eq=False)
class ImportedTrees(PickledByFields):
    """A fitted model of another library.

    Attributes
    ----------
    ensemble : Ensemble
        The trees; ``x <= threshold`` goes left.
    columns : SplitColumns
        The columns that the trees split on.
    leaf_sum : LeafSum
        How leaves are added up.
    link : PredictionLink
        Makes predictions of raw predictions.
    schema : FeatureSchema
        The columns of X; categories, if the source knows their names.
    source : str
        Name of the library.
    decision : {BY_PROBABILITY, FROM_ZERO, ABOVE_ZERO}
        How a classifier of one output chooses a class.
    """

    ensemble: Ensemble
    columns: SplitColumns
    leaf_sum: LeafSum
    link: PredictionLink
    schema: FeatureSchema
    source: str
    decision: str = BY_PROBABILITY

    @cached_property
    def mapper(self) -> BinMapper:
        """Bins of the columns of the trees, one each: imported models do not predict on codes."""
        return bins_of(self.columns)

    @cached_property
    def _values(self) -> list[np.ndarray]:
        """Values of the nodes of each tree, in the type of the sums."""
        return [tree.value.astype(self.leaf_sum.dtype) for tree in self.ensemble.trees]

    def additive(self, has_background: bool) -> AdditiveModel:
        """The sum of trees that raw predictions are, for explanations; always the same object."""
        if self.leaf_sum.median_weights is not None:
            raise ValueError(
                "this model predicts the weighted median of its trees, which is not a sum of "
                "trees, so it has no exact SHAP values; explain its predictions with "
                "shap.Explainer(model, X)"
            )
        if not has_background and not self._covers(self._additive_model.cover):
            raise ValueError(
                f"this model of {self.source} does not have the weight of the training rows in "
                "each node; pass background rows: shap_values(X, background=X_train[:100])"
            )
        return self._additive_model

    def _covers(self, cover: np.ndarray) -> bool:
        """Whether all nodes with a split have weights or counts."""
        return bool((cover[self.ensemble.left != 0] > 0).all())

    @cached_property
    def _additive_model(self) -> AdditiveModel:
        rule, ensemble = self.leaf_sum, self.ensemble
        # LightGBM's own SHAP values use counts in place of hessians.
        has_weights = self.source != LIGHTGBM_NAME and self._covers(ensemble.weight)
        return AdditiveModel(
            ensemble=ensemble,
            cover=ensemble.weight if has_weights else ensemble.count.astype(np.float64),
            first_output=np.where(rule.column == ALL_COLUMNS, 0, rule.column).astype(np.int32),
            base=rule.base,
            divisor=float(rule.divisor),
            feature_of_column=np.array([each.source for each in self.columns.columns], dtype=int),
            n_features=self.schema.n_features,
        )

    def apply(self, X: Any, backend: Backend, n_threads: int) -> Any:
        """Leaf of each row in each tree, numbered breadth-first: int32 (n, n_trees)."""
        return backend.apply(self.ensemble, self.columns.of(X), n_threads)

    def raw(self, X: Any, backend: Backend, n_threads: int) -> Any:
        """Raw predictions, in the type of the sums: (n, n_columns)."""
        width = max(self.ensemble.n_trees, len(self.columns.columns))
        size = max(1, LEAVES_OF_A_BLOCK // width)
        starts = range(0, max(len(X), 1), size)
        found = [self._raw(X[s : s + size], backend, n_threads) for s in starts]
        with working_on(found[0]):
            return array_module(found[0]).concatenate(found)

    def _raw(self, X: Any, backend: Backend, n_threads: int) -> Any:
        leaves, rule = self.apply(X, backend, n_threads), self.leaf_sum
        if rule.median_weights is not None:
            return self._median(leaves, rule.median_weights)
        with working_on(leaves):
            xp = array_module(leaves)
            base, total = xp.asarray(rule.base), xp.zeros((len(leaves), len(rule.base)), rule.dtype)
            if rule.base_first:
                total += base.astype(rule.dtype)
            for tree, (values, column) in enumerate(zip(self._values, rule.column, strict=True)):
                own = xp.asarray(values)[leaves[:, tree]]
                if column == ALL_COLUMNS:
                    total += own
                else:
                    total[:, column] += own[:, 0]
            if rule.divisor != 1.0:
                total /= rule.dtype(rule.divisor)
            return total if rule.base_first else (total + base).astype(rule.dtype)

    def _median(self, leaves: Any, weights: np.ndarray) -> Any:
        """Weighted medians of the trees' values, on the device of the leaves: (n, 1)."""
        pairs = zip(self._values, copy_to_host(leaves).T, strict=True)
        by_tree = np.array([own[leaf, 0] for own, leaf in pairs])
        with working_on(leaves):
            return to_module_of(weighted_median(by_tree.T, weights)[:, None], leaves)

    def class_indices(self, raw: Any) -> np.ndarray:
        """Indices of the classes that raw predictions choose, on the host: int64 (n,)."""
        raw = copy_to_host(raw)
        if raw.shape[1] > 1:
            return raw.argmax(axis=1)
        is_second = raw >= 0.0 if self.decision == FROM_ZERO else raw > 0.0
        return is_second[:, 0].astype(np.int64)

    def importances(self, n_features: int, kind: str = "gain") -> np.ndarray:
        """Fraction of the total gain, or of the number of splits, per feature: (n_features,)."""
        inner = self.ensemble.feature >= 0
        sources = np.array([column.source for column in self.columns.columns], dtype=int)
        gains = self.ensemble.impurity_decrease[inner]
        total = np.zeros(n_features)
        of_split = gains if kind == "gain" else 1.0
        np.add.at(total, sources[self.ensemble.feature[inner]], of_split)
        return total / total.sum() if total.sum() > 0.0 else total

    def fingerprint(self) -> str:
        """SHA-256 of the trees and of all rules of prediction, in hexadecimal."""
        sha = hashlib.sha256(self.ensemble.fingerprint(self.mapper).encode())
        self.columns.update_hash(sha)
        self.leaf_sum.update_hash(sha)
        sha.update(repr(self.link).encode())
        self.schema.update_hash(sha)
        if self.decision != BY_PROBABILITY:
            sha.update(self.decision.encode())
        return sha.hexdigest()


def bins_of(columns: SplitColumns) -> BinMapper:
    """Bins of the columns that trees split on, one each."""
    is_categorical = columns.is_categorical
    one, zero = np.ones(len(is_categorical), np.int32), np.zeros(len(is_categorical))
    return BinMapper(one, zero, zero, is_categorical)


# ---- from raw predictions to predictions ---------------------------------------------------------


def _sigmoid(raw: Any, scale: float) -> Any:
    return 1.0 / (1.0 + exp(-scale * raw))


def _softmax(raw: Any, scale: float) -> Any:
    weights = exp(raw - raw.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _softplus(raw: Any, scale: float) -> Any:
    small = np.minimum(raw, SOFTPLUS_IS_LINEAR)
    return np.where(raw > SOFTPLUS_IS_LINEAR, raw, log(1.0 + exp(small)))


LINKS = {
    "identity": lambda raw, scale: raw,
    "exp": lambda raw, scale: exp(raw),
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "signed_square": lambda raw, scale: np.sign(raw) * raw * raw,
    "softplus": _softplus,
    "positive": lambda raw, scale: (raw > 0.0).astype(np.float64),
}


def predictions_of(model: ImportedTrees, raw: Any) -> Any:
    """Predictions of raw predictions, on their device: float64 (n, n_columns).

    Links are computed on the host, so that all devices give the same bits.
    """
    link = model.link
    on_host = copy_to_host(raw).astype(np.float64) / link.divisor
    with working_on(raw):
        return to_module_of(LINKS[link.name](on_host, link.scale), raw)
