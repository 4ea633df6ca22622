"""`plot_learning_curve`: scores over the number of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.plots.axes import axes_of, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Attributes of a curve, and how they are drawn: label, colour and style of the line.
LINES = {
    "train": ("training rows", "tab:blue", "-"),
    "validation": ("validation rows", "tab:orange", "-"),
    "out_of_bag": ("out-of-bag rows", "tab:green", "--"),
}
FEW_POINTS = 12  # up to which points are marked


def plot_learning_curve(curve: Any, *, ax: Axes | None = None) -> Axes:
    """Draw scores of a model over its number of trees.

    Parameters
    ----------
    curve : object
        The result of `gpuboost.explain.learning_curve`, or any object with these attributes:
        ``n_trees``, ndarray of int of shape (n_points,); ``train``, ``validation`` and
        ``out_of_bag``, ndarray of float of shape (n_points,) or None; ``metric``, the name of the
        score. NaN means that there is no score.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; None means those of a new figure, which is not known to pyplot.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError
        The curve has no ``n_trees``.
    ValueError
        It has no scores, or not one for each number of trees.
    ImportError
        matplotlib is not installed.
    """
    if not hasattr(curve, "n_trees"):
        raise TypeError(
            f"curve must be the result of gpuboost.explain.learning_curve, got {curve!r:.80}"
        )
    n_trees = np.asarray(curve.n_trees)
    found = {name: getattr(curve, name, None) for name in LINES}
    scores = {name: np.asarray(own, float) for name, own in found.items() if own is not None}
    if not scores or any(own.shape != n_trees.shape for own in scores.values()):
        shapes = {name: own.shape for name, own in scores.items()}
        raise ValueError(
            f"a curve needs a score for each number of trees, {n_trees.shape}, of training, "
            f"validation or out-of-bag rows, got {shapes or 'none'}"
        )
    ax = axes_of(ax, (6.4, 4.0))
    marker = "o" if len(n_trees) <= FEW_POINTS else ""
    for name, own in scores.items():
        label, color, style = LINES[name]
        line = {"label": label, "color": color, "linestyle": style, "marker": marker}
        ax.plot(n_trees, own, markersize=4.0, **line)
    ax.set(xlabel="number of trees", ylabel=plain(str(getattr(curve, "metric", "score"))))
    ax.margins(x=0.02)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax
