"""``gpuboost train``: reads tables, fits an estimator, saves it and reports its scores."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from typing import Any

import numpy as np

from gpuboost.cli.models.choice import make_estimator, n_planned_trees
from gpuboost.cli.models.interruption import interruptible
from gpuboost.cli.models.scores import evaluation_of
from gpuboost.cli.models.training_data import (
    TrainingData,
    TrainOptions,
    read_features,
    read_training_data,
)
from gpuboost.cli.output import ProgressBar, counted, progress, say
from gpuboost.cli.tables.targets import TableTarget
from gpuboost.cli.tables.write import check_can_write
from gpuboost.estimators.inputs.dataset import Dataset


def train(options: TrainOptions) -> dict[str, Any]:
    """Train and save a model; return the facts and scores of the summary.

    Raises
    ------
    ValueError
        If a table, an option or a parameter is wrong.
    OSError
        If a file cannot be read or written.
    KeyboardInterrupt
        If Ctrl-C is pressed before there is a model.
    """
    check_can_write(options.out)
    if options.checkpoint is not None:
        check_can_write(options.checkpoint)
    started = time.perf_counter()
    data = read_training_data(options)
    estimator = make_estimator(
        options.model,
        data.target.is_classification,
        {"random_state": options.seed, **options.parameters},
        device=options.device,
    )
    _check_classes(estimator, data.target, options.target)
    data = read_features(data, estimator, options)
    seconds_to_read = time.perf_counter() - started
    started = time.perf_counter()
    try:
        is_interrupted = fit(estimator, data, options.checkpoint)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("interrupted; no model was saved") from stop
    seconds = time.perf_counter() - started
    estimator.save(options.out)
    if is_interrupted:
        trees = counted(n_trees_of(estimator), "tree")
        say(f"interrupted: {options.out} has the {trees} so far")
    return {
        **_facts(estimator, options, data, is_interrupted),
        "seconds_to_read": seconds_to_read,
        "seconds": seconds,
        "rows_per_second": len(data.train.y) / seconds,
        "scores": scores_of(estimator, data),
    }


def _check_classes(estimator: Any, target: TableTarget, name: str) -> None:
    """Check that a classifier by boosting gets several classes; others take a single one."""
    if target.is_classification and _unit(estimator) == "rounds":
        found = np.unique(target.values)
        if len(found) == 1:
            raise ValueError(
                f"target {name!r} has one class, {found[0].item()!r}, but boosting needs two or "
                "more; choose another --target, or a table with rows of every class"
            )


def _facts(
    estimator: Any, options: TrainOptions, data: TrainingData, is_interrupted: bool
) -> dict[str, Any]:
    return {
        "model": options.out,
        "estimator": type(estimator).__name__,
        "parameters": dict(options.parameters),
        "task": data.target.task,
        "target": options.target,
        "rows": len(data.train.y),
        "rows_valid": 0 if data.valid is None else len(data.valid.y),
        "features": int(estimator.n_features_in_),
        "trees": n_trees_of(estimator),
        "best_round": _best_round(estimator),
        "interrupted": is_interrupted,
        "device": estimator.device_,
        "fingerprint": estimator.fingerprint(),
        "bytes": os.path.getsize(options.out),
    }


# ---- fit ---------------------------------------------------------------------------------------


def fit(estimator: Any, data: TrainingData, checkpoint: str | None) -> bool:
    """Fit an estimator, with progress on a terminal; return whether Ctrl-C ended the fit.

    Ensembles then keep the trees that they have, except ``HistGradientBoosting*``.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed and there are no trees to keep.
    """
    name, total = type(estimator).__name__, n_planned_trees(estimator)
    has_callbacks = "callbacks" in estimator.get_params(deep=False)
    if checkpoint is not None and not has_callbacks:
        raise ValueError(f"{name} has no callbacks, which --checkpoint needs")
    planned = counted(total, _unit(estimator).removesuffix("s"))
    say(f"training {name}: {planned}, {counted(len(data.train.y), 'row')}")
    shown_total = total if has_callbacks else None
    with (
        interruptible() as interruption,
        progress("training", shown_total, _unit(estimator)) as bar,
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "the fit was interrupted")  # the command says it
        if has_callbacks:
            own = _callbacks(bar, checkpoint)
            estimator.set_params(callbacks=own or None, keep_on_interrupt=True)
        _fit_rows(estimator, data)
    if has_callbacks:
        estimator.set_params(callbacks=None, keep_on_interrupt=False)  # no part of the model
    return interruption.is_pressed


def _callbacks(bar: ProgressBar, checkpoint: str | None) -> list[Any]:
    """The callbacks of a fit; none if nothing needs them, since a GPU then waits less."""

    def show(result: Any) -> None:
        score = result.train_score  # forests have none
        text = "" if score is None else f"loss {score:.5g}"
        bar.advance(text, completed=result.number + 1)

    found: list[Any] = [show] if bar.is_shown else []
    if checkpoint is not None:
        from gpuboost.callbacks import Checkpoint

        found.append(Checkpoint(checkpoint))
    return found


def _fit_rows(estimator: Any, data: TrainingData) -> None:
    """Fit on the rows to train on; boosting also gets those held out."""
    words: dict[str, Any] = {"sample_weight": data.train.weight}
    allowed = inspect.signature(estimator.fit).parameters
    valid = data.valid
    if valid is not None and "eval_set" in allowed:
        own = (valid.X, valid.y) if valid.weight is None else (valid.X, valid.y, valid.weight)
        words["eval_set"] = [own]
    elif valid is not None and "X_val" in allowed and estimator.early_stopping is not False:
        words |= {"X_val": valid.X, "y_val": valid.y, "sample_weight_val": valid.weight}
    if not isinstance(data.train.X, Dataset):
        estimator.fit(data.train.X, data.train.y, **words)
        return
    categorical = estimator.categorical_features  # the Dataset has them already
    estimator.set_params(categorical_features="from_dtype")
    try:
        estimator.fit(data.train.X, data.train.y, **words)
    finally:
        estimator.set_params(categorical_features=categorical)


def _unit(estimator: Any) -> str:
    return "rounds" if "Gradient" in type(estimator).__name__ else "trees"


# ---- after the fit -----------------------------------------------------------------------------


def _best_round(model: Any) -> int | None:
    """Number of the round of the last improvement, from 1, with early stopping."""
    best = getattr(model, "best_iteration_", None)
    return None if best is None else int(best) + 1


def scores_of(model: Any, data: TrainingData) -> dict[str, dict[str, float | None]]:
    """Scores on the rows trained on ("train") and on those held out ("valid"), if there are any."""
    parts = {"train": data.train, "valid": data.valid}
    return {
        name: evaluation_of(model, rows.X, rows.y, rows.weight).scores()
        for name, rows in parts.items()
        if rows is not None
    }


def n_trees_of(model: Any) -> int:
    """Number of trees in a fitted model."""
    return int(trees_of(model).ensemble.n_trees)


def trees_of(model: Any) -> Any:
    """The `FittedTrees` of a fitted estimator."""
    return getattr(model, "_boosting", model)._model
