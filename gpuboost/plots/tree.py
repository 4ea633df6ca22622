"""`plot_tree`: one tree of a model as boxes and edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.data.parameters import boolean, integer_at_least
from gpuboost.engine.growth.tree import Tree, add_children, levels
from gpuboost.explain.trees.colors import Color, node_colors, tinted
from gpuboost.explain.trees.shown_model import ShownModel
from gpuboost.plots.axes import ELLIPSIS, axes_of, check_axes, plain, root_figure, shortened
from gpuboost.plots.node_texts import node_lines, shows_value, title_of
from gpuboost.plots.tree_layout import horizontal_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT_SIZE = 10.0  # points; all sizes below are for this one, in points, too
LINE_HEIGHT, PAD, GAP, LEVEL_GAP, OUTER_MARGIN = 12.5, 6.0, 9.0, 30.0, 4.0
HINTING = 1.06  # factor of widths, since small letters are set on whole pixels
STRETCH = 2.5  # largest factor of distances, of that of the boxes
MAX_INCHES = (24.0, 14.0)
TITLE_LIMIT = 45
PALEST, RANGE = 0.05, 0.55  # shares of a color in a box that is not white
EDGE = (0.45, 0.45, 0.45)
NOTE = 'missing values: "no", except where a condition says otherwise'


def plot_tree(
    model: Any,
    tree: int = 0,
    *,
    feature_names: Any = None,
    class_names: Any = None,
    max_depth: int | None = 3,
    filled: bool = True,
    decimals: int = 3,
    missing: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tree of a fitted model.

    The box of an inner node has the condition under which rows go left, to "yes". Leaves and, where
    they have values, inner nodes have the most probable class and its share, or the value; in
    boosting, what a leaf adds to the raw prediction. The last line is the number of training rows.
    Colors show classes, paler where the class is less probable, or values: blue above 0 and orange
    below, in boosting and in trees with values of both signs; otherwise, darker blue for larger
    ones; or, with several outputs, for smaller impurities.

    Parameters
    ----------
    model : estimator
        A fitted estimator of gpuboost, or an imported one.
    tree : int
        Number of the tree, from 0. With several trees per round of boosting, the trees of the first
        round come first.
    feature_names : sequence of str of length n_features, optional
        None means the names in the data of the fit, or feature_0 and so on.
    class_names : sequence of str of length n_classes, or a list of these, optional
        Names in the order of ``classes_``; with several outputs, a list for each.
    max_depth : int or None
        Depth down to which nodes are drawn; the root has depth 0. None means all.
    filled : bool
        Whether boxes are colored.
    decimals : int
        Maximum number of decimals.
    missing : bool
        Whether conditions say where missing values go: to "yes" if they say "or missing".
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, whose current size sets the size of the text. None means those of a new
        figure, which is as large as the tree needs and is not known to pyplot.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        The model is not fitted.
    TypeError, ValueError
        The model has no trees of gpuboost, or another parameter is wrong.
    ImportError
        matplotlib is not installed.
    """
    check_axes(ax)
    shown = ShownModel.of(model, feature_names, class_names)
    drawn, title = shown.tree(tree), shortened(title_of(shown, tree), TITLE_LIMIT)
    depth = None if max_depth is None else integer_at_least("max_depth", max_depth, 0)
    decimals = integer_at_least("decimals", decimals, 0)
    left, texts = _texts(shown, drawn, depth, decimals, boolean("missing", missing))
    white: Color = (1.0, 1.0, 1.0)
    colors = _colors(shown, drawn, len(left)) if boolean("filled", filled) else [white] * len(left)
    plan = _Plan.of(left, texts, title, NOTE if missing and len(left) > 1 else "")
    inches = plan.width / 72 / 0.98, plan.height / 72 / 0.98
    ax = axes_of(ax, tuple(map(min, inches, MAX_INCHES)), whole=True)  # type: ignore[arg-type]
    ax.set_axis_off()
    plan.draw(ax, colors)
    return ax


def _texts(
    shown: ShownModel, tree: Tree, max_depth: int | None, decimals: int, missing: bool
) -> tuple[np.ndarray, list[list[str]]]:
    """The left child of each node that is drawn, and the lines of its text."""
    left, depths = tree.left, levels(tree.left)
    size = np.ones(len(left), dtype=np.int64)
    add_children(left, size)
    n = depths[-1 if max_depth is None else min(max_depth, len(depths) - 1)].stop
    texts = [node_lines(shown, tree, node, decimals=decimals, missing=missing) for node in range(n)]
    for node in np.flatnonzero(left[:n] >= n).tolist():
        texts[node].append(f"{ELLIPSIS} {size[node] - 1:,} nodes")
    return np.where(left[:n] < n, left[:n], 0), texts


def _colors(shown: ShownModel, tree: Tree, n: int) -> list[Color]:
    """A color of each of the first nodes; white where no value is shown."""
    has_value = np.array([shows_value(shown, tree, node) for node in range(tree.node_count)])
    colors, strength = node_colors(shown, tree, has_value)
    shares = np.where(has_value, PALEST + RANGE * strength, 0.0)
    return list(map(tinted, colors[:n], shares[:n].tolist()))


@dataclass(frozen=True, eq=False)
class _Plan:
    """Boxes of a tree, in points from the lower left corner of the picture, for `FONT_SIZE`."""

    left: np.ndarray
    texts: list[list[str]]
    x: np.ndarray  # of the centre
    y: np.ndarray
    box_width: np.ndarray
    box_height: np.ndarray
    width: float
    height: float
    title: str
    note: str

    @classmethod
    def of(cls, left: np.ndarray, texts: list[list[str]], title: str, note: str) -> _Plan:
        """Place the boxes."""
        box_width = np.array([max(map(text_width, lines)) for lines in texts]) + 2 * PAD
        box_height = np.array([LINE_HEIGHT * len(lines) for lines in texts]) + 2 * PAD
        x = horizontal_places(left, box_width, GAP)
        y, top = np.zeros(len(left)), OUTER_MARGIN + (2 * LINE_HEIGHT if title else 0.0)
        for nodes in levels(left):
            high = float(box_height[nodes].max())
            y[nodes] = top + high / 2
            top += high + LEVEL_GAP
        height = top - LEVEL_GAP + OUTER_MARGIN + (2 * LINE_HEIGHT if note else 0.0)
        needed = float((x + box_width / 2).max())
        width = max([needed, *(text_width(text) for text in (title, note) if text)])
        x = x + (width - needed) / 2 + OUTER_MARGIN
        sizes = box_width, box_height, width + 2 * OUTER_MARGIN, height
        return cls(left, texts, x, height - y, *sizes, title, note)

    def draw(self, ax: Axes, colors: list[Color]) -> None:
        """Draw the boxes and edges as large as the axes allow."""
        from matplotlib.patches import FancyBboxPatch

        width, height = _points_of(ax)
        scale = min(width / self.width, height / self.height, 1.0)
        stretch = [min(own, STRETCH * scale) for own in (width / self.width, height / self.height)]
        x = width / 2 + (self.x - self.width / 2) * stretch[0]
        y = height / 2 + (self.y - self.height / 2) * stretch[1]
        ax.set(xlim=(0.0, width), ylim=(0.0, height), aspect="auto")
        font = FONT_SIZE * scale
        self._draw_edges(ax, x, y, scale)
        for node, lines in enumerate(self.texts):
            own_width, own_height = self.box_width[node] * scale, self.box_height[node] * scale
            corner = x[node] - own_width / 2, y[node] - own_height / 2
            style = f"round,pad=0,rounding_size={3 * scale}"
            box = FancyBboxPatch(corner, own_width, own_height, boxstyle=style, zorder=2)
            box.set(facecolor=colors[node], edgecolor=EDGE, linewidth=0.8 * scale)
            ax.add_patch(box)
            text = plain("\n".join(lines))
            middle: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "linespacing": LINE_HEIGHT / FONT_SIZE / 1.05,
            }
            ax.text(x[node], y[node], text, fontsize=font, zorder=3, **middle)
        half = self.box_height * scale / 2
        high, low = y[0] + half[0] + 0.6 * font, float((y - half).min()) - 0.6 * font
        if self.title:
            ax.text(width / 2, high, plain(self.title), fontsize=font, ha="center", va="bottom")
        if self.note:
            grey: dict[str, Any] = {"fontsize": 0.85 * font, "color": EDGE}
            ax.text(width / 2, low, self.note, ha="center", va="top", **grey)

    def _draw_edges(self, ax: Axes, x: np.ndarray, y: np.ndarray, scale: float) -> None:
        """Draw all edges as one line with breaks, and the answers at those of the root."""
        if len(x) == 1:
            return
        half = self.box_height * scale / 2
        parent = np.repeat(np.flatnonzero(self.left), 2)
        child = self.left[parent] + np.arange(len(parent)) % 2
        ends = [x[parent], x[child]], [(y - half)[parent], (y + half)[child]]
        breaks = np.full(len(parent), np.nan)
        lines = [np.stack([*own, breaks], axis=1).ravel() for own in ends]
        ax.plot(lines[0], lines[1], color=EDGE, linewidth=0.9 * scale, zorder=1)
        font: dict[str, Any] = {"fontsize": FONT_SIZE * scale, "color": EDGE, "va": "bottom"}
        middle = 0.5 * (y[0] - half[0] + (y + half)[1:3])
        for side, answer, own, gap in (("right", "yes", 0, -3.0), ("left", "no", 1, 3.0)):
            at = 0.5 * (x[0] + x[1 + own]) + gap * scale
            ax.text(at, middle[own], answer, ha=side, zorder=3, **font)


def text_width(text: str) -> float:
    """Width of a line in points, for `FONT_SIZE` and the font in use."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    font.set_size(16.0 * FONT_SIZE, 72.0)
    font.set_text(text)
    return HINTING * font.get_width_height()[0] / (16.0 * 64.0)  # 64 units are a point


def _points_of(ax: Axes) -> tuple[float, float]:
    """Size of the axes in points, after the layout of their figure."""
    figure = root_figure(ax)
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
    extent = ax.get_window_extent()
    return extent.width * 72.0 / figure.dpi, extent.height * 72.0 / figure.dpi
