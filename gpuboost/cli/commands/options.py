"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuboost.cli.similar import near

Command = TypeVar("Command", bound=Callable[..., Any])
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
DEVICE = click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Where to compute: auto, cpu, cuda, cuda:N, numpy or numba.",
)
NO_HEADER = click.option(
    "--no-header",
    is_flag=True,
    help='Text files have no line of names; columns are called "0", "1" and so on.',
)
DROP = click.option(
    "--drop", multiple=True, metavar="COL", help="A column to leave out; can be repeated."
)
WEIGHT_COLUMN = click.option("--weight", metavar="COL", help="The column of weights of the rows.")


class NumberType(click.ParamType):
    """A number within limits; an error says what is allowed."""

    def __init__(self, kind: type[float], low: float, high: float, allowed: str) -> None:
        self.kind, self.low, self.high, self.allowed = kind, low, high, allowed
        self.name = "integer" if kind is int else "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number of a text."""
        try:
            number = self.kind(value)
        except (TypeError, ValueError):
            number = math.nan
        if not self.low <= number <= self.high:
            self.fail(f"must be {self.allowed}, got {value}", param, ctx)
        return number


def whole_number(low: int, high: int) -> NumberType:
    """Whole numbers from ``low`` to ``high``."""
    return NumberType(int, low, high, f"a whole number from {low} to {high}")


def seconds() -> NumberType:
    """Finite numbers above 0."""
    limits = sys.float_info.min, sys.float_info.max
    return NumberType(float, *limits, "a number of seconds above 0")


class SizeType(click.ParamType):
    """A number of bytes with a unit."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes of a text."""
        found = re.fullmatch(r"(\d{1,15}(?:\.\d+)?) *((?:[kMGT]i?)?)B", str(value), re.IGNORECASE)
        n_bytes = 0
        if found is not None:
            unit = found[2].lower()
            base = 1024 if unit.endswith("i") else 1000
            n_bytes = int(float(found[1]) * base ** " kmgt".index(unit[:1] or " "))
        if n_bytes < 1:
            self.fail(f"must be a size such as 500MB, 4GB or 2GiB, got {value}", param, ctx)
        return n_bytes


SEED = click.option(
    "--seed",
    type=whole_number(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of all random numbers.",
)


FRACTION = "FRACTION"  # ends the placeholder of an option that may be a number
PARAMETERS = "set"  # the table of parameters in a configuration file


def config_option(
    options_by_name: Callable[[], dict[str, click.Parameter]],
) -> Callable[[Command], Command]:
    """The option ``--config``, whose file has the options of a command.

    The file is TOML. Its names are those of the options and arguments; options on the command line
    replace them. The table ``[set]`` has parameters, which `parameters_of_config` returns.
    ``options_by_name`` returns the options that the file may have.
    """

    def read(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
        if path is not None:
            found = _config(path, options_by_name())
            ctx.meta[PARAMETERS] = found.pop(PARAMETERS, {})
            ctx.default_map = {**(ctx.default_map or {}), **found}

    return click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=read,
        help="TOML file with these options; its table [set] has parameters.",
    )


def parameters_of_config() -> dict[str, Any]:
    """The table of parameters in the file of ``--config``."""
    return click.get_current_context().meta.get(PARAMETERS, {})


def _config(path: str, allowed: dict[str, click.Parameter]) -> dict[str, Any]:
    """The options in a file, by the names that click has for them."""
    with open(path, "rb") as file:
        try:
            found = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise click.UsageError(f"{path} is not valid TOML: {error}") from error
    for name, value in found.items():
        if name not in allowed:
            raise click.UsageError(f"{path}: there is no option {name!r}{near(name, allowed)}")
        if isinstance(value, dict) != (name == PARAMETERS):
            raise click.UsageError(f"{path}: only [{PARAMETERS}] is a table, and has to be one")
        if name != PARAMETERS:
            _check_value(f"{path}: {name}", value, allowed[name])
    return {name.replace("-", "_"): value for name, value in found.items()}


def _check_value(label: str, value: Any, option: click.Parameter) -> None:
    """Check the type of a value of TOML, which click would convert or misunderstand."""
    kinds: tuple[type, ...] = (str,)
    expected = "a string in quotes"
    if getattr(option, "multiple", False):
        kinds, expected = (list,), "a list of strings"
    elif getattr(option, "is_flag", False):
        kinds, expected = (bool,), "true or false"
    elif isinstance(option.type, NumberType):
        kinds, expected = (int, option.type.kind), option.type.allowed
    elif isinstance(option.type, SizeType):
        expected = "a size in quotes"
    elif str(option.metavar).endswith(FRACTION):
        kinds, expected = (str, float, int), "a fraction, or a table in quotes"
    parts = value if isinstance(value, list) else ()
    if type(value) not in kinds or not all(isinstance(part, str) for part in parts):
        raise click.UsageError(f"{label} must be {expected}, got {value!r}")
