"""The axes that pictures are drawn on, and texts that they share.

Pictures without ``ax`` get a figure of their own, which pyplot does not know: nothing stays open,
and no backend is chosen.
"""

from __future__ import annotations

from html import unescape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ELLIPSIS = unescape("&hellip;")


def check_axes(ax: Any) -> None:
    """Check that matplotlib is there and that ``ax`` is None or its Axes.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If ``ax`` is something else.
    """
    try:
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed; run pip install gpuboost[plots]"
        ) from error
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(
            f"ax must be the Axes to draw on, or None, got {type(ax).__name__}; an array of Axes "
            "has one at each index"
        )


def axes_of(ax: Axes | None, size: tuple[float, float], *, whole: bool = False) -> Axes:
    """The given axes, or those of a new figure of some inches; with ``whole``, they fill it."""
    from matplotlib.figure import Figure

    if ax is None and whole:
        return Figure(figsize=size).add_axes((0.01, 0.01, 0.98, 0.98))
    if ax is None:
        return Figure(figsize=size, layout="constrained").add_subplot()
    return ax


def root_figure(ax: Axes) -> Any:
    """The figure of some axes, also if they are in a subfigure."""
    figure: Any = ax.figure
    return figure.figure


def plain(text: str) -> str:
    """A text in which matplotlib finds no formulas."""
    return text.replace("$", r"\$")


def shortened(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters, without some in the middle if it is longer."""
    if len(text) <= limit:
        return text
    end = (limit - 1) // 2
    return f"{text[: limit - 1 - end]}{ELLIPSIS}{text[len(text) - end :]}"


def number_text(value: float, decimals: int) -> str:
    """A number with so many decimals at most, or significant digits if it is small or large."""
    size = abs(value)
    if size and not 10.0**-decimals <= size < 1e6:
        return f"{value:.{max(decimals, 1)}g}"
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
