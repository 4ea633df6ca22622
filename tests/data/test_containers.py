"""The same values in any container give one model, and other containers predict with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from gpuboost import Dataset, GradientBoostingRegressor
from tests import cuda_shim
from tests.estimators.estimator_cases import make
from tests.fakes.gpu_arrays import Tensor, to_gpu

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 120
RNG = np.random.default_rng(5)
IS_MISSING = np.arange(N) % 7 == 0
NUMBER = np.where(IS_MISSING, np.nan, RNG.normal(size=N)).astype(np.float32)
COUNT = RNG.integers(-9, 9, N)
FLAG = RNG.random(N) < 0.5
PLACE = np.where(IS_MISSING[::-1], np.nan, RNG.integers(0, 4, N))
X = np.column_stack([NUMBER, COUNT, FLAG, PLACE])
Y = np.nan_to_num(PLACE) % 3 + np.nan_to_num(NUMBER) + FLAG
NAMES = ["number", "count", "flag", "place"]
NUMBERS = [None if np.isnan(v) else float(v) for v in NUMBER]
PLACES = [None if np.isnan(v) else int(v) for v in PLACE]
WORDS = [None if p is None else ["Bern", "Oslo", "Rom", "Ulm"][p] for p in PLACES]
BY_INDEX = {"categorical_features": [3]}
BY_NAME = {"categorical_features": ["place"]}


def exporter(source: Any, *protocols: str) -> Any:
    """An object of another library, whose class has only the methods of the given protocols."""

    def forward(name: str) -> Any:
        return lambda self, *args, **words: getattr(source, name)(*args, **words)

    return type("Exporter", (), {name: forward(name) for name in protocols})()


def pandas_frame(place: Any, **others: Any) -> Any:
    return pd.DataFrame({"number": NUMBER, "count": COUNT, "flag": FLAG, "place": place} | others)


def polars_frame(place: Any = PLACES) -> Any:
    data = {"number": NUMBERS, "count": COUNT, "flag": FLAG, "place": place}
    return pl.DataFrame(data, schema_overrides={"number": pl.Float32, "count": pl.Int8})


def arrow_table(place: Any = PLACES) -> Any:
    numbers = pa.array(NUMBERS, pa.float32())
    return pa.table([numbers, pa.array(COUNT, pa.int16()), FLAG, pa.array(place)], NAMES)


def coded_table() -> Any:
    """An Arrow table whose categories are numbers, in a dictionary-encoded column."""
    return arrow_table(pa.array(PLACES).dictionary_encode())


def arrow_batch() -> Any:
    return coded_table().combine_chunks().to_batches()[0]


def nullable_frame() -> Any:
    return pandas_frame(
        pd.Categorical(PLACES),
        number=pd.array(NUMBERS, dtype="Float32"),
        count=pd.array(COUNT, dtype="Int64"),
        flag=pd.array(FLAG, dtype="boolean"),
    )


CONTAINERS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "NumPy float32": (lambda: X.astype(np.float32), BY_INDEX),
    "NumPy columns": (lambda: np.asfortranarray(X), BY_INDEX),
    "NumPy objects": (lambda: X.astype(object), BY_INDEX),
    "masked": (lambda: np.ma.masked_invalid(X), BY_INDEX),
    "lists": (lambda: X.tolist(), BY_INDEX),
    "pandas": (lambda: pandas_frame(pd.Categorical(PLACES)), {}),
    "pandas numbers": (lambda: pandas_frame(PLACE), BY_NAME),
    "pandas nullable": (nullable_frame, {}),
    "pandas objects": (lambda: pandas_frame(PLACES).astype(object), BY_NAME),
    "pandas Arrow": (lambda: coded_table().to_pandas(types_mapper=pd.ArrowDtype), {}),
    "polars": (polars_frame, BY_NAME),
    "polars lazy": (lambda: polars_frame().lazy(), BY_NAME),
    "polars planned": (lambda: polars_frame().lazy().filter(pl.col("count") > -99), BY_NAME),
    "Arrow table": (coded_table, {}),
    "Arrow chunks": (lambda: pa.concat_tables([coded_table()[:50], coded_table()[50:]]), {}),
    "Arrow batch": (arrow_batch, {}),
    "Arrow stream": (lambda: exporter(coded_table(), "__arrow_c_stream__"), {}),
    "Arrow array": (lambda: exporter(arrow_batch(), "__arrow_c_array__"), {}),
    "SciPy rows": (lambda: scipy.sparse.csr_matrix(X), BY_INDEX),
    "SciPy columns": (lambda: scipy.sparse.csc_array(X), BY_INDEX),
    "DLPack": (lambda: exporter(X, "__dlpack__", "__dlpack_device__"), BY_INDEX),
    "buffer of a tensor": (lambda: exporter(X, "__array__"), BY_INDEX),
}
STRINGS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "NumPy objects": (lambda: np.column_stack([X[:, :3].astype(object), WORDS]), BY_INDEX),
    "pandas string": (lambda: pandas_frame(pd.array(WORDS, dtype="string[python]")), {}),
    "pandas Arrow string": (lambda: pandas_frame(pd.array(WORDS, dtype="string[pyarrow]")), {}),
    "pandas objects": (lambda: pandas_frame(pd.Series(WORDS, dtype=object)), {}),
    "pandas categories": (lambda: pandas_frame(pd.Categorical(WORDS)), {}),
    "polars": (lambda: polars_frame(WORDS), {}),
    "polars lazy": (lambda: polars_frame(WORDS).lazy(), {}),
    "polars categories": (lambda: polars_frame(pl.Series(WORDS, dtype=pl.Categorical)), {}),
    "polars enum": (
        lambda: polars_frame(pl.Series(WORDS, dtype=pl.Enum(["Ulm", "Rom", "Oslo", "Bern"]))),
        {},
    ),
    "Arrow": (lambda: arrow_table(WORDS), {}),
    "Arrow large": (lambda: arrow_table(pa.array(WORDS, pa.large_string())), {}),
    "Arrow view": (lambda: arrow_table(pa.array(WORDS, pa.string_view())), {}),
    "Arrow dictionary": (lambda: arrow_table(pa.array(WORDS).dictionary_encode()), {}),
}


if pd.__version__ >= "3":  # before, "str" had no missing values
    STRINGS["pandas str"] = (lambda: pandas_frame(pd.array(WORDS, dtype="str")), {})
CASES = {"numbers": CONTAINERS, "strings": STRINGS}


def models(**choice: Any) -> list[Any]:
    return [make("RandomForestRegressor", **choice), make("GradientBoostingRegressor", **choice)]


def models_of_numpy(kind: str) -> list[Any]:
    """The models of the first container."""
    given, choice = next(iter(CASES[kind].values()))
    return [model.fit(given(), Y) for model in models(**choice)]


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CASES for name in CASES[kind]])
def test_one_model_of_every_container(kind: str, name: str) -> None:
    given, choice = CASES[kind][name]
    for model, expected in zip(models(**choice), models_of_numpy(kind), strict=True):
        model.fit(given(), Y)
        assert model.fingerprint() == expected.fingerprint()
        np.testing.assert_array_equal(expected.predict(given()), model.predict(given()))
        binned = model.set_params(categorical_features="from_dtype").fit(
            Dataset(given(), **choice), Y
        )
        assert binned.fingerprint() == expected.fingerprint()


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("name", CONTAINERS)
def test_an_eval_set_in_every_container(name: str) -> None:
    given, choice = CONTAINERS[name]
    model = GradientBoostingRegressor(n_estimators=3, device="numpy", **choice)
    model.fit(given(), Y, eval_set=[(given(), Y), (X, Y)])
    scores = list(model.evals_result_.values())
    assert scores[0] == scores[1]


@pytest.mark.skipif(cuda_shim.why_not_available() is not None, reason="needs a C++ compiler")
@pytest.mark.parametrize("kind", ["CuPy", None, 2, 13], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_model_of_arrays_on_a_device(kind: Any, dtype: Any, tensors: None) -> None:
    on_gpu = to_gpu(X.astype(dtype))
    given = on_gpu if kind == "CuPy" else Tensor(on_gpu, kind)
    for model, expected in zip(models(**BY_INDEX), models_of_numpy("numbers"), strict=True):
        model.set_params(device="auto").fit(given, Y)
        assert model.device_ == "cuda:0" and model.fingerprint() == expected.fingerprint()
    binned = make("RandomForestRegressor").fit(Dataset(given, **BY_INDEX), Y)
    assert binned.fingerprint() == models_of_numpy("numbers")[0].fingerprint()


class NoArray:
    """A tensor that cannot become an array."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self.error("the tensor requires grad")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (NoArray(RuntimeError), ValueError, "X cannot be converted to an array: the tensor requ"),
        (NoArray(TypeError), TypeError, "X cannot be converted to an array: the tensor requires"),
        (exporter(pa.array([1, 2]), "__arrow_c_array__"), ValueError, "Expected 2D array, got Arr"),
        (pa.chunked_array([[1, 2]]), ValueError, "Expected 2D array, got 1D"),
        (pa.table([[1], [2]], ["a", "a"]), ValueError, "Feature names must differ"),
    ],
)
def test_containers_that_are_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset(given)


def test_polars_needs_no_other_library() -> None:
    code = (
        "import sys; sys.modules.update(pandas=None, pyarrow=None)\n"  # importing them is an error
        "import gpuboost, polars as pl\n"
        "data = {'a': [1.0, None], 'b': [True, None], 'c': [3, None], 'd': ['x', None]}\n"
        "frame = pl.DataFrame(data | {'e': pl.Series(['1.5', None]).cast(pl.Decimal(5, 1))})\n"
        "frame = frame.with_columns(f=pl.col('d').cast(pl.Categorical))\n"
        "train = gpuboost.Dataset(frame.lazy())\n"
        "assert train.binned.codes.tolist() == [[0, 1]] * 6, train.binned.codes\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
