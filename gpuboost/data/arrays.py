"""Conversion of array-likes to host ndarrays, by one table of (type test, conversion)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse

from gpuboost.engine.array_modules import array_module, copy_to_host, is_cupy_array

_CUDA_DEVICES = (2, 13)  # kDLCUDA and kDLCUDAManaged of DLPack
_SMALLEST_FLOAT32 = 2.0**-149  # smallest positive float32, a denormal number
_NORMAL_FLOAT32 = 0x00800000  # bits of the smallest normal float32


def as_host_array(values: Any, name: str) -> np.ndarray:
    """Return `values` as a host ndarray of any dtype, without a copy where possible.

    Parameters
    ----------
    values : array-like
    name : str
        Name of the argument, for the error message.

    Raises
    ------
    TypeError
        For sparse matrices (only X may be sparse), and for values that are not array-like.
    TypeError, ValueError
        If the conversion fails, for example for nested lists of different lengths.
    """
    for is_it, convert in _ARRAY_KINDS:
        if is_it(values):
            try:
                return convert(values)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{name} cannot be converted to an array: {error}") from error
    raise TypeError(
        f"Expected array-like (array or non-string sequence), got {values!r:.80} for {name}; pass "
        "a NumPy array, a list, a pandas, polars or Arrow table, or a CuPy or DLPack array"
    )


def refuse_sparse(values: Any) -> Any:
    """Raise the error for sparse input."""
    raise TypeError(
        f"Sparse data was passed ({type(values).__name__}), but dense data is required; "
        "use .toarray() to make it dense"
    )


def copy_device_array_to_host(values: Any) -> np.ndarray:
    """Copy an array from a GPU to the host, by its own method if it has one, else by DLPack."""
    if hasattr(values, "cpu"):  # PyTorch
        return values.detach().cpu().numpy()
    if hasattr(values, "copy_to_host"):  # Numba
        return values.copy_to_host()
    if hasattr(values, "get"):  # CuPy
        return copy_to_host(values) if is_cupy_array(values) else values.get()
    return np.from_dlpack(values, device="cpu", copy=True)


def is_on_device(values: Any) -> bool:
    """Return whether an object is an array on a CUDA device."""
    if isinstance(values, np.ndarray):
        return False
    if hasattr(values, "__cuda_array_interface__"):
        return True
    where = getattr(values, "__dlpack_device__", None)
    return callable(where) and int(where()[0]) in _CUDA_DEVICES


def copied_to_host(*given: Any) -> list[Any]:
    """Copy arrays on a GPU to the host; keep other objects as given."""
    return [copy_device_array_to_host(each) if is_on_device(each) else each for each in given]


def to_float64(values: Any) -> Any:
    """Return a NumPy or CuPy array of numbers as float64, on the same device.

    CuPy's conversion flushes denormal float32 values to zero; `widen_float32` keeps them.
    """
    if isinstance(values, np.ndarray) or values.dtype != np.float32:
        return values.astype(np.float64, copy=False)
    return widen_float32(values)


def widen_float32(values: Any) -> Any:
    """Return a float32 array as float64.

    Denormal values are converted without float32 arithmetic, which can flush them to zero.
    """
    xp = array_module(values)
    bits = values.view(np.int32)
    magnitude = bits & np.int32(0x7FFFFFFF)
    small = magnitude.astype(np.float64) * _SMALLEST_FLOAT32
    small = xp.where(bits < 0, -small, small)
    return xp.where(magnitude < _NORMAL_FLOAT32, small, values.astype(np.float64))


def to_module_of(array: Any, other: Any) -> Any:
    """Return `array`, copied to the GPU if `array` is on the host and `other` on the GPU."""
    if isinstance(array, np.ndarray) and not isinstance(other, np.ndarray):
        return array_module(other).asarray(array)
    return array


def _masked_to_array(values: np.ma.MaskedArray[Any, Any]) -> np.ndarray:
    """Return a plain array in which masked entries are NaN."""
    if not np.ma.is_masked(values):
        return np.asarray(values.data)
    plain = np.array(values.data)
    if plain.dtype.kind in "biu":
        plain = plain.astype(np.float32 if plain.dtype.itemsize <= 2 else np.float64)
    plain[np.ma.getmaskarray(values)] = np.nan
    return plain


def is_sparse(values: Any) -> bool:
    return bool(scipy.sparse.issparse(values))


_ARRAY_KINDS: list[tuple[Callable[[Any], bool], Callable[[Any], np.ndarray]]] = [
    (lambda values: isinstance(values, np.ma.MaskedArray), _masked_to_array),
    (lambda values: isinstance(values, np.ndarray), np.asarray),
    (is_sparse, refuse_sparse),
    (is_on_device, copy_device_array_to_host),
    (lambda values: hasattr(values, "__array__"), np.asarray),
    (lambda values: hasattr(values, "__dlpack__"), np.from_dlpack),
    (lambda values: isinstance(values, (list, tuple, range)), np.asarray),
]


def is_missing_label(label: Any) -> bool:
    """Return whether a Python object is a missing value: None, NaN, or pandas' NA or NaT."""
    if isinstance(label, Number):
        return bool(label != label)
    return label is None or is_missing_type(type(label))


def is_missing_type(kind: type) -> bool:
    """Return whether a type is that of pandas' NA or NaT (which is a subclass of datetime)."""
    return kind.__name__ in ("NAType", "NaTType")
