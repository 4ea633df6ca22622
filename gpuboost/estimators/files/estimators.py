"""Estimators in model files."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.select import check_device
from gpuboost.data.parameters import thread_count
from gpuboost.estimators import HOMES
from gpuboost.estimators.adaboost.estimators import AdaBoost
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
from gpuboost.estimators.boosting.model import hist_facts, model_facts
from gpuboost.estimators.files import models, parameters
from gpuboost.estimators.files.imported import imported_from_parts, imported_to_parts
from gpuboost.estimators.files.reports import reports_from_parts, reports_to_parts
from gpuboost.estimators.files.trees import Parts, prefixed
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.fitting.mixins import Classifier
from gpuboost.estimators.imported.estimators import (
    ImportedClassifier,
    ImportedEstimator,
    ImportedRegressor,
)
from gpuboost.estimators.trees.many_trees import ManyTrees
from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.container import from_bytes, to_bytes, write_file
from gpuboost.io.json_values import NotStorable, distinct, from_json, to_json

FILE_VERSION = 1
MAX_OUTPUTS = 2**20
CLASS_OF_NAME: dict[str, Any] = {
    **{name: getattr(import_module(module), name) for name, module in HOMES.items()},
    **{kind.__name__: kind for kind in (ImportedClassifier, ImportedRegressor)},
}


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file; see `TreeModel.save`."""
    check_is_fitted(estimator)
    parameters.warn_of_lost_parameters(estimator)
    content = to_bytes(*model_file_parts(estimator))
    estimator_of(content)  # a file that cannot be loaded is never written
    write_file(path, content)


def load(path: str | os.PathLike[str], *, device: str = "auto", n_jobs: int | None = None) -> Any:
    """Read an estimator that was written by its method ``save``.

    The file is checked completely before it is used, and nothing in it is executed, so it can come
    from a source that is not trusted. The estimator predicts the same, bit for bit, on any device.

    Parameters
    ----------
    path : str or path-like
        The file.
    device : str
        Where the estimator predicts, as the parameter ``device`` of all estimators.
    n_jobs : int or None
        Number of threads, as the parameter ``n_jobs`` of all estimators.

    Returns
    -------
    estimator
        The fitted estimator, with the parameters and fitted attributes that it had, except
        ``device`` and ``n_jobs``.

    Raises
    ------
    ValueError
        If the file is damaged, is no model file, or was written by a later version of gpuboost.
    OSError
        If the file cannot be read.
    """
    check_device(device)
    thread_count(n_jobs)
    try:
        return estimator_of(Path(path).read_bytes(), device, n_jobs)
    except ValueError as error:
        raise ValueError(f"cannot load a model from {os.fspath(path)!r}: {error}") from error


def save_checkpoint(estimator: Any, path: str | os.PathLike[str], identity: str) -> None:
    """Write the model of a fit that goes on; ``identity`` says which data and parameters it has."""
    header, arrays = model_file_parts(estimator)
    write_file(path, to_bytes({**header, "checkpoint": identity}, arrays))


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """The estimator and the identity in a file that `save_checkpoint` wrote.

    Raises
    ------
    ValueError
        If the file is damaged or is no checkpoint.
    """
    try:
        estimator, identity = _content_of(Path(path).read_bytes(), "auto", None)
    except ValueError as error:
        raise ValueError(f"cannot load a checkpoint from {os.fspath(path)!r}: {error}") from error
    if identity is None:
        raise ValueError(
            f"{os.fspath(path)!r} is a model file, but not a checkpoint; use another path"
        )
    return estimator, identity


def check_storable(estimator: Any) -> None:
    """Raise the ValueError that writing or reading the file of a fitted estimator would raise."""
    estimator_of(to_bytes(*model_file_parts(estimator)))


def estimator_of(content: bytes, device: str = "auto", n_jobs: int | None = None) -> Any:
    """The estimator in the content of a file; the caller gives up ``content``."""
    return _content_of(content, device, n_jobs)[0]


def _content_of(content: bytes, device: str, n_jobs: int | None) -> tuple[Any, str | None]:
    """The estimator in the content of a file, and its identity if it is a checkpoint."""
    fields, found = from_bytes(content)
    del content
    version = fields.take("version")
    require(
        version == FILE_VERSION and type(version) is int,
        f"its version is {version!r:.20}, but this gpuboost reads version {FILE_VERSION}; "
        "a newer gpuboost may read later versions",
    )
    fields.text("writer")
    identity = fields.text("checkpoint") if "checkpoint" in fields else None
    arrays = Arrays(found)
    machine = {"device": device, "n_jobs": n_jobs}
    try:
        estimator = estimator_from_parts(fields, arrays, machine)
    except RecursionError as error:
        raise ValueError("its estimators are nested too deeply") from error
    fields.end()
    arrays.end()
    return estimator, identity


def model_file_parts(estimator: Any) -> Parts:
    """The header and the arrays of the file of a fitted estimator."""
    header, arrays = estimator_to_parts(estimator)
    writer = f"gpuboost {metadata.version('gpuboost')}"
    return {"version": FILE_VERSION, "writer": writer, **header}, arrays


def estimator_to_parts(estimator: Any) -> Parts:
    """The parts of a fitted estimator.

    Raises
    ------
    NotStorable
        If it is not an estimator of gpuboost.
    """
    name = type(estimator).__name__
    if CLASS_OF_NAME.get(name) is not type(estimator):
        raise NotStorable(
            f"only gpuboost's own estimators can be saved to a model file, got {estimator!r:.80}; "
            "save a copy of gpuboost's class, or use pickle"
        )
    reports, scores = reports_to_parts(estimator)
    header: dict[str, Any] = {
        "estimator": name,
        "parameters": parameters.known_parameters(estimator),
        "reports": reports,
    }
    arrays = prefixed("reports", scores)
    if isinstance(estimator, HistGradientBoosting):
        header["boosting"], own = estimator_to_parts(estimator._boosting)
        return header, arrays | prefixed("boosting", own)
    is_imported = isinstance(estimator, ImportedEstimator)
    if isinstance(estimator, (Classifier, ImportedClassifier)):
        classes: Any = estimator.classes_
        header["classes"] = to_json(classes if isinstance(classes, list) else [classes])
    elif not is_imported:
        header["n_outputs"] = int(estimator.n_outputs_)
    model = estimator._model
    parts = imported_to_parts(model) if is_imported else models.model_to_parts(model, _CODER)
    header["model"] = parts[0]
    return header, arrays | prefixed("model", parts[1])


def estimator_from_parts(fields: Fields, arrays: Arrays, machine: dict[str, Any]) -> Any:
    """Check and read a fitted estimator; ``machine`` are its parameters of the machine."""
    kind = CLASS_OF_NAME[fields.one_of("estimator", sorted(CLASS_OF_NAME))]
    given = fields.take("parameters")
    estimator = _checked(lambda: parameters.unfitted(kind, given, CLASS_OF_NAME))
    estimator.set_params(**machine)
    reports = reports_from_parts(fields.part("reports"), arrays.part("reports"))
    if issubclass(kind, HistGradientBoosting):
        boosting = estimator_from_parts(fields.part("boosting"), arrays.part("boosting"), machine)
        fits = isinstance(boosting, kind._boosting_class)
        require(fits, f"the boosting estimator of a {kind.__name__} is of another class")
        boosting._shown_name = kind.__name__
        vars(estimator).update(hist_facts(boosting), **reports)
        return estimator
    if issubclass(kind, ImportedEstimator):
        return _imported(kind, fields, arrays.part("model")).set_params(**machine)
    facts, target = _facts_of_target(fields, kind)
    coder = _coder(machine)
    model = _model_reader(estimator)(fields.part("model"), arrays.part("model"), target, coder)
    estimator._adopt(_facts_of_model(estimator, model) | facts | reports)
    _checked(estimator._voting_rule)
    return estimator


def _checked(make: Callable[[], Any]) -> Any:
    """The result of a function that checks parameters; all of its errors become ValueErrors."""
    try:
        return make()
    except TypeError as error:
        raise ValueError(f"a parameter is wrong: {error}") from error


def _imported(kind: Any, fields: Fields, arrays: Arrays) -> ImportedEstimator:
    """Check and read an imported estimator."""
    if not issubclass(kind, ImportedClassifier):
        return ImportedEstimator.of(imported_from_parts(fields.part("model"), arrays, []))
    classes = _classes(fields)
    model = imported_from_parts(fields.part("model"), arrays, [len(own) for own in classes])
    return ImportedEstimator.of(model, classes if len(classes) > 1 else classes[0])


def _coder(machine: dict[str, Any]) -> models.EstimatorCoder:
    """The coder of the estimators that are part of a model."""
    return models.EstimatorCoder(
        parameters.estimator_to_json,
        lambda name, content: parameters.estimator_from_json(name, content, CLASS_OF_NAME),
        estimator_to_parts,
        lambda fields, arrays: estimator_from_parts(fields, arrays, machine),
    )


_CODER = _coder({})


def _model_reader(estimator: Any) -> Any:
    """The function that reads the model of an estimator."""
    if isinstance(estimator, GradientBoosting):
        return models.boosting_from_parts
    if isinstance(estimator, AdaBoost):
        return models.adaboost_from_parts
    return models.forest_from_parts


def _facts_of_target(
    fields: Fields, kind: type[TreeModel]
) -> tuple[dict[str, Any], models.TargetShape]:
    """The fitted attributes that describe y, and the target."""
    if not issubclass(kind, Classifier):
        n_outputs = fields.integer("n_outputs", 1, MAX_OUTPUTS)
        _check_outputs(kind, n_outputs)
        return {"n_outputs_": n_outputs}, models.TargetShape((), n_outputs)
    several = _classes(fields)
    n_outputs, sizes = len(several), [len(own) for own in several]
    _check_outputs(kind, n_outputs)
    classes, counts = (several[0], sizes[0]) if n_outputs == 1 else (several, sizes)
    facts = {"n_outputs_": n_outputs, "classes_": classes, "n_classes_": counts}
    return facts, models.TargetShape(tuple(sizes), n_outputs)


def _classes(fields: Fields) -> list[np.ndarray]:
    """The class labels of each output."""
    several = from_json(fields.take("classes"))
    is_arrays = isinstance(several, list) and all(isinstance(own, np.ndarray) for own in several)
    require(is_arrays and several, "the classes are not arrays of labels")
    for own in several:
        distinct(own.tolist(), "an output has a class twice")
        is_finite = own.dtype.kind != "f" or np.isfinite(own).all()
        require(is_finite, "a class label is NaN or infinite")
    return several


def _check_outputs(kind: type[TreeModel], n_outputs: int) -> None:
    require(n_outputs == 1 or kind._labels.multi_output, f"a {kind.__name__} has several outputs")


def _facts_of_model(estimator: Any, model: Any) -> dict[str, Any]:
    """The fitted attributes that follow from the model."""
    facts: dict[str, Any] = {"_model": model, **model.schema.attributes()}
    if isinstance(estimator, GradientBoosting):
        return facts | model_facts(model)
    if isinstance(estimator, ManyTrees):
        facts["estimator_"] = _checked(estimator._empty_tree)
    if isinstance(estimator, AdaBoost):
        facts |= model.facts
    return facts
