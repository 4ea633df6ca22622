"""Runs a piece of Python with AddressSanitizer loaded, as its flavour of kernels needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cuda_shim.compiler import library_path

REPOSITORY = Path(__file__).resolve().parents[2]
# Python itself never frees some memory, and the runtime switches stacks on its own.
_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0:exitcode=86"


def run_under_asan(snippet: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Run `snippet` in a Python of its own, in which ``Module(..., flavour="asan")`` works.

    The sanitizer must be in the process before anything else, hence the new process. It ends the
    process with status 86 and a report on stderr at the first bad access.
    """
    libraries = [library_path(name) for name in ("libasan.so", "libstdc++.so")]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(libraries),
        "ASAN_OPTIONS": _OPTIONS,
        "PYTHONPATH": str(REPOSITORY),
    }
    return subprocess.run(
        [sys.executable, "-c", snippet],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
