"""What is measured on a GPU, the most important first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from benchmarks.peers import EXTRA_TREES, FOREST, TREE, Setting
from benchmarks.tables import CLASSIFICATION, REGRESSION

EQUALITY, FIT, HISTOGRAM, PREDICTION = "equality", "fit", "histogram", "prediction"
XGBOOST, CUML = "XGBoost", "cuML"
SMALL = 500  # what --scale small divides rows by
SMALL_TREES = 10


@dataclass(frozen=True)
class GpuCase:
    """One measurement.

    Attributes
    ----------
    name : str
    kind : {"equality", "fit", "histogram", "prediction"}
    rows, features : int
        Of the training data; of the histogram.
    setting : Setting
        What is trained.
    limit : float
        Seconds that the case may take, data and warm-up included.
    bounds : mapping of str to float
        Largest ratio of our time to that of the peer of this name; "floor" is the time that the
        ceilings of the same run allow.
    predict_rows : int
        Rows whose prediction is timed.
    peers : tuple of str
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

    @property
    def data(self) -> str:
        """The maker of its data, of `benchmarks.tables.MAKERS`."""
        return "binary" if self.setting.task == CLASSIFICATION else "continuous"

    def sized(self, scale: str) -> GpuCase:
        """The case at another size; its bounds then no longer apply."""
        if scale == "full":
            return self
        trees = self.setting.n_estimators
        few = trees if self.setting.family == TREE else max(2, trees // SMALL_TREES)
        return replace(
            self,
            rows=max(400, self.rows // SMALL),
            predict_rows=self.predict_rows // SMALL,
            setting=replace(self.setting, n_estimators=few),
            bounds={},
        )


def _forest(family: str, depth: int | None, task: str = CLASSIFICATION) -> Setting:
    return Setting(family, task, 100, max_depth=depth)


_MILLION, _BOTH = 1_000_000, (XGBOOST, CUML)

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
        60,
        {"floor": 2.0},
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
        90,
    ),
    GpuCase(
        "ExtraTreesClassifier 1M x 28, 100 trees to purity",
        FIT,
        _MILLION,
        28,
        _forest(EXTRA_TREES, None),
        90,
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


def choose(only: str | None) -> list[GpuCase]:
    """The cases whose name contains ``only``, in any case of letters."""
    chosen = [case for case in CASES if only is None or only.lower() in case.name.lower()]
    if not chosen:
        names = "\n  ".join(case.name for case in CASES)
        raise ValueError(f"no case contains {only!r}; there are:\n  {names}")
    return chosen
