"""``gpuboost bench``."""

from __future__ import annotations

from typing import Any

import click

from gpuboost.cli.commands.options import AS_JSON, CONTEXT, SEED, seconds, whole_number

MAX_BENCH_ROWS = 1_000_000_000


class RowCounts(click.ParamType):
    """Numbers of rows with commas between them, such as ``10000,100000``."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The numbers in ascending order."""
        if isinstance(value, tuple):
            return value
        one = whole_number(100, MAX_BENCH_ROWS)
        return tuple(sorted({int(one.convert(part, param, ctx)) for part in value.split(",")}))


@click.command(context_settings=CONTEXT)
@click.option(
    "--rows",
    type=RowCounts(),
    default="10000,100000,1000000",
    show_default=True,
    help="Rows to train on, with commas between several numbers.",
)
@click.option(
    "--seconds",
    "budget",
    type=seconds(),
    default=300.0,
    show_default=True,
    help="Time that the benchmark may take; what does not fit is skipped.",
)
@click.option("--data", metavar="TABLE", help="A table to train on, in place of synthetic rows.")
@click.option("--target", metavar="COL", help="The column of TABLE to predict.")
@SEED
@AS_JSON
def bench(as_json: bool, data: str | None, target: str | None, **given: Any) -> int:
    """Time gpuboost and other libraries here.

    Decision trees, forests, extra-trees, AdaBoost and boosting are trained on every device, beside
    XGBoost, LightGBM, CatBoost and scikit-learn, as far as these are installed.
    """
    if (data is None) != (target is None):
        raise click.UsageError("--data and --target belong together")
    from gpuboost.cli.bench.runner import BenchOptions, run

    return run(BenchOptions(given["rows"], given["budget"], data, target, given["seed"]), as_json)
