"""Methods of all estimators that make other forms of a fitted model: files, other libraries'.

Some are written in layers above the estimators, which are imported when a method is called.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import Any

from gpuboost.estimators.model.predictor import Predictor, predictor_of


def save(self: Any, path: str | PathLike[str]) -> None:
    """Write the fitted estimator to a file, from which `gpuboost.load` reads it.

    The file has arrays in the safetensors format and everything else as JSON, with a SHA-256
    of its content. It takes the place of an older file at once, when it is complete.

    ``device`` and ``n_jobs`` are not part of the file. Parameters that are Python code, such as
    ``callbacks``, are left out with a warning.

    Parameters
    ----------
    path : str or path-like
        The file.

    Raises
    ------
    ValueError
        If the model cannot be stored: it depends on Python code (a loss with a method
        ``predict``, or an ``init`` that is no estimator of gpuboost), has categories that are
        neither strings, numbers nor bools, or is of a class of the user.
    OSError
        If the file cannot be written.
    """
    import_module("gpuboost.estimators.files.estimators").save(self, path)


def to_sklearn(self: Any) -> Any:
    """Convert the fitted estimator to a fitted estimator of scikit-learn.

    Its class has the same name, except that `GradientBoostingRegressor` with loss='poisson' or
    'gamma' becomes a `HistGradientBoostingRegressor`. For an X of float32, its predictions are
    equal to those of this estimator or, in boosting and AdaBoost, within 1e-12. scikit-learn's
    trees (but not its histogram boosting) round an X of float64 to float32. ``voting='hard'``
    is kept: the trees' probabilities are then 0 and 1. Leaf values of `GradientBoosting*`
    contain the learning rate, so ``learning_rate`` is 1.

    Parameters that scikit-learn does not accept have its default values. scikit-learn's
    gradient boosting and AdaBoost take no missing values, and none of its trees takes
    infinities.

    Returns
    -------
    estimator of scikit-learn
        A copy of scikit-learn's estimator if that was fitted in place of gpuboost's trees.

    Raises
    ------
    ValueError
        If scikit-learn has no such model: a tree splits on categories (the message lists the
        features), or scikit-learn has no such loss, number of outputs or ``init``.
    """
    return import_module("gpuboost.interchange.export.to_sklearn").to_sklearn(self)


def to_treelite(self: Any) -> Any:
    """Convert the fitted estimator to a model of treelite.

    Raw predictions of treelite's predictor GTIL are within 1e-12 of those of this estimator,
    and probabilities within 1e-6. In the input of treelite, a category is itself if all
    categories of its feature are integers from 0 to 2**24; otherwise it is its index among the
    categories. The model's ``attributes`` list the categories with their numbers. All other
    numbers and NaN go where unknown categories go, but treelite rounds numbers with a fraction
    down. In `AdaBoostClassifier` with K > 2 classes, raw predictions are those of
    `decision_function` divided by K - 1.

    Returns
    -------
    treelite.Model

    Raises
    ------
    ImportError
        If treelite is not installed (``pip install gpuboost[treelite]``).
    ValueError
        If treelite has no such model: the median of `AdaBoostRegressor`, an ``init`` estimator,
        or a loss with a method ``predict``.
    TypeError
        If the trees are not gpuboost's.
    """
    return import_module("gpuboost.interchange.export.to_treelite").to_treelite(self)


def to_onnx(self: Any, path: str | PathLike[str] | None = None, dtype: str = "float64") -> Any:
    """Convert the fitted estimator to a model in the ONNX format.

    Its trees are the operator `TreeEnsemble` (ai.onnx.ml, opset 5). onnxruntime has it from
    version 1.21 on, without errors in categorical splits from 1.23 on. The input ``X`` is a
    tensor of shape (n_samples, n_features) of type ``dtype``. A category is itself if all
    categories of its feature are numbers; otherwise it is its index among the categories. The
    entry ``categories`` of the model's metadata lists the categories with their numbers; all
    other numbers and NaN are unknown categories.

    The outputs of a regressor are ``prediction``, those of a classifier ``label`` and
    ``probabilities`` and, in boosting, ``decision_function``, in the shapes of the estimator's
    methods. With several outputs of a classifier, each has its own, whose names end in its
    number, as in "label_0".

    Parameters
    ----------
    path : str or path-like, optional
        File that the model is written to, too.
    dtype : {'float64', 'float32'}
        Type of X and of the outputs. For 'float32', thresholds are rounded down, so every
        float32 reaches the same leaf; leaves are summed in float64. Sums are within 1e-12 of
        those of this estimator, relative to their size, or within 1e-6 for 'float32'.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ImportError
        If onnx is not installed (``pip install gpuboost[onnx]``).
    ValueError
        If the predictions depend on an ``init`` estimator or on a loss with a method
        ``predict``, or class labels have no type in ONNX.
    TypeError
        If the trees are not gpuboost's.
    OSError
        If the file cannot be written.
    """
    export = import_module("gpuboost.interchange.export.to_onnx").to_onnx
    return export(self, path, dtype)


def compile_predictor(self: Any) -> Predictor:
    """A callable that predicts faster than `predict`, for services that predict few rows.

    It takes one row or several rows of a NumPy array of float32 or float64, and returns the
    same bits as `predict` and ``predict_proba``. It runs on the CPU, whatever ``device`` is, in
    the thread that calls it. Threads can share it, and later fits do not change it.

    Returns
    -------
    Predictor
        Has the methods ``predict`` and, for classifiers, ``predict_proba``; a call of the
        object is a call of ``predict``.

    Raises
    ------
    ValueError
        A categorical feature has categories that are not numbers.
    """
    return predictor_of(getattr(self, "_boosting", None) or self)
