"""Texts in the nodes of a drawn tree."""

from __future__ import annotations

from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.imported.model import ALL_COLUMNS
from gpuboost.explain.trees.conditions import one_line
from gpuboost.explain.trees.node_labels import AT_MOST
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel
from gpuboost.plots.axes import ELLIPSIS, number_text, shortened

NAME_LIMIT = 26  # characters of a name in a box
CONDITION_LIMIT = 24  # longer conditions take two lines
TEST_LIMIT = 36  # characters without the name, for which fewer categories are shown
LONGEST_TEST = 44
CATEGORIES_SHOWN, OUTPUTS_SHOWN = 3, 3


def title_of(shown: ShownModel, number: int) -> str:
    """What a tree adds to, if trees add to different outputs."""
    alone = shown.n_columns == 1 or shown.column[number] == ALL_COLUMNS
    if shown.kind != TERMS or alone:
        return ""
    return f"tree {number}, for {'class ' if shown.classes else ''}{shown.term_name(number)}"


def shows_value(shown: ShownModel, tree: Tree, node: int) -> bool:
    """Whether the value of a node is shown: inner nodes of sums have none that predicts."""
    return not tree.left[node] or (shown.has_inner_values and shown.kind != TERMS)


def node_lines(
    shown: ShownModel, tree: Tree, node: int, *, decimals: int, missing: bool
) -> list[str]:
    """The lines of the text of a node."""
    lines = _condition_lines(shown, tree, node, decimals, missing) if tree.left[node] else []
    if shows_value(shown, tree, node):
        lines += _value_lines(shown, tree, node, decimals)
    if shown.has_counts:
        lines.append(f"n = {tree.count[node]:,}")
    return lines


def _value_lines(shown: ShownModel, tree: Tree, node: int, decimals: int) -> list[str]:
    """The most probable class of each output, or the values."""
    if shown.kind == CLASS_PROBABILITIES:
        pairs = zip(shown.classes, shown.by_output(tree.value[node]), strict=True)
        found = [
            f"{shortened(one_line(names[own.argmax()]), NAME_LIMIT)}  {100.0 * own.max():.0f}%"
            for names, own in pairs
        ]
        return found[:OUTPUTS_SHOWN] + [ELLIPSIS] * (len(found) > OUTPUTS_SHOWN)
    values = tree.value[node].tolist()
    texts = [
        f"{'+' if shown.kind == TERMS and value > 0.0 else ''}{number_text(value, decimals)}"
        for value in values[:OUTPUTS_SHOWN]
    ]
    return [", ".join(texts + [ELLIPSIS] * (len(values) > OUTPUTS_SHOWN))]


def _condition_lines(
    shown: ShownModel, tree: Tree, node: int, decimals: int, missing: bool
) -> list[str]:
    """The condition under which a row goes left, on one line or two."""
    condition, _ = shown.split(tree, node)
    whole_name, test = one_line(condition.name), ""
    for n_categories in range(CATEGORIES_SHOWN, 0, -1):
        text = condition.text(
            lambda bound: number_text(bound, decimals), n_categories, missing, at_most=AT_MOST
        )
        test = text.removeprefix(whole_name).strip()
        if len(test) <= TEST_LIMIT:
            break
    name, test = shortened(whole_name, NAME_LIMIT), shortened(test, LONGEST_TEST)
    whole = f"{name} {test}"
    return [whole] if len(whole) <= CONDITION_LIMIT else [name, test]
