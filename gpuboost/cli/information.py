"""``gpuboost info``: backends, devices, caches and versions."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Sequence
from importlib import metadata

from gpuboost import __version__

PACKAGES = ("numpy", "scikit-learn", "numba", "cupy-cuda12x", "cupy-cuda13x", "pandas", "polars")


def calibrate() -> None:
    """Measure and save the `Speed` of this machine, by which device="auto" chooses a backend."""
    from gpuboost.backends.cost_model import keep_speed
    from gpuboost.backends.select import available_backends
    from gpuboost.cli.calibration import machine_name, measure

    print("measuring; this takes a minute", file=sys.stderr)
    speed = measure([name for name, works, _ in available_backends() if works])
    try:
        path = keep_speed(speed, machine_name())
    except OSError as error:
        raise RuntimeError(
            f"cannot save the measurements ({error}); set GPUBOOST_CACHE_DIR to another folder"
        ) from error
    print(f"saved in {path}", file=sys.stderr)


def info_text() -> str:
    """The output of ``gpuboost info``.

    It lists the backends and GPUs, what device="auto" chooses, whether the speeds for this choice
    were measured, the number of threads, the compile cache of Numba, and the versions of packages.
    """
    from gpuboost.backends.select import available_backends
    from gpuboost.data.parameters import thread_count

    backends = available_backends()
    usable = [name for name, works, _ in backends if works]
    lines = [f"gpuboost {__version__}", "", "backends"]
    for name, works, reason in backends:
        lines.append(f"  {name:6s} {'yes' if works else 'no':4s} {reason}".rstrip())
    lines += [f"  {line}" for line in gpus()]
    lines += ["", f'device="auto"  {what_auto_does(usable)}', f"speeds         {speeds()}"]
    lines += [
        "",
        f"threads        {thread_count(None)}, where n_jobs=None",
        f"compile cache  {compile_cache()}",
        *warmed_up(),
    ]
    lines += ["", "versions", f"  {'python':13s} {platform.python_version()}"]
    lines += [f"  {package:13s} {installed(package)}" for package in PACKAGES]
    return "\n".join(lines)


def what_auto_does(usable: Sequence[str]) -> str:
    """A phrase that names the backends that device="auto" chooses for much and for little work.

    If only one backend is usable, the phrase says that it is always chosen.
    """
    order = [name for name in ("cuda", "numba", "numpy") if name in usable]
    if len(order) == 1:
        return f"always {order[0]}"
    return f"{order[0]} for much work, {order[-1]} for little; the model is the same"


def gpus() -> list[str]:
    """A line for each CUDA device and a line with the CUDA versions; nothing without a device."""
    from gpuboost.backends.devices import cuda_devices, cuda_versions

    devices = cuda_devices().devices
    lines = [
        f"cuda:{one.number}  {one.model}, compute capability {one.capability / 10:.1f}, "
        f"{one.memory / 2**30:.0f} GiB"
        for one in devices
    ]
    return [*lines, cuda_versions()] if devices else []


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


def warmed_up() -> list[str]:
    """Whether ``gpuboost warmup`` has compiled each program, one per line."""
    from gpuboost.backends.cache import compiled_programs
    from gpuboost.cli.programs import WARM_UP_PROGRAMS

    names = compiled_programs(program.name for program in WARM_UP_PROGRAMS)
    lines = [
        f"  {each.text:28s} {'yes' if each.name in names else 'no'}" for each in WARM_UP_PROGRAMS
    ]
    return ["", "compiled by gpuboost warmup", *lines]


def installed(package: str) -> str:
    """Version of a package, or "not installed"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
