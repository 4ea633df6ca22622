"""Python values as JSON, in which each type can be told: typed arrays, tuples, dicts and floats.

JSON's null, booleans, strings, integers, finite floats and lists stand for themselves. All others
are objects with one field that names the type::

    {"float": "nan"}                            nan, inf or -inf
    {"tuple": [1, 2]}
    {"set": [1, 2]}                             a set or frozenset
    {"dict": [["key", 1], [2, null]]}           keys and values
    {"array": ["<U3", ["a", "b"]]}              dtype and values of a vector
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.io.checks import require

_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_INTEGER_TYPES = ("|b1", *(f"{o}{k}{n}" for k in "iu" for n in (1, 2, 4, 8) for o in "<|"))
_FLOAT_TYPES = ("<f2", "<f4", "<f8")
_MAX_STRING, _MAX_DIGITS = 2**20, 40  # of an array of strings; of an integer
_MAX_EQUAL_HASHES = 16


class NotStorable(ValueError):
    """A value that a file cannot hold, such as a function."""


def to_json(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """The value as JSON; ``other`` encodes the objects that this module does not know.

    Raises
    ------
    NotStorable
        If there is no JSON for the value.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [to_json(each, other) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [to_json(each, other) for each in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [to_json(each, other) for each in sorted(value, key=repr)]}
    if isinstance(value, dict):
        return {"dict": [[to_json(k, other), to_json(v, other)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": _array_to_json(value)}
    if other is None:
        raise NotStorable(f"{value!r:.80} cannot be stored in a file")
    return other(value)


def _array_to_json(array: np.ndarray) -> list[Any]:
    kind = array.dtype.kind
    if array.ndim != 1 or kind not in "biufUTO":
        raise NotStorable(
            f"an array of type {array.dtype} and shape {array.shape} cannot be stored in a file; "
            "convert labels to strings or numbers before the fit"
        )
    if kind in "UTO":
        values = array.tolist()
        if not all(isinstance(each, (str, bool, int)) for each in values):
            raise NotStorable(
                f"an array of objects that are not strings or integers cannot be stored in a file: "
                f"{array!r:.80}"
            )
        return [f"<U{array.dtype.itemsize // 4}" if kind == "U" else "object", values]
    return [array.dtype.newbyteorder("<").str, [to_json(each) for each in array.tolist()]]


def from_json(value: Any, other: Callable[[str, Any], Any] | None = None) -> Any:
    """The value of JSON made by `to_json`; ``other`` decodes unknown types, by name and content."""
    if isinstance(value, list):
        return [from_json(each, other) for each in value]
    if not isinstance(value, dict):
        return value
    require(len(value) == 1, "an object of a value does not have one field, its type")
    kind, content = next(iter(value.items()))
    if kind == "float":
        require(isinstance(content, str) and content in _SPECIAL, "a float is not nan, inf or -inf")
        return _SPECIAL[content]
    if kind == "tuple":
        require(isinstance(content, list), "a tuple is not a list")
        return tuple(from_json(each, other) for each in content)
    if kind == "set":
        is_scalars = isinstance(content, list) and not any(
            isinstance(each, (list, dict)) for each in content
        )
        require(is_scalars, "a set is not a list of numbers, strings or bools")
        return set(distinct(content, "a set has a value twice"))
    if kind == "dict":
        return _dict_from_json(content, other)
    if kind == "array":
        return array_from_json(content)
    require(other is not None, f"a value has the unknown type {kind!r:.40}")
    assert other is not None
    return other(kind, content)


def _dict_from_json(content: Any, other: Any) -> dict[Any, Any]:
    is_pairs = isinstance(content, list) and all(
        isinstance(pair, list) and len(pair) == 2 and not isinstance(pair[0], (list, dict))
        for pair in content
    )
    require(is_pairs, "a dict is not a list of keys and values")
    distinct([key for key, _ in content], "a dict has a key twice")
    return {key: from_json(value, other) for key, value in content}


def distinct(values: list[Any], problem: str) -> list[Any]:
    """Check that no value occurs twice, in time that grows with their number at worst.

    Python takes quadratic time for values with equal hashes, which a file could hold on purpose.
    """
    hashes = Counter(map(hash, values))
    require(max(hashes.values(), default=0) <= _MAX_EQUAL_HASHES, "many values have the same hash")
    require(len(set(values)) == len(values), problem)
    return values


def array_from_json(content: Any) -> np.ndarray:
    """The vector of ``[dtype, values]``; the values must fit the type exactly."""
    is_pair = isinstance(content, list) and len(content) == 2 and isinstance(content[1], list)
    require(is_pair, "an array is not a list of a type and values")
    name, values = content
    kinds = set(map(type, values))
    if name == "object":
        require(kinds <= {str, bool, int}, "an array of objects has other values than labels")
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    is_text = isinstance(name, str) and name.startswith("<U") and name[2:].isdecimal()
    is_known = is_text or name in (*_INTEGER_TYPES, *_FLOAT_TYPES)
    require(is_known, f"an array has the unknown type {name!r:.40}")
    if is_text:
        require(kinds <= {str}, "an array of strings has other values")
        width = int(name[2:])
        fits = max(map(len, values), default=0) <= width <= _MAX_STRING
        require(fits, "an array of strings is too narrow or too wide")
        fits = 4 * width * len(values) <= max(64 * sum(map(len, values)), 2**20)
        require(fits, "the strings of an array need much memory, since few are long")
        return np.array(values, dtype=f"<U{width}")
    if name in _FLOAT_TYPES:
        numbers = [from_json(each) for each in values]
        require(all(type(each) is float for each in numbers), "an array of floats has other values")
        wide = np.array(numbers, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            found = wide.astype(name)
        is_exact = np.array_equal(found.astype(np.float64), wide, equal_nan=True)
        require(is_exact, f"an array has values that {name} cannot hold")
        return found
    dtype = np.dtype(name)
    require(kinds <= {bool if dtype.kind == "b" else int}, "an array has values of another type")
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    fits = not values or (limits[0] <= min(values) and max(values) <= limits[1])
    require(fits, f"an array has values that {name} cannot hold")
    return np.array(values, dtype=dtype)


def dumps(value: Any) -> str:
    """JSON as text, without NaN and infinities, which are no JSON."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Any:
    """Parse JSON; no object may have a field twice.

    Raises
    ------
    ValueError
        If the text is not JSON, has NaN or infinity, or is nested too deeply.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_fields,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("its JSON is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"its JSON is damaged: {error}") from error


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    require(len(found) == len(pairs), "a JSON object has a field twice")
    return found


def _refuse_constant(name: str) -> None:
    require(False, f"its JSON has {name}, which is not valid JSON")


def _float(text: str) -> float:
    value = float(text)
    require(math.isfinite(value), f"its JSON has {text:.40}, which float64 cannot hold")
    return value


def _integer(text: str) -> int:
    require(len(text) <= _MAX_DIGITS, f"its JSON has an integer of {len(text)} digits")
    return int(text)
