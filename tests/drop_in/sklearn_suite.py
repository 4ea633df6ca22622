"""``python -m tests.drop_in.sklearn_suite``: scikit-learn's own tests, run on gpuboost's classes.

The test files of the installed scikit-learn are copied into a temporary folder, where their imports
from ``sklearn.ensemble`` and ``sklearn.tree`` are redirected to a module that offers gpuboost's
class wherever there is one. Each of the `SUITES` has a file that lists the tests that are expected
to fail, each with the reason; the run fails if such a test passes or does not exist. It also fails
if fewer than ``min_passed`` tests pass. Tests that fail without being listed are still to be
mended: they are printed, and ``min_passed`` rises with each that passes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import sklearn

from tests.runs.workers import BLAS_THREADS

VERSION = "1.9.1"  # the list of exceptions is for this version of scikit-learn
MAX_EXCEPTIONS = 50  # of a suite


@dataclass(frozen=True)
class Suite:
    """Test files, by their names here and their paths in scikit-learn, and what is expected."""

    files: Mapping[str, str]
    exceptions: Path
    min_passed: int


_HERE = Path(__file__).parent
_HIST = "ensemble/_hist_gradient_boosting/tests"
SUITES = (
    Suite(
        {
            "test_forest.py": "ensemble/tests/test_forest.py",
            "test_weight_boosting.py": "ensemble/tests/test_weight_boosting.py",
            "test_gradient_boosting.py": "ensemble/tests/test_gradient_boosting.py",
            "test_bagging.py": "ensemble/tests/test_bagging.py",
            "test_tree.py": "tree/tests/test_tree.py",
            "test_monotonic_tree.py": "tree/tests/test_monotonic_tree.py",
        },
        _HERE / "exceptions.txt",
        min_passed=1330,
    ),
    Suite(
        {
            "test_hist_gradient_boosting.py": f"{_HIST}/test_gradient_boosting.py",
            "test_hist_warm_start.py": f"{_HIST}/test_warm_start.py",
            "test_hist_monotonic_constraints.py": f"{_HIST}/test_monotonic_constraints.py",
        },
        _HERE / "hist_exceptions.txt",
        min_passed=146,
    ),
)
FAILURES = ("failure", "error")  # tags of pytest's report

_NAMES = """
from sklearn.ensemble import *
from sklearn.tree import *
from gpuboost import *
"""
_CONFTEST = """
import pytest

EXPECTED = {expected!r}

def pytest_generate_tests(metafunc):
    if "global_random_seed" in metafunc.fixturenames:
        metafunc.parametrize("global_random_seed", [42])

def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid in EXPECTED:
            item.add_marker(pytest.mark.xfail(reason=EXPECTED[item.nodeid], strict=True))
"""


def main() -> int:
    """Run the tests; return 0 if they pass as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arguments", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args()
    if metadata.version("scikit-learn") != VERSION:
        print(f"scikit-learn {VERSION} is needed, found {metadata.version('scikit-learn')}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        outcomes = run(Path(folder), given.arguments)
    verdicts = [as_expected(outcomes_of(suite, outcomes), suite) for suite in SUITES]
    return 0 if all(verdicts) else 1


def read_exceptions(listed: Path) -> dict[str, str]:
    """The ids of the tests that are expected to fail, with their reasons."""
    lines = [line for line in listed.read_text().splitlines() if line.strip()]
    if len(lines) > MAX_EXCEPTIONS:
        raise ValueError(f"{listed} has {len(lines)} lines, at most {MAX_EXCEPTIONS} allowed")
    pairs = (line.rpartition(" # ")[::2] for line in lines)
    return {test.strip(): reason.strip() for test, reason in pairs}


def prepare(folder: Path) -> None:
    """Copy the test files with redirected imports, and write the configuration beside them."""
    expected: dict[str, str] = {}
    for suite in SUITES:
        expected |= read_exceptions(suite.exceptions)
    (folder / "drop_in_names.py").write_text(_NAMES)
    (folder / "conftest.py").write_text(_CONFTEST.format(expected=expected))
    for name, path in (file for suite in SUITES for file in suite.files.items()):
        source = (Path(sklearn.__file__).parent / path).read_text()
        redirected = re.sub(
            r"^from sklearn\.(ensemble|tree) import",
            "from drop_in_names import",
            source,
            flags=re.M,
        )
        (folder / name).write_text(redirected)


def run(folder: Path, arguments: list[str]) -> dict[str, str]:
    """The outcome of each test: "passed", "failed", "skipped", "xfailed" or "xpassed"."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-W"]
    options = ["ignore", "--tb=line", "-p", "no:cacheprovider", f"--junitxml={report}", "-c"]
    options = [*options, "/dev/null", "--rootdir=.", *arguments]
    environment = {**os.environ, BLAS_THREADS: "1"}
    done = subprocess.run([*command, *options], cwd=folder, env=environment)
    if done.returncode not in (0, 1):  # neither passed nor failed
        raise RuntimeError(f"pytest ended with {done.returncode}; its output says why")
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').split('.')[-1]}.py::{case.get('name')}"
        found = {child.tag: child.get("type", "") for child in case}
        if "skipped" in found:
            outcomes[test] = "xfailed" if "xfail" in found["skipped"] else "skipped"
        else:
            failures = [child.get("message") or "" for child in case if child.tag in FAILURES]
            passed_by_mistake = any(each.startswith("[XPASS(strict)]") for each in failures)
            outcomes[test] = "xpassed" if passed_by_mistake else "failed" if failures else "passed"
    return outcomes


def outcomes_of(suite: Suite, outcomes: dict[str, str]) -> dict[str, str]:
    """The outcomes of the tests in a suite's files."""
    return {test: found for test, found in outcomes.items() if test.split("::")[0] in suite.files}


def as_expected(outcomes: dict[str, str], suite: Suite) -> bool:
    """Whether the outcomes are those expected of a suite; print them."""
    expected = read_exceptions(suite.exceptions)
    counts = {kind: list(outcomes.values()).count(kind) for kind in sorted({*outcomes.values()})}
    missing = [test for test in expected if test not in outcomes]
    print(f"{len(outcomes)} tests: {counts}, at least {suite.min_passed} must pass")
    for test, outcome in outcomes.items():
        if outcome in ("failed", "xpassed"):
            print(f"{outcome}: {test}")
    for test in missing:
        print(f"not found: {test}")
    is_listed = "xpassed" not in counts and not missing
    return is_listed and counts.get("passed", 0) >= suite.min_passed


if __name__ == "__main__":
    sys.exit(main())
