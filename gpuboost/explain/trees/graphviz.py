"""A tree as a graph in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.colors import GREY, as_hex, node_colors, text_color, tinted
from gpuboost.explain.trees.conditions import MAX_SHOWN, Condition, Path, extended
from gpuboost.explain.trees.node_labels import AT_MOST, GraphOptions, NodeLabels
from gpuboost.explain.trees.shown_model import ShownModel


def export_graphviz(
    model: Any,
    out_file: Any = None,
    *,
    tree: int = 0,
    max_depth: int | None = None,
    feature_names: Any = None,
    class_names: Any = None,
    label: str = "all",
    filled: bool = False,
    leaves_parallel: bool = False,
    impurity: bool = True,
    node_ids: bool = False,
    proportion: bool = False,
    rotate: bool = False,
    rounded: bool = False,
    special_characters: bool = False,
    precision: int = 3,
    fontname: str = "helvetica",
    show_missing: bool = True,
    max_categories: int = MAX_SHOWN,
) -> str | None:
    """A tree as a graph in the DOT language, as scikit-learn's function of this name.

    ``dot -Tpng tree.dot -o tree.png`` draws it. Edges say "yes" or "no", and which of them missing
    values take. Unlike in scikit-learn, class names are shown unless ``class_names`` is False. Of
    more than 10 classes, the largest three are shown.

    Parameters
    ----------
    model : estimator of gpuboost
        A fitted model; also one that `gpuboost.from_xgboost` and the like have returned.
    out_file : str, path-like or file object, optional
        The file to write, in UTF-8. None means to return a string.
    tree : int
        Number of the tree, from 0, in a model of several trees.
    max_depth : int, optional
        Nodes below this depth are "(...)". None means no limit.
    feature_names : array-like of str of shape (n_features,), optional
        As in `export_text`.
    class_names : array-like of str, list of such arrays, or bool
        As in `export_text`; True and None mean the class labels, False that nodes do not show a
        class.
    label : {'all', 'root', 'none'}
        In which nodes the numbers have labels, such as "samples = ".
    filled : bool
        Whether nodes are colored: by the largest class, stronger the purer the node; or by the
        value, stronger the larger it is (blue above 0 and orange below, in gradient boosting and in
        trees with values of both signs); or, with several outputs, stronger the smaller the
        impurity.
    leaves_parallel : bool
        Whether all leaves are drawn at the bottom.
    impurity : bool
        Whether nodes show the impurity, if the model has it.
    node_ids : bool
        Whether nodes show their number.
    proportion : bool
        Whether nodes show fractions of the rows and of the classes in place of weights.
    rotate : bool
        Whether the tree grows from left to right.
    rounded : bool
        Whether nodes have round corners.
    special_characters : bool
        Whether labels are HTML, with the sign for "less than or equal".
    precision : int
        Number of digits after the decimal point.
    fontname : str
        Name of the font.
    show_missing : bool
        Whether edges say where missing values go.
    max_categories : int
        Number of categories of a set to list.

    Returns
    -------
    str or None
        The graph, if ``out_file`` is None.

    Raises
    ------
    NotFittedError
        The model is not fitted.
    TypeError, ValueError
        It is no such model, or a parameter is invalid.
    OSError
        The file cannot be written.
    """
    given: dict[str, Any] = {"max_depth": max_depth, "label": label, "filled": filled}
    given |= {"leaves_parallel": leaves_parallel, "impurity": impurity, "node_ids": node_ids}
    given |= {"proportion": proportion, "rotate": rotate, "rounded": rounded}
    given |= {"special_characters": special_characters, "precision": precision}
    given |= {"fontname": fontname, "show_missing": show_missing, "max_categories": max_categories}
    options = GraphOptions(**given, show_classes=class_names is not False)
    names = None if isinstance(class_names, bool) else class_names
    shown = ShownModel.of(model, feature_names, names)
    shown.tree(tree)  # an error if there is none
    text = "\n".join(_lines(NodeLabels(shown, tree, options))) + "\n"
    if out_file is None:
        return text
    if hasattr(out_file, "write"):
        out_file.write(text)
    else:
        FilePath(out_file).write_text(text, encoding="utf-8")
    return None


def _lines(labels: NodeLabels) -> Iterator[str]:
    """The lines of the graph."""
    options, tree = labels.options, labels.tree
    yield "digraph Tree {"
    yield from _styles(options)
    fills = _fills(labels.shown, tree) if options.filled else [""] * tree.node_count
    limit = np.inf if options.max_depth is None else options.max_depth
    # Nodes still to be written, the next one last; the path to each, and the edge if it has one.
    todo: list[tuple[int, int, Path, str]] = [(0, 0, {}, "")]
    while todo:
        node, depth, path, edge = todo.pop()
        left, question = int(tree.left[node]), None
        if depth > limit:
            grey = f', fillcolor="{GREY}"' if options.filled else ""
            yield f'{node} [label="(...)"{grey}] ;'
            yield edge
            continue
        if left:
            sides = labels.shown.split(tree, node)
            shown = [side.among(path) for side in sides]
            question = _question(shown[0], options)
            for child in (1, 0):
                text = f"{node} -> {left + child} [label={_answer(child, shown, options)}] ;"
                todo.append((left + child, depth + 1, extended(path, sides[child]), text))
        yield f"{node} [label={options.quoted(labels.lines(node, question))}{fills[node]}] ;"
        if edge:
            yield edge
    if options.leaves_parallel:
        leaves = np.flatnonzero((tree.left == 0) & (tree.depths() <= limit)).tolist()
        yield f"{{rank=same ; {'; '.join(map(str, leaves))}}} ;"
    yield "}"


def _styles(options: GraphOptions) -> Iterator[str]:
    """The lines that style nodes, edges and the graph."""
    styles = ["filled"] * options.filled + ["rounded"] * options.rounded
    style = f', style="{", ".join(styles)}", color="black"' if styles else ""
    font = f"fontname={options.quoted([options.fontname])}"
    yield f"node [shape=box{style}, {font}] ;"
    yield f"edge [{font}, fontsize=10] ;"
    if options.leaves_parallel:
        yield "graph [ranksep=equally, splines=polyline] ;"
    if options.rotate:
        yield "rankdir=LR ;"


def _question(left: Condition, options: GraphOptions) -> str:
    """The condition of the left side, without missing values."""
    at_most = AT_MOST if options.special_characters else "<="
    return left.text(options.number, options.max_categories, show_missing=False, at_most=at_most)


def _answer(child: int, sides: list[Condition], options: GraphOptions) -> str:
    """The label of an edge: yes or no, and whether missing values take it."""
    text = ("yes", "no")[child]
    is_shown = options.show_missing and not (sides[0].is_everything or sides[0].is_empty)
    return f'" {text}{" or missing" if is_shown and sides[child].missing else ""} "'


def _fills(shown: ShownModel, tree: Tree) -> list[str]:
    """The attributes of each node that fill it."""
    has_value = np.ones(tree.node_count, bool) if shown.has_inner_values else tree.left == 0
    colors, strength = node_colors(shown, tree, has_value)
    fills = map(as_hex, map(tinted, colors, strength.tolist()))
    return [f', fillcolor="{fill}", fontcolor="{text_color(fill)}"' for fill in fills]
