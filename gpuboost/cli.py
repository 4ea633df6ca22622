"""The command line: ``gpuboost demo``, ``gpuboost info``, ``gpuboost --version``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

PACKAGES = ("numpy", "scikit-learn", "numba", "cupy-cuda12x", "cupy-cuda13x", "pandas", "polars")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    args = parser().parse_args(arguments)
    try:
        return args.run(args)
    except (ValueError, RuntimeError, MemoryError) as error:
        print(f"gpuboost: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="gpuboost",
        description="Tree ensembles on NVIDIA GPUs and laptops.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"gpuboost {version()}")
    commands = top.add_subparsers(dest="command", required=True, metavar="{demo,info}")
    demo = commands.add_parser(
        "demo", help="train every estimator, beside scikit-learn's, and show times and scores"
    )
    demo.add_argument("--device", default="auto", help="default: %(default)s")
    demo.add_argument(
        "--rows", type=_rows, default=200_000, help="of the synthetic table (default: %(default)s)"
    )
    demo.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="that the whole should take (default: %(default)s)",
    )
    demo.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    demo.set_defaults(run=run_demo)
    info = commands.add_parser("info", help="show devices, versions and what will be used")
    info.set_defaults(run=run_info)
    return top


def run_demo(args: argparse.Namespace) -> int:
    """``gpuboost demo``."""
    from gpuboost.demo import DemoOptions, run

    return run(DemoOptions(args.device, args.rows, args.seconds, args.seed))


def run_info(args: argparse.Namespace) -> int:
    """``gpuboost info``."""
    print(info_text())
    return 0


def version() -> str:
    """Version of gpuboost."""
    import gpuboost

    return gpuboost.__version__


def info_text() -> str:
    """Devices, what will be used and why not the others, versions, cores, compile cache."""
    from gpuboost.backends.choice import available_backends
    from gpuboost.estimators.settings import available_threads

    backends = available_backends()
    usable = [name for name, works, _ in backends if works]
    lines = [f"gpuboost {version()}", "", "backends"]
    for name, works, reason in backends:
        lines.append(f"  {name:6s} {'yes' if works else 'no':4s} {reason}".rstrip())
    lines += ["", f'device="auto"  {what_auto_does(usable)}']
    lines += [
        "",
        f"threads        {available_threads(None)}, where n_jobs=None",
        f"compile cache  {compile_cache()}",
    ]
    lines += ["", "versions", f"  {'python':13s} {platform.python_version()}"]
    lines += [f"  {package:13s} {installed(package)}" for package in PACKAGES]
    return "\n".join(lines)


def what_auto_does(usable: Sequence[str]) -> str:
    """Which of the usable backends is taken when."""
    order = [name for name in ("cuda", "numba", "numpy") if name in usable]
    if len(order) == 1:
        return f"always {order[0]}"
    return f"{order[0]} for much work, {order[-1]} for little; the model is the same"


def compile_cache() -> str:
    """How much of the Numba backend is compiled and kept on disk."""
    folder = cache_folder()
    compiled = len(list(folder.rglob("*.nbc"))) if folder.is_dir() else 0
    if compiled:
        return f"{compiled} compiled functions in {folder}"
    return f"empty ({folder}): the first large fit compiles, once"


def cache_folder() -> Path:
    """Where Numba keeps what it compiles: beside the sources, or where the user said."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return Path(os.environ["NUMBA_CACHE_DIR"])
    return Path(__file__).parent / "backends" / "numba" / "__pycache__"


def installed(package: str) -> str:
    """Version of a package, or that it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _rows(text: str) -> int:
    """A number of rows from the command line."""
    rows = int(text)
    if rows < 100:
        raise argparse.ArgumentTypeError(f"must be at least 100, got {rows}")
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
