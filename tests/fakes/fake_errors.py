"""Errors of CUDA, as CuPy raises them."""

from __future__ import annotations


class OutOfMemoryError(MemoryError):
    """The device has no memory left."""


class StatusError(RuntimeError):
    """An error of CUDA's."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"cuda error {status}")


class CUDARuntimeError(StatusError):
    """Of the runtime."""


class CUDADriverError(StatusError):
    """Of the driver."""


class NVRTCError(StatusError):
    """Of the compiler."""
