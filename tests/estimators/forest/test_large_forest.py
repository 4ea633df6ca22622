"""Peak memory of fitting a forest to a million rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

PEAK_MEMORY = """
import numpy as np
from gpuboost import RandomForestClassifier

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

rng = np.random.default_rng(0)
X = rng.standard_normal((1_000_000, 28), dtype=np.float32)
y = (X[:, :4].sum(axis=1) + rng.standard_normal(len(X), dtype=np.float32) > 0).astype(np.int8)
RandomForestClassifier(n_estimators=2, device="numba").fit(X[:2000], y[:2000])
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark starts anew
before = status("VmRSS")
model = RandomForestClassifier(device="numba", n_jobs=2, random_state=0, **{params}).fit(X, y)
ensemble = model._model.ensemble
kept = sum(getattr(ensemble, name).nbytes for name in ensemble.__dataclass_fields__) / 2**20
print(status("VmHWM") - before - kept, model.score(X[:10_000], y[:10_000]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("params", "megabytes"),
    [({"n_estimators": 20, "max_depth": 16}, 300), ({"n_estimators": 4}, 400)],
)
def test_peak_memory_of_a_million_rows_is_low(params, megabytes):
    """The second forest grows to pure leaves: tens of thousands of them, without recursion."""
    code = PEAK_MEMORY.replace("{params}", repr(params))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    above, score = map(float, found.stdout.split())
    assert above < megabytes and score > 0.85
