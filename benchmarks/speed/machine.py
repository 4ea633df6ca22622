"""The machine and the versions of the libraries that a result was measured with."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "gpuboost",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "cuml-cu12",
    "cuml-cu13",
    "scikit-learn-intelex",
    "xgboost",
    "xgboost-cpu",
    "xgboost-cu12",
    "lightgbm",
    "catboost",
    "hessboost",
    "bonsai-gbt",
    "py-boost",
    "pandas",
)
# Facts that may change on the same machine: the memory of some virtual machines grows with use.
VARYING = ("memory_gb",)


def describe_machine() -> dict[str, Any]:
    """CPU, cores, memory, system, Python and versions, on which the results depend."""
    return {
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "memory_gb": memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": installed_versions(),
    }


def cpu_model() -> str:
    """Name of the CPU as the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown CPU"


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_gb() -> int | None:
    """Physical memory in whole GB, or None if the system does not report it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (AttributeError, ValueError, OSError):
        return None


def installed_versions() -> dict[str, str]:
    """Versions of those `PACKAGES` that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def today() -> str:
    """The current date in UTC, as the date of a measurement."""
    return datetime.now(UTC).strftime("%Y-%m-%d")
