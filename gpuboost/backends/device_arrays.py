"""Features that lie on a GPU already: they are worked on where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.choice import check_device
from gpuboost.backends.devices import why_no_cuda
from gpuboost.data.arrays import is_cupy_array, is_on_device

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

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


def _as_cupy_array(X: Any) -> Any:
    """Another library's array over the same memory."""
    import cupy

    by_interface = hasattr(X, "__cuda_array_interface__")
    return cupy.asarray(X) if by_interface else cupy.from_dlpack(X)


def sparse_on_device(matrix: csr_matrix) -> Any:
    """Copy a sparse matrix to the current device, whose kind of it holds no integers: float64."""
    from cupyx.scipy.sparse import csr_matrix as device_matrix

    return device_matrix(matrix.astype(np.float64))
