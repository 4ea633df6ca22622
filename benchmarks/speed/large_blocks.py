"""A tree grown on far more codes than memory, in a process of its own whose memory is limited.

The limit is RLIMIT_DATA of Linux, which counts writable private memory, used or not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FILE_ROWS = 100_000
N_VALUES = 100  # distinct values of a column
SETTINGS = {
    "rows": 6_000_000,
    "features": 1000,
    "depth": 6,
    "memory_limit": 100_000_000,
    "data_limit": 1 << 30,
}


def measure(n_jobs: int, **changed: int) -> dict[str, Any]:
    """Write files, fit in a process with a limit, and return what it took."""
    settings = {**SETTINGS, **changed, "n_jobs": n_jobs}
    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder), settings["rows"], settings["features"])
        command = [sys.executable, "-m", __spec__.name, folder, json.dumps(settings)]
        # The default pool of Arrow reserves 1 GiB, which counts as data.
        environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
    return {**settings, **json.loads(done.stdout)}


def _write_files(folder: Path, n_rows: int, n_features: int) -> None:
    """Write Parquet files of whole numbers, and a target that depends on three columns."""
    import pyarrow as pa
    from pyarrow import parquet

    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        rng = np.random.default_rng([9, number])
        n = min(FILE_ROWS, n_rows - start)
        X = rng.integers(0, N_VALUES, (n_features, n), dtype=np.int8)
        y = X[0] * 0.02 + (X[1] > N_VALUES // 2) * X[2] * 0.01 + rng.standard_normal(n)
        columns = {f"x{i}": column for i, column in enumerate(X)}
        table = pa.table({**columns, "y": y.astype(np.float32)})
        parquet.write_table(table, folder / f"{number:03}.parquet")


def _peak(name: str) -> int:
    """A peak of this process in bytes: VmHWM, in memory, or VmData, writable and private (now)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _fit(folder: str, given: dict[str, int]) -> dict[str, Any]:
    """Read the files, fit, and return seconds and bytes."""
    import resource  # Unix only

    resource.setrlimit(resource.RLIMIT_DATA, (given["data_limit"], given["data_limit"]))
    import pyarrow.dataset  # noqa: F401, part of the imports

    from gpuboost import Dataset, DecisionTreeClassifier
    from gpuboost.backends.numba import backend  # noqa: F401

    imported = _peak("VmHWM")
    started = time.perf_counter()
    limit, n_jobs = given["memory_limit"], given["n_jobs"]
    data = Dataset.from_batches(folder, label="y", memory_limit=limit, n_jobs=n_jobs)
    read = time.perf_counter()
    y = data.y > np.median(data.y)
    tree = DecisionTreeClassifier(max_depth=given["depth"], device="numba", random_state=0)
    tree.fit(data, y)
    done = time.perf_counter()
    accuracy = float(np.mean(tree.predict(data) == y))
    return {
        "bytes_of_codes": data.binned.stored.nbytes,
        "bytes_imported": imported,
        "bytes_peak": _peak("VmHWM"),
        "bytes_of_data": _peak("VmData"),
        "seconds_to_read": read - started,
        "seconds_to_fit": done - read,
        "accuracy": accuracy,
    }


if __name__ == "__main__":
    print(json.dumps(_fit(sys.argv[1], json.loads(sys.argv[2]))))
