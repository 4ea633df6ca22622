"""Peak memory of one fit, measured in its own process.

``python -m benchmarks.speed.probe`` reads a request as JSON from standard input and writes its
measurements as JSON to the last line of standard output.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.peers import OURS, Peer, choose_peers
from benchmarks.suite.cases import MEMORY, choose_cases
from benchmarks.suite.settings import Resources
from benchmarks.suite.tables import MAKERS

WARM_UP_ROWS = 2000
SAMPLING_SECONDS = 0.002


def main() -> int:
    """Measure the request that is read from standard input."""
    print(json.dumps(measure(json.loads(sys.stdin.read()))))
    return 0


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Measure the bytes of the input and the model, and the peak above the warmed-up process.

    Parameters
    ----------
    request : dict
        ``case``, ``rows``, ``peer``, ``device``, ``n_jobs`` and ``seed``.
    """
    case = choose_cases(MEMORY, request["case"])[0].sized("full", request["rows"])
    (peer,) = choose_peers((request["peer"],), request["device"])
    refusal = peer.refuses(case.setting)
    if refusal:
        return {"left_out": refusal}
    make = MAKERS[case.data]
    _warm_up(peer, make(WARM_UP_ROWS, case.features, request["seed"]), case, request)
    gc.collect()
    baseline = resident_bytes()
    table = make(case.rows, case.features, request["seed"])
    input_bytes = table.X.nbytes + table.y.nbytes
    resources = Resources(request["n_jobs"], request["seed"], case.features, case.rows)
    model = peer.make(case.setting, resources)
    gc.collect()
    started = time.perf_counter()
    with peak_memory() as peak:
        model.fit(table.X, table.y)
    seconds = time.perf_counter() - started
    model_bytes = len(pickle.dumps(model, protocol=5))
    above = peak[0] - baseline
    return {
        "seconds": seconds,
        "peak_bytes": above,
        "input_bytes": input_bytes,
        "model_bytes": model_bytes,
        "extra_bytes": above - input_bytes - model_bytes,
    }


def _warm_up(peer: Peer, table: Any, case: Any, request: dict[str, Any]) -> None:
    """Make a small fit; if gpuboost chooses the device, use Numba, so that its code is loaded."""
    resources = Resources(request["n_jobs"], request["seed"], case.features, len(table.y))
    if peer.name == OURS and request["device"] in ("auto", "cpu"):
        (peer,) = choose_peers((OURS,), "numba")
    peer.make(case.setting, resources).fit(table.X, table.y)


def resident_bytes() -> int:
    """Size of this process's resident set."""
    return _status("VmRSS")


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Yield a list that holds the size of the largest resident set when the block has ended."""
    peak = [0]
    if _reset_high_water_mark():
        yield peak
        peak[0] = _status("VmHWM")
        return
    done = threading.Event()
    sampler = threading.Thread(target=_sample, args=(peak, done))
    sampler.start()
    try:
        yield peak
    finally:
        done.set()
        sampler.join()


def _sample(peak: list[int], done: threading.Event) -> None:
    """Sample the resident set every few milliseconds, if its peak in /proc cannot be reset."""
    while True:
        peak[0] = max(peak[0], resident_bytes())
        if done.wait(SAMPLING_SECONDS):
            return


def _reset_high_water_mark() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    """A size from /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    raise SystemExit(main())
