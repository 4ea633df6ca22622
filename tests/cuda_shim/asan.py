"""Runs Python code with AddressSanitizer loaded, which the flavour ``asan`` needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cuda_shim.compiler import library_path

REPOSITORY = Path(__file__).resolve().parents[2]
# Python leaks some memory, and the shim's runtime switches stacks.
_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0:exitcode=86"


def run_under_asan(snippet: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Run `snippet` in a new process, in which ``Module(..., flavour="asan")`` works.

    The process is new because the sanitizer must be loaded before anything else. At the first bad
    access, it ends the process with status 86 and a report on stderr.
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
