"""``python -m benchmarks.gpu``: fits, predictions and histograms on an NVIDIA GPU, beside peers.

A call measures the cases that are left and ends within its budget; the next call with the same
result file (--out) continues. On a machine that keeps no files, save the result file and copy it
back before the next call. The exit status is 4 if there was no time for some cases; otherwise 1 if
a bound is missed, a model differs or a case failed; and 3 if there is no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import EQUALITY, SCALES, SMALL, GpuCase, choose
from benchmarks.gpu.device.device import AHEAD_BYTES, CudaDevice, Device, NoDeviceError
from benchmarks.gpu.first.children import INNER_TERM_SECONDS, run_child
from benchmarks.gpu.measure import is_done, measure
from benchmarks.gpu.plan import Plan
from benchmarks.gpu.text import summary
from benchmarks.report.results import FOLDER, OtherMachineError, Results

NAME = "gpu"
PROCESS = "process"  # stands in place of a peer's name if the process of a case failed
MIN_SECONDS = 15.0  # no case is started with less time
GRACE = 5.0  # seconds after a case's limit until its process is ended
ROOT = Path(__file__).resolve().parents[2]
NO_DEVICE_SAID = "no device"
CUT_SHORT = "cut short by --budget"
NO_DEVICE = 3  # exit status of a command that found no GPU; 2 is that of wrong arguments
UNFINISHED = 4  # exit status of a call that had no time for some cases

Say = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--budget",
        type=float,
        default=540.0,
        metavar="SECONDS",
        help="time of the whole call (default: 540)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="TEXT",
        help="cases whose names contain any of these",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="result file (JSON); if it exists, cases that are done in it are not measured again, "
        "so give it to the next call, too (default: benchmarks/results/gpu.json)",
    )
    parser.add_argument(
        "--aside",
        type=Path,
        metavar="FOLDER",
        help="folder to which a result file of another machine is moved, and from which one of "
        "this machine is taken (default: the other file stays, and a new one is written beside it)",
    )
    parser.add_argument("--scale", choices=tuple(SCALES), default="full")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each peer (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--again", action="store_true", help="discard earlier results and measure everything anew"
    )
    parser.add_argument("--child", metavar="CASE", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure the cases that are left and return the exit status."""
    if args.child is not None:
        return _child(args)
    path = open_results(args)
    started = time.perf_counter()
    print(f"results go to {path}", flush=True)
    chosen = choose(*args.only)
    cases = cases_left(chosen, args.scale, path)
    most = sum(case.limit for case in cases)
    print(f"{len(cases)} cases are not done, which take {most:.0f} s at most", flush=True)
    begun = unfinished = False
    for case in cases:
        left = args.budget - (time.perf_counter() - started)
        if left < MIN_SECONDS or (begun and left < case.limit):
            print(f"{case.name}\n  no time left; call again to go on", flush=True)
            unfinished = True
            continue
        begun = True
        print(f"{case.name}", flush=True)
        why = _run_child(case, args, path, min(case.limit, left))
        if why == NO_DEVICE_SAID:
            return NO_DEVICE
        if why == CUT_SHORT:
            print(f"  {CUT_SHORT}; call again to go on", flush=True)
            unfinished = True
        else:
            _note_end(case, args.scale, path, why)
    names = {case.name for case in chosen}
    records = [record for record in Results(NAME, path).records if record["case"] in names]
    text, missed = summary(records)
    print(f"\n{text}")
    if unfinished:
        return UNFINISHED
    return 1 if missed or any("failed" in record for record in records) else 0


def cases_left(cases: list[GpuCase], scale: str, path: Path) -> list[GpuCase]:
    """The cases that are not done; those in which something failed earlier come last."""
    kept = Kept(Results(NAME, path), scale, {})
    records = [record for record in kept.results.records if record["scale"] == scale]
    failed = {record["case"] for record in records if "failed" in record}
    left = [case for case in cases if not is_done(case, kept)]
    return sorted(left, key=lambda case: case.name in failed)


def open_results(args: argparse.Namespace) -> Path:
    """The path of the result file; if that is another machine's, of a numbered one beside it."""
    path = args.out or FOLDER / ("gpu.json" if args.scale == "full" else f"gpu-{args.scale}.json")
    path = path if path.suffix else path.with_suffix(".json")
    if args.aside is not None and not args.again:
        put_aside(path, args.aside)
    beside = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    own = next(one for one in itertools.chain([path], beside) if args.again or _is_of_here(one))
    if args.again:
        own.unlink(missing_ok=True)
    return own


def put_aside(path: Path, folder: Path) -> None:
    """Move away another machine's result file, and take this machine's if the folder has one."""
    if not _is_of_here(path):
        folder.mkdir(parents=True, exist_ok=True)
        names = (folder / f"{path.stem}-{number}.json" for number in itertools.count(1))
        path.rename(next(name for name in names if not name.exists()))
    if not path.exists():
        own = next((one for one in sorted(folder.glob("*.json")) if _is_of_here(one)), None)
        if own is not None:
            own.rename(path)


def _is_of_here(path: Path) -> bool:
    """Whether a result file does not exist yet or is of this machine."""
    try:
        Results(NAME, path)
    except OtherMachineError as error:
        print(f"{error}", flush=True)
        return False
    return True


# ---- each case runs in its own process ---------------------------------------------------------


def _run_child(case: GpuCase, args: argparse.Namespace, path: Path, seconds: float) -> str:
    """Measure a case in a child process; return why it failed, or "" if it did not."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--child", case.name]
    command += ["--out", str(path.resolve()), "--scale", args.scale, "--budget", str(seconds)]
    command += ["--repeat", str(args.repeat), "--seed", str(args.seed)]
    status = run_child(command, seconds + GRACE, term_seconds=INNER_TERM_SECONDS, cwd=ROOT)
    if status is None:
        return CUT_SHORT if seconds < case.limit else f"ended after {seconds + GRACE:.0f} s"
    if status == NO_DEVICE:
        return NO_DEVICE_SAID
    return f"exit status {status}" if status else ""


def _note_end(case: GpuCase, scale: str, path: Path, why: str) -> None:
    """Record why the process of a case failed, or remove that record if ``why`` is empty."""
    kept = Kept(Results(NAME, path), scale, {})
    if why:
        print(f"  FAILED {why}", flush=True)
        kept.add(case, PROCESS, {"failed": why})
    else:
        kept.results.drop(kept.key(case, PROCESS))


def _child(args: argparse.Namespace) -> int:
    (case,) = (case for case in choose(args.child) if case.name == args.child)
    try:
        device = CudaDevice(AHEAD_BYTES if args.scale == "full" else AHEAD_BYTES // SMALL)
    except NoDeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_DEVICE
    keep = Kept(Results(NAME, args.out), args.scale, device.facts())
    plan = Plan(args.budget, args.repeat, args.seed)
    measure_case(case.sized(args.scale), device, plan, keep, _print)
    return 0


def measure_case(case: GpuCase, device: Device, plan: Plan, keep: Kept, say: Say) -> None:
    """Measure a case if its data fit the device's memory."""
    needed, free = bytes_needed(case), device.free_bytes()
    if free is not None and needed > free:
        say(f"  left out: needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
        return
    measure(case, device, plan, keep, say)


def bytes_needed(case: GpuCase) -> int:
    """Bytes of device memory for the data of a case, and for a copy in another library."""
    return 2 * 4 * (case.rows + case.predict_rows) * (case.features + 1)


def _print(text: str) -> None:
    print(text, flush=True)


@dataclass
class Kept:
    """Records of a result file, by case, scale and peer.

    Parameters
    ----------
    results : Results
    scale : str
    gpu : dict
        Facts of the device, stored in every record.
    """

    results: Results
    scale: str
    gpu: dict[str, Any]

    def key(self, case: GpuCase, who: str) -> str:
        """Key of a record."""
        return f"{case.name} | {self.scale} | {who}"

    def done(self, case: GpuCase, who: str) -> bool:
        """Whether there is a record that neither failed nor was left out."""
        record = self.results.find(self.key(case, who))
        return record is not None and "failed" not in record and "left_out" not in record

    def add(self, case: GpuCase, who: str, record: dict[str, Any]) -> None:
        """Add a record and write the file."""
        own: dict[str, Any] = {
            "case": case.name,
            "kind": case.kind,
            "who": who,
            "scale": self.scale,
        }
        own |= {"rows": case.rows, "features": case.features, "gpu": self.gpu}
        if case.predict_rows:
            own["predict_rows"] = case.predict_rows
        if case.kind != EQUALITY:
            own["trees"] = case.setting.n_estimators
        self.results.add(self.key(case, who), {**own, "bounds": dict(case.bounds), **record})
