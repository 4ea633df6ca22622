"""The log of ``pytest --finished``; reading it does not need pytest."""

from __future__ import annotations

from pathlib import Path

BEGAN, PASSED, FAILED, SKIPPED, LOST = "began", "passed", "failed", "skipped", "lost"
MAX_BEGINNINGS = 2  # for tests that do not end
BROKE_DEVICE = 7  # exit status of pytest: a test broke the device for its process
FAILED_BEFORE = 8  # exit status of pytest: nothing failed now, but tests in the log failed earlier


class FinishedLog:
    """Outcomes of the tests of this run and of earlier ones.

    Parameters
    ----------
    path : Path
        The log, which is read if it exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began: dict[str, int] = {}  # tests that did not end, and how often they began
        self.end: dict[str, str] = {}
        self.n_lines = 0
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(*line.split(" ", 1))

    def _read(self, word: str, test: str) -> None:
        self.n_lines += 1
        if word == BEGAN:
            self.began[test] = self.began.get(test, 0) + 1
        else:
            self.end[test] = word
            self.began.pop(test, None)

    def write(self, word: str, test: str) -> None:
        """Append a line to the log."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{word} {test}\n")
        self._read(word, test)

    @property
    def bad(self) -> dict[str, str]:
        """Tests that did not pass, with the reason."""
        ends = {test: word for test, word in self.end.items() if word in (FAILED, LOST)}
        never = {test: f"{BEGAN} {n} times" for test, n in self.began.items() if n > 1}
        return ends | never

    def is_left(self, test: str) -> bool:
        """Whether a test must still be run."""
        if self.end.get(test, SKIPPED) != SKIPPED:
            return False
        return self.began.get(test, 0) < MAX_BEGINNINGS
