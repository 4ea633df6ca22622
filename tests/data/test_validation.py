"""Bad input raises clear errors, and good input is converted to one form."""

import ctypes
import mmap
import platform
import re

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.class_weight import compute_class_weight

from gpuboost.data import parameters as p
from gpuboost.data import validation as v
from gpuboost.data.class_labels import check_classes
from gpuboost.data.class_weight import balanced_weights, class_weights

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def test_features_may_be_nan_but_not_infinite():
    X = np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float32)
    assert v.check_features(X) is X
    tall = np.zeros((70_000, 2))
    tall[69_999, 1] = -np.inf
    with pytest.raises(ValueError, match=r"infinity: feature 1 \('b'\) is -inf in row 69999; clip"):
        v.check_features(tall, np.array(["a", "b"]))


def test_too_many_rows():
    endless = np.broadcast_to(np.float32(0), (2**31, 1))
    with pytest.raises(ValueError, match=r"has 2147483648 rows, but at most 2147483647"):
        v.check_features(endless)


WEIGHTS = {
    "short": ([1.0, 2.0], r"sample_weight.shape == \(2,\), expected \(3,\): one weight"),
    "matrix": (np.ones((3, 2)), r"shape == \(3, 2\)"),
    "negative": ([1, -2, 3], "Negative values in data passed to `sample_weight`: -2.0 in row 1"),
    "zero": ([0, 0, 0], "is zero for every row"),
    "zero scalar": (0, "is zero for every row"),
    "nan": ([1, np.nan, 1], r"sample_weight contains NaN\. .*is 1;"),
    "infinite": ([1, 1, np.inf], "sample_weight contains infinity"),
    "sum": ([1e308, 1e308, 1e308], "sums to infinity"),
    "words": (["a", "b", "c"], "sample_weight must be numeric"),
    "complex": (np.ones(3) * 1j, "sample_weight must be numeric, got type complex128"),
}


@pytest.mark.parametrize(("weights", "message"), WEIGHTS.values(), ids=WEIGHTS)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        v.check_weights(weights, 3)


def test_good_weights():
    assert v.check_weights(None, 3) is None
    assert v.check_weights(2, 3).tolist() == [2, 2, 2]
    for weights in ([1, 0, 3], np.array([1, 0, 3], np.float32), pd.Series([1, 0, 3])):
        checked = v.check_weights(weights, 3)
        assert checked.dtype == np.float64 and checked.tolist() == [1, 0, 3]


# ---- targets -----------------------------------------------------------------------------------

LABELS = {
    "ints": ([3, 1, 3], [1, 3], np.int64),
    "uint8": (np.array([3, 1, 3], np.uint8), [1, 3], np.uint8),
    "int8 range": (np.array([-128, 127, -128], np.int8), [-128, 127], np.int8),
    "far apart": ([10**15, -5, 10**15], [-5, 10**15], np.int64),
    "large": (np.array([2**64 - 1, 2**64 - 2], np.uint64), [2**64 - 2, 2**64 - 1], np.uint64),
    "floats": ([1.0, -2.0, 1.0], [-2.0, 1.0], np.float64),
    "large floats": ([1e300, 0.0], [0.0, 1e300], np.float64),
    "bools": ([True, False], [False, True], np.bool_),
    "one class": ([7, 7], [7], np.int64),
    "strings": (["b", "a", "b"], ["a", "b"], np.dtype("U1")),
    "objects": (np.array(["b", "a"], object), ["a", "b"], np.object_),
    "object ints": (np.array([2, 1], object), [1, 2], np.int64),
    "pandas": (pd.Series(["b", "a"], index=[5, 9]), ["a", "b"], np.object_),
    "pandas category": (pd.Series(["b", "a"], dtype="category"), ["a", "b"], np.object_),
    "pandas nullable": (pd.Series([2, 1], dtype="Int64"), [1, 2], np.int64),
    "polars": (pl.Series(["b", "a"]), ["a", "b"], np.asarray(pl.Series(["b"])).dtype),
    "arrow": (pa.array([2, 1, 2]), [1, 2], np.int64),
}


@pytest.mark.parametrize(("y", "classes", "dtype"), LABELS.values(), ids=LABELS)
def test_classes_are_numbered_in_sorted_order(y, classes, dtype):
    codes, found = check_classes(y)
    assert codes.dtype == np.int32
    assert found.dtype == dtype
    assert found.tolist() == classes
    assert found[codes].tolist() == np.asarray(y).tolist()


BAD_LABELS = {
    "none": (None, "requires y to be passed, but the target y is None"),
    "nan": ([0.0, np.nan], "Input y contains NaN"),
    "infinite": ([0.0, np.inf], "Input y contains infinity"),
    "missing object": (np.array(["a", None], object), "a label is missing"),
    "missing string": (pd.Series(["a", None]), "a label is missing"),
    "missing nullable": (pd.Series([1, None], dtype="Int64"), "contains NaN"),
    "continuous": ([0.5, 1.0], "Unknown label type: continuous"),
    "object floats": (np.array([0.5, 1.0], object), "Unknown label type: continuous"),
    "complex": ([1j], "Complex data not supported"),
    "dates": (np.zeros(2, "M8[s]"), "Unknown label type: datetime64"),
    "mixed": (np.array(["a", 1], object), r"all strings or all numbers, got \['int', 'str'\]"),
    "unhashable": (np.array([{}, {}], object), "Unknown label type: unknown"),
    "outputs": (
        np.ones((3, 2)),
        r"shape \(3, 2\): this classifier does not support several outputs",
    ),
    "cube": (np.ones((1, 1, 1)), "y should be a 1d array"),
    "empty": ([], "y should be a 1d array"),
    "scalar": (np.array(1), "y should be a 1d array"),
}


@pytest.mark.parametrize(("y", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_bad_labels(y, message):
    with pytest.raises(ValueError, match=message):
        check_classes(y)


def test_a_column_of_labels_is_a_vector_with_a_warning():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array"):
        codes, _ = check_classes(np.array([[1], [0]]))
    assert codes.tolist() == [1, 0]


def test_good_targets():
    for y in ([1, 2], np.array([[1], [2]]), pd.Series([1.0, 2]), np.array(["1", "2"], object)):
        checked = v.check_targets(y)
        assert checked.dtype == np.float64 and checked.tolist() == [1.0, 2.0]
    two = v.check_targets(np.array([[1, 2], [3, 4]], order="F"))
    assert two.shape == (2, 2) and two.flags.c_contiguous


BAD_TARGETS = {
    "none": (None, "the target y is None"),
    "nan": ([[1.0, 2.0], [3.0, np.nan]], r"Input y contains NaN\. .*is 1, in output 1;"),
    "infinite": ([np.inf], "Input y contains infinity"),
    "words": (["a"], "y must be numeric"),
    "missing": (np.array([pd.NA, 1.0], object), "y must be numeric"),
    "dates": (np.zeros(2, "m8[s]"), "y must be numeric, got type timedelta64"),
    "complex": ([1j], "Complex data not supported"),
    "cube": (np.ones((1, 1, 1)), "of one column per output"),
    "empty": ([], "of one column per output"),
    "no outputs": (np.ones((3, 0)), "of one column per output"),
    "ragged": ([[1], [1, 2]], "y cannot be converted to an array"),
}


@pytest.mark.parametrize(("y", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_bad_targets(y, message):
    with pytest.raises(ValueError, match=message):
        v.check_targets(y)


def test_lengths_must_agree():
    v.check_same_length(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X has 3 rows and y has"):
        v.check_same_length(np.eye(3), np.ones(4))


# ---- class weights -----------------------------------------------------------------------------

CODES = np.array([0, 0, 1, 2, 2, 2], dtype=np.int32)
CLASSES = np.array(["a", "b", "c"])


@pytest.mark.parametrize("choice", ["balanced", {"a": 2, "b": 0.5, "c": 0}, {"b": 3}, {}])
def test_class_weights_equal_scikit_learns(choice):
    expected = compute_class_weight(choice, classes=CLASSES, y=CLASSES[CODES])
    assert class_weights(choice, CODES, CLASSES).tolist() == expected.tolist()


def test_class_weights_of_labels_that_are_not_there():
    assert class_weights(None, CODES, CLASSES) is None
    extra = {"a": 1, "b": 2, "c": 3, "d": 4}
    assert class_weights(extra, CODES, CLASSES).tolist() == [1, 2, 3]
    assert balanced_weights(np.array([2, 0, 2])).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        ({"a": 1, "d": 2}, ValueError, r"labels \['d'\], which are not in y, and no weight for"),
        ({"a": -1}, ValueError, r"class_weight\['a'\] must be a number >= 0.0, got -1"),
        ({"a": np.nan}, ValueError, r"class_weight\['a'\] must be"),
        ({"a": "1"}, TypeError, r"class_weight\['a'\] must be a number"),
        ("even", ValueError, "dict mapping class labels to weights, or 'balanced', got 'even'"),
        ([1, 2], ValueError, "class_weight must be None"),
    ],
    ids=str,
)
def test_bad_class_weights(choice, error, message):
    with pytest.raises(error, match=message):
        class_weights(choice, CODES, CLASSES)


# ---- parameters --------------------------------------------------------------------------------

GOOD_PARAMETERS = [
    (p.one_of("criterion", "gini", ("gini", "entropy")), "gini"),
    (p.one_of("max_features", None, ("sqrt", None)), None),
    (p.boolean("bootstrap", np.True_), True),
    (p.integer_at_least("n_estimators", np.int32(7), 1), 7),
    (p.integer_between("max_bins", 2, 2, 255), 2),
    (p.number_between("ccp", 0, 0.0), 0.0),
    (p.number_between("rate", np.float32(0.5), 0.0, low_included=False), 0.5),
    (p.fraction("max_samples", 1), 1.0),
    (p.fraction("leaf", 0.5, one=False), 0.5),
    (p.thread_count(3), 3),
]


@pytest.mark.parametrize(("value", "expected"), GOOD_PARAMETERS)
def test_good_parameters(value, expected):
    assert value == expected and type(value) is type(expected)


BAD_PARAMETERS = [
    (
        lambda: p.one_of("criterion", "gin", ("gini", "x")),
        ValueError,
        "one of 'gini', 'x', got 'g",
    ),
    (
        lambda: p.one_of("voting", 1, (True, "soft")),
        ValueError,
        "one of True, 'soft', got 1",
    ),
    (
        lambda: p.boolean("bootstrap", 1),
        TypeError,
        "bootstrap must be True or False, got 1",
    ),
    (
        lambda: p.integer_at_least("n", 0, 1),
        ValueError,
        "n must be an integer of at least 1, got 0",
    ),
    (lambda: p.integer_at_least("n", 1.0, 1), TypeError, "got 1.0 of type float"),
    (lambda: p.integer_at_least("n", True, 1), TypeError, "got True of type bool"),
    (
        lambda: p.number_between("x", "1", 0.0),
        TypeError,
        "x must be a number >= 0.0, got '1'",
    ),
    (lambda: p.number_between("x", np.nan, 0.0), ValueError, "got nan"),
    (lambda: p.number_between("x", np.inf, 0.0), ValueError, "got inf"),
    (
        lambda: p.fraction("x", 0.0),
        ValueError,
        "x must be a number > 0.0 and <= 1.0, got 0.0",
    ),
    (lambda: p.fraction("x", 1.0, one=False), ValueError, "> 0.0 and < 1.0, got 1.0"),
    (lambda: p.thread_count(0), ValueError, "n_jobs must not be 0"),
    (lambda: p.thread_count(1.5), TypeError, "n_jobs must be None or an integer"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_PARAMETERS)
def test_bad_parameters(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- the machine -------------------------------------------------------------------------------


@pytest.fixture
def set_float_control():
    """A function that sets the floating-point control register of this thread."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        pytest.skip("needs x86-64 Linux to set flush-to-zero")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\x0f\xae\x17\xc3")  # ldmxcsr [rdi]; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    call = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint32))(address)
    yield lambda word: call(ctypes.byref(ctypes.c_uint32(word)))
    call(ctypes.byref(ctypes.c_uint32(0x1F80)))


@pytest.mark.parametrize("flag", [0x8000, 0x0040], ids=["flush to zero", "denormals are zero"])
def test_flush_to_zero_is_detected(set_float_control, flag):
    v.check_flush_to_zero()
    set_float_control(0x1F80 | flag)
    try:
        with pytest.warns(RuntimeWarning, match="Denormal numbers are rounded to zero"):
            v.check_flush_to_zero()
    finally:
        set_float_control(0x1F80)
    v.check_flush_to_zero()


def test_messages_say_what_to_do():
    with pytest.raises(ValueError) as caught:
        v.check_shape(np.zeros(3))
    assert re.search(r"shape \(3,\).*X\.reshape\(-1, 1\)", str(caught.value))
