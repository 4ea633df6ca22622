"""Run all tests and benchmarks on a GPU in one command, the most informative first.

``python3 benchmarks/gpu/first_run.py --minutes 9`` ends after nine minutes; another call continues
where it stopped. It downloads nothing. ``report.md`` in the folder shows the results so far. The
exit status is 1 if anything failed, and 3 if there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.gpu.cases import SCALES, choose
from benchmarks.gpu.first.children import exit_on_sigterm
from benchmarks.gpu.first.facts import UNUSABLE
from benchmarks.gpu.first.kernel_archive import OTHER_RESULTS
from benchmarks.gpu.first.report import RESULTS, report_text
from benchmarks.gpu.first.sanitizer import SANITIZER, find_sanitizer, findings
from benchmarks.gpu.first.steps import CUT_SHORT, NOT_BEGUN, ROOT, SECONDS, Run, Step, replace_text
from benchmarks.gpu.run import UNFINISHED
from benchmarks.gpu.text import by_case, missed_bounds
from benchmarks.peers.peers import OURS
from tests.runs.finished_log import BROKE_DEVICE

SANITIZER_FOUND = "9"  # exit status of compute-sanitizer if it finds errors
NO_SANITIZER = f"there is no {SANITIZER} on PATH, in CUDA_HOME, /usr/local/cuda* or NVIDIA's wheels"
NO_PYTEST = f"pytest is not installed for {sys.executable}"
FEW = "(test_every_estimator or test_every_option) and 160"
FITS = ("Classifier", "Regressor", "prediction of")  # in names of cases


def all_steps(folder: Path, scale: str) -> list[Step]:
    """All steps, the most informative first."""
    cases = partial(_cases, folder / RESULTS, scale)
    tests = partial(_tests, folder)
    return [
        Step(
            "facts",
            "Which GPU and software are there?",
            _python("facts"),
            60,
            always=True,
            fatal=(UNUSABLE,),
        ),
        tests(
            "small",
            "Does a fit run, and does it give NumPy's model?",
            "gpu",
            150,
            only="every_estimator and 160",
        ),
        cases("equal", "Does a larger fit give NumPy's model?", 75, "the same model"),
        cases("histograms", "How close do histograms come to the ceilings?", 130, "histograms"),
        Step(
            "copies",
            "How fast are copies to the host, and binning?",
            (*_python("copies"), "--scale", scale),
            60,
        ),
        tests("parity", "Are all models equal, whatever the options?", "gpu and not slow", 300),
        cases("speed", "How fast are fits and predictions, beside the peers?", 600, *FITS),
        _sanitized(tests, "memcheck"),
        _sanitized(tests, "racecheck"),
        tests("large", "Are models of large tables equal?", "gpu and slow", 900, min_seconds=120),
    ]


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"benchmarks.gpu.first.{module}")


def _tests(
    folder: Path,
    name: str,
    question: str,
    kind: str,
    limit: float,
    *,
    only: str = "",
    log: str = "tests.log",
    min_seconds: float = 20.0,
) -> Step:
    """A step of GPU tests, chosen by the marker ``kind`` and the ``-k`` expression ``only``."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short"]
    command += ["--durations=9", "-m", kind, *(["-k", only] if only else [])]
    command += [
        "--finished",
        str(folder / log),
        "tests/gpu/test_gpu.py",
        "tests/gpu/test_gpu_boosting.py",
    ]
    return Step(
        name,
        question,
        tuple(command),
        limit,
        min_seconds=min_seconds,
        missing="" if importlib.util.find_spec("pytest") else NO_PYTEST,
        environment={"GPUBOOST_REQUIRE_GPU": "1"},
        unfinished=(BROKE_DEVICE,),
        log=log,
    )


def _sanitized(tests: partial[Step], tool: str) -> Step:
    """A step of small tests under a tool of compute-sanitizer."""
    question = f"Does {SANITIZER} --tool {tool} find anything?"
    step = tests(tool, question, "gpu", 300, only=FEW, log=f"{tool}.log")
    found = find_sanitizer()
    # CuPy queries attributes that a device may not have; such API errors are harmless.
    words = (f"{found}", "--tool", tool, "--report-api-errors", "no")
    return replace(
        step,
        command=(*words, "--error-exitcode", SANITIZER_FOUND, *step.command),
        environment={**step.environment, "GPUBOOST_TEST_SANITIZER": "1"},
        missing=step.missing or ("" if found else NO_SANITIZER),
        optional=True,
        findings=findings,
        refusal="Device not supported",
    )


def _cases(path: Path, scale: str, name: str, question: str, limit: float, *only: str) -> Step:
    """A step of benchmark cases, chosen by texts in their names."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(path), "--scale", scale]
    command += ["--aside", str(path.parent / OTHER_RESULTS)]
    return Step(
        name,
        question,
        (*command, "--budget", SECONDS, "--only", *only),
        limit,
        min_seconds=30,
        unfinished=(UNFINISHED,),
        forget=partial(_drop_failures, path, only),
    )


def _drop_failures(path: Path, only: tuple[str, ...]) -> None:
    """Remove records that failed or missed a bound, so that they are measured anew."""
    if not path.exists():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    names, records = {case.name for case in choose(*only)}, content["records"]
    dropped = [
        record
        for own in by_case([r for r in records if r["case"] in names]).values()
        for record in own
        if "failed" in record or (record["who"].startswith(OURS) and missed_bounds(own))
    ]
    content["records"] = [record for record in records if record not in dropped]
    replace_text(path, json.dumps(content, indent=1) + "\n")


# ---- the command -------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(prog="first_run.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "gpu-runs", metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=9.0, help="default: 9")
    parser.add_argument(
        "--again", nargs="+", default=[], metavar="STEP", help="repeat what failed in these steps"
    )
    parser.add_argument("--scale", choices=tuple(SCALES), default="full")
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    run = Run(args.out, all_steps(args.out.resolve(), args.scale))
    unknown = set(args.again) - {step.name for step in run.steps}
    if unknown:
        parser.error(f"no step {sorted(unknown)}; there are {[step.name for step in run.steps]}")
    for step in run.steps:
        if step.name in args.again:
            run.forget(step)
    try:
        run.go_on(60.0 * args.minutes - (time.perf_counter() - started))
    finally:
        run.write()
        text = report_text(run.folder, run.steps, run.entries)
        replace_text(run.folder / "report.md", text)
        with suppress(BrokenPipeError):
            print(text, flush=True)
    if any(run.status(step) in (NOT_BEGUN, CUT_SHORT) for step in run.steps):
        print("Call again to go on.")
    return run.exit_status


if __name__ == "__main__":
    exit_on_sigterm()
    raise SystemExit(main())
