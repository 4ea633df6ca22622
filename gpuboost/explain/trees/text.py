"""A tree as indented text."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.data.parameters import boolean, integer_at_least
from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.conditions import MAX_SHOWN, Path, extended, one_line
from gpuboost.explain.trees.shown_model import PROBABILITIES, TERMS, ShownModel


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
    own = shown.tree(tree)
    limit = np.inf if max_depth is None else integer_at_least("max_depth", max_depth, 0)
    width = integer_at_least("spacing", spacing, 1)
    digits = integer_at_least("decimals", decimals, 0)
    boolean("show_weights", show_weights)
    boolean("show_missing", show_missing)
    n_shown = integer_at_least("max_categories", max_categories, 1)
    heights = _heights(own)
    lines: list[str] = []

    def add(text: str, depth: int) -> None:
        lines.append(f"{('|' + ' ' * width) * depth}|{'-' * width} {text}")

    # Nodes still to be written, the next one last; with each, the condition that leads to it.
    todo: list[tuple[int, int, str, Path]] = [(0, 0, "", {})]
    while todo:
        node, depth, before, path = todo.pop()
        if before:
            add(before, depth - 1)
        if depth > limit and heights[node] > 1:
            add(f"truncated branch of depth {heights[node]}", depth)
        elif not own.left[node]:
            add(leaf_text(shown, tree, node, digits, show_weights), depth)
        else:
            for child, side in zip((1, 0), shown.split(own, node)[::-1], strict=True):
                text = side.among(path).text(
                    lambda x: f"{x:.{digits}f}", n_shown, show_missing, aligned=True
                )
                todo.append((int(own.left[node]) + child, depth + 1, text, extended(path, side)))
    return "\n".join(lines) + "\n"


def leaf_text(
    shown: ShownModel, number: int, node: int, decimals: int, show_weights: bool = False
) -> str:
    """The class or the value of a node."""
    own = shown.trees.trees[number]
    parts = shown.by_output(own.value[node])
    if shown.kind == PROBABILITIES:
        best = [
            one_line(names[part.argmax()]) for names, part in zip(shown.classes, parts, strict=True)
        ]
        text = f"class: {', '.join(best)}"
        if show_weights:
            weights = [in_brackets(part * own.weight[node], decimals) for part in parts]
            text = f"weights: {', '.join(weights)} {text}"
        return text
    several = shown.kind == TERMS and own.value.shape[1] == 1
    name = shown.term_name(number) if several else None
    of_what = "" if name is None else f" ({one_line(name)})"
    return f"value{of_what}: {in_brackets(parts[0], decimals)}"


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
