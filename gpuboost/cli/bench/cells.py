"""The cells of the benchmark: a model of a library, on a device, for a number of rows."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

GPUBOOST, SCIKIT, XGB, LGBM, CATBOOST = (
    *("gpuboost", "scikit-learn", "XGBoost", "LightGBM"),
    "CatBoost",
)
_MODULE_OF = {SCIKIT: "sklearn", XGB: "xgboost", LGBM: "lightgbm", CATBOOST: "catboost"}
TREE, FOREST, EXTRA_TREES, ADABOOST, BOOSTED = (
    *("decision tree", "forest", "extra-trees", "AdaBoost"),
    "boosting",
)
TREES_OF = {TREE: 1, FOREST: 20, EXTRA_TREES: 20, ADABOOST: 20, BOOSTED: 50}
DEPTH_OF = {TREE: 10, FOREST: 10, EXTRA_TREES: 10, ADABOOST: 2, BOOSTED: 6}
_MODELS_OF = {
    SCIKIT: tuple(TREES_OF),
    XGB: (TREE, FOREST, BOOSTED),
    LGBM: (TREE, FOREST, EXTRA_TREES, BOOSTED),
    CATBOOST: (BOOSTED,),
}
CPU = "cpu"


@dataclass(frozen=True)
class BenchCell:
    """One fit of the benchmark.

    Attributes
    ----------
    rows : int
        Number of rows to train on.
    model, library, device : str
        What is trained, by which library, and where: "cpu", "numpy", "numba" or "cuda:N".
    """

    rows: int
    model: str
    library: str
    device: str

    @property
    def is_gpu(self) -> bool:
        """Whether it runs on a GPU."""
        return self.device.startswith("cuda")

    @property
    def text(self) -> str:
        """The cell in words, without its size."""
        return f"{self.library} {self.model} on {self.device}"


@dataclass(frozen=True)
class CellOutcome:
    """What a cell gave: figures, or the reason why there are none.

    Attributes
    ----------
    seconds, score : float or None
        Time of the fit, and accuracy or R2 on the rows held out.
    peak_bytes : int or None
        Peak memory of the process during the fit, with the library and the rows; None where the
        system does not count it.
    reason : str
        Why the cell was skipped or failed, or "".
    is_error : bool
        Whether the library raised an error.
    """

    seconds: float | None = None
    score: float | None = None
    peak_bytes: int | None = None
    reason: str = ""
    is_error: bool = False


def planned_cells(sizes: tuple[int, ...]) -> list[BenchCell]:
    """All cells, small sizes first, and for each model gpuboost first."""
    places = places_of_all()
    return [
        BenchCell(rows, model, library, device)
        for rows in sizes
        for model in TREES_OF
        for library, device in places
        if library == GPUBOOST or model in _MODELS_OF[library]
    ]


def places_of_all() -> list[tuple[str, str]]:
    """The libraries that are installed, each with the devices that it can use here."""
    from gpuboost.backends.devices import cuda_devices
    from gpuboost.backends.select import available_backends

    usable = [name for name, works, _ in available_backends() if works]
    gpus = [f"cuda:{one.number}" for one in cuda_devices().devices] if "cuda" in usable else []
    own = ["numba" if "numba" in usable else "numpy", *gpus]
    found = [(GPUBOOST, device) for device in own]
    for library, module in _MODULE_OF.items():
        if importlib.util.find_spec(module):
            found.append((library, CPU))
            found += [(library, gpu) for gpu in gpus if library == XGB and _xgboost_has_cuda()]
    return found


def _xgboost_has_cuda() -> bool:
    import xgboost

    return bool(xgboost.build_info().get("USE_CUDA"))


def make_cell_model(cell: BenchCell, is_classification: bool, n_trees: int, seed: int) -> Any:
    """The unfitted estimator of a cell; peers use all cores, as gpuboost does."""
    kind = "Classifier" if is_classification else "Regressor"
    make = {GPUBOOST: _gpuboost, SCIKIT: _scikit_learn, XGB: _xgboost, LGBM: _lightgbm,
            CATBOOST: _catboost}[cell.library]  # fmt: skip
    return make(cell, kind, n_trees, seed)


def _gpuboost(cell: BenchCell, kind: str, n_trees: int, seed: int) -> Any:
    import gpuboost

    words = {"random_state": seed, "device": cell.device}
    return _of_sklearn_api(gpuboost, cell.model, kind, n_trees, words, "GradientBoosting")


def _scikit_learn(cell: BenchCell, kind: str, n_trees: int, seed: int) -> Any:
    from types import SimpleNamespace

    from sklearn import ensemble, tree

    both = SimpleNamespace(**vars(tree) | vars(ensemble))
    words = {"random_state": seed}
    if cell.model == BOOSTED:
        depth = {"max_depth": DEPTH_OF[BOOSTED], "max_leaf_nodes": None}
        make = getattr(both, f"HistGradientBoosting{kind}")
        return make(max_iter=n_trees, early_stopping=False, **depth, **words)
    return _of_sklearn_api(both, cell.model, kind, n_trees, words, "")


def _of_sklearn_api(
    module: Any, model: str, kind: str, n_trees: int, words: dict[str, Any], boosting: str
) -> Any:
    """An estimator of a module with scikit-learn's names."""
    depth = DEPTH_OF[model]
    if model == TREE:
        return getattr(module, f"DecisionTree{kind}")(max_depth=depth, **words)
    words["n_estimators"] = n_trees
    if model == ADABOOST:
        tree = getattr(module, f"DecisionTree{kind}")(max_depth=depth)
        return getattr(module, f"AdaBoost{kind}")(tree, **words)
    name = {FOREST: "RandomForest", EXTRA_TREES: "ExtraTrees"}.get(model, boosting)
    made = getattr(module, name + kind)(max_depth=depth, **words)
    return made.set_params(n_jobs=-1) if name != boosting else made


def _xgboost(cell: BenchCell, kind: str, n_trees: int, seed: int) -> Any:
    import xgboost

    words: dict[str, Any] = {
        "n_estimators": n_trees,
        "max_depth": DEPTH_OF[cell.model],
        "random_state": seed,
        "device": cell.device,
        "tree_method": "hist",
    }
    if cell.model == BOOSTED:
        return getattr(xgboost, f"XGB{kind}")(learning_rate=0.1, **words)
    words |= {"reg_lambda": 0.0, "min_child_weight": 0.0}
    if cell.model == TREE:
        return getattr(xgboost, f"XGB{kind}")(learning_rate=1.0, **words)
    return getattr(xgboost, f"XGBRF{kind}")(subsample=0.632, colsample_bynode=0.3, **words)


def _lightgbm(cell: BenchCell, kind: str, n_trees: int, seed: int) -> Any:
    import lightgbm

    depth = DEPTH_OF[cell.model]
    words: dict[str, Any] = {
        "n_estimators": n_trees,
        "max_depth": depth,
        "num_leaves": 2**depth,
        "random_state": seed,
        "verbose": -1,
    }
    if cell.model == BOOSTED:
        return getattr(lightgbm, f"LGBM{kind}")(learning_rate=0.1, **words)
    words["min_child_samples"] = 1
    if cell.model == TREE:
        return getattr(lightgbm, f"LGBM{kind}")(learning_rate=1.0, **words)
    words |= {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1}
    words |= {"feature_fraction_bynode": 0.3, "extra_trees": cell.model == EXTRA_TREES}
    return getattr(lightgbm, f"LGBM{kind}")(**words)


def _catboost(cell: BenchCell, kind: str, n_trees: int, seed: int) -> Any:
    import catboost

    words = {"depth": DEPTH_OF[BOOSTED], "learning_rate": 0.1, "random_seed": seed}
    make = getattr(catboost, f"CatBoost{kind}")
    return make(iterations=n_trees, verbose=False, allow_writing_files=False, **words)
