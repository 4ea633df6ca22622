"""Validation of user input, on which all later stages rely.

Features, targets and weights are checked on their device. Of valid CuPy arrays, only the classes
and a few numbers are copied to the host; arrays of other GPU libraries are copied as a whole.

Each error message says what was given, what is allowed and what to do. Where scikit-learn has a
message for an error, its key phrase is kept.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.data.advice import warn_user
from gpuboost.data.arrays import as_host_array, is_sparse, to_float64
from gpuboost.data.sparse_features import SparseFeatures
from gpuboost.engine.array_modules import array_module, copy_to_host, is_cupy_array

MAX_ROWS = 2**31 - 1  # rows are numbered with int32 in the engine and the kernels
LARGEST_TARGET = 2.0**1000  # about 1e301; sums over 2**23 rows stay within float64
_HOST_ROW_CHUNK = 1 << 16
_DEVICE_ROW_CHUNK = 1 << 22  # larger on a GPU, since the host waits for each chunk


class SparseTargetError(TypeError, ValueError):
    """A sparse y was passed: scikit-learn's trees raise a TypeError, its forests a ValueError."""


# ---- features ----------------------------------------------------------------------------------


def feature_label(feature: int, names: Any) -> str:
    """Return the name of a feature in messages: "feature 3", or "feature 3 ('age')"."""
    return f"feature {feature}" + (f" ({str(names[feature])!r})" if names is not None else "")


def check_names(names: np.ndarray | None, fitted: np.ndarray | None, owner: str) -> None:
    """Check feature names against the names in the training data, as scikit-learn does.

    Different names or another order are an error; if only one of the two has names, a warning.
    """
    if names is None and fitted is None:
        return
    if fitted is None:
        warn_user(f"X has feature names, but {owner} was fitted without feature names")
        return
    if names is None:
        warn_user(f"X does not have valid feature names, but {owner} was fitted with feature names")
        return
    if np.array_equal(names, fitted):
        return
    unseen = sorted(set(names) - set(fitted))
    absent = sorted(set(fitted) - set(names))
    message = "The feature names should match those that were passed during fit.\n"
    parts = {"unseen at fit time": unseen, "seen at fit time, yet now missing": absent}
    for what, own in parts.items():
        message += f"Feature names {what}:\n{_bullets(own)}" if own else ""
    if not unseen and not absent:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)


def _bullets(names: list[str]) -> str:
    """The first five names, one per line, and "..." if there are more."""
    return "".join(f"- {name}\n" for name in [*names[:5], *["..."] * (len(names) > 5)])


def check_shape(X: np.ndarray) -> None:
    """Check that X is a table with at least one feature and 1 to `MAX_ROWS` rows.

    Raises
    ------
    ValueError
    """
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {'scalar' if X.ndim == 0 else f'{X.ndim}D'} array instead, of "
            f"shape {X.shape}. Reshape your data: X.reshape(-1, 1) makes it one feature, "
            "X.reshape(1, -1) one sample."
        )
    if 0 in X.shape:
        what = "sample" if X.shape[0] == 0 else "feature"
        raise ValueError(
            f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    if X.shape[0] > MAX_ROWS:
        raise ValueError(
            f"X has {X.shape[0]} rows, but at most {MAX_ROWS} (2**31 - 1) are supported; "
            "train on a sample of the rows"
        )


def check_features(X: Any, names: Any = None) -> Any:
    """Return a float matrix unchanged if its shape is valid and it has no infinity.

    Parameters
    ----------
    X : NumPy or CuPy array of float32 or float64, or SparseFeatures
        NaN means missing.
    names : ndarray of str, optional
        Feature names for the error message.

    Raises
    ------
    ValueError
        For a wrong shape, or for infinite values; the message names one feature and its row.
    """
    check_shape(X)
    if isinstance(X, SparseFeatures):
        places = X.infinite()
        if len(places):
            raise _infinity_error(*places[0], names)
        return X
    xp = array_module(X)
    chunk = _HOST_ROW_CHUNK if xp is np else _DEVICE_ROW_CHUNK
    for start in range(0, X.shape[0], chunk):
        infinite = xp.isinf(X[start : start + chunk])
        if infinite.any():
            infinite = copy_to_host(infinite)
            feature = int(np.flatnonzero(infinite.any(axis=0))[0])
            row = start + int(np.flatnonzero(infinite[:, feature])[0])
            raise _infinity_error(row, feature, copy_to_host(X[row, feature]), names)
    return X


def _infinity_error(row: int, feature: int, value: Any, names: Any) -> ValueError:
    return ValueError(
        f"Input X contains infinity: {feature_label(feature, names)} is {value} in row {row}; clip "
        "it, or make it NaN, which means missing"
    )


def check_weights(weights: Any, n_samples: int) -> NDArray[np.float64] | None:
    """Return sample weights as float64 of shape (n_samples,), or None.

    CuPy weights stay on the GPU. A table of one column is accepted, too, and a single number, the
    weight of every row.

    Raises
    ------
    TypeError
        For weights that are not array-like.
    ValueError
        For a wrong shape, for weights that are negative, not finite or not numeric, if all weights
        are zero, and if the largest weight times `n_samples` is infinite.
    """
    if weights is None:
        return None
    if isinstance(weights, Real):
        weights = np.full(n_samples, float(weights))
    is_table = hasattr(weights, "columns")
    weights = _to_numbers(_where_it_is(weights, "sample_weight"), "sample_weight")
    if weights.ndim == 0:
        raise TypeError(
            "Input should have at least 1 dimension i.e. satisfy `len(x.shape) > 0`, got scalar "
            f"`{weights!r}` instead. sample_weight has one weight per row of X"
        )
    if weights.shape == (n_samples, 1) and is_table:
        weights = weights.ravel()
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected ({n_samples},): one weight per row "
            "of X"
        )
    check_finite(weights, "sample_weight")
    largest = float(weights.max())
    if weights.min() < 0:
        row = int(weights.argmin())
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {float(weights[row])} in row "
            f"{row}; weight 0 leaves a row out"
        )
    if largest == 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    if not math.isfinite(largest * n_samples):
        raise ValueError(
            f"sample_weight sums to infinity (largest {largest}); divide it by its maximum"
        )
    return weights


# ---- targets -----------------------------------------------------------------------------------


def check_targets(y: Any) -> NDArray[np.float64]:
    """Return regression targets as float64 of shape (n_samples,) or (n_samples, n_outputs).

    CuPy targets stay on the GPU. A single column becomes a vector.

    Raises
    ------
    TypeError
        For targets that are not array-like.
    ValueError
        For targets that are missing, empty, not numeric, not finite, larger than
        `LARGEST_TARGET`, or not of one or two dimensions.
    """
    y = read_target(y, of_classes=False)
    if y.ndim not in (1, 2) or 0 in y.shape:
        raise ValueError(
            "y should be a 1d array, or a 2d array of one column per output, "
            f"got an array of shape {y.shape} instead"
        )
    y = array_module(y).ascontiguousarray(_to_numbers(y, "y"))
    check_finite(y, "Input y")
    largest = float(array_module(y).abs(y).max())
    if largest > LARGEST_TARGET:
        raise ValueError(
            f"the largest absolute value of y is {largest:g}, and sums of such values could exceed "
            f"float64; values up to {LARGEST_TARGET:g} are allowed. Scale the target down"
        )
    return y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y


def check_counts(y: np.ndarray, inside: np.ndarray | None) -> None:
    """Check that targets (n_samples, n_outputs) are valid for the criterion 'poisson'.

    No target may be negative, and at least one row of positive weight must have a positive target.
    ``inside`` is the mask of the rows with positive weight; None means all rows.
    """
    largest, smallest = float((y if inside is None else y[inside]).max()), float(y.min())
    if smallest < 0.0 or largest == 0.0:
        wrong = (
            "Some value(s) of y are negative which is not allowed for Poisson regression"
            if smallest < 0.0
            else "Sum of y is not strictly positive which is necessary for Poisson regression: "
            "y is not positive in any row of positive weight, and Poisson deviances need it"
        )
        raise ValueError(
            f"{wrong}. The smallest value is {smallest:g}; correct y, or use "
            "criterion='squared_error'"
        )


def check_target_given(shape: tuple[int, ...], y: Any, owner: str) -> None:
    """Check that y was passed, and not in the place of X.

    ``shape`` is that of X, () if X has none; ``owner`` is the class of the estimator.
    """
    if y is None:
        raise ValueError(
            f"{owner}.fit requires y to be passed, but the target y is None; call fit(X, y)"
        )
    of_target: Any = getattr(y, "shape", ())
    if len(shape) == 1 and len(of_target) == 2 and of_target[1] > 1:
        raise ValueError(
            f"X has shape {shape} and y has shape {y.shape}: were they swapped? The table comes "
            f"first, then the target: {owner}.fit(X, y)"
        )


def check_same_length(X: Any, y: Any, names: tuple[str, str] = ("X", "y")) -> None:
    """Check that X and y have the same length."""
    if len(X) != len(y):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {names[0]} has "
            f"{len(X)} rows and {names[1]} has {len(y)}; they must be equal"
        )


def read_target(y: Any, *, of_classes: bool) -> np.ndarray:
    """Return y as an array, on its device; an error if it is missing, sparse or complex."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    if is_sparse(y):
        refused = "sparse multilabel-indicator for y is not supported. " if of_classes else ""
        raise SparseTargetError(
            f"{refused}Sparse data was passed for y, but dense data is required; use y.toarray()"
        )
    y = _where_it_is(y, "y")
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must be real, whole numbers or strings")
    return y


def _where_it_is(values: Any, name: str) -> np.ndarray:
    """Return a CuPy array unchanged, anything else as a host array."""
    return values if is_cupy_array(values) else as_host_array(values, name)


def _to_numbers(values: np.ndarray, name: str) -> NDArray[np.float64]:
    """Return a numeric or convertible array as float64, on its device."""
    if values.dtype.kind in "fbiuOUST":
        try:
            return to_float64(values)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"{name} must be numeric, got a value that is not ({error}); convert it to numbers"
            ) from error
    raise ValueError(f"{name} must be numeric, got type {values.dtype}; convert it to numbers")


def check_finite(values: np.ndarray, name: str) -> None:
    xp = array_module(values)
    finite = xp.isfinite(values)
    if not finite.all():
        row, *output = copy_to_host(xp.argwhere(~finite)[0]).tolist()
        what = "NaN" if xp.isnan(values).any() else "infinity"
        place = f"{row}, in output {output[0]}" if output else f"{row}"
        raise ValueError(
            f"{name} contains {what}. (The first row that is not finite is {place}; drop such "
            "rows.)"
        )


# ---- floating-point mode -----------------------------------------------------------------------


def check_flush_to_zero() -> None:
    """Warn if another library made this thread round denormal numbers to zero.

    Loading a library compiled with -ffast-math can switch this mode on for the thread that loads it
    and for all threads that it starts later. Models may then differ between devices.

    Warns
    -----
    RuntimeWarning
    """
    smallest_normal = np.array([np.finfo(np.float64).tiny])
    denormal = np.array([1], dtype=np.int64).view(np.float64)
    flushed_result = (smallest_normal * np.array([0.5])).view(np.int64)[0] == 0
    flushed_operand = (denormal * np.array([2.0**60])).view(np.int64)[0] == 0
    if flushed_result or flushed_operand:
        warn_user(
            "Denormal numbers are rounded to zero in this process, so models may differ from those "
            "of other machines and devices. A library compiled with -ffast-math does this when it "
            "is loaded: import gpuboost in a process without it, or update it.",
            RuntimeWarning,
        )
