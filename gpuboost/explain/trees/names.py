"""Names of features and classes that a user gives, checked, or those that a model has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def names_of_features(given: Any, known: Any, n_features: int) -> tuple[str, ...]:
    """Names of the features: the given ones, those of the training data, or feature_0 and so on.

    Raises
    ------
    TypeError, ValueError
        The given names are no texts in a row, or not as many as there are features.
    """
    if given is None:
        default = (f"feature_{feature}" for feature in range(n_features))
        return tuple(default if known is None else map(str, known))
    found = _texts("feature_names", given)
    if len(found) != n_features:
        raise ValueError(f"feature_names must contain {n_features} elements, got {len(found)}")
    return found


def _texts(parameter: str, given: Any) -> tuple[str, ...]:
    """Several objects as texts."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{parameter} must be a list of names, got {given!r:.80}")
    return tuple(map(str, given))


def names_of_classes(labels: tuple[np.ndarray, ...], given: Any) -> tuple[tuple[str, ...], ...]:
    """Names of the classes of each output: the given ones, or the class labels.

    Raises
    ------
    TypeError, ValueError
        The given names are no distinct texts in a row (with several outputs, for each), not as many
        as there are classes, or the model has no classes.
    """
    if given is None:
        return tuple(tuple(str(label) for label in own.tolist()) for own in labels)
    if not labels:
        raise ValueError(
            f"class_names are for classifiers, but the model has no classes, got {given!r:.80}; "
            "leave them out"
        )
    if len(labels) > 1:
        _texts("class_names", given)
    lists = [given] if len(labels) == 1 else list(given)
    found = tuple(_texts("class_names", own) for own in lists)
    wanted, sizes = [len(own) for own in labels], [len(own) for own in found]
    if sizes != wanted:
        raise ValueError(
            f"class_names must contain as many elements as there are classes, {wanted}, got {sizes}"
        )
    if any(len(set(own)) < len(own) for own in found):
        raise ValueError(f"class_names must be distinct, got {given!r:.80}")
    return found
