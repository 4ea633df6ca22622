"""The command line: ``gpuboost demo``, ``info``, ``warmup`` and ``--version``."""

from __future__ import annotations

import argparse
import importlib.util
import math
import platform
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from typing import Any

from gpuboost import __version__

MAX_DEMO_ROWS = 100_000_000  # limit of --rows; X of the two synthetic tables then takes 13 GB
_SECONDS = sys.float_info.min, sys.float_info.max  # limits of --seconds: above 0 and finite
PACKAGES = ("numpy", "scikit-learn", "numba", "cupy-cuda12x", "cupy-cuda13x", "pandas", "polars")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    args = parser().parse_args(arguments)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except (ValueError, RuntimeError, MemoryError) as error:
        print(f"gpuboost: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The parser of the commands and their options."""
    top = argparse.ArgumentParser(
        prog="gpuboost",
        description="Tree ensembles on NVIDIA GPUs and laptops.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"gpuboost {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="{demo,info,warmup}")
    _add_demo(commands)
    info = commands.add_parser("info", help="show devices, versions and which backend is used")
    info.add_argument(
        "--calibrate",
        action="store_true",
        help='measure the speed of this machine, by which device="auto" chooses a backend',
    )
    info.set_defaults(run=run_info)
    warmup = commands.add_parser(
        "warmup", help="compile everything that Numba runs, once per installation"
    )
    warmup.add_argument(
        "--processes",
        type=_whole_number(1, 1024),
        default=None,
        help="processes that compile at the same time (default: one per core)",
    )
    warmup.set_defaults(run=run_warmup)
    return top


def _add_demo(commands: Any) -> None:
    """Add the command ``demo`` with its options."""
    demo = commands.add_parser(
        "demo", help="train every estimator beside other libraries; show times and scores"
    )
    seconds = partial(_number, float, *_SECONDS, "a number of seconds above 0")
    demo.add_argument("--device", default="auto", help="where to train (default: %(default)s)")
    demo.add_argument(
        "--rows",
        type=_whole_number(100, MAX_DEMO_ROWS),
        default=200_000,
        help="maximum rows of the synthetic table (default: %(default)s)",
    )
    demo.add_argument(
        "--seconds",
        type=seconds,
        default=70.0,
        help="approximate time of the whole demonstration (default: %(default)s)",
    )
    seeds = _whole_number(0, 2**32 - 1)
    demo.add_argument("--seed", type=seeds, default=0, help="random seed (default: %(default)s)")
    demo.set_defaults(run=run_demo)


def run_demo(args: argparse.Namespace) -> int:
    """Run ``gpuboost demo`` and return its exit status."""
    from gpuboost.backends.select import check_device
    from gpuboost.cli.demo import DemoOptions, run

    check_device(args.device)  # fails before any table is made
    return run(DemoOptions(args.device, args.rows, args.seconds, args.seed))


def run_warmup(args: argparse.Namespace) -> int:
    """Run ``gpuboost warmup`` and return its exit status."""
    from gpuboost.backends.select import check_device
    from gpuboost.cli.warm_up import run

    check_device("numba")
    return run(args.processes)


def run_info(args: argparse.Namespace) -> int:
    """Run ``gpuboost info`` and return its exit status."""
    if args.calibrate:
        calibrate()
    print(info_text())
    return 0


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


def _number(kind: type[float], low: float, high: float, allowed: str, text: str) -> float:
    """Parse a number from the command line; an error says what is ``allowed``."""
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise argparse.ArgumentTypeError(f"must be {allowed}, got {text}")
    return number


def _whole_number(low: int, high: int) -> Callable[[str], float]:
    return partial(_number, int, low, high, f"a whole number from {low} to {high}")


if __name__ == "__main__":
    raise SystemExit(main())
