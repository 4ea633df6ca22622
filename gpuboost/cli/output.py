"""What commands print: messages and tables for people, JSON for programs.

Results go to standard output, messages and progress to standard error. Without a terminal there are
no colours and no control characters.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

FILE_COLUMNS = 100  # width of tables that are written to a file


def console(is_error: bool = False) -> Console:
    """The console of standard output, or of standard error."""
    from rich.console import Console

    file = sys.stderr if is_error else sys.stdout
    width = None if file.isatty() else FILE_COLUMNS
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """Print a message to standard error."""
    print(text, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """A text on one line, with escapes in place of characters that cannot be printed."""
    line = " ".join(text.split())
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


def print_json(found: Any) -> None:
    """Print one JSON object on one line; numbers that are not finite become null."""
    print(json.dumps(_plain(found), ensure_ascii=False, allow_nan=False))


def print_found(
    found: Mapping[str, Any], as_json: bool, show: Callable[[Mapping[str, Any]], None]
) -> None:
    """Print facts as one JSON object, or by ``show`` for people."""
    if as_json:
        print_json(found)
    else:
        show(found)


def _plain(value: Any) -> Any:
    """A value with the types of JSON in place of NumPy's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(own) for own in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _print(table: Any) -> None:
    """Print a table of rich; in files, lines do not end in spaces."""
    own = console()
    if own.is_terminal:
        own.print(table)
        return
    with own.capture() as captured:
        own.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, shown(value))
    _print(table)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], n_text: int = 1
) -> None:
    """Print a table; its first ``n_text`` columns are text, the others numbers."""
    from rich import box
    from rich.table import Table

    look: dict[str, Any] = {"pad_edge": False, "show_edge": False, "collapse_padding": True}
    table = Table(box=box.SIMPLE_HEAD, **look)
    for place, name in enumerate(columns):
        if place < n_text:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(shown, row))
    if title:
        print(title)
    _print(table)
    print()


def shown(value: Any) -> str:
    """A value as text: numbers with four decimals or thousands separators, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e6 or value == 0 else f"{value:.4g}"


def counted(number: int, what: str, many: str = "") -> str:
    """A number of things; the plural is ``many``, or ends in "s"."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def shown_seconds(seconds: float) -> str:
    """A duration with three digits."""
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"


def shown_bytes(n_bytes: float) -> str:
    """A number of bytes, in the unit that fits."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


def counted_batches(batches: Iterable[tuple[int, Any]], bar: ProgressBar) -> Iterator[Any]:
    """Batches that are given with their numbers of rows, which a bar shows."""
    n_done = 0
    for n_rows, batch in batches:
        yield batch
        del batch
        n_done += n_rows
        bar.advance(completed=n_done)


class ProgressBar:
    """A bar on a terminal, with the rate and the time left.

    Attributes
    ----------
    is_shown : bool
        Whether standard error is a terminal.
    """

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task
        self.is_shown = bar is not None

    def advance(self, text: str = "", completed: int | None = None) -> None:
        """Count one more, or show ``completed``; ``text`` is shown beside the bar."""
        if self._bar is None:
            return
        own = self._bar.tasks[0]
        if completed is None:
            completed = own.completed + 1
        rate = f"{completed / own.elapsed:.1f}/s" if own.elapsed and completed else ""
        self._bar.update(self._task, completed=completed, text=text, rate=rate)

    def describe(self, what: str) -> None:
        """Show what is done now."""
        if self._bar is not None:
            self._bar.update(self._task, description=what)


@contextmanager
def progress(
    what: str, total: int | None, unit: str = "", is_shown: bool = True
) -> Iterator[ProgressBar]:
    """A `ProgressBar` that is removed at the end; nothing without a terminal or ``is_shown``.

    ``total`` None means that it is not known how much is done; the bar then shows the time.
    """
    if not (is_shown and sys.stderr.isatty()):
        yield ProgressBar(None, None)
        return
    from rich import progress as rich_progress

    counts = [
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn(f"{unit} {{task.fields[rate]}}", markup=False),
        rich_progress.TimeRemainingColumn(compact=True),
        rich_progress.TextColumn("left"),
    ]
    columns = [
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=18),
        *(counts if total is not None else [rich_progress.TimeElapsedColumn()]),
        rich_progress.TextColumn("{task.fields[text]}", markup=False),
    ]
    bar = rich_progress.Progress(*columns, console=console(is_error=True), transient=True)
    with bar:
        yield ProgressBar(bar, bar.add_task(what, total=total, rate="", text=""))
