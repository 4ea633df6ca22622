"""Times of copies to and from the host and of binning: ``python -m benchmarks.gpu.first.copies``.

Copies to newly allocated pageable memory, copies to pinned memory, uploads, and binning are timed
separately. ``to_host`` and ``asarray`` are the methods of gpuboost's `CupyRuntime`. The last line
of the output is a JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu.device.device import CudaDevice, Device
from benchmarks.suite.settings import N_BINS

COPIED_BYTES, BINNED_ROWS, FEATURES = 1 << 30, 1_000_000, 28
DIVISORS = {"full": 1, "small": 500, "tiny": 1 << 12}  # of bytes and rows, by scale
REPEAT = 3


def measure_copies(device: Device, n_bytes: int) -> dict[str, float]:
    """Rates of copies to and from the host in GB/s, by CuPy's functions and by gpuboost's."""
    there, here = device.xp.zeros(n_bytes, dtype=np.uint8), np.ones(n_bytes, dtype=np.uint8)
    memory = importlib.import_module("cupy").cuda.alloc_pinned_memory(n_bytes)
    pinned: np.ndarray = np.frombuffer(memory, np.uint8, n_bytes)
    runtime = device.runtime.inner
    calls: dict[str, Callable[[], Any]] = {
        "pageable": there.get,
        "pinned": lambda: there.get(out=pinned, blocking=False),
        "to_host": lambda: runtime.to_host(there),
        "cupy_asarray": lambda: device.asarray(here),
        "asarray": lambda: runtime.asarray(here),
    }
    with runtime.active():
        return {
            f"{name}_GB_per_s": n_bytes / _median_seconds(device, call) / 1e9
            for name, call in calls.items()
        }


def measure_binning(device: Device, n_rows: int) -> dict[str, float]:
    """Seconds to find the bins of a table on the host and of one on the device, and to code it."""
    rule = importlib.import_module("gpuboost.engine.bins").BinRule
    X = np.random.default_rng(0).normal(size=(n_rows, FEATURES)).astype(np.float32)
    every = rule(np.zeros(FEATURES, dtype=bool), N_BINS, None)
    return {
        f"binning_seconds_from_{where}": _median_seconds(
            device, lambda table=table: device.backend.fit_bins(table, every, 1)
        )
        for where, table in (("host", X), ("device", device.asarray(X)))
    }


def _median_seconds(device: Device, call: Callable[..., Any]) -> float:
    call()
    return statistics.median(device.seconds(call) for _ in range(REPEAT))


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.first.copies", description=__doc__
    )
    parser.add_argument("--scale", choices=tuple(DIVISORS), default="full")
    divisor = DIVISORS[parser.parse_args(arguments).scale]
    device = CudaDevice()
    found = measure_copies(device, COPIED_BYTES // divisor)
    found |= measure_binning(device, BINNED_ROWS // divisor)
    print(json.dumps({"rows": BINNED_ROWS // divisor, **found}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
