"""Anything array-like to one host ndarray: one table of (is it, how), walked once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse

Array = np.ndarray[Any, Any]

_CUDA_DEVICES = (2, 13)  # kDLCUDA and kDLCUDAManaged of DLPack


def as_host_array(values: Any, name: str) -> Array:
    """Return `values` as a host ndarray of any dtype, without a copy where there is a choice.

    Parameters
    ----------
    values : array-like
    name : str
        What the user calls it, for the message.

    Raises
    ------
    TypeError
        For sparse matrices, and for what is not array-like.
    ValueError
        For nested lists of different lengths.
    """
    for is_it, convert in _ARRAY_KINDS:
        if is_it(values):
            try:
                return convert(values)
            except ValueError as error:
                raise ValueError(f"{name} does not make an array: {error}") from error
    raise TypeError(
        f"Expected array-like (array or non-string sequence), got {values!r:.80} for {name}; pass "
        "a NumPy array, a list, a pandas, polars or Arrow table, or a CuPy or DLPack array"
    )


def refuse_sparse(values: Any) -> Any:
    """Raise the error for sparse input."""
    raise TypeError(
        f"Sparse data was passed ({type(values).__name__}), but dense data is required; "
        "use X.toarray() to make it dense"
    )


def copy_device_array_to_host(values: Any) -> Array:
    """Copy an array from a GPU, by the method its library has for this."""
    if hasattr(values, "cpu"):  # PyTorch
        return values.detach().cpu().numpy()
    if hasattr(values, "copy_to_host"):  # Numba
        return values.copy_to_host()
    if hasattr(values, "get"):  # CuPy
        return values.get()
    return np.from_dlpack(values, device="cpu", copy=True)


def is_on_device(values: Any) -> bool:
    """Return whether something is an array on a CUDA device."""
    if isinstance(values, np.ndarray):
        return False
    if hasattr(values, "__cuda_array_interface__"):
        return True
    where = getattr(values, "__dlpack_device__", None)
    return callable(where) and int(where()[0]) in _CUDA_DEVICES


def array_module(array: Any) -> Any:
    """Return NumPy, or CuPy for its arrays, which whoever made one has imported."""
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]


def working_on(array: Any) -> AbstractContextManager[Any]:
    """Return a context in which the device of an array is the current one."""
    return nullcontext() if isinstance(array, np.ndarray) else array.device


def is_cupy_array(values: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(values, cupy.ndarray)


def copy_to_host(array: Any) -> Array:
    """Return an array of NumPy as it is, one of CuPy as a copy on the host."""
    return array.get() if hasattr(array, "get") else array


def _masked_to_array(values: np.ma.MaskedArray[Any, Any]) -> Array:
    """Masked entries become NaN where there are any."""
    if not np.ma.is_masked(values):
        return np.asarray(values.data)
    plain = np.array(values.data)
    if plain.dtype.kind in "biu":
        plain = plain.astype(np.float32 if plain.dtype.itemsize <= 2 else np.float64)
    plain[np.ma.getmaskarray(values)] = np.nan
    return plain


def is_sparse(values: Any) -> bool:
    return bool(scipy.sparse.issparse(values))


_ARRAY_KINDS: list[tuple[Callable[[Any], bool], Callable[[Any], Array]]] = [
    (lambda values: isinstance(values, np.ma.MaskedArray), _masked_to_array),
    (lambda values: isinstance(values, np.ndarray), np.asarray),
    (is_sparse, refuse_sparse),
    (lambda values: hasattr(values, "__cuda_array_interface__"), copy_device_array_to_host),
    (lambda values: hasattr(values, "__array__"), np.asarray),
    (lambda values: hasattr(values, "__dlpack__"), np.from_dlpack),
    (lambda values: isinstance(values, (list, tuple, range)), np.asarray),
]


def is_missing_label(label: Any) -> bool:
    """Return whether a Python object means missing: None, NaN, pandas' NA and NaT."""
    if isinstance(label, float):
        return label != label
    return label is None or type(label).__name__ in ("NAType", "NaTType")
