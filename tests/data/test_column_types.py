"""Types of columns: which are numbers, which are categories, and which are refused."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from gpuboost import Dataset, DecisionTreeRegressor, GradientBoostingRegressor
from gpuboost.data.frames import apply_schema, fit_schema

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

LIBRARIES = {
    "pandas": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=object)}),
    "pandas Arrow": lambda values: pa.table({"c": pa.array(values)}).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda values: pl.DataFrame({"c": pl.Series(values)}),
    "Arrow": lambda values: pa.table({"c": pa.array(values)}),
}


def column(values: Any, **words: Any) -> Any:
    """A pandas frame of one column."""
    return pd.DataFrame({"c": pd.Series(values, **words)})


# ---- numbers -----------------------------------------------------------------------------------

ARROW_NUMBERS = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "decimal32", "decimal64", "decimal128", "decimal256"),
]
ARROW_NUMBERS = [name for name in ARROW_NUMBERS if hasattr(pa, name)]


@pytest.mark.parametrize("name", ARROW_NUMBERS)
@pytest.mark.parametrize("values", [[2, None, 100, 0], [2, 5, 100, 0]], ids=["null", "whole"])
def test_every_numeric_type_of_arrow(name, values):
    words = (5, 1) if name.startswith("decimal") else ()
    scalars = [None if v is None else np.float16(v) for v in values]
    given = scalars if name == "float16" else values
    table = pa.table({"c": pa.array(given, getattr(pa, name)(*words))})
    found, schema = fit_schema(table)
    expected = [np.nan if v is None else v for v in values]
    assert np.array_equal(found[:, 0], expected, equal_nan=True)
    assert not schema.is_categorical[0]
    named, schema = fit_schema(table, ["c"])
    assert list(schema.codes[0]) == sorted(v for v in values if v is not None)
    assert np.array_equal(np.isnan(named), np.isnan(found))


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_integers_beyond_float64_are_rounded(make):
    values = [2**60 + 1, None, -(2**53) - 1]
    found = fit_schema(make(values))[0][:, 0]
    assert np.array_equal(found, [2.0**60, np.nan, -(2.0**53)], equal_nan=True)


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this polars has no such integers")
def test_integers_of_128_bits():
    for values in ([2**100, None], [2**100, -1]):
        frame = pl.DataFrame({"c": pl.Series(values, dtype=pl.Int128)})
        expected = [2.0**100, np.nan if values[1] is None else values[1]]
        assert np.array_equal(fit_schema(frame)[0][:, 0], expected, equal_nan=True)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_decimals_are_the_nearest_floats(make):
    """Arrow's own conversion is off by one bit in one case of seven."""
    rng = np.random.default_rng(0)
    for largest, scale in ((10**9, 3), (2**48, 2), (2**48, 20), (2**62, 3), (2**62, 30)):
        whole = rng.integers(-largest, largest, 300).tolist()
        values = [Decimal(k).scaleb(-scale) for k in whole]
        found = fit_schema(make([*values, None]))[0][:, 0]
        assert np.array_equal(found, [*map(float, values), np.nan], equal_nan=True)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_columns_without_values_are_numbers(make):
    found, schema = fit_schema(make([None, None]))
    assert np.isnan(found).all() and not schema.is_categorical.any()


# ---- strings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_strings_are_categories_even_if_they_look_like_numbers(make):
    frame = make(["10", None, "9", "10"])
    found, schema = fit_schema(frame)
    assert schema.codes == ({"10": 0, "9": 1},)
    assert np.array_equal(found[:, 0], [0, np.nan, 1, 0], equal_nan=True)
    for choice in (None, []):
        numbers, schema = fit_schema(frame, choice)
        assert np.array_equal(numbers[:, 0], [10, np.nan, 9, 10], equal_nan=True)
        assert np.array_equal(apply_schema(frame, schema), numbers, equal_nan=True)
    with pytest.raises(ValueError, match=r"feature 0 \('c'\) does not convert .* make it a cat"):
        fit_schema(make(["ten"]), None)


@pytest.mark.parametrize("dtype", [object, "U2", np.dtypes.StringDType()], ids=str)
def test_strings_of_arrays_are_numbers_unless_declared(dtype):
    strings = np.array([["1"], ["2"]], dtype=dtype)
    found, schema = fit_schema(strings)
    assert found[:, 0].tolist() == [1, 2] and not schema.is_categorical.any()
    assert fit_schema(strings, [0])[1].codes == ({"1": 0, "2": 1},)


def test_all_rows_decide_whether_python_objects_are_strings():
    words, missing = ["a", "b"] * 60, [None] * 120
    _, schema = fit_schema(column([*missing, *words], dtype=object))
    assert schema.codes == ({"a": 0, "b": 1},)
    found, schema = fit_schema(column([*missing, 1.5], dtype=object))
    assert not schema.is_categorical[0] and found[-1, 0] == 1.5
    with pytest.raises(ValueError, match=r"feature 0 \('c'\) does not convert to numbers"):
        fit_schema(column([*words, 1.5], dtype=object))


# ---- types that are refused --------------------------------------------------------------------

DATES = {
    "date": datetime.date(2020, 1, 1),
    "datetime": datetime.datetime(2020, 1, 1),
    "time": datetime.time(1, 30),
    "duration": datetime.timedelta(days=1),
}
PARTS = {"list": [1, 2], "struct": {"a": 1}, "tuple": (1, 2), "bytes": b"1"}


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("choice", ["from_dtype", None, [0]], ids=str)
@pytest.mark.parametrize("name", [*DATES, *PARTS])
def test_dates_lists_and_bytes_are_refused(name, choice, make):
    advice = "make numbers of it, such as days since a date" if name in DATES else "make columns of"
    error, message = ValueError, f"has type .*{advice}"
    if name == "struct" and make is LIBRARIES["pandas"]:  # a dict, for which scikit-learn asks this
        error, message = TypeError, "value that .* 'dict'"
    frame = make([(DATES | PARTS)[name], None])
    with pytest.raises(error, match=rf"feature 0 \('c'\) .*{message}"):
        fit_schema(frame, choice)


OTHERS = {
    "dates of NumPy": (np.zeros((2, 1), "M8[D]"), "X has type datetime64.*days since a date"),
    "durations of NumPy": (np.zeros((2, 1), "m8[D]"), "X has type timedelta64.*days since a date"),
    "dates as objects": (
        np.array([[datetime.date(2020, 1, 1)]]),
        "feature 0 has type date, .*days",
    ),
    "records": (np.zeros((2, 1), [("a", float)]), "X has type .*make columns of numbers"),
    "complex": (column([1j, 2]), r"Complex data not supported: feature 0 \('c'\)"),
    "complex objects": (column([1j, "a"], dtype=object), "Complex data not supported"),
    "periods": (column(pd.period_range("2020", periods=2)), "has type Period, .*days since"),
    "categories of dates": (
        column(pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01"]))),
        "has type Timestamp, .*days since",
    ),
    "categories of bytes": (pa.table({"c": pa.array([b"a"]).dictionary_encode()}), "type bytes"),
    "views of bytes": (pa.table({"c": pa.array([b"a"], pa.binary_view())}), "has type bytes"),
}


@pytest.mark.parametrize(("given", "message"), OTHERS.values(), ids=OTHERS)
def test_other_types_that_are_refused(given, message):
    for choice in ("from_dtype", [0]):
        if isinstance(given, np.ndarray) and choice == [0]:
            message = message.replace("X has", "feature 0 has")
        with pytest.raises(ValueError, match=message):
            fit_schema(given, choice)


def test_missing_dates_of_pandas_are_missing_values():
    frame = column([pd.NaT, 1.5, pd.NA, np.float32("nan")], dtype=object)
    assert np.array_equal(fit_schema(frame)[0][:, 0], [np.nan, 1.5, np.nan, np.nan], equal_nan=True)
    assert fit_schema(frame, [0])[1].codes == ({1.5: 0},)


def test_intervals_can_be_categories():
    frame = column(pd.cut([1, 2, 3], 2))
    found, schema = fit_schema(frame)
    assert found[:, 0].tolist() == [0, 0, 1]
    assert np.array_equal(apply_schema(frame, schema), found)


# ---- types after the fit -----------------------------------------------------------------------

LEARNT = {
    "strings": (["1", "2"], "categories that are strings (such as '1')"),
    "integers": ([1, 2], "categories that are numbers (such as 1)"),
    "bools": ([True, False], "categories that are numbers (such as False)"),
}
CAME: dict[str, Any] = {
    "strings": column(["1", "2"], dtype="str"),
    "categories of strings": column(pd.Categorical(["1", "7"])),
    "integers": column([1, 2]),
    "categories of integers": column(pd.Categorical([1, 2])),
    "other integers": column(pd.Categorical([5, 7])),
    "floats": column([1.0, 2.0]),
    "an array": np.array([[1.0], [2.0]]),
    "bools": column([True, False]),
}


def uses(learnt: Any, came: Any):
    """Ways to use other data with a model or a `Dataset` of categories."""
    y = np.arange(len(learnt), dtype=float)
    tree = DecisionTreeRegressor(device="numpy").fit(learnt, y)
    boosting = GradientBoostingRegressor(n_estimators=1, device="numpy", warm_start=True)
    return {
        "predict": lambda: tree.predict(came),
        "reference": lambda: Dataset(came, reference=Dataset(learnt)),
        "eval_set": lambda: boosting.fit(learnt, y, eval_set=[(came, y)]),
        "warm start": lambda: boosting.fit(learnt, y).set_params(n_estimators=2).fit(came, y),
    }


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("came", CAME)
@pytest.mark.parametrize("learnt", LEARNT)
@pytest.mark.parametrize("use", ["predict", "reference", "eval_set", "warm start"])
def test_categories_keep_their_type(use, learnt, came):
    values, text = LEARNT[learnt]
    call = uses(column(pd.Categorical(values)), CAME[came])[use]
    if ("strings" in learnt) == ("strings" in came):
        call()
        return
    with pytest.raises(ValueError) as found:
        call()
    kind = "strings (such as '1')" if "strings" in came else "numbers (such as "
    message = str(found.value)
    assert message.startswith(f"feature 0 ('c') had {text} in fit, but now has {kind}"), message


@pytest.mark.parametrize("use", ["predict", "reference", "eval_set", "warm start"])
@pytest.mark.parametrize("came", ["strings", "categories of strings", "categories of integers"])
def test_numbers_stay_numbers(use, came):
    call = uses(column([1.0, 2.0]), CAME[came])[use]
    message = r"feature 0 \('c'\) had numbers in fit, but now has categories that are .*to numbers"
    with pytest.raises(ValueError, match=message):
        call()


def test_unknown_categories_are_missing_also_beside_values_of_another_type():
    _, schema = fit_schema(column(["a", "b"]))
    for values in (["c", "d"], ["a", 5], ["c", 5], [5, "b", None]):
        found = apply_schema(column(values, dtype=object), schema)[:, 0]
        codes = [{"a": 0, "b": 1}.get(value, np.nan) for value in values]
        assert np.array_equal(found, codes, equal_nan=True)


NOTHING = {
    "floats": column([np.nan, np.nan]),
    "objects": column([None, None], dtype=object),
    "strings": column([None, None], dtype="str"),
    "categories": column(pd.Categorical([None, None])),
    "unused categories": column(pd.Categorical([None, None], categories=["x"])),
    "unused numbers": column(pd.Categorical([None, None], categories=[4])),
    "polars": pl.DataFrame({"c": pl.Series([None, None], dtype=pl.String)}),
    "nulls": pa.table({"c": pa.nulls(2)}),
}


@pytest.mark.parametrize("came", NOTHING)
@pytest.mark.parametrize("learnt", ["a", "1", "nothing"])
def test_columns_without_values_have_any_type(came, learnt):
    values = {"a": ["a", "b"], "1": [1.0, 2.0], "nothing": [None, None]}[learnt]
    _, schema = fit_schema(column(values))
    assert np.isnan(apply_schema(NOTHING[came], schema)).all()
    DecisionTreeRegressor(device="numpy").fit(NOTHING[came], [0.0, 1.0]).predict(NOTHING[came])


@pytest.mark.parametrize("came", NOTHING)
def test_a_column_without_values_in_fit_is_missing_later(came):
    _, schema = fit_schema(NOTHING[came])
    for name in ("strings", "categories of integers"):
        assert np.isnan(apply_schema(CAME[name], schema)).all()
    apply_schema(CAME["integers"], schema)


def test_a_declared_choice_converts_columns_of_any_type():
    """With an explicit choice, the types of columns do not matter, neither in fit nor later."""
    _, schema = fit_schema(column([1.0, 2.0]), None)
    for name in ("strings", "categories of strings", "categories of integers"):
        found = apply_schema(CAME[name], schema)[:, 0]
        assert found.tolist() == [1.0, 7.0 if "of strings" in name else 2.0]


@pytest.mark.parametrize("columns", [["b", "a", "c"], ["a", "b", "d"], ["a", "b"]], ids=str)
def test_names_in_another_order_are_the_error_of_scikit_learn(columns):
    from sklearn.ensemble import HistGradientBoostingRegressor

    frame = pd.DataFrame(np.eye(4)[:, :3], columns=["a", "b", "c"])
    other = frame.set_axis(["a", "b", "d"], axis=1) if "d" in columns else frame[columns]
    messages = []
    for model in (GradientBoostingRegressor(device="numpy"), HistGradientBoostingRegressor()):
        with pytest.raises(ValueError) as found:
            model.fit(frame, np.arange(4.0)).predict(other)
        messages.append(str(found.value))
    assert messages[0] == messages[1]
