"""A tree as indented text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gpuboost.data.parameters import boolean, integer_at_least
from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.conditions import MAX_SHOWN, Path, extended, one_line
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel


def export_text(
    model: Any,
    *,
    tree: int = 0,
    feature_names: Any = None,
    class_names: Any = None,
    max_depth: int | None = 10,
    spacing: int = 3,
    decimals: int = 2,
    show_weights: bool = False,
    show_missing: bool = True,
    max_categories: int = MAX_SHOWN,
) -> str:
    """A tree as indented text, in the form of scikit-learn's function of this name.

    With ``show_missing=False``, the text of a decision tree without categories is that of
    scikit-learn. "or missing" stands where missing values go; categories that training did not have
    are missing values. Leaves of gradient boosting have ``value``, which the tree adds to the raw
    prediction, with the class or output in parentheses if there are several.

    Parameters
    ----------
    model : estimator of gpuboost
        A fitted model; also one that `gpuboost.from_xgboost` and the like have returned.
    tree : int
        Number of the tree, from 0, in a model of several trees.
    feature_names : array-like of str of shape (n_features,), optional
        Names of the features. None means those of the training data, or feature_0, feature_1 and
        so on.
    class_names : array-like of str of shape (n_classes,), or list of such arrays, optional
        Names of the classes, in the order of ``classes_``; a list with several outputs. None means
        the class labels.
    max_depth : int or None
        Nodes below this depth are summarised in a line. None means no limit.
    spacing : int
        Width of an indentation.
    decimals : int
        Number of digits after the decimal point.
    show_weights : bool
        Whether leaves of a classification tree show the total weight of each class.
    show_missing : bool
        Whether "or missing" is written.
    max_categories : int
        Number of categories of a set to list.

    Returns
    -------
    str

    Raises
    ------
    NotFittedError
        The model is not fitted.
    TypeError, ValueError
        It is no such model, or a parameter is invalid.
    """
    shown = ShownModel.of(model, feature_names, class_names)
    shown.tree(tree)  # an error if there is none
    limit = np.inf if max_depth is None else integer_at_least("max_depth", max_depth, 0)
    width = integer_at_least("spacing", spacing, 1)
    digits = integer_at_least("decimals", decimals, 0)
    words = {
        "number": lambda bound: f"{bound:.{digits}f}",
        "max_categories": integer_at_least("max_categories", max_categories, 1),
        "show_missing": boolean("show_missing", show_missing),
    }
    boolean("show_weights", show_weights)
    leaf = partial(_leaf_text, shown, tree, decimals=digits, show_weights=show_weights)
    lines = _lines(shown, tree, limit, words, leaf)
    bars = "|" + " " * width
    return "".join(f"{bars * depth}|{'-' * width} {text}\n" for depth, text in lines)


def _lines(
    shown: ShownModel, number: int, limit: float, words: dict[str, Any], leaf: Callable[[int], str]
) -> Iterator[tuple[int, str]]:
    """Depth and text of each line: conditions, leaves, and branches below the depth ``limit``."""
    tree = shown.trees.trees[number]
    heights = _heights(tree)
    # Nodes still to be written, the next one last; with each, the condition that leads to it.
    todo: list[tuple[int, int, str, Path]] = [(0, 0, "", {})]
    while todo:
        node, depth, before, path = todo.pop()
        if before:
            yield depth - 1, before
        left = int(tree.left[node])
        if depth > limit and heights[node] > 1:
            yield depth, f"truncated branch of depth {heights[node]}"
        elif not left:
            yield depth, leaf(node)
        else:
            sides = shown.split(tree, node)
            for child in (1, 0):
                text = sides[child].among(path).text(**words, aligned=True)
                todo.append((left + child, depth + 1, text, extended(path, sides[child])))


def _leaf_text(shown: ShownModel, number: int, node: int, decimals: int, show_weights: bool) -> str:
    """The class or the value of a leaf."""
    tree = shown.trees.trees[number]
    value = tree.value[node]
    if shown.kind == CLASS_PROBABILITIES:
        text = f"class: {shown.predicted(value)}"
        if not show_weights:
            return text
        parts = shown.by_output(value * tree.weight[node])
        return f"weights: {', '.join(in_brackets(part, decimals) for part in parts)} {text}"
    name = shown.term_name(number) if shown.kind == TERMS and len(value) == 1 else None
    of_what = "" if name is None else f" ({one_line(name)})"
    return f"value{of_what}: {in_brackets(value, decimals)}"


def in_brackets(values: np.ndarray, decimals: int) -> str:
    """Numbers in brackets, with commas."""
    return f"[{', '.join(f'{value:.{decimals}f}' for value in values.tolist())}]"


def _heights(tree: Tree) -> np.ndarray:
    """Number of levels of the subtree below and with each node: int64 (m,)."""
    found = np.ones(tree.node_count, dtype=np.int64)
    for node in np.flatnonzero(tree.left)[::-1].tolist():
        left = tree.left[node]
        found[node] = 1 + max(found[left], found[left + 1])
    return found
