"""The ends of messages about names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_FEW_NAMES = 12  # names that a message lists even if none is similar


def near(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that lists similar names, or all if none is similar and few exist."""
    known = list(names)
    found = difflib.get_close_matches(name, known, n=3)
    if found:
        return f"; did you mean {' or '.join(map(repr, found))}?"
    return f"; there are {', '.join(map(repr, known))}" if 0 < len(known) <= _FEW_NAMES else ""


def separator_hint(header: str) -> str:
    """The end of a sentence about a text file that seems to be separated by semicolons."""
    if ";" not in header or "," in header or "\t" in header:
        return ""
    return "; it seems to be separated by ';', but must be by commas or tabs"
