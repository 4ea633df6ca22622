"""``python -m benchmarks.gpu``: measure everything on an NVIDIA GPU."""

from __future__ import annotations

import argparse

from benchmarks.gpu import run
from benchmarks.gpu.first.children import exit_on_sigterm


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=run.__doc__, allow_abbrev=False
    )
    run.add_arguments(parser)
    return run.run(parser.parse_args(arguments))


if __name__ == "__main__":
    exit_on_sigterm()  # the case that is running ends, too
    raise SystemExit(main())
