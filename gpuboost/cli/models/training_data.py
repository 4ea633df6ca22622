"""What ``gpuboost train`` reads: options, rows to train on and rows held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuboost.blocks.limits import memory_bytes
from gpuboost.cli.models.choice import DEFAULT_MODEL
from gpuboost.cli.output import counted, progress, say
from gpuboost.cli.tables.data import DataTable, without
from gpuboost.cli.tables.files import FileData, SelectedColumns, open_table
from gpuboost.cli.tables.targets import TableTarget, held_out_rows, target_of, weights_of
from gpuboost.estimators.inputs.dataset import Dataset

_HELD_OUT_BYTES = 16  # of a value in a table and in the matrix that is made of it


@dataclass(frozen=True)
class TrainOptions:
    """Options of the command line.

    Attributes
    ----------
    table, out : str
        The table to train on, or a folder or pattern of Parquet or Arrow files, and the model file
        to write.
    target : str
        Name of the column to predict.
    model : str
        A key of `gpuboost.cli.models.choice.ESTIMATORS`.
    task : str or None
        "classification" or "regression"; None lets the target decide.
    parameters : mapping
        Parameters of the estimator.
    valid : str or None
        A second table, or the fraction of the rows, that is only scored.
    weight : str or None
        Name of the column of weights.
    drop : tuple of str
        Names of columns that are not features.
    device : str
        The `device` of the estimator.
    seed : int
        Seed of the estimator and of the rows held out.
    checkpoint : str or None
        File for the state of the fit, from which a later command resumes.
    has_header : bool
        Whether text files begin with the names of the columns.
    memory_limit : int or None
        Bytes for the data, which are then read in parts; see `Dataset.from_batches`.
    """

    table: str
    target: str
    out: str
    model: str = DEFAULT_MODEL
    task: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    valid: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    device: str = "auto"
    seed: int = 0
    checkpoint: str | None = None
    has_header: bool = True
    memory_limit: int | None = None

    @property
    def fraction(self) -> float | None:
        """The fraction of the rows to hold out, if ``valid`` is a number."""
        try:
            fraction = float(self.valid or "")
        except ValueError:
            return None
        if not 0.0 < fraction < 1.0:
            raise ValueError(f"--valid takes a table or a fraction between 0 and 1, got {fraction}")
        return fraction

    @property
    def omitted(self) -> tuple[str, ...]:
        """Names of the columns that are not features."""
        return (self.target, *self.drop, *([self.weight] if self.weight else []))


@dataclass(frozen=True)
class LabelledRows:
    """X, y and the weights (or None) of some rows."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


@dataclass(frozen=True)
class TrainingData:
    """The rows to train on, those that are only scored, and the target."""

    train: LabelledRows
    valid: LabelledRows | None
    target: TableTarget


def read_training_data(options: TrainOptions) -> TrainingData:
    """Read the tables of a command, and say what they hold.

    The features of tables that are read in parts are `SelectedColumns`, see `read_features`.

    Raises
    ------
    ValueError
        If a table or a column is wrong.
    OSError
        If a file cannot be read.
    """
    fraction = options.fraction
    in_parts = options.memory_limit is not None
    table = open_table(options.table, (), options.has_header, in_parts)
    for name in options.omitted:
        table.check_name(name)
    columns = counted(len(table.names), "column")
    say(f"{options.table}: {counted(table.n_rows, 'row')} x {columns}")
    target = target_of(table, options.target, options.task)
    say(target.reason)
    names = without(table.names, options.omitted)
    if not names:
        raise ValueError(f"{options.table} has no column besides {', '.join(options.omitted)}")
    table.check_features(names)
    if fraction is not None:
        mask = held_out_rows(target, fraction, options.seed)
        parts = [
            _labelled(table.take(rows), names, target.values[rows], options.weight)
            for rows in (np.flatnonzero(~mask), np.flatnonzero(mask))
        ]
        return TrainingData(parts[0], parts[1], target)
    train = _labelled(table, names, target.values, options.weight)
    valid = _read_valid(options, table, names) if options.valid else None
    return TrainingData(train, valid, target)


def _read_valid(options: TrainOptions, table: DataTable, names: list[str]) -> LabelledRows:
    """The rows of the second table, whose columns have the types of the first."""
    strings, in_parts = table.string_columns, isinstance(table, FileData)
    other = open_table(str(options.valid), strings, options.has_header, in_parts, required=False)
    for name in (*names, *options.omitted[:1], *([options.weight] if options.weight else [])):
        other.check_name(name)
    return _labelled(other, names, other.values(options.target), options.weight)


def _labelled(
    table: DataTable, names: list[str], y: np.ndarray, weight: str | None
) -> LabelledRows:
    weights = None if weight is None else weights_of(table, weight)
    return LabelledRows(table.features(names), y, weights)


def read_features(data: TrainingData, estimator: Any, options: TrainOptions) -> TrainingData:
    """The rows with features that estimators take.

    Columns that are read in parts become a `Dataset`, with the bins that the estimator would learn
    from the same rows. Rows held out become a table if it fits in their share of the memory limit,
    or if the rows to train on are one; otherwise they have the bins of the others.
    """
    train, valid = data.train, data.valid
    columns = [rows.X for rows in (train, valid) if rows and isinstance(rows.X, SelectedColumns)]
    n_rows, limit = sum(own.n_rows for own in columns), options.memory_limit or memory_bytes() // 2

    def share(own: SelectedColumns) -> int:
        return max(1, limit * own.n_rows // n_rows)

    def dataset(own: SelectedColumns, **others: Any) -> Dataset:
        return Dataset.from_batches(own, memory_limit=share(own), **others)

    with progress("reading", sum(len(own.names) for own in columns), "columns") as bar:
        for own in columns:
            own.after_column = bar.advance
        if isinstance(train.X, SelectedColumns):
            own, choice = train.X, {"categorical_features": estimator.categorical_features}
            if train.weight is not None:
                own = own.with_column(str(options.weight), train.weight)
                choice["weight"] = options.weight
            train = replace(train, X=dataset(own, max_bins=estimator.max_bins, **choice))
        if valid is not None and isinstance(valid.X, SelectedColumns):
            own, is_table = valid.X, not isinstance(train.X, Dataset)
            is_table = is_table or _HELD_OUT_BYTES * own.n_rows * len(own.names) <= share(own)
            X = own.read(own.names) if is_table else dataset(own, reference=train.X)
            valid = replace(valid, X=X)
    return replace(data, train=train, valid=valid)
