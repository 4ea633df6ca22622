"""What lies on a GPU already: it is worked on where it is."""

from __future__ import annotations

from typing import Any

from gpuboost.backends.devices import device_number, why_no_cuda
from gpuboost.backends.select import backend_of, check_device
from gpuboost.data.arrays import (
    array_module,
    copy_device_array_to_host,
    is_cupy_array,
    is_on_device,
)
from gpuboost.engine.losses import links
from gpuboost.engine.losses.links import Link

_ADVICE = "copy it to the host, as cupy.asnumpy(X) does,"


def adopt_features(X: Any, device: Any) -> tuple[Any, Any]:
    """Features as CuPy's array and the device they are on; those of the host as they are.

    Parameters
    ----------
    X : object
        Anything. What has ``__cuda_array_interface__``, or DLPack on a CUDA device, becomes an
        array of CuPy over the same memory.
    device : str
        The device that was asked for.

    Returns
    -------
    X : object
    device : str
        For features on a GPU "cuda:N", the device they are on; else the one that was asked for.

    Raises
    ------
    TypeError
        The features are on a GPU, and the device is not.
    ValueError
        They are on another GPU.
    RuntimeError
        The GPU cannot be used; the message says why.
    """
    if not is_on_device(X):
        return X, device
    check_device(device)
    if device in ("cpu", "numpy", "numba"):
        raise TypeError(
            f"X is on a GPU ({type(X).__name__}), but device={device!r} is not; {_ADVICE} or use "
            'device="cuda"'
        )
    reason = why_no_cuda()
    if reason:
        raise RuntimeError(f"X is on a GPU, which cannot be used: {reason}; {_ADVICE} to go on")
    array = X if is_cupy_array(X) else _as_cupy_array(X)
    own = f"cuda:{array.device.id}"
    if device not in ("auto", "cuda", own):
        raise ValueError(
            f'X is on {own}, but device={device!r}; use device="{own}" or "cuda", or copy it over'
        )
    return array, own


def adopt_targets(values: Any, device: Any) -> Any:
    """Targets or weights where a fit works on them; those of the host as they are.

    On the device that the fit will run on they become CuPy's array over the same memory. What lies
    on a GPU and is wanted elsewhere is copied to the host: the fit runs on the host or on another
    GPU, or with features of the host and device="auto", where that is not yet decided.

    Parameters
    ----------
    values : object
        Anything, None as well.
    device : str
        As `adopt_features` returns it.
    """
    if not is_on_device(values):
        return values
    if not (isinstance(device, str) and device.startswith("cuda")):
        return copy_device_array_to_host(values)
    check_device(device)
    array = values if is_cupy_array(values) else _as_cupy_array(values)
    here = array.device.id == device_number(device)
    return array if here else copy_device_array_to_host(array)


def _as_cupy_array(X: Any) -> Any:
    """Another library's array over the same memory."""
    import cupy

    by_interface = hasattr(X, "__cuda_array_interface__")
    return cupy.asarray(X) if by_interface else cupy.from_dlpack(X)


def inverse_link(link: Link, raw: Any) -> Any:
    """``link.inverse`` of raw predictions (n, columns), where these are: the same bits anywhere."""
    return backend_of(raw).inverse_link(link, raw) if is_on_device(raw) else link.inverse(raw)


def log_shares(share: Any) -> Any:
    """Logarithms of probabilities, where these are: the same bits anywhere."""
    return backend_of(share).log_shares(share) if is_on_device(share) else links.log_shares(share)


def matrix_of_ones(indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """A sparse matrix with ones at some places of each row, where ``indices`` are.

    Parameters
    ----------
    indices : int32 or int64 (nnz,), of NumPy or of CuPy
        Columns, row after row.
    indptr : int32 or int64 (n + 1,)
        Where the rows begin.
    shape : tuple of int

    Returns
    -------
    scipy.sparse.csr_matrix of int64, or cupyx.scipy.sparse.csr_matrix of float64
        CuPy's holds no integers.
    """
    xp: Any = array_module(indices)
    if is_cupy_array(indices):
        from cupyx.scipy.sparse import csr_matrix
    else:
        from scipy.sparse import csr_matrix

    ones = xp.ones(len(indices), dtype=xp.float64 if is_cupy_array(indices) else xp.int64)
    return csr_matrix((ones, indices, indptr), shape=shape)
