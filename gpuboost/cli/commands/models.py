"""``gpuboost predict``, ``evaluate``, ``inspect`` and ``convert``."""

from __future__ import annotations

import sys
from typing import Any

import click

from gpuboost.cli.commands.options import AS_JSON, CONTEXT, DEVICE, DROP, NO_HEADER, WEIGHT_COLUMN

_KINDS = ("treelite", "onnx", "json", "sklearn")


@click.command(context_settings=CONTEXT)
@click.argument("model")
@click.argument("table")
@click.option(
    "--out",
    default="-",
    help="File to write: csv, tsv (also with .gz), parquet, arrow, feather or npy. "
    "By default, CSV is written to standard output.",
)
@click.option("--proba", is_flag=True, help="Write probabilities of the classes.")
@click.option("--raw", is_flag=True, help="Write raw predictions of boosting.")
@click.option(
    "--keep", multiple=True, metavar="COL", help="A column of TABLE to write, too; can be repeated."
)
@DROP
@DEVICE
@NO_HEADER
def predict(
    model: str, table: str, out: str, proba: bool, raw: bool, keep: tuple[str, ...], **given: Any
) -> int:
    """Predict the rows of TABLE with the model in the file MODEL.

    TABLE may also be a folder or a pattern in quotes, such as 'new/*.parquet'. Parquet and Arrow
    files are read in batches. Columns of TABLE that the model does not know are ignored.
    """
    if proba and raw:
        raise click.UsageError("--proba and --raw exclude each other")
    import gpuboost
    from gpuboost.cli.models import prediction
    from gpuboost.cli.output import counted_batches, progress
    from gpuboost.cli.tables.files import open_batches
    from gpuboost.cli.tables.read import STANDARD_STREAM
    from gpuboost.cli.tables.write import check_output, write_columns

    check_output(out)
    estimator = gpuboost.load(model, device=given["device"])
    batches = open_batches(table, prediction.strings_of_model(estimator), not given["no_header"])
    kind = prediction.PROBABILITY if proba else prediction.RAW if raw else prediction.CLASS
    found = prediction.prediction_batches(estimator, batches, kind, keep, given["drop"])
    is_shown = out != STANDARD_STREAM or not sys.stdout.isatty()
    with progress("predicting", batches.n_rows, "rows", is_shown) as bar:
        write_columns(counted_batches(found, bar), out)
    return 0


@click.command(context_settings=CONTEXT)
@click.argument("model")
@click.argument("table")
@click.option("--target", required=True, metavar="COL", help="The column to predict.")
@WEIGHT_COLUMN
@DROP
@DEVICE
@NO_HEADER
@AS_JSON
def evaluate(model: str, table: str, device: str, as_json: bool, **given: Any) -> int:
    """Show scores of MODEL on TABLE.

    There are scores, the confusion of classes, and the calibration by tenths of the rows.
    Classifiers have accuracy, log loss and AUC, regressors R2, RMSE and MAE or, for several
    quantiles, D2 and pinball loss, with a calibration by level.
    """
    from gpuboost.cli.models import prediction, summary
    from gpuboost.cli.output import print_found

    columns = {**given, "has_header": not given["no_header"]}
    found = prediction.evaluate(model, table, columns, device)
    print_found(found, as_json, summary.print_evaluation)
    return 0


@click.command(context_settings=CONTEXT)
@click.argument("model")
@AS_JSON
def inspect(model: str, as_json: bool) -> int:
    """Show what the file MODEL holds.

    That is its trees, features, categories, classes, parameters and importances.
    """
    from gpuboost.cli.models import contents, summary
    from gpuboost.cli.output import print_found

    print_found(contents.contents_of(model), as_json, summary.print_contents)
    return 0


@click.command(context_settings=CONTEXT)
@click.argument("model")
@click.argument("out")
@click.option("--to", "kind", type=click.Choice(_KINDS), required=True, help="What to convert to.")
def convert(model: str, out: str, kind: str) -> int:
    """Convert MODEL for another library.

    treelite: its binary format. onnx: ONNX. json: nodes and thresholds as JSON. sklearn: an
    estimator of scikit-learn, written by joblib.
    """
    from gpuboost.cli.models import conversion
    from gpuboost.cli.output import say
    from gpuboost.cli.tables.write import check_can_write

    check_can_write(out)
    conversion.convert(model, kind, out)
    say(f"wrote {out}")
    return 0
