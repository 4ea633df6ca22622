"""``python -m tests.package.resolve``: wheels of all dependencies exist for all claimed systems.

For each version of Python in the classifiers of pyproject.toml and for each of `PLATFORMS`, pip
resolves the dependencies of gpuboost, and all that these depend on, from wheels alone. Nothing is
installed, and none of this code runs: the result says that gpuboost can be installed there without
a compiler, not that it works. pip evaluates environment markers for the system that it runs on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
PLATFORMS = {  # tags of wheels; pip adds those of older macOS, but not those of older glibc
    "Linux x86_64": [f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1)],
    "macOS arm64": ["macosx_14_0_arm64"],
    "Windows amd64": ["win_amd64"],
}
SHOWN = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite")  # those with compiled code
_VERSION = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_ROW = "{:<8} {:<14} {}"


def project() -> dict[str, Any]:
    """The table ``[project]`` of pyproject.toml."""
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def claimed_versions(classifiers: Sequence[str]) -> list[str]:
    """Versions of Python in a list of classifiers, such as "3.11"."""
    return [found[1] for each in classifiers if (found := _VERSION.fullmatch(each))]


def resolve(version: str, tags: Sequence[str], dependencies: Sequence[str]) -> dict[str, str]:
    """Versions of all packages that would be installed.

    Raises
    ------
    RuntimeError
        A wheel is missing. The message is pip's.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--only-binary=:all:", "--target", folder]
        command += ["--disable-pip-version-check", "--report", str(report)]
        command += ["--python-version", version, *(f"--platform={tag}" for tag in tags)]
        done = subprocess.run([*command, *dependencies], capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.splitlines()
            errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
            raise RuntimeError(" ".join(errors))
        packages = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {each["metadata"]["name"].lower(): each["metadata"]["version"] for each in packages}


def main() -> int:
    """Print what each combination resolves to; return 1 if a wheel is missing, else 0."""
    own, is_complete = project(), True
    print(_ROW.format("Python", "platform", "newest wheels"))
    asked = list(product(claimed_versions(own["classifiers"]), PLATFORMS))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = [pool.submit(resolve, v, PLATFORMS[on], own["dependencies"]) for v, on in asked]
    for (version, platform), task in zip(asked, tasks, strict=True):
        try:
            found = task.result()
            text = ", ".join(f"{name} {found[name]}" for name in SHOWN)
        except RuntimeError as error:
            text, is_complete = f"MISSING: {error}", False
        print(_ROW.format(version, platform, text))
    return 0 if is_complete else 1


if __name__ == "__main__":
    raise SystemExit(main())
