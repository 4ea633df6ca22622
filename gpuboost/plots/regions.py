"""Predictions on a grid, as colored regions with points and a legend."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.data.arrays import as_host_array, copied_to_host
from gpuboost.explain.trees.colors import Color, class_colors, tinted
from gpuboost.explain.trees.names import names_of_classes
from gpuboost.plots.axes import plain, root_figure, shortened
from gpuboost.plots.grid import GridAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = 12  # at most so many steps of predictions
CLASS_LIMIT = 22  # characters of a class in the legend
CLASSES_OF_A_COLUMN = 22  # of the legend
INCHES_OF_LEGEND, INCHES_OF_LETTER = 0.5, 0.075  # of a column, and a letter more
CLASSES_INSIDE = 5  # of a legend inside the axes, if the figure has no layout that makes space
LEGEND_GAP = 0.01  # between the axes and the legend, as a fraction of the width of the axes
MIN_WIDTH_OF_AXES = 0.3  # of the axes, as a fraction of the width without a legend
TINT, TINT_OF_TWO = 0.4, 0.75  # shares of the color of a class in its region
JITTER = 0.6  # width of the points of a category
_STEPS = (0.618, 0.755)  # from one point to the next; multiples modulo 1 fill [0, 1] evenly


@dataclass(frozen=True, eq=False)
class Surface:
    """Predictions at the cells of two axes.

    Attributes
    ----------
    values : float64 (n_y, n_x)
        Probabilities of the second of two classes, indices of predicted classes, or predictions.
    classes : ndarray or None
        Class labels; None for a regression.
    class_names : tuple of str
    axes : pair of GridAxis
    """

    values: np.ndarray
    classes: np.ndarray | None
    class_names: tuple[str, ...]
    axes: tuple[GridAxis, GridAxis]

    @classmethod
    def of(
        cls, model: Any, rows: Any, axes: tuple[GridAxis, GridAxis], class_names: Any
    ) -> Surface:
        """Predict the rows of the grid, those of the first line of the y-axis first."""
        classes = getattr(model, "classes_", None)
        if isinstance(classes, list):
            raise _error_of_outputs(len(classes))
        names = names_of_classes(() if classes is None else (classes,), class_names)
        if classes is not None and len(classes) == 2 and hasattr(model, "predict_proba"):
            found = np.asarray(model.predict_proba(rows))[:, 1]
        elif classes is not None:
            found = np.searchsorted(classes, np.asarray(model.predict(rows)))
        else:
            found = np.asarray(model.predict(rows))
        if found.ndim > 1:
            raise _error_of_outputs(found.shape[1])
        sizes = [len(axis.values.values) for axis in axes]
        values = found.astype(np.float64).reshape(sizes[::-1])
        return cls(values, classes, names[0] if names else (), axes)

    @cached_property
    def colors(self) -> list[Color]:
        """Colors of the classes, in which points are drawn."""
        return class_colors(len(self.class_names))

    @property
    def tints(self) -> list[Color]:
        """Colors of the regions of the classes; of two classes, where one is certain."""
        share = TINT_OF_TWO if self.has_shades else TINT
        return [tinted(color, share) for color in self.colors]

    @property
    def legend_inches(self) -> float:
        """Width of a legend or color bar next to the axes."""
        if not self.class_names:
            return 1.0
        longest = min(max(map(len, self.class_names)), CLASS_LIMIT)
        n_columns = -(-len(self.class_names) // CLASSES_OF_A_COLUMN)
        return n_columns * (INCHES_OF_LEGEND + INCHES_OF_LETTER * longest)

    @property
    def has_shades(self) -> bool:
        """Whether values are probabilities."""
        return len(self.class_names) == 2

    @cached_property
    def scale(self) -> tuple[Any, Any]:
        """matplotlib's color map and norm."""
        from matplotlib import colormaps, colors, ticker

        if self.has_shades:
            steps = [self.tints[0], (1.0, 1.0, 1.0), self.tints[1]]
            return colors.LinearSegmentedColormap.from_list("", steps), colors.Normalize(0.0, 1.0)
        if self.class_names:
            n_classes = len(self.class_names)
            return colors.ListedColormap(self.tints), colors.Normalize(-0.5, n_classes - 0.5)
        low, high = float(self.values.min()), float(self.values.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        levels = ticker.MaxNLocator(LEVELS).tick_values(low, high)
        return colormaps["viridis"], colors.BoundaryNorm(levels, 256, extend="both")

    def draw(self, ax: Axes) -> None:
        """Draw the regions and, of two classes, the line where both are equally probable."""
        shown, (cmap, norm) = self.values.copy(), self.scale
        if self.axes[0].has_missing:
            shown[:, 1] = np.nan
        if self.axes[1].has_missing:
            shown[1] = np.nan
        edges = [axis.edges for axis in self.axes]
        ax.pcolormesh(*edges, np.ma.masked_invalid(shown), cmap=cmap, norm=norm, rasterized=True)
        if not self.has_shades or any(axis.values.are_rows for axis in self.axes):
            return
        starts = [2 * axis.has_missing for axis in self.axes]
        inside = self.values[starts[1] :, starts[0] :]
        if inside.min() < 0.5 < inside.max():
            pairs = zip(self.axes, starts, strict=True)
            own = [axis.values.values[start:] for axis, start in pairs]
            ax.contour(*own, inside, levels=[0.5], colors="0.2", linewidths=0.9)

    def draw_points(self, ax: Axes, y: Any, max_points: int) -> None:
        """Draw at most ``max_points`` rows of X, in the colors of their targets."""
        targets = as_host_array(copied_to_host(y)[0], "y").reshape(-1)
        n_rows = len(self.axes[0].places)
        if len(targets) != n_rows:
            raise ValueError(
                f"X has {n_rows} rows, but y has {len(targets)}; pass one for each row"
            )
        rows = np.unique(np.linspace(0, n_rows - 1, min(max_points, n_rows)).astype(np.int64))
        at = [_spread(axis, rows, step) for axis, step in zip(self.axes, _STEPS, strict=True)]
        cmap, norm = self.scale
        if self.classes is None:
            style: dict[str, Any] = {"c": targets[rows].astype(float), "cmap": cmap, "norm": norm}
        else:
            known = dict(zip(self.classes.tolist(), self.colors, strict=True))
            unknown = sorted(set(targets[rows].tolist()) - set(known), key=str)
            if unknown:
                raise ValueError(
                    f"y has {unknown[0]!r}, which is none of the classes of the model, "
                    f"{list(known)!r:.200}"
                )
            style = {"c": [known[label] for label in targets[rows].tolist()]}
        ax.scatter(at[0], at[1], s=16, edgecolors="white", linewidths=0.5, zorder=3, **style)

    def draw_legend(self, ax: Axes) -> None:
        """Draw the legend of the classes, or the color bar of the predictions.

        A patch of the legend has the color of the region, and that of the points as its border. If
        the figure has no layout that makes space, axes become narrower for a legend beside them.
        """
        from matplotlib.cm import ScalarMappable
        from matplotlib.patches import Patch

        if not self.class_names:
            cmap, norm = self.scale
            figure: Any = ax.figure
            figure.colorbar(ScalarMappable(norm, cmap), ax=ax, label="prediction")
            return
        names = [plain(shortened(name, CLASS_LIMIT)) for name in self.class_names]
        handles = [
            Patch(facecolor=tint, edgecolor=color, linewidth=1.5, label=name)
            for name, tint, color in zip(names, self.tints, self.colors, strict=True)
        ]
        options: dict[str, Any] = {"handles": handles, "fontsize": "small"}
        has_layout = root_figure(ax).get_layout_engine() is not None
        if len(names) <= CLASSES_INSIDE and not has_layout:
            ax.legend(loc="best", framealpha=0.85, borderaxespad=0.3, **options)
            return
        options["ncols"] = -(-len(names) // CLASSES_OF_A_COLUMN)
        options |= {"bbox_to_anchor": (1.0 + LEGEND_GAP, 1.0), "borderaxespad": 0.0}
        legend = ax.legend(loc="upper left", **options)
        if not has_layout:
            _make_narrower(ax, legend.get_window_extent().width)


def _error_of_outputs(n_outputs: int) -> ValueError:
    return ValueError(
        f"the picture is of one output, but the model has {n_outputs}; fit a model of one column "
        "of y"
    )


def _make_narrower(ax: Axes, pixels: float) -> None:
    """Make axes narrower, so that a legend of some pixels beside them has their right side."""
    share = 1.0 - pixels / ax.get_window_extent().width - 2 * LEGEND_GAP
    share = max(share, MIN_WIDTH_OF_AXES)
    spec = ax.get_subplotspec()
    if spec is None:
        place = ax.get_position()
        ax.set_position((place.x0, place.y0, share * place.width, place.height))
    else:  # which tight_layout knows, unlike positions
        ax.set_subplotspec(spec.subgridspec(1, 2, wspace=0.0, width_ratios=(share, 1.0 - share))[0])


def _spread(axis: GridAxis, rows: np.ndarray, step: float) -> np.ndarray:
    """Places of some rows, spread over the width of categories and of missing values."""
    places = axis.places[rows]
    fraction = np.arange(1, len(rows) + 1) * step % 1.0 - 0.5
    width = np.diff(axis.edges)[0] if axis.has_missing or axis.values.are_rows else 0.0
    spread = np.isin(places, list(axis.labels))
    return np.where(spread, places + JITTER * width * fraction, places)
