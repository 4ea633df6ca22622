"""Peak memory of a fit, and of predictions, on data that exceed a limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import ParquetWriter

import gpuboost

N_ROWS, N_FEATURES = 200_000, 1500  # 300 MB of codes
PROGRAM = """
import sys
import numpy as np
import pyarrow
from gpuboost import Dataset, GradientBoostingRegressor

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

def fit(source, limit):
    data = Dataset.from_batches(source, label="y", memory_limit=limit)
    assert data.binned.is_blocked
    model = GradientBoostingRegressor(n_estimators=2, max_depth=4, device="numba", n_jobs=2)
    return model.fit(data, data.y)

# So many rows that everything that the large fit needs is loaded or compiled.
small = np.arange(80_000.0).reshape(20_000, 4)
fit([pyarrow.table({"y": small[:, 0], "x": small[:, 1]})], 1)
before = peak()
fit(sys.argv[1], 8_000_000)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_peak_memory(tmp_path: Path) -> None:
    """A fit on 300 MB of codes takes at most 100 MB more than a process that has fitted before.

    Importing and compiling take about 350 MB.
    """
    rng, writer = np.random.default_rng(0), None
    for _ in range(4):
        X = rng.integers(0, 100, (N_FEATURES, N_ROWS // 4), dtype=np.int8)
        columns = {str(i): column for i, column in enumerate(X)}
        table = pa.table({**columns, "y": X[0] + 2.0 * X[1]})
        writer = writer or ParquetWriter(tmp_path / "t.parquet", table.schema, compression="none")
        writer.write_table(table)
    assert writer is not None
    writer.close()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "t.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 100e6


PREDICTIONS = """
import sys
from gpuboost.blocks import row_batches
from gpuboost.cli.main import main
from tests.blocks.test_memory import peak

row_batches.BATCH_ROWS = 10_000
def predict(table):
    for out in ("p.csv", "p.parquet", "p.arrow"):
        words = ["predict", "model", table, "--keep", "0", "--out", out]
        assert main([*words, "--device", "numpy"]) == 0  # Numba may compile at any time

predict("few.parquet")  # loads and compiles everything
before = peak()
predict("many.parquet")
print(peak() - before)
"""


def peak() -> int:
    """Peak memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_peak_memory_of_predictions(tmp_path: Path) -> None:
    """Predictions for a row group of 240 MB take at most 60 MB more than those for 48 MB."""
    rng = np.random.default_rng(0)
    many = pa.table({str(i): rng.random(1_000_000) for i in range(30)})
    pq.write_table(many, tmp_path / "many.parquet", row_group_size=1_000_000, compression="none")
    few = many[:200_000]
    pq.write_table(few, tmp_path / "few.parquet", compression="none")
    model = gpuboost.DecisionTreeRegressor(max_depth=3, device="numpy").fit(
        few, few["0"].to_numpy()
    )
    model.save(tmp_path / "model")
    command, root = [sys.executable, "-c", PREDICTIONS], str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    text = {"capture_output": True, "text": True, "check": False}
    done = subprocess.run(command, cwd=tmp_path, env=environment, **text)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 60e6
