"""The lines of text in the nodes of a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape, unescape
from textwrap import wrap

import numpy as np

from gpuboost.data.parameters import boolean, integer_at_least, one_of
from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.conditions import one_line
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel

LINE_WIDTH = 36  # characters
MAX_VALUES = 10  # of a node with more classes, only the largest ones are shown
_N_LARGEST = 3
_ROUNDING = 1e-12  # of weights that are probabilities times the weight of the node
# Characters that are not ASCII: the sign, and a space at which no line is broken.
AT_MOST, _NO_BREAK = unescape("&le;"), unescape("&nbsp;")
_COMPARISON = re.compile(rf"(<=?|>=?|{AT_MOST}) (\S+)$")


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """The parameters of `export_graphviz`, checked."""

    max_depth: int | None
    label: str
    filled: bool
    leaves_parallel: bool
    impurity: bool
    node_ids: bool
    proportion: bool
    rotate: bool
    rounded: bool
    special_characters: bool
    precision: int
    fontname: str
    show_classes: bool
    show_missing: bool
    max_categories: int

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.type == "bool":
                boolean(each.name, getattr(self, each.name))
        if not isinstance(self.fontname, str):
            raise TypeError(f"fontname must be the name of a font, got {self.fontname!r:.80}")
        if self.max_depth is not None:
            integer_at_least("max_depth", self.max_depth, 0)
        integer_at_least("precision", self.precision, 0)
        integer_at_least("max_categories", self.max_categories, 1)
        one_of("label", self.label, ("all", "root", "none"))

    def number(self, value: float) -> str:
        """A number, rounded."""
        return str(round(float(value), self.precision) + 0.0)

    def quoted(self, lines: Sequence[str]) -> str:
        """Lines as a string of the DOT language, or as HTML."""
        shown = ["".join(c if c.isprintable() else " " for c in line) for line in lines]
        # Graphviz replaces \\N and the like also in HTML, and entities (&lt;) also in strings.
        shown = [line.replace("\\", "\\\\") for line in shown]
        if self.special_characters:
            return f"<{'<br/>'.join(map(escape, shown))}>"
        marks = str.maketrans({'"': '\\"', "&": "&amp;"})
        return '"' + "\\n".join(line.translate(marks) for line in shown) + '"'


@dataclass(frozen=True, eq=False)
class NodeLabels:
    """The labels of the nodes of a tree."""

    shown: ShownModel
    number: int
    options: GraphOptions

    @property
    def tree(self) -> Tree:
        """The tree."""
        return self.shown.trees.trees[self.number]

    def lines(self, node: int, question: str | None) -> list[str]:
        """The lines of a node; ``question`` is the condition of its left side, None in leaves."""
        options, tree = self.options, self.tree
        is_labelled = options.label == "all" or (options.label == "root" and node == 0)

        def labelled(name: str, text: str) -> str:
            return f"{name} = {text}" if is_labelled else text

        found = []
        if options.node_ids:
            found.append(f"{'node ' if is_labelled else ''}#{node}")
        if question is not None:
            # A comparison and its number stay in one line.
            found += wrap(_COMPARISON.sub(rf"\1{_NO_BREAK}\2", question), LINE_WIDTH)
        if options.impurity and self.shown.criterion is not None:
            found.append(labelled(self.shown.criterion, options.number(tree.impurity[node])))
        found.append(labelled(*self._size(node)))
        if question is None or self.shown.has_inner_values:
            for name, text in self._values(node):
                found += wrap(labelled(name, text) if name else text, LINE_WIDTH)
        return found

    def _size(self, node: int) -> tuple[str, str]:
        """Name and text of the number of rows, or of their weight."""
        name, sizes = "samples", self.tree.count
        if not self.shown.has_counts:
            name, sizes = "cover", self.tree.weight
        if self.options.proportion:
            whole = float(sizes[0])
            return name, f"{100.0 * sizes[node] / whole if whole else 0.0:.1f}%"
        return name, str(sizes[node]) if name == "samples" else self.options.number(sizes[node])

    def _values(self, node: int) -> Iterator[tuple[str, str]]:
        """Names and texts of the values, and of the class; an empty name is not shown."""
        shown, value = self.shown, self.tree.value[node]
        parts = shown.by_output(value)
        if shown.kind == CLASS_PROBABILITIES:
            weight = 1.0 if self.options.proportion else self.tree.weight[node]
            for part, names in zip(parts, shown.classes, strict=True):
                yield from self._list(part * weight, names)
            if self.options.show_classes:
                yield "class", shown.predicted(value)
            return
        names = shown.classes[0] if shown.classes else tuple(map(str, range(len(value))))
        if len(value) > 1:
            yield from self._list(value, names)
            return
        term = shown.term_name(self.number) if shown.kind == TERMS else None
        is_shown = term is not None and self.options.show_classes
        name = f"value ({one_line(str(term))})" if is_shown else "value"
        yield name, self.options.number(value[0])

    def _list(self, values: np.ndarray, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Values in brackets; of many, the largest with their names, without a name of the line."""
        whole = np.rint(values)
        is_whole = bool((np.abs(values - whole) <= _ROUNDING * np.abs(values).max()).all())
        texts = [str(int(v)) if is_whole else self.options.number(v) for v in values.tolist()]
        if len(values) <= MAX_VALUES:
            yield "value", f"[{', '.join(texts)}]"
            return
        order = np.argsort(-values, kind="stable")
        largest = order[values[order] > 0.0].tolist()
        for k in largest[:_N_LARGEST]:
            yield "", f"{one_line(names[k])}: {texts[k]}"
        if len(largest) > _N_LARGEST:
            yield "", f"... {len(largest) - _N_LARGEST} more"
