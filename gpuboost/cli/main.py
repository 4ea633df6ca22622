"""The command line: ``gpuboost`` and its commands."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from gpuboost import __version__
from gpuboost.cli.commands.bench import bench
from gpuboost.cli.commands.machine import demo, info, warmup
from gpuboost.cli.commands.models import convert, evaluate, inspect, predict
from gpuboost.cli.commands.options import CONTEXT
from gpuboost.cli.commands.train import train
from gpuboost.cli.output import one_line

COMMANDS = (train, predict, evaluate, inspect, convert, bench, info, warmup, demo)
OK, FAILED, INTERRUPTED = 0, 2, 130  # exit statuses
_ERRORS = (ValueError, TypeError, RuntimeError, MemoryError, OSError, ImportError)


class _InOrder(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, commands=COMMANDS, context_settings=CONTEXT, no_args_is_help=False)
@click.version_option(__version__, message="gpuboost %(version)s")
def gpuboost() -> None:
    """Tree ensembles on NVIDIA GPUs and laptops."""


def run_process() -> NoReturn:
    """Run the command of this process, and end it.

    After errors and Ctrl-C it ends at once, without Python's own exit: a thread may still be in
    pyarrow's reader or Numba's compiler, and ending that thread can abort the process.
    """
    status = main()
    if status in (FAILED, INTERRUPTED):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Errors are one line on standard error, and status 2. Ctrl-C gives status 130.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _status_of(list(sys.argv[1:] if arguments is None else arguments))


def _status_of(words: list[str]) -> int:
    """Run a command and return its exit status; print errors."""
    try:
        with gpuboost.make_context("gpuboost", words) as context:
            status = gpuboost.invoke(context) or OK
            sys.stdout.flush()
            return status
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort) as stop:
        return _failed(str(stop) or "interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of standard output has gone, such as `head`; nothing more can be written.
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return OK
    except click.UsageError as error:
        own = error.ctx.command_path if error.ctx is not None else "gpuboost"
        text = error.format_message()
        return _failed(f"{text}{'' if text.endswith(('.', '?')) else '.'} See {own} --help.")
    except click.ClickException as error:
        return _failed(error.format_message())
    except _ERRORS as error:
        return _failed(_text_of(error))


def _text_of(error: BaseException) -> str:
    """The message of an error; of a file that cannot be opened, its name and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line."""
    print(f"note: {one_line(str(message))}", file=sys.stderr)


def _failed(text: str, status: int = FAILED) -> int:
    """Print one line to standard error."""
    print(f"gpuboost: {one_line(text)}", file=sys.stderr)
    return status
