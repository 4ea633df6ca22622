"""Warnings that point at a line of the user's code."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE_PREFIX = str(Path(__file__).parents[1]) + os.sep


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the line of the caller outside this package."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE_PREFIX):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)
