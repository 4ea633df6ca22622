"""``python -m benchmarks COMMAND``: run benchmarks, and write their tables into the documents."""

from __future__ import annotations

import argparse
import sys

from benchmarks.gpu import run as gpu
from benchmarks.quality import boosting_quality, parity, quality
from benchmarks.report import report
from benchmarks.speed import (
    blocks,
    choice,
    explain,
    first_use,
    growth,
    imports,
    memory,
    service,
    speed,
)
from benchmarks.stages import stages

COMMANDS = {
    "speed": speed,
    "growth": growth,
    "quality": quality,
    "quality-boosting": boosting_quality,
    "parity": parity,
    "memory": memory,
    "import": imports,
    "first-use": first_use,
    "choice": choice,
    "service": service,
    "explain": explain,
    "blocks": blocks,
    "stages": stages,
    "gpu": gpu,
    "table": report,
}


def parser() -> argparse.ArgumentParser:
    """Make the argument parser of all commands."""
    main = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, allow_abbrev=False
    )
    commands = main.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition(": ")[2].strip()
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        if name not in ("gpu", "table"):
            _add_common(command)
        command.set_defaults(run=module.run)
    return main


def _add_common(command: argparse.ArgumentParser) -> None:
    """Add the options that all measurements share."""
    command.add_argument(
        "--device", default="auto", help="device of gpuboost (default: %(default)s)"
    )
    command.add_argument(
        "--n-jobs", type=int, default=2, help="number of threads (default: %(default)s)"
    )
    command.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    command.add_argument(
        "--data",
        metavar="FOLDER",
        help="folder of Parquet files; benchmarks/suite/tables.py lists them",
    )
    command.add_argument(
        "--name", help="name of a result file in benchmarks/results, or path of a .json file"
    )
    command.add_argument(
        "--again", action="store_true", help="discard earlier results and measure everything anew"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    args = parser().parse_args(arguments)
    try:
        return args.run(args)
    except (ValueError, LookupError, FileNotFoundError, RuntimeError) as error:
        if isinstance(error, KeyError | IndexError):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
