"""Data sets: synthetic, bundled with scikit-learn, or read from a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CLASSIFICATION, REGRESSION = "classification", "regression"
ONE_HOT_LEVELS = 16  # columns with more categories are encoded as ordinal codes


@dataclass(frozen=True)
class Table:
    """Features and target of one learning task.

    Attributes
    ----------
    name : str
    X : ndarray or sparse matrix of float32 of shape (n_samples, n_features)
        Only numbers: categories are one-hot or ordinal encoded, and NaN means missing.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        int64 class codes, or float64 targets.
    task : {"classification", "regression"}
    frame : pandas.DataFrame or None
        The same features with categorical columns; None if there are none.
    exposure : ndarray of float64 of shape (n_samples,) or None
        Exposure of each row, such as years insured, if the target is a count.
    """

    name: str
    X: Any
    y: np.ndarray
    task: str
    frame: Any = None
    exposure: np.ndarray | None = None

    @property
    def features(self) -> Any:
        """The features, with categorical columns if there are any."""
        return self.X if self.frame is None else self.frame

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for a regression."""
        return int(self.y.max()) + 1 if self.task == CLASSIFICATION else 0

    def take(self, rows: np.ndarray) -> Table:
        """A table of the given rows."""
        frame = None if self.frame is None else self.frame.iloc[rows]
        exposure = None if self.exposure is None else self.exposure[rows]
        return Table(self.name, self.X[rows], self.y[rows], self.task, frame, exposure)


# ---- synthetic ---------------------------------------------------------------------------------


def _features(rng: np.random.Generator, rows: int, features: int) -> np.ndarray:
    if features < 6:
        raise ValueError(f"a synthetic table has at least 6 features, got {features}.")
    return rng.standard_normal((rows, features), dtype=np.float32)


def _signal(X: np.ndarray, rng: np.random.Generator, noise: float) -> np.ndarray:
    """A function of the first six columns (a product, sine, square and step) with added noise."""
    a, b, c, d, e, f = (X[:, k].astype(np.float64) for k in range(6))
    z = a * b + np.sin(3.0 * c) + 0.5 * d * d + np.where(e > 0.0, 0.7 * f, -0.2)
    return z + noise * rng.standard_normal(len(X))


def binary(rows: int, features: int, seed: int = 0) -> Table:
    """Two classes of about equal size; about 12% of the labels are wrong."""
    rng = np.random.default_rng([seed, 1])
    X = _features(rng, rows, features)
    return Table("binary", X, (_signal(X, rng, 0.8) > 0.5).astype(np.int64), CLASSIFICATION)


def continuous(rows: int, features: int, seed: int = 0) -> Table:
    """A regression target with Gaussian noise."""
    rng = np.random.default_rng([seed, 2])
    X = _features(rng, rows, features)
    return Table("continuous", X, _signal(X, rng, 0.8), REGRESSION)


def several_outputs(n_outputs: int, rows: int, features: int, seed: int = 0) -> Table:
    """Regression targets, each a mixture of the signal and of one column, with Gaussian noise."""
    rng = np.random.default_rng([seed, 10, n_outputs])
    X = _features(rng, rows, features)
    columns = [X[:, k % features] for k in range(n_outputs)]
    y = [(k + 1) / n_outputs * _signal(X, rng, 0.8) + own for k, own in enumerate(columns)]
    return Table(f"{n_outputs} outputs", X, np.stack(y, axis=1), REGRESSION)


def seven_classes(rows: int, features: int, seed: int = 0) -> Table:
    """Seven classes, two of which are large; half of the columns have two values."""
    rng = np.random.default_rng([seed, 3])
    X = _features(rng, rows, features)
    z = _signal(X, rng, 0.4)
    X[:, features // 2 :] = X[:, features // 2 :] > 1.0
    cuts = np.quantile(z, np.cumsum([0.36, 0.48, 0.06, 0.03, 0.03, 0.02]))
    return Table("seven classes", X, np.searchsorted(cuts, z).astype(np.int64), CLASSIFICATION)


def rare_classes(rows: int, features: int, seed: int = 0) -> Table:
    """Ten classes, the first nine each half as frequent as the one before: down to 1 row in 500."""
    rng = np.random.default_rng([seed, 4])
    X = _features(rng, rows, features)
    z = _signal(X, rng, 0.3)
    cuts = np.quantile(z, 1.0 - 0.5 ** np.arange(1, 10))
    return Table("rare classes", X, np.searchsorted(cuts, z).astype(np.int64), CLASSIFICATION)


def equal_classes(n_classes: int, rows: int, features: int, seed: int = 0) -> Table:
    """Classes of equal size."""
    rng = np.random.default_rng([seed, 9, n_classes])
    X = _features(rng, rows, features)
    z = _signal(X, rng, 0.3)
    cuts = np.quantile(z, np.arange(1, n_classes) / n_classes)
    y = np.searchsorted(cuts, z).astype(np.int64)
    return Table(f"{n_classes} classes", X, y, CLASSIFICATION)


def heavy_tails(rows: int, features: int, seed: int = 0) -> Table:
    """A lognormal target; every third column has heavy tails on both sides."""
    rng = np.random.default_rng([seed, 5])
    X = _features(rng, rows, features)
    shape = 2.0 * np.tanh(0.5 * _signal(X, rng, 0.0))  # bounded: only the noise has heavy tails
    y = np.exp(shape + 0.7 * rng.standard_normal(rows))
    X[:, ::3] = np.sinh(3.0 * X[:, ::3])
    return Table("heavy tails", X, y, REGRESSION)


AIRLINE_LEVELS = (12, 31, 7, 1440, 1440, 22, 5000, 300, 300, 700, 1500, 60, 2)


def airline(rows: int, features: int, seed: int = 0) -> Table:
    """Columns with as many values as a table of flights has: dates, times, airports, miles."""
    rng = np.random.default_rng([seed, 8])
    levels = [AIRLINE_LEVELS[f % len(AIRLINE_LEVELS)] for f in range(features)]
    X = np.stack([rng.integers(0, n, rows) for n in levels], axis=1).astype(np.float32)
    share = X / np.array(levels, np.float32)  # relative to the number of values
    z = np.sin(4.0 * share[:, 3 % features]) + share[:, 0] * share[:, 1 % features]
    z = z + np.where(X[:, 5 % features] % 3 == 0, 0.4, 0.0) + rng.standard_normal(rows)
    return Table("airline", X, (z > 1.6).astype(np.int64), CLASSIFICATION)


def sparse_text(rows: int, features: int, seed: int = 0) -> Table:
    """A sparse matrix: each row stores about 1 of 200 features, and has one of two classes."""
    from scipy.sparse import random_array

    rng = np.random.default_rng([seed, 9])
    X = random_array((rows, features), density=0.005, rng=rng, format="csr", dtype=np.float32)
    z = X @ rng.standard_normal(features)
    y = z + 0.3 * z.std() * rng.standard_normal(rows) > np.median(z)
    return Table("sparse text", X, y.astype(np.int64), CLASSIFICATION)


MAKERS: dict[str, Callable[[int, int, int], Table]] = {
    "binary": binary,
    "continuous": continuous,
    "seven classes": seven_classes,
    "rare classes": rare_classes,
    "heavy tails": heavy_tails,
}
_EQUAL_CLASSES = {f"{n} classes": partial(equal_classes, n) for n in (2, 3, 7, 20, 50, 100)}
SPEED_MAKERS = {
    **MAKERS,
    "sparse text": sparse_text,
    "8 outputs": partial(several_outputs, 8),
    **_EQUAL_CLASSES,
}
LARGE_MAKERS = {**MAKERS, "airline": airline}  # for benchmarks on a GPU


# ---- bundled with scikit-learn -----------------------------------------------------------------

BUNDLED = {
    "iris": CLASSIFICATION,
    "wine": CLASSIFICATION,
    "breast_cancer": CLASSIFICATION,
    "digits": CLASSIFICATION,
    "diabetes": REGRESSION,
}


def bundled(name: str) -> Table:
    """Load a data set that is part of scikit-learn; nothing is downloaded."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    kind = np.int64 if BUNDLED[name] == CLASSIFICATION else np.float64
    return Table(name, np.ascontiguousarray(X, np.float32), y.astype(kind), BUNDLED[name])


# ---- Parquet files of a folder -----------------------------------------------------------------

BOOKKEEPING = ("split", "fold", "qid")


@dataclass(frozen=True)
class Source:
    """How to read a data set from a Parquet file.

    Attributes
    ----------
    name : str
    file : str
        File name without its suffix.
    target : str
    task : {"classification", "regression"}
    drop : tuple of str
        Columns to drop, because they reveal the target or number the rows. Those of
        `BOOKKEEPING` are always dropped.
    transform : {"", "log1p", "positive"}
        Transform of the target: none, ``log(1 + y)``, or whether ``y > 0``.
    exposure : str
        Column of the exposure, which is then no feature; empty if there is none.
    """

    name: str
    file: str
    target: str
    task: str
    drop: tuple[str, ...] = ()
    transform: str = ""
    exposure: str = ""


SOURCES = (
    Source("covertype", "covtype_108k", "Cover_Type", CLASSIFICATION),
    Source("adult", "adult", "income", CLASSIFICATION),
    Source("bank", "bank_full", "y", CLASSIFICATION, ("duration",)),
    Source("higgs", "higgs_15k", "response", CLASSIFICATION),
    Source("letter", "pmlb_letter", "target", CLASSIFICATION),
    Source("spambase", "pmlb_spambase", "target", CLASSIFICATION),
    Source("lgbm_binary", "lgbm_binary", "y", CLASSIFICATION),
    Source("mushroom", "mushroom", "class", CLASSIFICATION),
    Source("titanic", "titanic", "survived", CLASSIFICATION, ("alive",)),
    Source("mnist", "mnist", "label", CLASSIFICATION),
    Source(
        "flights",
        "flights_bts",
        "dep_delayed_15min",
        CLASSIFICATION,
        ("dep_delay", "arr_delay", "air_time"),
    ),
    Source("claims", "freMTPL2freq", "ClaimNb", CLASSIFICATION, ("IDpol",), transform="positive"),
    Source("california", "california_housing", "median_house_value", REGRESSION),
    Source("diamonds", "diamonds", "price", REGRESSION, transform="log1p"),
    Source("ames", "ames", "Sale_Price", REGRESSION, transform="log1p"),
    Source(
        "flight delay", "flights_bts", "arr_delay", REGRESSION, ("dep_delayed_15min", "air_time")
    ),
    Source("claim counts", "freMTPL2freq", "ClaimNb", REGRESSION, ("IDpol",)),
)
RATE_SOURCES = (  # counts with exposures
    Source("claim rates", "freMTPL2freq", "ClaimNb", REGRESSION, ("IDpol",), exposure="Exposure"),
)


def available_sources(folder: Path | None, sources: tuple[Source, ...] = SOURCES) -> list[Source]:
    """The sources whose files are in ``folder``."""
    if folder is None:
        return []
    return [s for s in sources if (folder / f"{s.file}.parquet").exists()]


def source(name: str) -> Source:
    """The source with this name."""
    return next(s for s in SOURCES + RATE_SOURCES if s.name == name)


def load(source: Source, folder: Path, max_rows: int | None = None, seed: int = 0) -> Table:
    """Read a data set, or ``max_rows`` random rows if it has more."""
    import pandas as pd

    frame = pd.read_parquet(folder / f"{source.file}.parquet")
    frame = frame[frame[source.target].notna()]
    if max_rows is not None and len(frame) > max_rows:
        rows = np.random.default_rng([seed, 6]).permutation(len(frame))[:max_rows]
        frame = frame.iloc[np.sort(rows)]
    y = _target(frame[source.target], source)
    exposure = frame[source.exposure].to_numpy(np.float64) if source.exposure else None
    drop = [source.target, *source.drop, *(c for c in BOOKKEEPING if c in frame.columns)]
    drop += [source.exposure] if source.exposure else []
    features = frame.drop(columns=drop).reset_index(drop=True)
    is_category = [isinstance(dtype, pd.CategoricalDtype) for dtype in features.dtypes]
    native = features.copy()
    for column, category in zip(features.columns, is_category, strict=True):
        if not category:
            native[column] = features[column].to_numpy(np.float32, na_value=np.nan)
    categories = native if any(is_category) else None
    return Table(source.name, encode(native), y, source.task, categories, exposure)


def _target(column: Any, source: Source) -> np.ndarray:
    """The target: class codes in the sorted order of the labels, or transformed values."""
    import pandas as pd

    if source.transform == "positive":
        return (column.to_numpy() > 0).astype(np.int64)
    if source.task == CLASSIFICATION:
        return pd.factorize(column.astype(object), sort=True)[0].astype(np.int64)
    y = column.to_numpy(np.float64)
    return np.log1p(y) if source.transform == "log1p" else y


def encode(frame: Any) -> np.ndarray:
    """Encode categories as numbers: one-hot up to `ONE_HOT_LEVELS` categories, else ordinal codes.

    The result is a float32 array.
    """
    import pandas as pd

    columns = []
    for name in frame.columns:
        column = frame[name]
        if not isinstance(column.dtype, pd.CategoricalDtype):
            columns.append(column.to_numpy(np.float32)[:, None])
            continue
        codes = column.cat.codes.to_numpy()
        levels = len(column.cat.categories)
        if levels <= ONE_HOT_LEVELS:
            columns.append((codes[:, None] == np.arange(levels)).astype(np.float32))
        else:
            columns.append(np.where(codes < 0, np.nan, codes).astype(np.float32)[:, None])
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


def with_levels_up_to(frame: Any, most: int) -> Any:
    """The frame, with float32 codes in columns that have more than ``most`` categories."""
    import pandas as pd

    changed = frame.copy()
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype) and len(column.cat.categories) > most:
            codes = column.cat.codes.to_numpy()
            changed[name] = np.where(codes < 0, np.nan, codes).astype(np.float32)
    return changed


# ---- splitting ---------------------------------------------------------------------------------


def split(
    table: Table, seed: int, max_train: int | None = None, test_share: float = 0.25
) -> tuple[Table, Table]:
    """Split a table into random training and test rows, stratified by class."""
    rng = np.random.default_rng([seed, 7])
    order = rng.permutation(len(table.y))
    n_test = max(1, round(test_share * len(order)))
    if max_train is not None:
        n_test = min(n_test, max(1, max_train // 2))
    if table.task == CLASSIFICATION:
        order = _spread_classes(order, table.y)
    # With rows in the order of their classes, evenly spaced rows are a stratified sample.
    places = np.floor(np.arange(n_test) * (len(order) / n_test)).astype(np.int64)
    in_test = np.zeros(len(order), dtype=bool)
    in_test[places] = True
    train, test = order[~in_test], order[in_test]
    if max_train is not None and len(train) > max_train:
        keep = np.floor(np.arange(max_train) * (len(train) / max_train)).astype(np.int64)
        train = train[keep]
    return table.take(rng.permutation(train)), table.take(test)


def _spread_classes(order: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same rows in the order of their classes."""
    return order[np.argsort(y[order], kind="stable")]
