"""`plot_learning_curve`: scores over the number of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.plots.axes import axes_of, check_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Attributes of a curve, and how they are drawn: label, color and style of the line.
LINES = {
    "train": ("training rows", "tab:blue", "-"),
    "validation": ("validation rows", "tab:orange", "-"),
    "out_of_bag": ("out-of-bag rows", "tab:green", "--"),
}
MAX_MARKED_POINTS = 12


def plot_learning_curve(curve: Any, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw scores of an ensemble by the number of its trees or rounds.

    Parameters
    ----------
    curve : object
        The result of `gpuboost.explain.learning_curve`, or any object with these attributes:
        ``n_estimators``, ndarray of int of shape (n_points,), and ``train``, ``validation`` and
        ``out_of_bag``, ndarray of float of shape (n_points,) or None. NaN means no score.
    metric : str, optional
        Name of the score. None means the attribute ``metric`` of the curve, or "score".
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; None means those of a new figure, which is not known to pyplot.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError
        The curve has no ``n_estimators``.
    ValueError
        It has no scores, or not one for each number of trees.
    ImportError
        matplotlib is not installed.
    """
    check_axes(ax)
    if not hasattr(curve, "n_estimators"):
        raise TypeError(
            f"curve must be the result of gpuboost.explain.learning_curve, got {curve!r:.80}"
        )
    n_trees = np.asarray(curve.n_estimators)
    found = {name: getattr(curve, name, None) for name in LINES}
    scores = {name: np.asarray(own, float) for name, own in found.items() if own is not None}
    if not scores or any(own.shape != n_trees.shape for own in scores.values()):
        shapes = {name: own.shape for name, own in scores.items()}
        raise ValueError(
            f"a curve needs a score for each number of trees, {n_trees.shape}, of training, "
            f"validation or out-of-bag rows, got {shapes or 'none'}"
        )
    ax = axes_of(ax, (6.4, 4.0))
    from matplotlib.ticker import MaxNLocator

    marker = "o" if len(n_trees) <= MAX_MARKED_POINTS else ""
    for name, own in scores.items():
        label, color, style = LINES[name]
        ax.plot(
            n_trees, own, label=label, color=color, linestyle=style, marker=marker, markersize=4.0
        )
    name = (getattr(curve, "metric", None) or "score") if metric is None else metric
    ax.set(xlabel="n_estimators", ylabel=plain(str(name)))
    ax.margins(x=0.02)
    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax
