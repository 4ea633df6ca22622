"""``gpuboost train``."""

from __future__ import annotations

from typing import Any

import click

from gpuboost.cli.commands import options
from gpuboost.cli.models.choice import DEFAULT_MODEL, ESTIMATORS, parsed_parameters

_NO_OPTION_OF_A_FILE = ("config", "help", "json")


def options_of_files() -> dict[str, click.Parameter]:
    """Options that a configuration file may have, by their names there."""
    found = {max(each.opts, key=len).lstrip("-"): each for each in train.params}
    return {name: each for name, each in found.items() if name not in _NO_OPTION_OF_A_FILE}


@click.command(context_settings=options.CONTEXT)
@click.argument("table")
@click.option("--target", required=True, metavar="COL", help="The column to predict.")
@click.option("--out", required=True, metavar="MODEL", help="The model file to write.")
@click.option(
    "--model",
    type=click.Choice(list(ESTIMATORS)),
    default=DEFAULT_MODEL,
    show_default=True,
    help="Kind of model.",
)
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    help="What to train, if the target does not show it.",
)
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the estimator; can be repeated.",
)
@click.option(
    "--valid",
    metavar=f"TABLE|{options.FRACTION}",
    help="Rows that are only scored, and stop boosting early if n_iter_no_change is set.",
)
@options.WEIGHT_COLUMN
@options.DROP
@options.config_option(options_of_files)
@click.option(
    "--checkpoint", metavar="PATH", help="Save the state here, and resume from it if it exists."
)
@click.option(
    "--memory-limit",
    type=options.SizeType(),
    metavar="SIZE",
    help="Read Parquet or Arrow files in parts, and use this much memory for them, such as 4GB.",
)
@options.DEVICE
@options.SEED
@options.NO_HEADER
@options.AS_JSON
def train(as_json: bool, no_header: bool, parameters: tuple[str, ...], **given: Any) -> int:
    """Train a model on TABLE and save it.

    TABLE is CSV, TSV, Parquet, Arrow, Feather or npy, also compressed by gzip; - is standard input.
    A folder, or a pattern in quotes such as 'data/*.parquet', of Parquet or Arrow files is read in
    parts, as is a single file with --memory-limit. Strings become categories. Whether to train a
    classifier or a regressor follows from the target.

    Ctrl-C ends the training and saves the trees so far.
    """
    from gpuboost.cli.models import summary, training
    from gpuboost.cli.models.training_data import TrainOptions
    from gpuboost.cli.output import print_found

    found = options.parameters_of_config() | parsed_parameters(parameters)
    report = training.train(TrainOptions(**given, parameters=found, has_header=not no_header))
    print_found(report, as_json, summary.print_training)
    return 130 if report["interrupted"] else 0
