"""Errors of CUDA that CuPy raises."""

from __future__ import annotations


class OutOfMemoryError(MemoryError):
    """The device has no memory left."""


class StatusError(RuntimeError):
    """An error with a CUDA status."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"cuda error {status}")


class CUDARuntimeError(StatusError):
    """An error of the CUDA runtime."""


class CUDADriverError(StatusError):
    """An error of the CUDA driver."""


class NVRTCError(StatusError):
    """An error of the compiler."""
