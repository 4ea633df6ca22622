"""Colours of the nodes of a graph: by class, by value or by impurity, as in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from colorsys import hsv_to_rgb
from typing import Any

import numpy as np

from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel

WHITE, GREY = "#ffffff", "#c0c0c0"
_DARK = 0.45  # luminance below which text is white

Colour = tuple[float, float, float]  # red, green and blue, from 0 to 1


def hues(n: int) -> list[Colour]:
    """Colours of n classes, equally spaced; the first is orange."""
    return [hsv_to_rgb((25 / 360 + k / n) % 1.0, 0.75, 0.9) for k in range(n)]


def as_hex(colour: Colour, strength: float) -> str:
    """A colour on white, from 0 (white) to 1 (the colour itself)."""
    mixed = [round(255 * (strength * part + 1.0 - strength)) for part in colour]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def text_colour(fill: str) -> str:
    """Black or white, whichever is readable on a colour."""
    red, green, blue = (int(fill[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > _DARK else "white"


def fill_of_nodes(shown: ShownModel, tree: Tree) -> Callable[[int], str]:
    """A function that returns the colour of a node.

    In a classification, the colour is that of the largest class, stronger the purer the node. In a
    regression, it is stronger the larger the value; negative terms of a sum are blue. With several
    outputs, it is stronger the smaller the impurity.
    """
    width = tree.value.shape[1]
    has_value = np.ones(tree.node_count, bool) if shown.has_inner_values else tree.left == 0
    strength: Any
    if shown.kind == CLASS_PROBABILITIES and len(shown.classes) == 1:
        share = np.sort(tree.value, axis=1)
        second = share[:, -2] if width > 1 else np.ones(len(share))
        strength = (share[:, -1] - second) / np.where(second < 1.0, 1.0 - second, 1.0)
        index, colours = tree.value.argmax(axis=1), hues(width)
    elif width == 1 and shown.kind == TERMS:
        value = tree.value[:, 0]
        strength = np.abs(value) / (np.abs(value[has_value]).max() or 1.0)
        index, colours = (value < 0.0).astype(int), hues(2)
    elif width > 1 and shown.kind == TERMS and shown.classes:
        share = np.sort(tree.value, axis=1)
        gap = share[:, -1] - share[:, -2]
        strength = gap / (gap[has_value].max() or 1.0)
        index, colours = tree.value.argmax(axis=1), hues(width)
    else:
        value = tree.value[:, 0] if width == 1 else -tree.impurity
        low, high = value[has_value].min(), value[has_value].max()
        strength = (value - low) / ((high - low) or 1.0)
        index, colours = np.zeros(len(value), dtype=int), hues(1)
    strength = np.where(np.isnan(strength) | ~has_value, 0.0, np.clip(strength, 0.0, 1.0))
    return lambda node: as_hex(colours[index[node]], float(strength[node]))
