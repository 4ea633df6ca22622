"""Arrays that can be on a GPU: inputs, which fits there do not copy, and operations on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from gpuboost.backends.cache import PREDICT
from gpuboost.backends.devices import device_number, why_no_cuda
from gpuboost.backends.select import backend_of, check_device, numba_runs
from gpuboost.data.arrays import copy_device_array_to_host, is_on_device
from gpuboost.engine.array_modules import array_module, is_cupy_array
from gpuboost.engine.losses import links
from gpuboost.engine.losses.links import Link

_ADVICE = "copy it to the host, as cupy.asnumpy(X) does,"


def adopt_features(X: Any, device: Any) -> tuple[Any, Any]:
    """Return features on a GPU as a CuPy array, with their device; return others unchanged.

    Parameters
    ----------
    X : object
        Features of any type. An object with ``__cuda_array_interface__``, or with DLPack on a CUDA
        device, becomes a CuPy array over the same memory.
    device : str
        The estimator's ``device`` parameter; not checked if the features are not on a GPU.

    Returns
    -------
    X : object
        A CuPy array if the features are on a GPU, else ``X`` unchanged.
    device : str
        "cuda:N", the device of features on a GPU; else ``device`` unchanged.

    Raises
    ------
    TypeError
        The features are on a GPU, and ``device`` is "cpu", "numpy" or "numba".
    ValueError
        The features are on another GPU than "cuda:N", or ``device`` is not a device's name. With
        "cuda", they can be on any GPU.
    RuntimeError
        The GPU, or ``device``, cannot be used; the message says why.
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
        raise RuntimeError(f"X is on a GPU, which cannot be used: {reason}; {_ADVICE} to continue")
    array = X if is_cupy_array(X) else _as_cupy_array(X)
    own = f"cuda:{array.device.id}"
    if device not in ("auto", "cuda", own):
        raise ValueError(
            f'X is on {own}, but device={device!r}; use device="{own}" or "cuda", or copy X to '
            f"{device}"
        )
    return array, own


def adopt_targets(values: Any, device: Any) -> Any:
    """Bring targets or weights to the memory that the fit reads; return host values unchanged.

    Values on the device that the fit runs on become a CuPy array over the same memory. Values on a
    GPU are copied to the host if the fit runs on the host or on another GPU, or if the device of
    the fit is not yet decided (features on the host and device="auto").

    Parameters
    ----------
    values : object
        Targets or weights of any type, or None.
    device : str
        The device that `adopt_features` returned, or the name of the backend.

    Raises
    ------
    ValueError
        Values are on a GPU, and ``device`` begins with "cuda" but is not a device's name.
    RuntimeError
        Values are on a GPU, and ``device`` is a GPU that cannot be used; the message says why.
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
    """A CuPy array over the memory of another library's array."""
    import cupy

    by_interface = hasattr(X, "__cuda_array_interface__")
    return cupy.asarray(X) if by_interface else cupy.from_dlpack(X)


def inverse_link(link: Link, raw: Any) -> Any:
    """Apply ``link.inverse`` to raw predictions (n, columns), on the device that they are on.

    All devices give the same bits. Once Numba predicts in this process, its compiled functions are
    used on the host: for one row, they take 2 microseconds where NumPy takes 30.
    """
    if is_on_device(raw):
        return backend_of(raw).inverse_link(link, raw)
    return _compiled_inverse()(link, raw) if numba_runs(PREDICT) else link.inverse(raw)


@cache
def _compiled_inverse() -> Callable[[Link, Any], Any]:
    from gpuboost.backends.numba.predict.inverse_links import inverse

    return inverse


def log_probabilities(p: Any) -> Any:
    """Logarithms of probabilities, computed where these are; all devices give the same bits."""
    return backend_of(p).log_probabilities(p) if is_on_device(p) else links.log_probabilities(p)


def matrix_of_ones(indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """A sparse matrix whose entries are ones, on the device of ``indices``.

    Parameters
    ----------
    indices : NumPy or CuPy array of int32 or int64 (nnz,)
        Columns of the ones, row after row.
    indptr : array of int32 or int64 (n + 1,), on the same device
        Start of each row in ``indices``, then ``nnz``.
    shape : (int, int)
        Number of rows and of columns.

    Returns
    -------
    scipy.sparse.csr_matrix of int64, or cupyx.scipy.sparse.csr_matrix of float64
        CuPy's sparse matrices cannot hold integers.
    """
    xp: Any = array_module(indices)
    if is_cupy_array(indices):
        from cupyx.scipy.sparse import csr_matrix
    else:
        from scipy.sparse import csr_matrix

    ones = xp.ones(len(indices), dtype=xp.float64 if is_cupy_array(indices) else xp.int64)
    return csr_matrix((ones, indices, indptr), shape=shape)
