"""The cells of the benchmark: a model of a library, on a device, for a number of rows."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

GPUBOOST, SCIKIT = "gpuboost", "scikit-learn"
XGB, LGBM, CATBOOST = "XGBoost", "LightGBM", "CatBoost"
_MODULE_OF = {SCIKIT: "sklearn", XGB: "xgboost", LGBM: "lightgbm", CATBOOST: "catboost"}
TREE, FOREST, EXTRA_TREES = "decision tree", "forest", "extra-trees"
ADABOOST, BOOSTED = "AdaBoost", "boosting"
TREES_OF = {TREE: 1, FOREST: 20, EXTRA_TREES: 20, ADABOOST: 20, BOOSTED: 50}
DEPTH_OF = {TREE: 10, FOREST: 10, EXTRA_TREES: 10, ADABOOST: 2, BOOSTED: 6}
_TREES_OF_SKLEARN: dict[str, tuple[str, dict[str, Any]]] = {
    TREE: ("DecisionTree", {}),
    FOREST: ("RandomForest", {"n_jobs": -1}),
    EXTRA_TREES: ("ExtraTrees", {"n_jobs": -1}),
    ADABOOST: ("AdaBoost", {}),
}
_HIST_BY_DEPTH = {"early_stopping": False, "max_leaf_nodes": None}
_WITHOUT_PENALTY = {"reg_lambda": 0.0, "min_child_weight": 0.0, "tree_method": "hist"}
_BAGGED = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "min_child_samples": 1,
           "feature_fraction_bynode": 0.3}  # fmt: skip
# The classes of each library without their endings, and parameters besides `_common_parameters`.
_MODELS_OF: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    GPUBOOST: {**_TREES_OF_SKLEARN, BOOSTED: ("GradientBoosting", {})},
    SCIKIT: {**_TREES_OF_SKLEARN, BOOSTED: ("HistGradientBoosting", _HIST_BY_DEPTH)},
    XGB: {
        TREE: ("XGB", {"learning_rate": 1.0, **_WITHOUT_PENALTY}),
        FOREST: ("XGBRF", {"subsample": 0.632, "colsample_bynode": 0.3, **_WITHOUT_PENALTY}),
        BOOSTED: ("XGB", {"learning_rate": 0.1, "tree_method": "hist"}),
    },
    LGBM: {
        TREE: ("LGBM", {"learning_rate": 1.0, "min_child_samples": 1}),
        FOREST: ("LGBM", {"extra_trees": False, **_BAGGED}),
        EXTRA_TREES: ("LGBM", {"extra_trees": True, **_BAGGED}),
        BOOSTED: ("LGBM", {"learning_rate": 0.1}),
    },
    CATBOOST: {BOOSTED: ("CatBoost", {"learning_rate": 0.1, "allow_writing_files": False})},
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
        if model in _MODELS_OF[library]
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
    name, words = _MODELS_OF[cell.library][cell.model]
    words = words | _common_parameters(cell, n_trees, seed)
    if cell.model == ADABOOST:
        tree = _class_of(cell.library, f"DecisionTree{kind}")
        words["estimator"] = tree(max_depth=words.pop("max_depth"))
    return _class_of(cell.library, name + kind)(**words)


def _common_parameters(cell: BenchCell, n_trees: int, seed: int) -> dict[str, Any]:
    """Number and depth of trees, seed and device by the library's names."""
    depth = DEPTH_OF[cell.model]
    words: dict[str, Any] = {"max_depth": depth, "random_state": seed}
    if cell.library == SCIKIT and cell.model == BOOSTED:
        words["max_iter"] = n_trees
    elif cell.library not in (GPUBOOST, SCIKIT) or cell.model != TREE:
        words["n_estimators"] = n_trees
    if cell.library in (GPUBOOST, XGB):
        words["device"] = cell.device
    elif cell.library == LGBM:
        words |= {"num_leaves": 2**depth, "verbose": -1}
    elif cell.library == CATBOOST:
        words["verbose"] = False
    return words


def _class_of(library: str, name: str) -> Any:
    if library == SCIKIT:
        home = "sklearn.tree" if name.startswith("DecisionTree") else "sklearn.ensemble"
        return getattr(importlib.import_module(home), name)
    return getattr(importlib.import_module(_MODULE_OF.get(library, library)), name)
