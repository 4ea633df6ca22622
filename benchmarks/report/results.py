"""Result files in JSON, written record by record, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.speed.machine import VARYING, describe_machine, today

FOLDER = Path(__file__).parents[1] / "results"
COMMANDS = {  # by result file
    "speed_boosting": "speed",
    "speed_sparse": "speed",
    "quality_boosting": "quality-boosting",
}


class OtherMachineError(RuntimeError):
    """A result file holds measurements from another machine or with other versions."""


class Results:
    """The records of one result file.

    Parameters
    ----------
    benchmark : str
        Name of the benchmark ("speed", "quality", ...).
    path : Path
        The JSON file. It is read if it exists.
    again : bool
        Whether to ignore the records of an existing file and measure everything anew.

    Raises
    ------
    OtherMachineError
        If the file was measured on another machine or with other versions: a file never mixes
        them.
    """

    def __init__(self, benchmark: str, path: Path, *, again: bool = False) -> None:
        self.path = path
        self._content: dict[str, Any] = {
            "benchmark": benchmark,
            "machine": describe_machine(),
            "records": [],
        }
        if path.exists() and not again:
            self._take_up(json.loads(path.read_text()))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Finished records, in the order in which they were measured."""
        return self._content["records"]

    def find(self, key: str) -> dict[str, Any] | None:
        """The record of ``key``, or None if it has not been measured yet."""
        return next((r for r in self.records if r["key"] == key), None)

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Add a record and write the file; a crash meanwhile leaves the old file intact."""
        self.records[:] = [r for r in self.records if r["key"] != key]
        self.records.append({"key": key, "date": today(), **record})
        self._write()

    def drop(self, key: str) -> None:
        """Remove a record, if there is one."""
        if self.find(key) is not None:
            self.records[:] = [r for r in self.records if r["key"] != key]
            self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self._content, indent=1) + "\n")
        unfinished.replace(self.path)

    def _take_up(self, content: dict[str, Any]) -> None:
        here = self._content
        if content["benchmark"] != here["benchmark"]:
            raise ValueError(
                f"{self.path} holds results of '{content['benchmark']}', "
                f"not of '{here['benchmark']}'; choose another --name."
            )
        differs = [
            k
            for k in here["machine"]
            if k not in VARYING and content["machine"].get(k) != here["machine"][k]
        ]
        if differs:
            raise OtherMachineError(
                f"{self.path} was measured elsewhere ({', '.join(differs)} differ); "
                "pass --again to measure anew, or another --name to keep both."
            )
        self._content = content


def result_path(name: str) -> Path:
    """The path of a result file; a name with a slash or a suffix is a path itself."""
    path = Path(name)
    return path if path.suffix or len(path.parts) > 1 else FOLDER / f"{name}.json"


def read_results(path: Path) -> dict[str, Any]:
    """Read a result file.

    Raises
    ------
    FileNotFoundError
        If the file does not exist. The message names the command that measures it.
    """
    if not path.exists():
        command = COMMANDS.get(path.stem, path.stem)
        raise FileNotFoundError(
            f"there is no {path}; measure first with 'python -m benchmarks {command}'."
        )
    return json.loads(path.read_text())
