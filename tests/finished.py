"""A log of tests that are finished, so that a run that was broken off is gone on with.

``pytest --finished FILE`` appends a line for every test that begins, and one for what became of it.
The next call with the same file leaves out what is finished: the time for a GPU comes in slices,
and a kernel that writes where it must not ends a run. What began without an end comes last, and is
given up the second time. To run a test again, take its lines out of the file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

BEGAN, PASSED, FAILED, SKIPPED, LOST = "began", "passed", "failed", "skipped", "lost"
MOST_BEGINNINGS = 2  # of a test that does not end


class Finished:
    """The log of one run, and of those before it.

    Parameters
    ----------
    path : Path
        Read if it is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began: dict[str, int] = {}  # tests without an end, and how often they began
        self._end: dict[str, str] = {}
        self._now, self._outcome = "", PASSED
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(*line.split(" ", 1))

    def _read(self, word: str, test: str) -> None:
        if word == BEGAN:
            self._began[test] = self._began.get(test, 0) + 1
        else:
            self._end[test] = word
            self._began.pop(test, None)

    def _write(self, word: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{word} {self._now}\n")
        self._read(word, self._now)

    @property
    def bad(self) -> dict[str, str]:
        """Tests that did not pass, and why."""
        ends = {test: word for test, word in self._end.items() if word in (FAILED, LOST)}
        never = {test: f"{BEGAN} {n} times" for test, n in self._began.items() if n > 1}
        return ends | never

    # ---- pytest's hooks ------------------------------------------------------------------------

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what is finished."""
        left = [item for item in items if self._is_left(item.nodeid)]
        if len(left) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = sorted(left, key=lambda item: item.nodeid in self._began)

    def _is_left(self, test: str) -> bool:
        if self._end.get(test, SKIPPED) != SKIPPED:
            return False
        return self._began.get(test, 0) < MOST_BEGINNINGS

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self._now, self._outcome = nodeid, PASSED
        self._write(BEGAN)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow what becomes of it."""
        if report.failed:
            self._outcome = FAILED
        elif report.skipped and self._outcome == PASSED:
            self._outcome = SKIPPED

    def pytest_runtest_logfinish(self) -> None:
        """Note what became of it."""
        self._write(self._outcome)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note the test that ended the run itself, by `pytest.exit`."""
        if isinstance(excinfo.value, pytest.exit.Exception):
            self._write(LOST)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run fails by what failed before it, and does not by having nothing left to do."""
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self._end:
            bad = pytest.ExitCode.TESTS_FAILED
            session.exitstatus = bad if self.bad else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """All that did not pass, this time or before."""
        for test, why in self.bad.items():
            terminalreporter.write_line(f"{self._path.name}: {why}: {test}")


def add_option(parser: pytest.Parser) -> None:
    """``--finished FILE``."""
    told = "leave out the tests that this log has finished, and go on with it (one process)"
    parser.addoption("--finished", type=Path, metavar="FILE", help=told)


def register(config: pytest.Config) -> None:
    """Keep the log where it is asked for."""
    path = config.getoption("finished")
    if path is None or hasattr(config, "workerinput"):
        return
    if getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--finished is for one process; leave -n out, or pass -n 0")
    config.pluginmanager.register(Finished(path), "finished")
