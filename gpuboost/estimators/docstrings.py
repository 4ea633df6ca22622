"""Texts that several estimators share: written once, filled in where they apply."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from inspect import cleandoc, getmembers, isfunction, signature
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, TypeVar

from gpuboost.engine.criteria import CRITERIA

if TYPE_CHECKING:
    from collections.abc import Mapping

Method = TypeVar("Method", bound=Callable[..., Any])


def _criteria(names_of: str) -> str:
    """The criteria of classifiers or of regressors: names of one criterion with "or"."""
    told = []
    for row in CRITERIA.values():
        if names := getattr(row, names_of):
            note = f" ({row.note})" if row.note else ""
            told.append(" or ".join(map(repr, names)) + note)
    return ", ".join(told)


# name -> (type, text), in the order in which they are told
PARAMETERS = {
    "estimator": (
        "tree estimator",
        "A gpuboost decision tree or extra-tree whose parameters the trees have (in AdaBoost\n"
        "scikit-learn's own trees too); None: a decision tree with the parameters there are here.\n"
        "For other base learners there is scikit-learn's class of this name.",
    ),
    "n_estimators": ("int", "Number of trees, at most so many where fitting can stop early."),
    "learning_rate": ("float", "Multiplies the weight of each tree."),
    "loss": (
        "{'linear', 'square', 'exponential'}",
        "How a row's error, as a share of the largest, counts in the weights of the next round.",
    ),
    "boosting": (
        "{'reweighting', 'resampling'}",
        "Give every tree all rows with their weights, or rows drawn in proportion to these.",
    ),
    "criterion": (
        "str",
        fill(
            f"What a split improves. Classifiers: {_criteria('class_names')}. "
            f"Regressors: {_criteria('value_names')}.",
            90,
        ),
    ),
    "splitter": ("{'best', 'random'}", "Best threshold of a feature, or one drawn at random."),
    "max_depth": ("int", "Largest depth of a leaf; None: no limit."),
    "min_samples_split": (
        "int or float",
        "Smallest number of rows that a split node has; a float is a fraction of all rows.",
    ),
    "min_samples_leaf": (
        "int or float",
        "Smallest number of rows of a leaf; a float is a fraction of all rows.",
    ),
    "min_weight_fraction_leaf": (
        "float",
        "Smallest share of the tree's weight in a leaf, from 0 to 0.5.",
    ),
    "max_features": ("", ""),  # means one thing in a tree and another in bagging: MAX_FEATURES
    "max_leaf_nodes": (
        "int",
        "Largest number of leaves, grown best first; None: no limit.",
    ),
    "min_impurity_decrease": (
        "float",
        "A split lowers the impurity, weighted by its share of the rows, by at least this much.\n"
        "By 'absolute_error' the tree is cut back to such splits when it is grown.",
    ),
    "ccp_alpha": (
        "float",
        "What a leaf costs, beside its impurity times its share of the rows: of the trees that\n"
        "pruning leaves, the smallest of least cost is kept. 0: the whole tree.",
    ),
    "monotonic_cst": (
        "array-like of int of shape (n_features,), or dict",
        "1 where the prediction (of the second class) must rise with a feature, -1 where it must\n"
        "fall, 0 where it may do both; or these by name. Of two classes or one output, by 'gini'\n"
        "or 'squared_error'.",
    ),
    "class_weight": (
        "dict or str",
        "Weight of each class by its label; 'balanced': in inverse proportion to its rows; in\n"
        "forests also 'balanced_subsample': to its rows drawn for a tree. None: 1.",
    ),
    "bootstrap": (
        "bool",
        "Draw the rows of a tree with replacement, in proportion to their weight. Otherwise a\n"
        "forest gives every tree all rows, and bagging draws without replacement (pasting).",
    ),
    "bootstrap_features": ("bool", "Draw the features of a tree with replacement."),
    "max_samples": (
        "int or float",
        "Rows drawn for a tree; a float is a fraction of all rows, or of the sum of weights.\n"
        "None: as many as there are.",
    ),
    "oob_score": (
        "bool or callable",
        "Predict every row with the trees that did not see it and score that: accuracy, R2, or\n"
        "``oob_score(truth, predicted)``, where classes are numbered.",
    ),
    "voting": (
        "{'soft', 'hard'}",
        "Average the class shares of the trees' leaves, or count one vote for each tree.",
    ),
    "warm_start": (
        "bool",
        "`fit` adds trees to those there are. The bins and categories of the first fit are kept;\n"
        "on the same data the model is the same as if all trees were grown at once.",
    ),
    "verbose": ("int", "Above 0, show a progress bar."),
    "random_state": (
        "int, RandomState or None",
        "Where randomness comes from; an int makes the model reproducible.",
    ),
    "n_jobs": (
        "int",
        "Threads; None: every processor the process may use (``OMP_NUM_THREADS`` lowers it), -1\n"
        "all. It never changes the model.",
    ),
    "device": (
        "str",
        "'auto' (what is fastest for the size), 'cpu', 'cuda', 'cuda:N', or a backend by name,\n"
        "'numpy' or 'numba'. It never changes the model.",
    ),
    "max_bins": ("int", "Value bins per feature, from 2 to 255; NaN has a bin of its own."),
    "categorical_features": (
        "'from_dtype', None, or array-like of bool, int or str",
        "Which features are categories: those of a categorical type, none, or by mask, place or\n"
        "name.",
    ),
}
MAX_FEATURES = {
    True: (
        "int or float",
        "Features drawn for a tree (random subspaces); a float is a fraction of all.",
    ),
    False: (
        "int, float, 'sqrt', 'log2' or None",
        "Features that a node looks at, drawn for each node; a float is a fraction of all.\n"
        "None: all.",
    ),
}

_OF_ROWS = "ndarray of shape (n_samples,"
_UNSEEN = "with ``oob_score``.\n    NaN for rows that every tree saw, where scikit-learn has 0"

# (What an estimator that has it has, and with "!" has not; attribute; text.)
ATTRIBUTES = (
    ("", "n_features_in_", "int"),
    ("", "feature_names_in_", "ndarray of str; only if all names are strings"),
    ("", "n_outputs_", "int"),
    ("predict_proba", "classes_", "ndarray of shape (n_classes,)"),
    ("predict_proba", "n_classes_", "int"),
    ("", "feature_importances_", "ndarray of shape (n_features,)"),
    ("", "device_", "str; the backend that the trees were grown with"),
    (
        "get_depth",
        "tree_",
        "the nodes, in arrays named as in scikit-learn. Splits by category have a NaN\n"
        "    threshold (`export_text` prints nan): see ``tree_.categories_left(node)``",
    ),
    ("get_depth", "max_features_", "int; features that a node looks at"),
    ("n_estimators !subsample", "estimator_", "tree estimator, not fitted"),
    ("n_estimators !subsample", "estimators_", "list of fitted trees; cannot be assigned"),
    (
        "subsample",
        "estimators_",
        "ndarray of fitted trees of shape (n_estimators_, n_trees_per_iteration_)",
    ),
    ("subsample", "n_estimators_", "int; rounds in the model"),
    ("subsample", "n_trees_per_iteration_", "int; trees of a round"),
    ("subsample", "max_features_", "int; features that a node looks at"),
    ("subsample", "baseline_", "ndarray; raw prediction before the first round"),
    ("subsample", "init_", "the fitted ``init`` estimator, where there is one"),
    ("subsample", "train_score_", "ndarray; mean loss of the training rows after each round"),
    (
        "subsample",
        "evals_result_",
        "dict; by name of a set of rows and of a metric, its value after each round",
    ),
    (
        "subsample",
        "validation_score_",
        "ndarray; the last metric of the last set after each round, where there are such sets",
    ),
    ("subsample", "best_iteration_", "int; the best round, with ``n_iter_no_change``"),
    (
        "subsample",
        "oob_scores_",
        "ndarray; mean loss after each round of the rows not drawn for it, with ``subsample``",
    ),
    ("subsample", "oob_improvement_", "ndarray; what each round lowered that loss by"),
    ("subsample", "oob_score_", "float; the last of ``oob_scores_``"),
    ("boosting", "estimator_weights_", "ndarray; weight of each tree, 2 alpha of a classifier"),
    ("boosting", "estimator_errors_", "ndarray; weighted error of each tree in its round"),
    (
        "boosting predict_proba",
        "training_error_bound_",
        "ndarray; after each round, what the training error cannot exceed: the product of Z_t",
    ),
    ("bootstrap", "estimators_samples_", "list of ndarray; the rows drawn for each tree"),
    ("bootstrap_features", "estimators_features_", "list of ndarray; the features of each tree"),
    (
        "bootstrap",
        "oob_score_",
        "float; with ``oob_score``, of the rows not all trees saw",
    ),
    ("predict_proba bootstrap", "oob_decision_function_", f"{_OF_ROWS} n_classes); {_UNSEEN}"),
    (
        "bootstrap !predict_proba",
        "oob_prediction_",
        f"{_OF_ROWS}) or (n_samples, n_outputs); {_UNSEEN}",
    ),
)


def documented(
    summary: str, parameters: Mapping[str, tuple[str, str]] | None = None
) -> Callable[[type], type]:
    """Class decorator: make the docstring of an estimator from its fields.

    ``parameters`` are texts of its own, in the order in which they are told first.
    """
    texts = {**(parameters or {}), **PARAMETERS, **(parameters or {})}

    def fill_in(estimator: type) -> type:
        parts = [summary, _notes(estimator)]
        parts.append("Parameters\n----------\n" + _parameters(estimator, texts))
        parts.append("Attributes\n----------\n" + _attributes(estimator))
        parts.append("Examples\n--------\n" + _example(estimator))
        estimator.__doc__ = "\n\n".join(parts) + "\n"
        for name, method in getmembers(estimator, isfunction):
            if not name.startswith("_") and method.__module__.startswith("gpuboost."):
                method.__doc__ = _with_raises(name, method)
        return estimator

    return fill_in


def _notes(estimator: type) -> str:
    return (
        f"Takes the place of scikit-learn's {estimator.__name__}: parameters, defaults, methods\n"
        "and attributes have its names. What is not built yet (classes of several outputs)\n"
        "raises an error that says so.\n"
        "Features are binned, see ``max_bins``, and the random numbers are others. The model\n"
        "depends on data, parameters and seed alone, never on device or threads; `fingerprint`\n"
        "shows it."
    )


def _parameters(estimator: type, texts: Mapping[str, tuple[str, str]]) -> str:
    lines = []
    told = list(texts)
    for item in sorted(fields(estimator), key=lambda item: told.index(item.name)):  # type: ignore
        kind, text = texts[item.name]
        if item.name == "max_features":
            kind, text = MAX_FEATURES[hasattr(estimator, "estimator")]
        lines.append(f"{item.name} : {kind}, default={item.default!r}\n{indent(text, '    ')}")
    return "\n".join(lines)


def _attributes(estimator: type) -> str:
    return "\n".join(
        f"{name} : {text}"
        for needs, name, text in ATTRIBUTES
        if all(hasattr(estimator, need.strip("!")) != ("!" in need) for need in needs.split())
    )


def _example(estimator: type) -> str:
    name, table = estimator.__name__, "iris" if hasattr(estimator, "predict_proba") else "diabetes"
    minimum = 0.5 if hasattr(estimator, "learning_rate") else 0.8  # its trees are small
    return (
        f">>> from sklearn.datasets import load_{table}\n"
        f">>> from gpuboost import {name}\n"
        f">>> X, y = load_{table}(return_X_y=True)\n"
        f">>> model = {name}(random_state=0).fit(X, y)\n"
        f">>> bool(model.score(X, y) > {minimum})\n"
        "True"
    )


SECTION = "Parameters\n----------"
# What methods take, as their docstrings tell it.
TAKEN = {
    "X": "array-like, data frame or gpuboost.Dataset of shape (n_samples, n_features)",
    "y": "array-like of shape (n_samples,) or, in a regression, (n_samples, n_outputs)",
    "sample_weight": "array-like of shape (n_samples,), optional",
    "offset": "array-like of shape (n_samples,) or (n_samples, columns), optional",
    "check_input": "bool, default=True",
}
OF_A_FIT = {
    "X": "NaN is missing. Categories are features of a categorical type, see\n"
    "``categorical_features``.",
    "sample_weight": "Rows of weight 0 are not in the model.",
}
OF_ANY = {
    "offset": "As given to `fit`.",
    "check_input": "As in scikit-learn's signature; input is checked either way.",
}


def takes(*names: str, told: Mapping[str, str] | None = None) -> Callable[[Method], Method]:
    """Method decorator: put what it takes into its docstring, before what it returns.

    Parameters
    ----------
    *names : str
        Of `TAKEN`.
    told : mapping of str to str, optional
        What is said of some of them beside.
    """
    parameters = "\n".join(_lines(name, told or {}) for name in names)

    def fill_in(method: Method) -> Method:
        method.__doc__ = _with_parameters(method.__doc__, parameters)
        return method

    return fill_in


def _lines(name: str, told: Mapping[str, str]) -> str:
    text = told.get(name) or OF_ANY.get(name)
    first = f"{name} : {TAKEN[name]}"
    return f"{first}\n{indent(text, '    ')}" if text else first


def _with_parameters(text: str | None, parameters: str) -> str | None:
    """A docstring with more parameters, told before its own, and before what is returned."""
    if text is None:  # python -OO
        return None
    text = cleandoc(text)
    if SECTION not in text:
        found = re.search(r"\n\n(Returns|Yields)\n", text)
        place = found.start() if found else len(text)
        text = f"{text[:place]}\n\n{SECTION}{text[place:]}"
    return text.replace(SECTION, f"{SECTION}\n{parameters}", 1)


def with_check_input(method: Callable[..., object]) -> str | None:
    """Docstring of a method of all estimators for trees, which have one parameter more."""
    if method.__doc__ is None:  # python -OO
        return None
    text = cleandoc(method.__doc__)
    place = text.index("\n\nReturns")
    return f"{text[:place]}\n{_lines('check_input', {})}{text[place:]}"


RAISED_BY_A_FIT = """TypeError, ValueError
    A parameter, X, y or a weight is not what it must be; the message says what is allowed.
RuntimeError
    The device cannot be used here; the message says why.
MemoryError
    There is not enough memory. After any error the estimator is what it was before."""
RAISED_BY_A_MODEL = """NotFittedError
    The estimator is not fitted."""
RAISED_BY_INPUT = """TypeError, ValueError
    An argument is not what the fitted model takes; the message says what is allowed.
RuntimeError
    The device cannot be used here; the message says why."""


def _with_raises(name: str, method: Callable[..., object]) -> str | None:
    """Docstring of a public method with the errors it raises, told last."""
    text, given = method.__doc__, signature(method).parameters
    if text is None or "\nRaises\n" in cleandoc(text):  # python -OO, or told already
        return text
    raised = [RAISED_BY_A_MODEL, RAISED_BY_INPUT] if "X" in given else [RAISED_BY_A_MODEL]
    if "y" in given and not name.endswith("score"):
        raised = [RAISED_BY_A_FIT]
    return "\n".join([f"{cleandoc(text)}\n\nRaises\n------", *raised])
