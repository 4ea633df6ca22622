"""A log of tests that are finished, so that a run that was broken off is gone on with.

``pytest --finished FILE`` appends a line for every test that begins, and one for what became of it.
The next call with the same file leaves out what is finished: the time for a GPU comes in slices,
and a kernel that writes where it must not ends a run. What began without an end comes last, and is
given up the second time. To run a test again, take its lines out of the file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.finished_log import (
    BEGAN,
    BROKE_DEVICE,
    FAILED,
    FAILED_BEFORE,
    LOST,
    PASSED,
    SKIPPED,
    FinishedLog,
)


class Finished:
    """The plugin that keeps the log.

    Parameters
    ----------
    path : Path
        Read if it is there.
    """

    def __init__(self, path: Path) -> None:
        self._log = FinishedLog(path)
        self._now, self._outcome = "", PASSED
        self._n_left_out, self._lost = 0, False

    # ---- pytest's hooks ------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)  # after -m and -k, so that only chosen tests are counted
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what is finished."""
        left = [item for item in items if self._log.is_left(item.nodeid)]
        self._n_left_out = len(items) - len(left)
        if self._n_left_out:
            config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = sorted(left, key=lambda item: item.nodeid in self._log.began)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self._now, self._outcome = nodeid, PASSED
        self._log.write(BEGAN, nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow what becomes of it."""
        if report.failed:
            self._outcome = FAILED
        elif report.skipped and self._outcome == PASSED:
            self._outcome = SKIPPED

    def pytest_runtest_logfinish(self) -> None:
        """Note what became of it."""
        self._log.write(self._outcome, self._now)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note the test that ended the run itself, by `pytest.exit`."""
        if self._now and isinstance(excinfo.value, pytest.exit.Exception):
            self._lost = True
            self._log.write(LOST, self._now)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Give a broken device and earlier failures exit statuses of their own.

        A run with nothing left to do is no failure. Where no test was chosen at all, or where
        collecting them failed, pytest's own status stays. It is changed only here, because pytest
        shows no failures where `pytest.exit` has a status of its own.
        """
        if self._lost:
            session.exitstatus = BROKE_DEVICE
        nothing_left = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._n_left_out
        if exitstatus == pytest.ExitCode.OK or nothing_left:
            session.exitstatus = FAILED_BEFORE if self._log.bad else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """All that did not pass, this time or before."""
        for test, why in self._log.bad.items():
            terminalreporter.write_line(f"{self._log.path.name}: {why}: {test}")


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
