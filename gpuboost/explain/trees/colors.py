"""Colors of classes, and of the nodes of a tree: by class, by value or by impurity."""

from __future__ import annotations

from colorsys import hls_to_rgb

import numpy as np

from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel

Color = tuple[float, float, float]  # red, green and blue, from 0 to 1

GREY = "#c0c0c0"
# Those that matplotlib calls tab10; their order is that of its lines.
_TEN_COLORS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd"),
    *("#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"),
)
_LIGHTNESS, _SATURATION = 0.42, 0.9  # of many classes, so that no tint is the color of another
_DARK = 0.45  # luminance below which text is white


def _from_hex(text: str) -> Color:
    red, green, blue = (int(text[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def class_colors(n_classes: int) -> list[Color]:
    """A color for each class; of more than ten classes, equally spaced hues of one lightness."""
    if n_classes <= len(_TEN_COLORS):
        return [_from_hex(text) for text in _TEN_COLORS[:n_classes]]
    return [hls_to_rgb(k / n_classes, _LIGHTNESS, _SATURATION) for k in range(n_classes)]


# Of values above 0, or of all values if they differ in size only; and of values below 0.
ABOVE, BELOW = class_colors(2)


def tinted(color: Color, share: float) -> Color:
    """White mixed with a share of a color."""
    red, green, blue = (1.0 - share * (1.0 - part) for part in color)
    return red, green, blue


def as_hex(color: Color) -> str:
    """A color as text for HTML."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in color)


def text_color(fill: str) -> str:
    """Black or white, whichever is readable on a color."""
    red, green, blue = _from_hex(fill)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > _DARK else "white"


def node_colors(
    shown: ShownModel, tree: Tree, has_value: np.ndarray
) -> tuple[list[Color], np.ndarray]:
    """The color of each node, and how strong it is: float64 (n_nodes,), from 0 (white) to 1.

    In a classification, the color is that of the largest class, stronger the purer the node. The
    terms of a sum, and values of both signs, are blue above 0 and orange below, stronger the larger
    they are without their signs; values of one sign are blue, stronger the larger they are. With
    several outputs, the color is stronger the smaller the impurity. Nodes whose value is not shown,
    by ``has_value`` (n_nodes,), are white.
    """
    value, width = tree.value, tree.value.shape[1]
    index, colors = np.zeros(len(value), dtype=int), [ABOVE, BELOW]
    known = value[has_value, 0]
    share = np.sort(value, axis=1)
    if shown.kind == CLASS_PROBABILITIES and len(shown.classes) == 1:
        second = share[:, -2] if width > 1 else np.ones(len(share))
        strength = (share[:, -1] - second) / np.where(second < 1.0, 1.0 - second, 1.0)
        index, colors = value.argmax(axis=1), class_colors(width)
    elif shown.kind == TERMS and width > 1 and shown.classes:
        gap = share[:, -1] - share[:, -2]
        strength = gap / (gap[has_value].max() or 1.0)
        index, colors = value.argmax(axis=1), class_colors(width)
    elif width == 1 and (shown.kind == TERMS or known.min() < 0.0 < known.max()):
        strength = np.abs(value[:, 0]) / (np.abs(known).max() or 1.0)
        index = (value[:, 0] < 0.0).astype(int)
    else:
        size = value[:, 0] if width == 1 else -tree.impurity
        low, high = size[has_value].min(), size[has_value].max()
        strength = (size - low) / ((high - low) or 1.0)
    strength = np.where(np.isnan(strength) | ~has_value, 0.0, np.clip(strength, 0.0, 1.0))
    return [colors[k] for k in index.tolist()], strength
