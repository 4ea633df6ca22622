"""Class weights: scikit-learn's `class_weight`, checked and converted to an array."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.data.parameters import number_between
from gpuboost.engine.array_modules import array_module, copy_to_host
from gpuboost.engine.sampling import balanced_weights


def check_class_weight(
    class_weight: Any, choices: Collection[str] = ("balanced",), n_outputs: int = 1
) -> None:
    """Check that `class_weight` is None, one of `choices`, or a dict (a list of one per output)."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight in choices):
        return
    is_list = isinstance(class_weight, list) and all(isinstance(c, Mapping) for c in class_weight)
    if n_outputs > 1 and not (is_list and len(class_weight) == n_outputs):
        given = f"a list of {len(class_weight)}" if is_list else f"{class_weight!r:.80}"
        raise ValueError(
            "For multi-output, class_weight should be a list of dicts, or one of "
            f"{', '.join(map(repr, choices))}, and the number of elements in class_weight should "
            f"match number of outputs. Got {given} for {n_outputs} outputs"
        )
    if n_outputs > 1 or isinstance(class_weight, Mapping):
        return
    if is_list:
        raise ValueError(
            "class_weight is a list, one dict for each output, but y has one output; pass one dict"
        )
    allowed = ", ".join(repr(choice) for choice in choices)
    raise ValueError(
        f"class_weight must be None, a dict mapping class labels to weights, or {allowed}, "
        f"got {class_weight!r}"
    )


def class_weights(
    class_weight: Any, codes: NDArray[np.int32], classes: np.ndarray
) -> NDArray[np.float64] | None:
    """Return the weight of each class for the given rows; None if `class_weight` is None.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        "balanced" means weights `n_samples / (n_classes * count)`, as in scikit-learn; a class
        without rows has weight 0 and is not counted in `n_classes`. Classes that the dict does not
        contain have weight 1.
    codes : NumPy or CuPy array of int32 of shape (n_samples,)
        Index of each row's class in `classes`.
    classes : ndarray of shape (n_classes,)
        Labels of the classes.

    Returns
    -------
    ndarray of float64 of shape (n_classes,), or None

    Raises
    ------
    ValueError
        If `class_weight` is something else, if the dict has labels that are not classes and lacks a
        class, as in scikit-learn, or if a weight is negative or not finite.
    TypeError
        If a weight is not a number.
    """
    check_class_weight(class_weight)
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        counts = array_module(codes).bincount(codes, minlength=len(classes))
        return balanced_weights(copy_to_host(counts))
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    without = [label for label in labels if label not in class_weight]
    if unknown and without:  # extra labels alone can be classes that have no rows here
        raise ValueError(
            f"class_weight has the labels {unknown!r}, which are not in y, and no weight for "
            f"{without!r:.200}; its keys must be among the classes {labels!r:.200}"
        )
    weights = [
        number_between(f"class_weight[{label!r}]", class_weight.get(label, 1.0), 0.0)
        for label in labels
    ]
    return np.array(weights, dtype=np.float64)
