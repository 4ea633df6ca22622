"""``gpuboost info``: backends, devices, caches and versions."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from gpuboost import __version__
from gpuboost.cli.output import print_facts, print_table, shown_bytes

PACKAGES = ("numpy", "scikit-learn", "numba", "cupy-cuda12x", "cupy-cuda13x", "pandas", "polars")


def calibrate() -> None:
    """Measure and save the `Speed` of this machine, by which device="auto" chooses a backend."""
    from gpuboost.backends.cost_model import keep_speed
    from gpuboost.backends.select import available_backends
    from gpuboost.cli.calibration import measure

    print("measuring; this takes a minute", file=sys.stderr)
    speed = measure([name for name, works, _ in available_backends() if works])
    machine = f"{platform.node()}, {platform.processor() or platform.machine()}"
    try:
        path = keep_speed(speed, machine)
    except OSError as error:
        raise RuntimeError(
            f"cannot save the measurements ({error}); set GPUBOOST_CACHE_DIR to another folder"
        ) from error
    print(f"saved in {path}", file=sys.stderr)


def machine_facts() -> dict[str, Any]:
    """The facts of ``gpuboost info``.

    They are the backends and GPUs, what device="auto" chooses, whether the speeds for this choice
    were measured, the number of threads, the compiled programs of Numba, and versions of packages.
    """
    from gpuboost.backends.devices import cuda_devices, cuda_versions
    from gpuboost.backends.select import available_backends
    from gpuboost.data.parameters import thread_count

    backends = available_backends()
    devices = cuda_devices().devices
    return {
        "gpuboost": __version__,
        "backends": [
            {"backend": name, "usable": works, "reason": reason or None}
            for name, works, reason in backends
        ],
        "gpus": [
            {
                "device": f"cuda:{one.number}",
                "model": one.model,
                "compute_capability": one.capability / 10,
                "bytes": one.memory,
            }
            for one in devices
        ],
        "cuda": cuda_versions() if devices else None,
        "auto": what_auto_does([name for name, works, _ in backends if works]),
        "speeds": speeds(),
        "threads": thread_count(None),
        "compile_cache": compile_cache(),
        "warmup": warmed_up(),
        "versions": {"python": platform.python_version()}
        | {package: installed(package) for package in PACKAGES},
    }


def print_machine(facts: Mapping[str, Any]) -> None:
    """Print the result of ``gpuboost info``."""
    print(f"gpuboost {facts['gpuboost']}\n")
    rows = [(own["backend"], _yes(own["usable"]), own["reason"] or "") for own in facts["backends"]]
    print_table("", ["backend", "usable", "why not"], rows, n_text=3)
    if facts["gpus"]:
        titles = ["GPU", "model", "compute capability", "memory"]
        found = [[*list(own.values())[:3], shown_bytes(own["bytes"])] for own in facts["gpus"]]
        print_table(facts["cuda"], titles, found, n_text=2)
    what = {
        'device="auto"': facts["auto"],
        "speeds": facts["speeds"],
        "threads": f"{facts['threads']}, where n_jobs=None",
        "compile cache": facts["compile_cache"],
    }
    print_facts(what)
    print()
    compiled = [(program, _yes(is_compiled)) for program, is_compiled in facts["warmup"].items()]
    print_table("", ["compiled by gpuboost warmup", ""], compiled, n_text=2)
    versions = [(package, own or "not installed") for package, own in facts["versions"].items()]
    print_table("", ["package", "version"], versions, n_text=2)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def what_auto_does(usable: Sequence[str]) -> str:
    """A phrase that names the backends that device="auto" chooses for much and for little work.

    If only one backend is usable, the phrase says that it is always chosen.
    """
    order = [name for name in ("cuda", "numba", "numpy") if name in usable]
    if len(order) == 1:
        return f"always {order[0]}"
    return f"{order[0]} for much work, {order[-1]} for little; the model is the same"


def speeds() -> str:
    """Origin of the constants that device="auto" uses: the file of measurements, or defaults."""
    from gpuboost.backends.cost_model import measured_speed, speed_file

    measured_speed()  # warns if the content of the file is not valid
    path = speed_file()
    return f"measured, in {path}" if path.is_file() else "default values; --calibrate measures them"


def compile_cache() -> str:
    """Names and folders of the compiled programs of the Numba backend, as one line.

    If there are none, the line says why.
    """
    from gpuboost.backends.cache import compiled_programs

    if importlib.util.find_spec("numba") is None:
        return "none: Numba is not installed"
    compiled = compiled_programs()
    if compiled:
        folders = ", ".join(dict.fromkeys(map(str, compiled.values())))
        return f"{', '.join(compiled)} in {folders}"
    return "empty: the first large fit compiles, once; gpuboost warmup compiles everything"


def warmed_up() -> dict[str, bool]:
    """Whether ``gpuboost warmup`` has compiled each program, by its text."""
    from gpuboost.backends.cache import compiled_programs
    from gpuboost.cli.programs import WARM_UP_PROGRAMS

    names = compiled_programs(program.name for program in WARM_UP_PROGRAMS)
    return {each.text: each.name in names for each in WARM_UP_PROGRAMS}


def installed(package: str) -> str | None:
    """Version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
