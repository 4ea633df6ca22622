"""A pytest plugin that logs finished tests, so that an interrupted run can be continued.

``pytest --finished FILE`` appends a line for every test that begins, and one for its outcome. The
next call with the same file skips finished tests: time on a GPU is limited, and a kernel with an
invalid access ends a run. A test that began and did not end runs last, and is given up after the
second time. To run a test again, remove its lines from the file.
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
    """The plugin that writes the log.

    Parameters
    ----------
    path : Path
        The log, which is read if it exists.
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
        """Deselect finished tests."""
        left = [item for item in items if self._log.is_left(item.nodeid)]
        self._n_left_out = len(items) - len(left)
        if self._n_left_out:
            config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = sorted(left, key=lambda item: item.nodeid in self._log.began)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Log that a test begins."""
        self._now, self._outcome = nodeid, PASSED
        self._log.write(BEGAN, nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the current test."""
        if report.failed:
            self._outcome = FAILED
        elif report.skipped and self._outcome == PASSED:
            self._outcome = SKIPPED

    def pytest_runtest_logfinish(self) -> None:
        """Log the outcome of the current test."""
        self._log.write(self._outcome, self._now)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Log the test that ended the run by `pytest.exit`."""
        if self._now and isinstance(excinfo.value, pytest.exit.Exception):
            self._lost = True
            self._log.write(LOST, self._now)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Set special exit statuses for a broken device and for earlier failures.

        If all tests are finished, the run succeeds. If no test was selected or collection failed,
        pytest's status is kept. The status is changed here, because pytest shows no failures if
        `pytest.exit` is called with a status.
        """
        if self._lost:
            session.exitstatus = BROKE_DEVICE
        nothing_left = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._n_left_out
        if exitstatus == pytest.ExitCode.OK or nothing_left:
            session.exitstatus = FAILED_BEFORE if self._log.bad else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List all tests that did not pass, now or earlier."""
        for test, why in self._log.bad.items():
            terminalreporter.write_line(f"{self._log.path.name}: {why}: {test}")


def add_option(parser: pytest.Parser) -> None:
    """Add the option ``--finished FILE``."""
    told = "leave out the tests that this log has finished, and go on with it (one process)"
    parser.addoption("--finished", type=Path, metavar="FILE", help=told)


def register(config: pytest.Config) -> None:
    """Register the plugin if ``--finished`` is given."""
    path = config.getoption("finished")
    if path is None or hasattr(config, "workerinput"):
        return
    if getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--finished is for one process; leave -n out, or pass -n 0")
    config.pluginmanager.register(Finished(path), "finished")
