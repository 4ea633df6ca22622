"""Results as JSON, written record by record so that a run can be broken off and taken up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.speed.machine import VARYING, describe_machine, today

FOLDER = Path(__file__).parents[1] / "results"
COMMANDS = {"speed_boosting": "speed", "quality_boosting": "quality-boosting"}  # by result file


class OtherMachineError(RuntimeError):
    """A result file holds measurements of another machine or of other versions."""


class Results:
    """The records of one result file.

    Parameters
    ----------
    benchmark : str
        What was measured ("speed", "quality", ...).
    path : Path
        The JSON file; read if it exists.
    again : bool
        Forget what the file holds and measure everything anew.

    Raises
    ------
    OtherMachineError
        If the file was measured elsewhere: one file never mixes machines or versions.
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
        """Finished records, in the order they were measured."""
        return self._content["records"]

    def find(self, key: str) -> dict[str, Any] | None:
        """The record of ``key``, None if it is still to be measured."""
        return next((r for r in self.records if r["key"] == key), None)

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record and write the file; a crash in between leaves the old file whole."""
        self.records[:] = [r for r in self.records if r["key"] != key]
        self.records.append({"key": key, "date": today(), **record})
        self._write()

    def drop(self, key: str) -> None:
        """Forget a record, if there is one."""
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
    """The file of a result; a name with a slash or a suffix is a path of its own."""
    path = Path(name)
    return path if path.suffix or len(path.parts) > 1 else FOLDER / f"{name}.json"


def read_results(path: Path) -> dict[str, Any]:
    """A whole result file.

    Raises
    ------
    FileNotFoundError
        If it was not measured yet, naming the command that does.
    """
    if not path.exists():
        command = COMMANDS.get(path.stem, path.stem)
        raise FileNotFoundError(
            f"there is no {path}; measure first with 'python -m benchmarks {command}'."
        )
    return json.loads(path.read_text())
