"""Damaged model files, and what loading them must come to.

``python -m tests.io.mutations 50000`` tries that many files of each kind with a new seed.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from sklearn import ensemble

import gpuboost
from gpuboost.estimators.files.estimators import estimator_of, model_file_parts
from gpuboost.io.container import to_bytes, with_digest

SPECIAL_NUMBERS = (0, 1, -1, 2, 127, 255, 256, 2**15, 2**31 - 1, 2**31, 2**60, 2**63, 2**64, 10**30)
SPECIAL_FLOATS = (0.0, -0.0, 0.5, -1.0, 1e308, -1e308, np.nan, np.inf, -np.inf, 5e-324)
SPECIAL_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "<U99999999", "|b1", [], {}, [[]], [None]),
    *(
        {"float": "nan"},
        {"float": "inf"},
        {"tuple": [1]},
        {"dict": [[1, 2]]},
        {"array": ["<i8", [1]]},
    ),
    {"estimator": ["DecisionTreeRegressor", {}]},
    *SPECIAL_NUMBERS,
    *(0.25, -3.5, 1e300),
)
DTYPES = (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.float32, np.float64, np.bool_)


@cache
def frame() -> tuple[Any, np.ndarray, np.ndarray]:
    """A table with categories and missing values, classes and values."""
    pd = __import__("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)).round(1), columns=["a", "b"])
    X.loc[::7, "a"] = np.nan
    X["color"] = pd.Categorical(rng.choice(["red", "green", "blue"], 60))
    y = X["b"].to_numpy() + (X["color"] == "red")
    return X, np.array(["no", "yes", "maybe"])[np.digitize(y, [-0.5, 0.8])], y.to_numpy()


@cache
def originals() -> tuple[Any, ...]:
    """Small fitted models of all kinds."""
    X, classes, y = frame()
    common = {"device": "numpy", "random_state": 0}
    few = {**common, "n_estimators": 3}
    weights = np.random.default_rng(1).random(len(y))
    both = np.column_stack([classes, classes == "no"])
    tree = gpuboost.DecisionTreeRegressor(max_depth=2, **common).fit(X, y)
    return (
        tree,
        gpuboost.DecisionTreeClassifier(max_depth=3, **common).fit(X, both),
        gpuboost.RandomForestClassifier(max_depth=3, voting="hard", **few).fit(X, classes, weights),
        gpuboost.BaggingRegressor(max_features=2, **few).fit(X, y),
        gpuboost.AdaBoostClassifier(max_depth=2, **few).fit(X, classes),
        gpuboost.AdaBoostRegressor(**few).fit(X, y),
        gpuboost.GradientBoostingClassifier(max_depth=2, subsample=0.5, **few).fit(X, classes),
        gpuboost.GradientBoostingRegressor(init=tree, loss="huber", **few).fit(X, y),
        gpuboost.HistGradientBoostingClassifier(max_iter=2, **common).fit(X, classes == "no"),
        *imported(),
    )


def imported() -> Iterator[Any]:
    """Imported models of scikit-learn."""
    X, classes, y = frame()
    hist = ensemble.HistGradientBoostingRegressor(
        max_iter=2, categorical_features="from_dtype", min_samples_leaf=3
    )
    yield gpuboost.from_sklearn(hist.fit(X, y))
    forest = ensemble.RandomForestClassifier(3, max_depth=2, random_state=0)
    yield gpuboost.from_sklearn(forest.fit(X[["a", "b"]], classes))
    adaboost = ensemble.AdaBoostRegressor(n_estimators=3, random_state=0)
    yield gpuboost.from_sklearn(adaboost.fit(X[["b"]], y))
    boosting = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0)
    yield gpuboost.from_sklearn(boosting.fit(X[["b"]], classes))


@cache
def files() -> tuple[tuple[dict[str, Any], dict[str, np.ndarray], bytes], ...]:
    """The header, the arrays and the content of the files of `originals`."""
    parts = [model_file_parts(model) for model in originals()]
    return tuple((*own, to_bytes(*own)) for own in parts)


# ---- raw bytes -----------------------------------------------------------------------------------


def raw(draw: random.Random) -> bytes:
    """A file with damaged bytes."""
    data = bytearray(draw.choice(files())[2])
    start = draw.randrange(len(data)) if draw.random() < 0.5 else draw.randrange(2000)
    stop = min(len(data), start + draw.choice((1, 1, 2, 8, 100, 5000)))
    kind = draw.randrange(7)
    if kind == 0:
        data[start] ^= 1 << draw.randrange(8)
    elif kind == 1:
        data[start:stop] = draw.randbytes(stop - start)
    elif kind == 2:
        del data[start:stop]
    elif kind == 3:
        data[start:start] = data[start:stop]
    elif kind == 4:
        del data[start:]
    elif kind == 5:
        other = draw.choice(files())[2]
        data[start:stop] = other[start:stop]
    else:
        data[:8] = (
            draw.choice(SPECIAL_NUMBERS[:-1]).__index__().to_bytes(9, "little", signed=True)[:8]
        )
    return bytes(data)


# ---- decoded content -----------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values inside some JSON."""
    keys = (
        range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    )
    found = [(*path, key) for key in keys]
    return found + [place for key in keys for place in places(value[key], (*path, key))]


def change_json(draw: random.Random, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Replace, delete, copy or add a value somewhere in the header."""
    place = draw.choice(places(header))
    parent: Any = header
    for key in place[:-1]:
        parent = parent[key]
    kind = draw.randrange(6)
    if kind == 0 and isinstance(parent, dict):
        del parent[place[-1]]
    elif kind == 1 and isinstance(parent, list):
        parent.insert(draw.randrange(len(parent) + 1), copy.deepcopy(draw.choice(parent)))
    elif kind == 2 and isinstance(parent, dict):
        parent[draw.choice(("x", "device", "classes", "0", "1", "2"))] = draw.choice(SPECIAL_VALUES)
    elif kind == 3 and type(parent[place[-1]]) is int:
        parent[place[-1]] += draw.choice((-1, 1))
    else:
        parent[place[-1]] = copy.deepcopy(draw.choice(SPECIAL_VALUES))


def change_array(
    draw: random.Random, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Change elements, the type or the shape of an array, or drop, copy or add one."""
    name = draw.choice(sorted(arrays))
    array = np.array(arrays[name])
    kind = draw.randrange(9)
    if kind < 4 and array.size:
        place = draw.randrange(array.size)
        special = SPECIAL_FLOATS if array.dtype.kind == "f" else SPECIAL_NUMBERS
        with np.errstate(all="ignore"):
            array.reshape(-1)[place] = np.array(draw.choice(special[:11])).astype(array.dtype)
            if kind == 3:
                array.reshape(-1)[place] += np.array(draw.choice((-1, 1))).astype(array.dtype)
        arrays[name] = array
    elif kind == 4:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(draw.choice(DTYPES))
    elif kind == 5:
        arrays[name] = draw.choice(
            (array[:-1], array.reshape(-1)[None], np.concatenate([array] * 2))
        )
    elif kind == 6:
        del arrays[name]
    elif kind == 7:
        arrays[name + draw.choice(("x", "/x"))] = array
    else:
        arrays[name] = arrays[draw.choice(sorted(arrays))]


def change_container(draw: random.Random, data: bytes) -> bytes:
    """Change the JSON of the container: types, shapes and places of arrays, repeated fields."""
    stop = 8 + int.from_bytes(data[:8], "little")
    outer = json.loads(data[8:stop])
    name = draw.choice([name for name in outer if name != "__metadata__"])
    kind = draw.randrange(6)
    if kind == 0:
        place = draw.randrange(2)
        outer[name]["data_offsets"][place] = draw.choice((0, 8, 2**60, -8, 1.5, "x", 2**70))
    elif kind == 1:
        outer[name]["shape"] = draw.choice(([2**60], [2**32, 2**32], [-1], [0], ["x"], 3, [2**70]))
    elif kind == 2:
        outer[name]["dtype"] = draw.choice(("F16", "BOOL", "F64", "U8", "I64", "X", 7, None))
    elif kind == 3:
        outer[name] = outer[draw.choice(sorted(set(outer) - {"__metadata__"}))]
    elif kind == 4:
        outer["__metadata__"]["x"] = draw.choice(("", 1, [], {}))
    text = json.dumps(outer, separators=(",", ":"))
    if kind == 5:
        nested = draw.choice(
            ('"x":' + "[" * 5000, f'"{name}":{json.dumps(outer[name])},', '"x":NaN,')
        )
        text = "{" + nested + text[1:]
    body = text.encode()
    return with_digest(bytearray(len(body).to_bytes(8, "little") + body + data[stop:]))


def decoded(draw: random.Random) -> bytes:
    """A file with damaged content and the right digest."""
    header, arrays, data = draw.choice(files())
    if draw.random() < 0.1:
        return change_container(draw, data)
    header, arrays = copy.deepcopy(header), dict(arrays)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        draw.choice((change_json, change_array))(draw, header, arrays)
    try:
        return to_bytes(header, arrays)
    except (ValueError, TypeError, OverflowError):  # no file can say this
        return data


# ---- judgement -----------------------------------------------------------------------------------


def outcome(data: bytes) -> str:
    """What loading comes to: "refused", or "loaded" after predictions within bounds."""
    try:
        model = estimator_of(data, "numpy", 1)
    except ValueError:
        return "refused"
    check_predictions(model)
    return "loaded"


def check_predictions(model: Any) -> None:
    """Check that a model predicts known classes, probabilities from 0 to 1, and no NaN."""
    X = frame()[0]
    columns = min(model.n_features_in_, 500)
    if list(getattr(model, "feature_names_in_", [])) != list(X.columns):
        X = np.random.default_rng(0).normal(size=(50, columns))
        if model.n_features_in_ > columns:
            return
        if hasattr(model, "feature_names_in_"):
            X = __import__("pandas").DataFrame(X[:, :columns], columns=model.feature_names_in_)
    with np.errstate(all="ignore"):
        try:
            found = model.predict(X)
        except ValueError as error:  # other categories, for example
            known = "had categories", "had numbers", "does not hold the categories"
            assert any(text in str(error) for text in known), error
            return
        if not hasattr(model, "classes_"):
            assert not np.isnan(found).any()
            return
        several = isinstance(model.classes_, list)
        for k, classes in enumerate(model.classes_ if several else [model.classes_]):
            own = found[:, k] if several else found
            assert set(own.tolist()) <= set(classes.tolist())
        probabilities = model.predict_proba(X)
        for own in probabilities if several else [probabilities]:
            assert own.min() >= 0.0 and own.max() <= 1.0 + 1e-9


def run(make: Callable[[random.Random], bytes], n: int, seed: int) -> Counter[str]:
    """Try ``n`` files; return how often they were refused and loaded."""
    found: Counter[str] = Counter()
    for number in range(n):
        data = make(random.Random(f"{seed} {number}"))
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[outcome(data)] += 1
        except BaseException as error:
            raise AssertionError(
                f"{make.__name__} file {number} of seed {seed}: {error!r}"
            ) from error
        assert time.perf_counter() - start < 30.0, f"file {number} of seed {seed} takes too long"
    return found


if __name__ == "__main__":
    seed = time.time_ns() % 10**6
    for make in (raw, decoded):
        print(make.__name__, seed, dict(run(make, int(sys.argv[1]), seed)))
