"""Class labels: checked, and converted to the indices of sorted classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from gpuboost.data.advice import warn_user
from gpuboost.data.arrays import is_missing_label, to_float64
from gpuboost.data.validation import check_finite, read_target
from gpuboost.engine.array_modules import array_module, copy_to_host

_DENSE_RANGE = 1 << 16  # labels within a smaller range are coded by a table, not by sorting


def check_classes(y: Any) -> tuple[NDArray[np.int32], np.ndarray]:
    """Return the class index of each row, and the sorted classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        Strings, bools or whole numbers.

    Returns
    -------
    codes : ndarray of int32 of shape (n_samples,)
        Index of each row's class; on the GPU if y is a CuPy array.
    classes : ndarray of shape (n_classes,)
        Sorted labels, on the host.

    Raises
    ------
    TypeError
        For labels that are not array-like.
    ValueError
        For missing labels, numbers that are not whole or not finite, other types, labels of mixed
        types, no labels, or several outputs.

    Warns
    -----
    DataConversionWarning
        For labels of shape (n_samples, 1).
    """
    y = _labels_as_vector(read_target(y, of_classes=True))
    if y.dtype.kind == "O":
        return _code_objects(y)
    xp, numbers = array_module(y), y
    if y.dtype.kind == "f":
        numbers = y if xp is np else to_float64(y)
        check_finite(numbers, "Input y")
        if (numbers != xp.floor(numbers)).any():
            raise ValueError(
                "Unknown label type: continuous. A classifier needs classes: whole numbers, bools "
                "or strings; use a regressor for continuous targets, or bin them first"
            )
    elif y.dtype.kind not in "biuUST":
        raise ValueError(
            f"Unknown label type: {y.dtype}. Labels must be whole numbers, bools or strings"
        )
    if y.dtype.kind in "biuf":
        lowest, largest = float(numbers.min()), float(numbers.max())
        if largest - lowest < _DENSE_RANGE and max(-lowest, largest) < 2**53:
            return _code_dense(numbers, int(lowest), y.dtype)
    classes, codes = xp.unique(numbers, return_inverse=True)
    return codes.astype(np.int32), copy_to_host(classes).astype(y.dtype, copy=False)


def check_class_outputs(y: Any) -> tuple[NDArray[np.int32], tuple[np.ndarray, ...]]:
    """Return the class indices of each row, and the sorted classes of each output.

    Parameters
    ----------
    y : NumPy or CuPy array of shape (n_samples, n_outputs)
        Strings, bools or whole numbers.

    Returns
    -------
    codes : ndarray of int32 of shape (n_samples, n_outputs)
        Index of each row's class among the classes of its output; on the GPU if y is a CuPy array.
    classes : tuple of ndarray
        Sorted labels of each output, on the host.

    Raises
    ------
    TypeError, ValueError
        As `check_classes`, for any of the outputs; the message of a ValueError names the output.
    """
    if y.ndim != 2 or 0 in y.shape:
        raise ValueError(
            "y should be a 1d array of labels, or a 2d array of one column per output, got an "
            f"array of shape {y.shape} instead"
        )
    outputs = [_check_output(y, k) for k in range(y.shape[1])]
    codes = array_module(y).stack([own for own, _ in outputs], axis=1)
    return codes, tuple(classes for _, classes in outputs)


def _check_output(y: np.ndarray, k: int) -> tuple[NDArray[np.int32], np.ndarray]:
    """`check_classes` for one of several outputs."""
    try:
        return check_classes(y[:, k])
    except ValueError as error:
        raise ValueError(f"Output {k} of y: {error}") from error


def codes_among(
    known: np.ndarray, codes: np.ndarray, classes: np.ndarray, what: str
) -> NDArray[np.int32]:
    """Return the index of each row's class among the known classes, on the device of ``codes``.

    Parameters
    ----------
    known : ndarray
        Sorted classes of a model, on the host.
    codes, classes : ndarray
        The class of each row, as `check_classes` returns it.
    what : str
        How the error names the labels.

    Raises
    ------
    ValueError
        If a class is not known.
    """
    code_of = {label: code for code, label in enumerate(known.tolist())}  # 1 is not "1"
    unknown = [label for label in classes.tolist() if label not in code_of]
    if unknown:
        raise ValueError(
            f"{what} has the classes {unknown!r:.80}, which y of fit does not have; "
            "leave out the rows of these classes"
        )
    place = np.array([code_of[label] for label in classes.tolist()], dtype=np.int32)
    return array_module(codes).asarray(place)[codes]


def _labels_as_vector(y: np.ndarray) -> np.ndarray:
    """Return one label per row; a single column becomes a vector, with scikit-learn's warning."""
    if y.ndim == 2 and y.shape[1] == 1:
        warn_of_column()
        y = y.ravel()
    if y.ndim == 2:
        raise ValueError(
            f"y has shape {y.shape}: this classifier does not support several outputs, y should be "
            "a 1d array of one label per row; use a tree or a forest, or train one model per "
            "column, for example with sklearn.multioutput.MultiOutputClassifier"
        )
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(
            f"y should be a 1d array of at least one label, got an array of shape {y.shape} instead"
        )
    return y


def warn_of_column() -> None:
    """Warn, as scikit-learn does, that y is a column vector."""
    warn_user(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y "
        "to (n_samples, ), for example using ravel().",
        DataConversionWarning,
    )


def _code_dense(y: np.ndarray, lowest: int, dtype: Any) -> tuple[NDArray[np.int32], np.ndarray]:
    """Code whole numbers of a small range without sorting them; classes have type ``dtype``."""
    xp = array_module(y)
    place = y.astype(np.int64) - lowest
    present = xp.bincount(place) > 0
    number = xp.cumsum(present.astype(np.int32)).astype(np.int32) - np.int32(1)
    return number[place], (copy_to_host(xp.flatnonzero(present)) + lowest).astype(dtype)


def _code_objects(y: np.ndarray) -> tuple[NDArray[np.int32], np.ndarray]:
    """Code labels that are Python objects; if all are numbers, the classes are numeric."""
    labels = y.tolist()
    try:
        distinct = set(labels)
    except TypeError as error:
        raise ValueError(f"Unknown label type: unknown. A label cannot be used: {error}") from error
    if any(is_missing_label(label) for label in distinct):
        raise ValueError(
            "Input y contains NaN or None: a label is missing; drop these rows or label them"
        )
    if not any(isinstance(label, str) for label in distinct):
        numbers = np.array(labels)
        if numbers.dtype.kind != "O" and numbers.ndim == 1:
            return check_classes(numbers)
    try:
        ordered = sorted(distinct)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in distinct})
        raise ValueError(
            f"Unknown label type: unknown. Labels must be all strings or all numbers, got {kinds}; "
            "make them one type, for example with y.astype(str)"
        ) from error
    number = {label: code for code, label in enumerate(ordered)}
    codes = np.fromiter(map(number.__getitem__, labels), dtype=np.int32, count=len(labels))
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    return codes, classes
