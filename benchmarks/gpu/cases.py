"""The cases measured on a GPU, the most important first; their limits are 1615 s together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from benchmarks.suite.settings import (
    ADABOOST,
    BOOSTING,
    EXTRA_TREES,
    FOREST,
    TREE,
    BoostingOptions,
    Setting,
)
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION

EQUALITY, FIT, HISTOGRAM, PREDICTION = "equality", "fit", "histogram", "prediction"
XGBOOST, CUML, PYBOOST = "XGBoost", "cuML", "Py-Boost"
SECONDS_ON = "seconds on "  # followed by the name of a GPU: a bound on gpuboost's own seconds
SMALL = 500  # --scale small divides the rows by this
SMALL_TREES = 10  # --scale small divides the trees by this
TINY_ROWS, TINY_PREDICTED, TINY_TREES, TINY_DEPTH = 300, 700, 2, 3  # sizes of --scale tiny


@dataclass(frozen=True)
class GpuCase:
    """One case of the benchmark.

    Attributes
    ----------
    name : str
    kind : {"equality", "fit", "histogram", "prediction"}
    rows, features : int
        Size of the training data, or of the data that histograms are made of.
    setting : Setting
    limit : float
        Seconds that the case may take, including its data and warm-up.
    bounds : mapping of str to float
        For the name of a peer, the largest allowed ratio of gpuboost's time to the peer's. For
        "floor", the largest ratio to the minimum time that the device's measured ceilings allow.
        For `SECONDS_ON` followed by the name of a GPU, the seconds that gpuboost may take on it.
    predict_rows : int
        Number of rows whose prediction is timed.
    peers : tuple of str
    maker : str
        Key of `benchmarks.suite.tables.LARGE_MAKERS`; if empty, it follows from the task.
    """

    name: str
    kind: str
    rows: int
    features: int
    setting: Setting
    limit: float
    bounds: Mapping[str, float] = field(default_factory=dict)
    predict_rows: int = 0
    peers: tuple[str, ...] = ()
    maker: str = ""

    @property
    def data(self) -> str:
        """Key of the data's maker in `benchmarks.suite.tables.LARGE_MAKERS`."""
        if self.maker:
            return self.maker
        return "binary" if self.setting.task == CLASSIFICATION else "continuous"

    def sized(self, scale: str) -> GpuCase:
        """The case at a scale of `SCALES`; bounds apply at full size only."""
        return SCALES[scale](self)


def _small(case: GpuCase) -> GpuCase:
    """The case with fewer rows and trees, of the same depth."""
    trees = case.setting.n_estimators
    few = trees if case.setting.family == TREE else max(2, trees // SMALL_TREES)
    return replace(
        case,
        rows=max(400, case.rows // SMALL),
        predict_rows=case.predict_rows // SMALL,
        setting=replace(case.setting, n_estimators=few),
        bounds={},
    )


def _tiny(case: GpuCase) -> GpuCase:
    """The case at a size that a CPU can run in about a second in place of a GPU."""
    setting = replace(
        case.setting,
        n_estimators=min(case.setting.n_estimators, TINY_TREES),
        max_depth=min(case.setting.max_depth or TINY_DEPTH, TINY_DEPTH),
    )
    predicted = min(case.predict_rows, TINY_PREDICTED)
    return replace(case, rows=TINY_ROWS, predict_rows=predicted, setting=setting, bounds={})


SCALES = {"tiny": _tiny, "small": _small, "full": lambda case: case}


def _forest(family: str, depth: int | None, task: str = CLASSIFICATION) -> Setting:
    return Setting(family, task, 100, max_depth=depth)


def _boosting(trees: int, depth: int | None, leaves: int | None = None) -> Setting:
    options = BoostingOptions(max_leaves=leaves)
    return Setting(BOOSTING, CLASSIFICATION, trees, max_depth=depth, boosting=options)


def _airline(rows: int, size: str, limit: float, ratio: float) -> GpuCase:
    """A case of boosting on 13 columns with few values."""
    return GpuCase(
        f"GradientBoostingClassifier airline-like {size} x 13, 100 trees of depth 10",
        FIT,
        rows,
        13,
        _boosting(100, 10),
        limit,
        {XGBOOST: ratio},
        peers=_BOOSTERS,
        maker="airline",
    )


_MILLION, _BOTH, _BOOSTERS = 1_000_000, (XGBOOST, CUML), (XGBOOST, PYBOOST)

CASES = (
    GpuCase(
        "the same model as NumPy's",
        EQUALITY,
        20_000,
        28,
        Setting(FOREST, CLASSIFICATION, 4, max_depth=12),
        60,
    ),
    GpuCase(
        "one level of histograms, 11M x 28",
        HISTOGRAM,
        11_000_000,
        28,
        Setting(TREE, REGRESSION, 1),
        90,
        {"floor": 2.0},
    ),
    GpuCase(
        "one level of histograms, 1M x 28",
        HISTOGRAM,
        _MILLION,
        28,
        Setting(TREE, REGRESSION, 1),
        25,
    ),
    GpuCase(
        "RandomForestClassifier 1M x 28, 100 trees of depth 16",
        FIT,
        _MILLION,
        28,
        _forest(FOREST, 16),
        150,
        {CUML: 0.5, XGBOOST: 0.5},
        peers=_BOTH,
    ),
    GpuCase(
        "prediction of 10M x 28 by 500 trees of depth 8",
        PREDICTION,
        200_000,
        28,
        Setting(FOREST, CLASSIFICATION, 500, max_depth=8),
        120,
        {XGBOOST: 0.7},
        predict_rows=10_000_000,
        peers=_BOTH,
    ),
    GpuCase(
        "RandomForestClassifier 1M x 28, 100 trees to purity",
        FIT,
        _MILLION,
        28,
        _forest(FOREST, None),
        180,
        {CUML: 0.5, XGBOOST: 0.5},
        peers=_BOTH,
    ),
    GpuCase(
        "ExtraTreesClassifier 1M x 28, 100 trees of depth 16",
        FIT,
        _MILLION,
        28,
        _forest(EXTRA_TREES, 16),
        75,
    ),
    GpuCase(
        "ExtraTreesClassifier 1M x 28, 100 trees to purity",
        FIT,
        _MILLION,
        28,
        _forest(EXTRA_TREES, None),
        75,
    ),
    _airline(_MILLION // 10, "0.1M", 60, 0.25),
    _airline(_MILLION, "1M", 60, 0.35),
    _airline(10 * _MILLION, "10M", 150, 0.5),
    GpuCase(
        "GradientBoostingClassifier HIGGS-like 11M x 28, 500 trees of depth 8",
        FIT,
        11_000_000,
        28,
        _boosting(500, 8),
        240,
        {XGBOOST: 0.4, f"{SECONDS_ON}H200": 3.0},
        peers=_BOOSTERS,
    ),
    GpuCase(
        "GradientBoostingClassifier 1M x 28, 100 trees of 31 leaves, best first",
        FIT,
        _MILLION,
        28,
        _boosting(100, None, leaves=31),
        90,
        peers=(XGBOOST,),
    ),
    GpuCase(
        "AdaBoostClassifier 1M x 28, 100 stumps",
        FIT,
        _MILLION,
        28,
        Setting(ADABOOST, CLASSIFICATION, 100, max_depth=1),
        60,
    ),
    GpuCase(
        "DecisionTreeClassifier 1M x 28, depth 8",
        FIT,
        _MILLION,
        28,
        Setting(TREE, CLASSIFICATION, 1, max_depth=8),
        60,
        peers=_BOTH,
    ),
    GpuCase(
        "RandomForestRegressor 1M x 28, 100 trees of depth 16, a third of the features",
        FIT,
        _MILLION,
        28,
        Setting(FOREST, REGRESSION, 100, max_depth=16, max_features=1 / 3),
        120,
        peers=_BOTH,
    ),
)


def choose(*only: str) -> list[GpuCase]:
    """The cases whose names contain any of these texts, ignoring case; without texts, all cases."""
    texts = [text.lower() for text in only] or [""]
    chosen = [case for case in CASES if any(text in case.name.lower() for text in texts)]
    if not chosen:
        names = "\n  ".join(case.name for case in CASES)
        raise ValueError(f"no case contains {' or '.join(map(repr, only))}; there are:\n  {names}")
    return chosen
