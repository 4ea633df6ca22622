"""Docstrings of the public estimators, assembled from the docstrings of their base classes.

Each parameter and fitted attribute is documented once, in the class that defines it.
Defaults, and the arguments and errors of methods, are derived from signatures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import cleandoc, get_annotations, getmembers, isfunction, signature
from textwrap import fill, indent

from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.losses.table import CLASSIFICATION, REGRESSION


def _criteria(names_of: str) -> str:
    """The criteria of classifiers or of regressors with their notes, synonyms joined by "or"."""
    entries = []
    for row in CRITERIA.values():
        if names := getattr(row, names_of):
            note = f" ({row.note})" if row.note else ""
            entries.append(" or ".join(map(repr, names)) + note)
    return ", ".join(entries)


# Texts for the names in braces in the docstrings of the classes.
FILLED_IN = {
    "criteria": f"Classifiers: {_criteria('class_names')}. Regressors: {_criteria('value_names')}",
    "losses of regressors": ", ".join(map(repr, REGRESSION)),
    "losses of classifiers": ", ".join(map(repr, CLASSIFICATION)),
}
TEXT = """{summary}

A replacement for scikit-learn's {name}, with the same names of parameters, methods
and attributes and the same defaults.
Features are binned (see ``max_bins``), and random numbers differ from scikit-learn's.
The model depends only on data, parameters and seed, never on the device or the number
of threads; compare models by `fingerprint`.

Parameters
----------
{parameters}

Attributes
----------
{attributes}

Examples
--------
>>> from sklearn.datasets import load_{table}
>>> from gpuboost import {name}
>>> X, y = load_{table}(return_X_y=True)
>>> model = {name}(random_state=0).fit(X, y)
>>> bool(model.score(X, y) > {minimum})
True
"""


def documented(estimator: type) -> type:
    """Class decorator: assemble the docstrings of an estimator and of its methods."""
    if documented.__doc__ is None:  # python -OO
        return estimator
    estimator.__doc__ = TEXT.format(
        summary=cleandoc(estimator.__doc__ or "").partition("\n\n")[0],
        name=estimator.__name__,
        parameters=_parameters(estimator),
        attributes=_attributes(estimator),
        table="iris" if hasattr(estimator, "predict_proba") else "diabetes",
        minimum=0.5 if hasattr(estimator, "learning_rate") else 0.8,  # boosted trees are small
    )
    for name, method in getmembers(estimator, isfunction):
        if not name.startswith("_") and method.__module__.startswith("gpuboost."):
            method.__doc__ = _of_method(name, method)
    return estimator


def _entries(classes: list[type], section: str) -> dict[str, tuple[str, str]]:
    """Type and text of each entry in a section of the classes' docstrings, by name.

    If several classes document a name, the first counts. Classes whose docstring is already
    assembled are skipped: they repeat entries with other defaults.
    """
    found: dict[str, tuple[str, str]] = {}
    for each in classes:
        parts = re.split(rf"\n\n{section}\n-+\n", cleandoc(each.__doc__ or ""))
        if len(parts) == 2 and "\n\nExamples\n" not in parts[1]:
            entries = re.split(r"\n(?=\w+ : )", parts[1].partition("\n\n")[0])
            for entry in entries:
                first, _, text = entry.partition("\n")
                name, _, kind = first.partition(" : ")
                found.setdefault(name, (kind, text))
    return found


def _classes_of(estimator: type) -> list[type]:
    """An estimator's class and its bases, dataclasses before mixins."""
    return sorted(estimator.__mro__, key=lambda each: not is_dataclass(each))


def _parameters(estimator: type) -> str:
    """The parameters of an estimator, those that only its own class defines first.

    A parameter whose default a class only redefines is listed with the base class that defines it.
    Parameters that these classes do not document are documented in the class of the boosting
    estimator that it fits, if any, or in the tree class.
    """
    classes = _classes_of(estimator)
    used = (getattr(estimator, name, object) for name in ("_boosting_class", "_tree_class"))
    entries = _entries([*classes, *(base for own in used for base in own.__mro__)], "Parameters")
    default = {item.name: item.default for item in fields(estimator)}
    names = [name for each in classes for name in get_annotations(each) if name in default]
    lines = []
    for name in reversed(dict.fromkeys(reversed(names))):
        kind, text = entries[name]
        for word, filling in FILLED_IN.items():
            if f"{{{word}}}" in text:
                text = indent(fill(cleandoc(text).replace(f"{{{word}}}", filling), 90), "    ")
        lines.append(f"{name} : {kind}, default={default[name]!r}\n{text}")
    return "\n".join(lines)


def _attributes(estimator: type) -> str:
    """The fitted attributes of an estimator.

    If the type of an attribute ends in "with ``name``", the attribute is listed only if the
    estimator has a parameter of this name.
    """
    lines = []
    for name, (kind, text) in _entries(_classes_of(estimator), "Attributes").items():
        needs = re.findall(r"with ``(\w+)``", kind)
        if all(hasattr(estimator, need) for need in needs):
            lines.append("\n".join(filter(None, (f"{name} : {kind}", text))))
    return "\n".join(lines)


# Arguments of methods.
TAKEN = {
    "X": "array-like, sparse matrix, data frame or Dataset of shape (n_samples, n_features)",
    "y": "array-like of shape (n_samples,), or (n_samples, n_outputs) for all estimators but\n"
    "    AdaBoost* and the classifiers of gradient boosting",
    "sample_weight": "array-like of shape (n_samples,), optional",
    "offset": "array-like of shape (n_samples,) or (n_samples, columns), optional\n"
    "    Raw prediction that each row starts from, as in `fit`.",
    "n_rounds": "int, 'best' or None, default=None\n"
    "    Number of rounds that predict: 'best' means the rounds up to ``best_iteration_``, None\n"
    "    all rounds (XGBoost's default is the best).",
    "check_input": "bool, default=True\n"
    "    Accepted for compatibility with scikit-learn; input is always checked.",
}
TAKEN_BY_A_FIT = TAKEN | {
    "X": f"{TAKEN['X']}\n    Also an Arrow table, a lazy frame of polars, an array on a GPU,\n"
    "    and any object that exports Arrow data or DLPack. NaN means missing. The parameter\n"
    "    ``categorical_features`` says which features are categorical.",
    "sample_weight": f"{TAKEN['sample_weight']}\n    No tree is grown on rows of weight 0.",
}
RAISED_BY_A_FIT = """TypeError, ValueError
    A parameter, X, y or a weight is invalid; the message says what is allowed.
RuntimeError
    The device cannot be used here; the message says why.
MemoryError
    There is not enough memory. After any error, the estimator is as it was before."""
RAISED_BY_A_MODEL = """NotFittedError
    The estimator is not fitted."""
RAISED_BY_INPUT = """TypeError, ValueError
    An argument does not fit the model; the message says what is allowed.
RuntimeError
    The device cannot be used here; the message says why."""


def _of_method(name: str, method: Callable[..., object]) -> str:
    """Docstring of a public method, with its arguments and the errors it raises."""
    text, given = cleandoc(method.__doc__ or ""), signature(method).parameters
    if "\nRaises\n" in text:  # already assembled for another estimator
        return text
    fits = "y" in given and not name.endswith("score")
    taken = TAKEN_BY_A_FIT if fits else TAKEN
    lines = [f"{each} : {taken[each]}" for each in given if each in taken]
    lines = [line for line in lines if f"\n{line.split()[0]} : " not in text]
    title = "Parameters\n----------"
    if lines and title not in text:
        text = re.sub(r"(?=\n\n(Returns|Yields)\n)|\Z", f"\n\n{title}", text, count=1)
    text = text.replace(title, "\n".join([title, *lines]), 1)
    raised = [RAISED_BY_A_MODEL, RAISED_BY_INPUT] if "X" in given else [RAISED_BY_A_MODEL]
    return "\n".join([f"{text}\n\nRaises\n------", *([RAISED_BY_A_FIT] if fits else raised)])
