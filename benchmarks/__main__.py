"""``python -m benchmarks COMMAND``: measure, and make the documents' tables from that."""

from __future__ import annotations

import argparse
import sys

from benchmarks.gpu import run as gpu
from benchmarks.quality import boosting_quality, parity, quality
from benchmarks.report import report
from benchmarks.speed import imports, memory, speed
from benchmarks.stages import stages

COMMANDS = {
    "speed": speed,
    "quality": quality,
    "quality-boosting": boosting_quality,
    "parity": parity,
    "memory": memory,
    "import": imports,
    "stages": stages,
    "gpu": gpu,
    "table": report,
}


def parser() -> argparse.ArgumentParser:
    """Command line of all benchmarks."""
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
    """Options that every measurement has."""
    command.add_argument("--device", default="auto", help="of gpuboost (default: %(default)s)")
    command.add_argument("--n-jobs", type=int, default=2, help="threads (default: %(default)s)")
    command.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    command.add_argument("--data", metavar="FOLDER", help="Parquet tables, see tables.SOURCES")
    command.add_argument(
        "--name", help="result file under benchmarks/results, or the path of one (.json)"
    )
    command.add_argument("--again", action="store_true", help="forget what was measured before")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit status."""
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
