"""Texts in the nodes of a drawn tree."""

from __future__ import annotations

import numpy as np

from gpuboost.plots.axes import number_text, shortened
from gpuboost.plots.models import DrawnTree

NAME_LIMIT = 26  # characters of a name in a box
LINE_LIMIT = 24  # longer conditions take two lines
CATEGORY_NAME_LIMIT, SET_LIMIT = 20, 24  # of a category, and of those in a box, but at least one
OUTPUTS_SHOWN = 3


def node_lines(drawn: DrawnTree, node: int, decimals: int, missing: bool) -> list[str]:
    """The lines of the text of a node."""
    tree, is_inner = drawn.tree, drawn.tree.left[node] > 0
    lines = condition_lines(drawn, node, decimals, missing) if is_inner else []
    if drawn.inner_values or not is_inner:
        lines += value_lines(drawn, node, decimals)
    if tree.count[0] > 0:
        lines.append(f"n = {tree.count[node]:,}")
    return lines


def value_lines(drawn: DrawnTree, node: int, decimals: int) -> list[str]:
    """The most probable class of each output, or the values."""
    if drawn.class_names:
        shares = [own[node] for own in drawn.probabilities]
        found = [
            f"{shortened(names[own.argmax()], NAME_LIMIT)}  {100.0 * own.max():.0f}%"
            for names, own in zip(drawn.class_names, shares, strict=True)
        ]
        more = ["…"] if len(found) > OUTPUTS_SHOWN else []
        return found[:OUTPUTS_SHOWN] + more
    values = drawn.tree.value[node].tolist()
    signs = "+" if drawn.adds else ""
    shown = [
        f"{signs if value > 0.0 else ''}{number_text(value, decimals)}"
        for value in values[:OUTPUTS_SHOWN]
    ]
    return [", ".join([*shown, "…"] if len(values) > OUTPUTS_SHOWN else shown)]


def condition_lines(drawn: DrawnTree, node: int, decimals: int, missing: bool) -> list[str]:
    """The condition under which a row goes left, on one line or two."""
    tree = drawn.tree
    name = shortened(drawn.feature_names[drawn.feature[node]], NAME_LIMIT)
    threshold, missing_left = float(tree.threshold[node]), bool(tree.missing_left[node])
    is_categorical = tree.category[node] >= 0
    if is_categorical:
        test = _set_text(drawn, node)
    elif np.isinf(threshold):
        # Only missing values go the other way.
        return [f"{name} is missing" if threshold < 0.0 else f"{name} is not missing"]
    else:
        test = f"≤ {number_text(threshold, decimals)}"
    if missing and missing_left:
        test += " or missing"
    whole = f"{name} {test}"
    return [whole] if len(whole) <= LINE_LIMIT else [name, test]


def _set_text(drawn: DrawnTree, node: int) -> str:
    """The categories that go left or, if they are fewer, those that do not."""
    tree, names = drawn.tree, drawn.categories[drawn.tree.feature[node]]
    mask = np.unpackbits(tree.masks[tree.category[node]].view(np.uint8), bitorder="little")
    left = [name for code, name in names.items() if mask[code]]
    right = [name for code, name in names.items() if not mask[code]]
    is_left = 0 < len(left) <= len(right) or not right
    return f"{'in' if is_left else 'not in'} {{{_some(left if is_left else right)}}}"


def _some(names: list[str]) -> str:
    """Some of the names, and the number of the others."""
    shown = [shortened(name, CATEGORY_NAME_LIMIT) for name in names]
    n_shown, size = 0, 0
    while n_shown < len(shown) and (n_shown == 0 or size + len(shown[n_shown]) <= SET_LIMIT):
        size += len(shown[n_shown]) + 2
        n_shown += 1
    rest = len(names) - n_shown
    return ", ".join(shown[:n_shown] + ([f"+{rest}"] if rest else []))
