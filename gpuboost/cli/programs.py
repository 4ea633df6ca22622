"""The programs that ``gpuboost warmup`` compiles, each with fits that need all of its functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import gpuboost

FIT_FEATURES = 6
# Boosting grows small tables depth-first and larger ones by levels; from SHARED_TABLE_ROWS rows on,
# threads share the work.
DEPTH_FIRST_ROWS, LEVEL_WISE_ROWS, SHARED_TABLE_ROWS = 300, 5_000, 20_000
CELL_ROWS = 140_000  # of a table whose bins are found from radix cells
REGRESSOR, CLASSIFIER = "GradientBoostingRegressor", "GradientBoostingClassifier"
TREES = ("DecisionTree", "ExtraTree")
# Shares of rows below the second and later classes. So many classes have sparse sums.
SHARES: dict[str, Any] = {"two": [0.5], "three": [0.4, 0.7], "many": np.arange(1, 100) / 100}


@dataclass(frozen=True)
class ProgramFit:
    """A fit, and predictions of its model.

    Attributes
    ----------
    estimator : str
        Name of the estimator.
    words : dict
        Its parameters.
    target : str
        "values", "positive", "two", "three" or "many" classes, or "outputs".
    n_rows : int
        Number of rows.
    weighted : bool
        Whether the rows have weights.
    dtype : type
        Type of the features.
    n_jobs : int
        Number of threads.
    counted : bool
        Whether the rows have the weights 1, 2 or 3.
    explained : bool
        Whether to compute SHAP values, too.
    """

    estimator: str
    words: dict[str, Any] = field(default_factory=dict)
    target: str = "values"
    n_rows: int = DEPTH_FIRST_ROWS
    weighted: bool = False
    dtype: type = np.float64
    n_jobs: int = 1
    counted: bool = False
    explained: bool = False

    def run(self) -> None:
        """Fit the estimator with Numba, and predict."""
        rng = np.random.default_rng(0)
        X: Any = rng.normal(size=(self.n_rows, FIT_FEATURES)).astype(self.dtype)
        X[:, 1] = rng.integers(4, size=self.n_rows)
        X[::5, 2] = np.nan
        y: Any = X[:, 0] * X[:, 3] + 0.5 * X[:, 1] + rng.normal(size=self.n_rows)
        if self.target == "positive":
            y = y * y + 0.1
        elif self.target == "outputs":
            y = np.column_stack([y, X[:, 0]])
        elif self.target != "values":
            y = np.digitize(y, np.quantile(y, SHARES[self.target]))
        weights: Any = rng.exponential(size=self.n_rows) if self.weighted else None
        weights = rng.integers(1, 4, self.n_rows) if self.counted else weights
        few = {} if self.estimator.startswith(TREES) else {"n_estimators": 3}
        make = getattr(gpuboost, self.estimator)
        model = make(device="numba", n_jobs=self.n_jobs, random_state=0, **few | self.words)
        model.fit(X, y, sample_weight=weights)
        model.predict(X)
        if hasattr(model, "apply"):
            model.apply(X)
        if self.explained:
            model.shap_values(X)
            model.shap_values(X, background=X[:2])
            model.shap_interaction_values(X)


@dataclass(frozen=True)
class Program:
    """Code that is compiled for some fits; ``name`` is also that of its marker file."""

    name: str
    text: str
    fits: Sequence[ProgramFit]


def _of_both(kinds: Sequence[str], **words: Any) -> list[ProgramFit]:
    """Fits of classifiers (two and three classes) and regressors (one and two outputs)."""
    targets = {"Classifier": ("two", "three"), "Regressor": ("values", "outputs")}
    return [
        ProgramFit(kind + suffix, words, target)
        for kind in kinds
        for suffix, own in targets.items()
        for target in own
    ]


def _boosting(n_rows: int, target: str = "values", **words: Any) -> ProgramFit:
    is_class = target in ("two", "three")
    return ProgramFit(CLASSIFIER if is_class else REGRESSOR, words, target, n_rows)


def _of_both_sizes(target: str = "values", **words: Any) -> list[ProgramFit]:
    """Boosting of a table that grows depth-first, and of one that grows by levels."""
    return [_boosting(n_rows, target, **words) for n_rows in (DEPTH_FIRST_ROWS, LEVEL_WISE_ROWS)]


_FITS_OF_CRITERIA = [
    *(
        ProgramFit(f"{kind}Classifier", {"criterion": criterion}, target)
        for kind in TREES
        for criterion in ("entropy", "log_loss", "twoing")
        for target in ("two", "three")
    ),
    *(ProgramFit(f"{kind}Regressor", {"criterion": "poisson"}, "positive") for kind in TREES),
]
_FITS_OF_LOSSES = [
    *_of_both_sizes("positive", loss="log_cosh"),
    *_of_both_sizes("positive", loss="poisson"),
    *_of_both_sizes("positive", loss="gamma"),
    *_of_both_sizes("positive", loss="tweedie"),
    *_of_both_sizes("two", loss="exponential"),
]
_FITS_OF_MEDIANS = [
    *_of_both(("DecisionTree",), max_leaf_nodes=7)[2:],
    *(
        ProgramFit(f"{kind}Regressor", {"criterion": "absolute_error"}, target, weighted=weighted)
        for kind in TREES
        for target in ("values", "outputs")
        for weighted in (False, True)
    ),
    *_of_both_sizes(loss="absolute_error"),
    *_of_both_sizes(loss="huber"),
    *_of_both_sizes(loss="quantile"),
    _boosting(LEVEL_WISE_ROWS, loss="quantile", alpha=[0.2, 0.8]),
]
_FITS_OF_CATEGORIES = [
    *(replace(fit, dtype=dtype)
      for fit in _of_both(TREES, categorical_features=[1]) for dtype in (np.float64, np.float32)),
    *(fit for target in ("values", "two", "three")
      for fit in _of_both_sizes(target, categorical_features=[1])),
]  # fmt: skip
_DEEP: dict[str, Any] = {"n_estimators": 10, "min_samples_leaf": 20}  # many rows per node
_BOUNDED: dict[str, Any] = {"l1_regularization": 1.0, "max_delta_step": 0.5}
_FITS_OF_OPTIONS = [
    _boosting(LEVEL_WISE_ROWS, max_depth=None, min_samples_leaf=2),
    _boosting(LEVEL_WISE_ROWS, max_depth=None, max_features=3, min_samples_leaf=2),
    *_of_both_sizes(max_features=3, subsample=0.6),
    _boosting(LEVEL_WISE_ROWS, max_leaf_nodes=9, interaction_cst="pairwise"),
    _boosting(DEPTH_FIRST_ROWS, "two", max_leaf_nodes=9),
    ProgramFit(REGRESSOR, n_rows=SHARED_TABLE_ROWS, n_jobs=2),
    ProgramFit(REGRESSOR, {"n_estimators": 30}),  # enough trees that values are predicted by codes
    ProgramFit("RandomForestRegressor", _DEEP, n_rows=SHARED_TABLE_ROWS),
    _boosting(LEVEL_WISE_ROWS, monotonic_cst=[1, 0, 0, -1, 0, 0], **_BOUNDED),
    *_of_both_sizes("outputs"),
    *_of_both_sizes("three", multi_strategy="multi_output_tree"),
    _boosting(LEVEL_WISE_ROWS, n_iter_no_change=2, ccp_alpha=0.01),
    *(
        _boosting(DEPTH_FIRST_ROWS, "outputs", **_BOUNDED, **more)
        for more in ({}, {"categorical_features": [1]})
    ),
]
_FITS_OF_FLOAT32 = [
    ProgramFit(name, words, target, dtype=np.float32)
    for name, words, target in (
        ("RandomForestClassifier", {}, "two"),
        ("RandomForestRegressor", {"max_depth": 3}, "values"),
        ("RandomForestClassifier", {"max_depth": 3, "categorical_features": [1]}, "two"),
    )
] + [
    ProgramFit("RandomForestRegressor", _DEEP, n_rows=SHARED_TABLE_ROWS, dtype=np.float32),
    ProgramFit(REGRESSOR, {"n_estimators": 30}, n_rows=LEVEL_WISE_ROWS, dtype=np.float32),
]
_FITS_OF_ADABOOST = [
    ProgramFit(f"AdaBoost{suffix}", {"boosting": boosting}, target)
    for suffix, targets in (("Classifier", ("two", "three")), ("Regressor", ("values",)))
    for boosting in ("reweighting", "resampling")
    for target in targets
]
_FITS_OF_CELLS = [
    ProgramFit("DecisionTreeRegressor", {"max_depth": 1}, "values", CELL_ROWS, weighted, dtype)
    for weighted, dtype in ((False, np.float64), (True, np.float32))
] + [
    ProgramFit("DecisionTreeRegressor", {"max_depth": 1}, dtype=dtype, counted=True)
    for dtype in (np.float64, np.float32)
]
_FOREST = "RandomForestClassifier"
_FITS_OF_CHANNELS = [
    *_of_both(("RandomForest",), oob_score=True, n_estimators=9),
    ProgramFit(_FOREST, {}, "many"),
]
_FITS_OF_CLASSES = [*_of_both_sizes("two"), *_of_both_sizes("three")]

WARM_UP_PROGRAMS = (
    Program("boosting", "a default boosting fit", [_boosting(LEVEL_WISE_ROWS)]),
    Program("forest", "a default forest", [ProgramFit(_FOREST, {}, "two")]),
    Program("more-channels", "forests of several classes", _FITS_OF_CHANNELS),
    Program("boosting-classes", "boosting of several classes", _FITS_OF_CLASSES),
    Program("cells", "tables of 131,072 rows or more", _FITS_OF_CELLS),
    Program("float32", "features in float32", _FITS_OF_FLOAT32),
    Program("random-thresholds", "extra-trees", _of_both(("ExtraTree", "ExtraTrees"))),
    Program("criteria", "other criteria", _FITS_OF_CRITERIA),
    Program("losses", "other losses", _FITS_OF_LOSSES),
    Program("medians", "medians and quantiles", _FITS_OF_MEDIANS),
    Program("categories", "categorical features", _FITS_OF_CATEGORIES),
    Program("more-boosting", "options of boosting", _FITS_OF_OPTIONS),
    Program("adaboost", "AdaBoost", _FITS_OF_ADABOOST),
    Program("shap", "SHAP values", [ProgramFit(REGRESSOR, explained=True)]),
)
