"""NVIDIA's compute-sanitizer: find the program, and the findings in its output."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

SANITIZER = "compute-sanitizer"
MAX_FINDINGS = 40
# A line of the tool has exactly nine "=" before its text. Lines of pytest may, too, but end in "=".
_SAID = re.compile(r"(?<!=)={9} (.*[^=\s])\s*$")
# How the tested program ended is no finding; the exit status and the log of tests show that.
_HARMLESS = re.compile(
    r"COMPUTE-SANITIZER"
    r"|SUMMARY: 0 "
    r"|process didn't terminate successfully"
    r"|Target application (returned|terminated)"
)


def find_sanitizer() -> str | None:
    """Path of compute-sanitizer, or None if it is not installed."""
    return next((str(path) for path in _paths() if os.access(path, os.X_OK)), None)


def _paths() -> Iterator[Path]:
    """Paths where the program may be."""
    on_path = shutil.which(SANITIZER)
    if on_path:
        yield Path(on_path)
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    for home in (*homes, *sorted(Path("/usr/local").glob("cuda*"), reverse=True)):
        yield home / "bin" / SANITIZER
    wheels = importlib.util.find_spec("nvidia")
    for place in (wheels and wheels.submodule_search_locations) or ():
        yield from (path for path in sorted(Path(place).rglob(SANITIZER)) if path.is_file())


def findings(lines: Iterable[str]) -> list[str]:
    """The first `MAX_FINDINGS` lines in which compute-sanitizer reports an error."""
    found = []
    for line in lines:
        match = _SAID.search(line)
        if match and not _HARMLESS.search(match[1]):
            found.append(match[1].strip())
            if len(found) == MAX_FINDINGS:
                break
    return found
