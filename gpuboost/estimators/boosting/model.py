"""A fitted model of gradient boosting, and its predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.backends.device_arrays import inverse_link
from gpuboost.backends.host.binned import code_blocks
from gpuboost.backends.protocol import Backend
from gpuboost.data.sparse_features import Features, SparseFeatures
from gpuboost.engine.array_modules import array_module, copy_to_host, working_on
from gpuboost.engine.bins import BinnedMatrix, SparseCodes
from gpuboost.engine.ensembles.ensemble import Ensemble, impurity_decrease_per_feature
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.growth.tree import Tree, on_features
from gpuboost.engine.losses import Loss
from gpuboost.estimators.model.fitted import FittedTrees, run_in_blocks, sum_of_trees

ROWS_OF_A_BLOCK = 2**16  # whose leaves in all trees are held at a time


@dataclass(frozen=True, eq=False)
class BoostedRounds(FittedTrees):
    """Trees of all rounds, whose leaf values are added to raw predictions.

    Attributes
    ----------
    loss : Loss
        The loss that was minimised.
    baseline : float64 (columns,)
        Raw prediction before the first round, without the predictions of ``init``.
    trees_per_round : int
        Number of trees of a round. Trees k, k + trees_per_round, ... add to column k; if there is
        one tree per round, it adds to all columns.
    init : estimator or None
        Fitted estimator whose predictions boosting starts from.
    """

    loss: Loss
    baseline: np.ndarray
    trees_per_round: int
    init: Any = None

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return self.ensemble.n_trees // self.trees_per_round

    @cached_property
    def columns(self) -> tuple[Ensemble, ...]:
        """The trees of each column of raw predictions; all trees if each adds to all columns."""
        k = self.trees_per_round
        if k == 1:
            return (self.ensemble,)
        return tuple(Ensemble.of(self.ensemble.trees[c::k]) for c in range(k))

    def first_rounds(self, n: int) -> BoostedRounds:
        """The model of the first ``n`` rounds; repeated calls return the same object."""
        found = self._shorter.get(n)
        if found is None:
            found = replace(self, ensemble=self.ensemble.first(n * self.trees_per_round))
            self.__dict__["_shorter"] = {n: found}  # keeps one
        return found

    @cached_property
    def _shorter(self) -> dict[int, BoostedRounds]:
        """The last result of `first_rounds`, by its number of rounds."""
        return {}

    def raw(self, data: Features | BinnedMatrix, backend: Backend, n_threads: int) -> np.ndarray:
        """Sum of the trees' values, without the baseline: float64 (n, columns)."""
        return _sums(self.columns, data, backend, n_threads)

    def _additive(self, voting: str) -> AdditiveModel:
        if self.init is not None:
            raise ValueError(
                f"the raw predictions start from those of init={type(self.init).__name__}(), which "
                "SHAP values of trees do not explain; fit without init, or explain the predictions "
                "with shap.Explainer(model, X)"
            )
        n_features, n_columns = self.schema.n_features, self.trees_per_round
        return sum_of_trees(self.ensemble, n_features, self.baseline, n_columns=n_columns)

    def continued(
        self, data: np.ndarray | BinnedMatrix, start: np.ndarray, backend: Backend, n_threads: int
    ) -> np.ndarray:
        """``start`` (n, columns) plus the trees' values, added in the order of a fit.

        So raw predictions have the bits that they had after the last round of that fit.
        """
        raw, k, trees = np.array(start), self.trees_per_round, self.ensemble.trees
        for rows, block in _blocks(data):
            ensemble = self.ensemble.on_codes if isinstance(data, BinnedMatrix) else self.ensemble
            leaves = copy_to_host(backend.apply(ensemble, block, n_threads))
            for number, tree in enumerate(trees):
                column = number % k
                own = raw[rows, column : column + tree.value.shape[1]]
                own += tree.value[leaves[:, number]]
        return raw

    def staged_raw(
        self, data: Features | BinnedMatrix, backend: Backend, n_threads: int
    ) -> Iterator[np.ndarray]:
        """`raw` after each round; the next array is computed from this one, so do not change it."""
        k = self.trees_per_round
        total: Any = 0.0
        if isinstance(data, SparseFeatures):
            data = data.by_column()
        for number in range(self.n_rounds):
            own, trees = _used_features(data, self.ensemble.trees[number * k : (number + 1) * k])
            found = _sums([Ensemble.of((tree,)) for tree in trees], own, backend, n_threads)
            with working_on(found):
                total = total + found
            yield total

    def fingerprint(self) -> str:
        """SHA-256 of `FittedTrees.fingerprint`, the number of trees per round and the baseline."""
        own = f"{super().fingerprint()}{self.trees_per_round}".encode()
        return hashlib.sha256(own + np.ascontiguousarray(self.baseline).tobytes()).hexdigest()

    def _gain_importances(self, n_features: int) -> np.ndarray:
        """Fraction of the total gain of each feature's splits."""
        total = np.zeros(n_features)
        for tree in self.ensemble.trees:
            total += impurity_decrease_per_feature(tree, n_features)
        return total / total.sum() if total.sum() > 0 else total


def model_facts(model: BoostedRounds) -> dict[str, Any]:
    """The fitted attributes that show fields of the model."""
    of_init = {} if model.init is None else {"init_": model.init}
    return {
        "n_estimators_": model.n_rounds,
        "n_trees_per_iteration_": model.trees_per_round,
        "baseline_": model.baseline,
        **of_init,
    }


def hist_facts(boosting: Any) -> dict[str, Any]:
    """The fitted attributes of `HistGradientBoosting*` that follow from its `GradientBoosting*`."""
    is_categorical = boosting._model.schema.is_categorical
    names = ("classes_", "feature_names_in_", "n_features_in_", "device_")
    return {
        **{name: getattr(boosting, name) for name in names if hasattr(boosting, name)},
        "_boosting": boosting,
        "n_iter_": boosting.n_estimators_,
        "n_trees_per_iteration_": boosting.n_trees_per_iteration_,
        "is_categorical_": is_categorical if is_categorical.any() else None,
    }


def predictions(loss: Loss, raw: np.ndarray) -> np.ndarray:
    """Predictions from raw predictions, by the inverse link or the ``predict`` of a user's loss.

    They are computed on the device of the raw predictions.
    """
    if loss.has_formula:
        return inverse_link(loss.facts.link, raw)
    with working_on(raw):
        return loss.predict(raw)


def _blocks(data: np.ndarray | BinnedMatrix) -> Iterator[tuple[slice, np.ndarray]]:
    """Some rows after another, as columns or codes."""
    if isinstance(data, BinnedMatrix):
        yield from code_blocks(data)
        return
    for start in range(0, len(data), ROWS_OF_A_BLOCK):
        rows = slice(start, start + ROWS_OF_A_BLOCK)
        yield rows, data[rows]


def _used_features(
    data: Features | BinnedMatrix, trees: Sequence[Tree]
) -> tuple[Features | BinnedMatrix, Sequence[Tree]]:
    """Sparse features that some trees split on, and the trees with the numbers of these.

    Predictions make these features dense, which takes less time than for all. The first feature is
    kept even if no tree splits on it. Data that is not sparse and its trees are returned as given.
    """
    used = np.unique(np.concatenate([np.maximum(tree.feature, 0) for tree in trees]))
    own: Features | BinnedMatrix
    if isinstance(data, SparseFeatures):
        own = data.select(used)
    elif isinstance(data, BinnedMatrix) and isinstance(data.stored, SparseCodes):
        own = replace(data, stored=data.stored.columns(used), n_missing=data.n_missing[used])
    else:
        return data, trees
    return own, [on_features(tree, used) for tree in trees]


def _sums(
    parts: Any, data: Features | BinnedMatrix, backend: Backend, n_threads: int
) -> np.ndarray:
    """Sums of the trees' values: float64 (n, columns), with the columns of all parts in order."""
    if isinstance(data, BinnedMatrix):
        parts = [part.on_codes for part in parts]

    def run(block: np.ndarray) -> np.ndarray:
        found = [backend.predict(part, block, n_threads) for part in parts]
        xp = array_module(found[0])
        with working_on(found[0]):
            return found[0] if len(found) == 1 else xp.concatenate(found, axis=1)

    return run_in_blocks(data, run)
