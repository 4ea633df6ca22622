"""Frames of every library give the same tables as arrays, and schemas check later data."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from gpuboost.data.frames import apply_schema, fit_schema
from gpuboost.data.sparse_features import to_dense
from gpuboost.engine.bins import MAX_BINS
from gpuboost.estimators.inputs.dataset import Dataset
from tests.data.test_containers import exporter

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 200
CITIES = ["Bern", "Oslo", "Rom"]
RNG = np.random.default_rng(3)
NUMBER = RNG.normal(size=N).astype(np.float32)
SMALL = RNG.integers(-9, 9, N).astype(np.int8)
FLAG = RNG.random(N) < 0.5
CITY = [None if k % 7 == 0 else str(c) for k, c in enumerate(RNG.choice(CITIES, N))]
NAMES = ["number", "small", "flag", "city"]
DATA = dict(zip(NAMES, [NUMBER, SMALL, FLAG, CITY], strict=True))

EXPECTED = np.column_stack(
    [NUMBER, SMALL, FLAG, [np.nan if c is None else CITIES.index(c) for c in CITY]]
).astype(np.float32)


def pandas_frame(city=None):
    return pd.DataFrame(DATA | {"city": pd.Categorical(CITY) if city is None else city})


def polars_frame(dtype=pl.Categorical):
    return pl.DataFrame(DATA | {"city": pl.Series(CITY, dtype=pl.String)}).with_columns(
        pl.col("city").cast(dtype)
    )


def arrow_table():
    return pa.table(DATA | {"city": pa.array(CITY).dictionary_encode()})


def arrow_chunks():
    """A chunked array whose dictionaries have the same strings in different orders."""
    parts = [CITY[:50], CITY[50:51], CITY[51:]]
    chunks = [pa.array(part, pa.string()).dictionary_encode() for part in parts]
    return pa.table(DATA | {"city": pa.chunked_array(chunks)})


CATEGORY_FRAMES = {
    "pandas": pandas_frame,
    "pandas ordered": lambda: pandas_frame(
        pd.Categorical(CITY, categories=["Rom", "Ulm", "Bern", "Oslo"], ordered=True)
    ),
    "pandas arrow": lambda: pandas_frame(
        pd.Series(pd.array(CITY, dtype="string[pyarrow]")).astype("category")
    ),
    "polars": polars_frame,
    "polars enum": lambda: polars_frame(pl.Enum(["Rom", "Ulm", "Bern", "Oslo"])),
    "arrow": arrow_table,
    "arrow chunks": arrow_chunks,
    "arrow batch": lambda: arrow_table().combine_chunks().to_batches()[0],
}
STRING_FRAMES = {
    "pandas str": lambda: pandas_frame(pd.Series(CITY)),
    "pandas object": lambda: pandas_frame(pd.Series(CITY, dtype=object)),
    "polars": lambda: pl.DataFrame(DATA),
    "arrow": lambda: pa.table(DATA),
}


@pytest.mark.parametrize("make", CATEGORY_FRAMES.values(), ids=CATEGORY_FRAMES)
def test_category_types_are_categories(make):
    frame = make()
    matrix, schema = fit_schema(frame)
    assert matrix.dtype == np.float32
    assert np.array_equal(matrix, EXPECTED, equal_nan=True)
    assert schema.is_categorical.tolist() == [False, False, False, True]
    assert schema.codes[:3] == (None, None, None) and list(schema.codes[3]) == CITIES
    assert schema.names.tolist() == NAMES and schema.names.dtype == object
    again = apply_schema(frame, pickle.loads(pickle.dumps(schema)))
    assert np.array_equal(again, matrix, equal_nan=True)


@pytest.mark.parametrize("make", STRING_FRAMES.values(), ids=STRING_FRAMES)
def test_strings_are_categories(make):
    for choice in (["city"], [3], [False, False, False, True], np.array([3]), "from_dtype"):
        matrix, schema = fit_schema(make(), choice)
        assert np.array_equal(matrix, EXPECTED, equal_nan=True)
        assert list(schema.codes[3]) == CITIES
    with pytest.raises(ValueError, match=r"feature 3 \('city'\) does not convert .* make it a cat"):
        fit_schema(make(), None)


def test_frames_of_different_libraries_for_fit_and_predict():
    _, schema = fit_schema(pandas_frame())
    for make in CATEGORY_FRAMES.values():
        assert np.array_equal(apply_schema(make(), schema), EXPECTED, equal_nan=True)


def test_unknown_and_missing_categories_are_nan():
    _, schema = fit_schema(pd.DataFrame({"c": pd.Categorical(["b", "a", "b"])}))
    other = pl.DataFrame({"c": pl.Series(["z", "b", None, "a"], dtype=pl.Categorical)})
    assert np.array_equal(apply_schema(other, schema)[:, 0], [np.nan, 1, np.nan, 0], equal_nan=True)


def test_unused_categories_get_no_code():
    _, schema = fit_schema(pd.DataFrame({"c": pd.Categorical(["d", "b"], categories=list("abcd"))}))
    assert schema.codes == ({"b": 0, "d": 1},)


@pytest.mark.parametrize("as_frame", [False, True], ids=["array", "frame"])
def test_numbers_can_be_categories(as_frame):
    X = np.array([[-1.5, 1], [300, 2], [np.nan, 3], [-7, 4], [300, 5]])
    table = pd.DataFrame(X, columns=["a", "b"]) if as_frame else X
    matrix, schema = fit_schema(table, [0])
    assert schema.codes[0] == {-7: 0, -1.5: 1, 300: 2}
    assert np.array_equal(matrix[:, 0], [1, 2, np.nan, 0, 2], equal_nan=True)
    assert np.array_equal(matrix[:, 1], X[:, 1])
    assert np.array_equal(X[:, 0], [-1.5, 300, np.nan, -7, 300], equal_nan=True)
    other = np.array([[300.0, 0], [8, 0]])
    coded = apply_schema(pd.DataFrame(other, columns=["a", "b"]) if as_frame else other, schema)
    assert np.array_equal(coded[:, 0], [2, np.nan], equal_nan=True)


def test_object_arrays_hold_categories_and_numbers():
    X = np.column_stack([np.array(CITY, dtype=object), NUMBER.astype(object)])
    matrix, schema = fit_schema(X, [True, False])
    assert np.array_equal(matrix[:, 0], EXPECTED[:, 3], equal_nan=True)
    assert np.array_equal(matrix[:, 1], NUMBER)
    lists = [[c, float(v)] for c, v in zip(CITY, NUMBER, strict=True)]
    assert np.array_equal(apply_schema(lists, schema), matrix, equal_nan=True)


def test_rare_levels_share_the_last_code():
    # 300 categories: number k has 301 - k rows up to 250; the others have one row each and tie.
    counts = [max(1, 251 - k) for k in range(300)]
    column = np.repeat([f"level {k:03d}" for k in range(300)], counts)
    matrix, schema = fit_schema(column.reshape(-1, 1), [0])
    codes = matrix[:, 0].astype(int)
    assert codes.max() == MAX_BINS - 1
    assert schema.codes[0] == {f"level {k:03d}": min(k, 254) for k in range(300)}
    assert np.count_nonzero(codes == 254) == 46
    shuffled = np.random.default_rng(0).permutation(column).reshape(-1, 1)
    assert fit_schema(shuffled, [0])[1].codes == schema.codes
    assert apply_schema(np.array([["level 299"], ["level 3"]]), schema)[0, 0] == 254


def test_255_levels_keep_their_own_codes():
    matrix, schema = fit_schema(np.arange(255.0).reshape(-1, 1), [0])
    assert schema.codes[0] == {k: k for k in range(255)}
    assert np.array_equal(matrix[:, 0], np.arange(255))
    assert Dataset(np.arange(255.0).reshape(-1, 1), categorical_features=[0]).mapper.width == 256


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(t, np.float32) for t in ("f2", "f4", ">f4", "i1", "u1", "i2", "u2", "?")]
    + [(t, np.float64) for t in ("f8", ">f8", "g", "i4", "u4", "i8", "u8", "O", "U9")],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_numeric_types(dtype, expected, order):
    values = np.array([[0, 1], [1, 0], [1, 1]])
    X = np.array(values, dtype=dtype, order=order)
    matrix, _ = fit_schema(X)
    assert matrix.dtype == expected
    assert np.array_equal(matrix, values)
    if X.dtype == expected:
        assert matrix is X


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dok", "lil", "dia"])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.int64, np.float64, bool])
def test_sparse_matrices_hold_zeros(kind, dtype):
    values = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 1, 1]], dtype=dtype)
    for make in (scipy.sparse.csr_matrix, scipy.sparse.csr_array):
        matrix, schema = fit_schema(make(values).asformat(kind))
        expected, _ = fit_schema(values)
        assert matrix.dtype == expected.dtype
        np.testing.assert_array_equal(to_dense(matrix), expected)
        np.testing.assert_array_equal(to_dense(apply_schema(make(values), schema)), expected)


def test_a_sparse_matrix_that_is_too_large_says_so():
    large = scipy.sparse.csc_matrix((1 << 30, 1 << 15), dtype=np.float64)
    with pytest.raises(MemoryError, match=r"1073741824 x 32768, .* 262144\.0 GiB.*fewer"):
        to_dense(fit_schema(large)[0])


def test_nulls_are_nan_whatever_the_type():
    rows = {"i": [1, None, 3], "b": [True, None, False], "f": [1.5, None, 2.0]}
    expected = [[1, 1, 1.5], [np.nan] * 3, [3, 0, 2]]
    nullable = pd.DataFrame(
        {
            "i": pd.array(rows["i"], dtype="Int64"),
            "b": pd.array(rows["b"], dtype="boolean"),
            "f": pd.array(rows["f"], dtype="Float64"),
        }
    )
    for frame in (nullable, pl.DataFrame(rows), pa.table(rows), pd.DataFrame(rows, dtype=object)):
        assert np.array_equal(fit_schema(frame)[0], expected, equal_nan=True)
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    assert np.array_equal(fit_schema(masked)[0], [[1, np.nan], [3, 4]], equal_nan=True)


class ArrayProtocol:
    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


class DevicePart:
    """A device array as of CuPy, Numba or PyTorch, with one method to copy it to the host."""

    def __init__(self, array, method):
        self.__cuda_array_interface__ = {"version": 3}
        setattr(self, method, lambda: array)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion is not allowed")


def test_other_arrays_reach_the_host():
    X = NUMBER.reshape(-1, 4).copy()
    dlpack = exporter(X, "__dlpack__", "__dlpack_device__")
    others = [ArrayProtocol(X), dlpack, DevicePart(X, "get"), DevicePart(X, "copy_to_host")]
    for other in [*others, X.tolist(), pd.DataFrame(X), pl.DataFrame(X)]:
        assert np.array_equal(fit_schema(other)[0], X)


def test_undeclared_categories_are_converted_to_numbers():
    frame = pd.DataFrame({"c": pd.Categorical([3, 1, None, 3])})
    matrix, schema = fit_schema(frame, None)
    assert np.array_equal(matrix[:, 0], [3, 1, np.nan, 3], equal_nan=True)
    assert not schema.is_categorical.any()
    with pytest.raises(ValueError, match=r"\('city'\) does not convert"):
        fit_schema(pandas_frame(), None)


def test_names_are_kept_only_if_strings():
    assert fit_schema(pd.DataFrame(np.eye(2)))[1].names is None
    with pytest.raises(TypeError, match="all input features have string names"):
        fit_schema(pd.DataFrame(np.eye(2), columns=["a", 1]))
    with pytest.raises(ValueError, match="must differ"):
        fit_schema(pd.DataFrame(np.eye(2), columns=["a", "a"]))


def test_other_data_must_have_the_same_features():
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "c"])
    _, schema = fit_schema(frame)
    with pytest.raises(ValueError, match="must be in the same order"):
        apply_schema(frame[["b", "a", "c"]], schema)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- d\n.*now missing:\n- c\n"):
        apply_schema(frame.rename(columns={"c": "d"}), schema)
    with pytest.raises(ValueError, match="yet now missing:\n- c\n"):
        apply_schema(frame[["a", "b"]], schema)
    with pytest.warns(UserWarning, match="does not have valid feature names, but Model was fitted"):
        apply_schema(frame.to_numpy(), schema, "Model")
    _, unnamed = fit_schema(np.eye(3))
    with pytest.warns(UserWarning, match="Dataset was fitted without feature names"):
        apply_schema(frame, unnamed)
    with pytest.raises(ValueError, match="X has 2 features, but Model is expecting 3 features"):
        apply_schema(np.eye(2), unnamed, "Model")


BAD_TABLES = {
    "sparse complex": (scipy.sparse.csr_matrix(np.eye(2) * 1j), ValueError, "Complex data not"),
    "sparse vector": (scipy.sparse.coo_array(np.ones(2)), ValueError, "Reshape your data"),
    "complex": (np.eye(2) * 1j, ValueError, "Complex data not supported"),
    "dates": (np.zeros((2, 1), "M8[s]"), ValueError, "which is not numeric or categorical"),
    "date column": (
        pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}),
        ValueError,
        r"feature 0 \('d'\) has type datetime64",
    ),
    "words": (np.array([["1", "x"]]), ValueError, "feature 1 does not convert to numbers"),
    "dict": (np.array([[{}]]), TypeError, "argument must be a string or a real number"),
    "huge": (np.array([[10**400]]), ValueError, "feature 0 does not convert"),
    "ragged": ([[1, 2], [3]], ValueError, "X cannot be converted to an array"),
    "none": (None, TypeError, "Expected array-like"),
    "text": ("abc", TypeError, "got 'abc' for X"),
    "vector": (np.zeros(3), ValueError, "Reshape your data"),
    "series": (pd.Series([1.0]), ValueError, "Reshape your data"),
    "polars series": (pl.Series([1.0]), ValueError, "Reshape your data"),
    "cube": (np.zeros((2, 2, 2)), ValueError, "got 3D array"),
    "scalar": (np.array(3.0), ValueError, "got scalar array"),
    "no rows": (np.zeros((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
    "no columns": (np.zeros((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a min"),
    "no rows frame": (pd.DataFrame({"a": []}), ValueError, r"0 sample\(s\)"),
    "no columns frame": (pd.DataFrame(index=[1, 2]), ValueError, r"0 feature\(s\)"),
}


@pytest.mark.parametrize(("X", "error", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_tables(X, error, message):
    with pytest.raises(error, match=message):
        Dataset(X)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("auto", "must be 'from_dtype', None, or a mask"),
        ("city", r"pass \['city'\]"),
        ([True, False], r"must have shape .* is \(4,\) here"),
        ([[True] * 4], r"must have shape .* is \(4,\) here"),
        ([4], r"is \[0, 3\] here, got \[4\]"),
        ([-1], r"is \[0, 3\] here, got \[-1\]"),
        (["town"], "item value 'town' which is not a valid feature name"),
        ([1.5], "indices or names"),
        ([None], "indices or names"),
    ],
    ids=repr,
)
def test_bad_categorical_features(choice, message):
    with pytest.raises(ValueError, match=message):
        fit_schema(pandas_frame(), choice)


def test_names_need_a_frame_and_levels_must_hash():
    with pytest.raises(ValueError, match="without feature names"):
        fit_schema(np.eye(2), ["a"])
    with pytest.raises(TypeError, match="categories are strings or numbers"):
        fit_schema(np.array([[{}]]), [0])
    for nothing in ([], None):
        assert not fit_schema(np.eye(2), nothing)[1].is_categorical.any()


def test_reading_frames_imports_no_frame_library():
    code = (
        "import sys, sklearn.ensemble; before = set(sys.modules); import numpy as np; "
        "from gpuboost.estimators.inputs.dataset import Dataset; Dataset(np.eye(3)); "
        "frames = {'pandas', 'polars', 'pyarrow', 'numba', 'cupy', 'torch', 'matplotlib', 'tqdm'}; "
        "loaded = frames & (set(sys.modules) - before); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
