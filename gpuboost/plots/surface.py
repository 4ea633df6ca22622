"""`plot_decision_surface`: predictions over two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from gpuboost.data.parameters import boolean, integer_at_least, integer_between
from gpuboost.explain.trees.names import names_of_features
from gpuboost.plots.axes import axes_of, check_axes, number_text, plain, root_figure, shortened
from gpuboost.plots.grid import GridAxis, SourceTable
from gpuboost.plots.regions import Surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_LIMIT, CATEGORY_LIMIT = 40, 14  # characters
TICKS = 5  # of numbers, at most
LETTERS_OF_AN_INCH_OF_AXIS = 11  # names of categories with more are turned
INCHES_OF_MISSING, INCHES_OF_LINE = 0.55, 0.2  # from its label to that of a number


def plot_decision_surface(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: Any = (0, 1),
    fixed: dict[Any, Any] | None = None,
    resolution: int = 200,
    max_points: int = 1000,
    feature_names: Any = None,
    class_names: Any = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the predictions of a model over two features, and rows of data as points.

    Of a classifier, regions have the colors of the predicted classes. If there are two, shades
    show the probability, white is 0.5, and a line is drawn there. The predictions of a regressor
    have colors by steps. Points have the colors of their y.

    Missing values are a strip to the left and below. Categories are stripes in which points are
    spread, at most the 30 most frequent ones.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of one output, also of other libraries, or a pipeline.
    X : table of shape (n_samples, n_features)
        Rows, as `predict` takes them, but not a `Dataset`. They set the ranges of the axes.
    y : array-like of shape (n_samples,), optional
        Targets of the rows. None means that no points are drawn.
    features : pair of int or str
        Indices or names of the features of the x-axis and the y-axis.
    fixed : dict, optional
        Values of other features, by index or name; None stands for a missing value. By default
        they are held at the median or the most frequent category in X.
    resolution : int
        Number of cells along an axis of numbers.
    max_points : int
        If there are more rows, points are drawn for so many of them, evenly spaced in X.
    feature_names, class_names : sequence of str, optional
        Names of all features, and of the classes in the order of ``classes_``.
    legend : bool
        Whether to draw the legend of the classes or the color bar of the predictions.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; None means those of a new figure, which is not known to pyplot.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        The model is not fitted.
    TypeError, ValueError
        The model has several outputs, or X, y or another parameter is wrong.
    ImportError
        matplotlib is not installed.
    """
    check_axes(ax)
    check_is_fitted(model)
    schema = _schema_of(model)
    source = SourceTable(X, None if schema is None else schema.is_categorical)
    known = source.table.names if schema is None or schema.names is None else schema.names
    names = names_of_features(feature_names, known, source.table.n_features)
    pair = _pair_of(features, names)
    resolution, legend = integer_at_least("resolution", resolution, 2), boolean("legend", legend)
    axes = source.axis(pair[0], resolution), source.axis(pair[1], resolution)
    columns = [source.usual(feature) for feature in range(len(names))]
    for feature, value in (fixed or {}).items():
        place = _index_of(feature, names, "fixed")
        columns[place] = source.fixed(place, value)
    surface = Surface.of(model, source.grid(columns, pair, axes), axes, class_names)
    ax = axes_of(ax, (5.6 + surface.legend_inches * legend, 4.8))
    surface.draw(ax)
    if y is not None:
        surface.draw_points(ax, y, integer_at_least("max_points", max_points, 0))
    for axis, drawn, feature in zip((ax.xaxis, ax.yaxis), axes, pair, strict=True):
        axis.set_label_text(plain(shortened(names[feature], LABEL_LIMIT)))
        _set_ticks(axis, drawn)
    if legend:
        surface.draw_legend(ax)
    return ax


def _schema_of(model: Any) -> Any:
    """The columns of the training data of a model of gpuboost; None for others."""
    own = getattr(model, "_boosting", None) or model
    return getattr(getattr(own, "_model", None), "schema", None)


def _pair_of(features: Any, names: Sequence[str]) -> list[int]:
    """Indices of the two features of the axes."""
    pair = [_index_of(feature, names, "features") for feature in features]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(f"features must be two different features, got {features!r}")
    return pair


def _index_of(feature: Any, names: Sequence[str], parameter: str) -> int:
    """Index of a feature that is given by index or name."""
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"{parameter} has {feature!r}, but features are {names!r:.200}")
        return names.index(feature)
    return integer_between(parameter, feature, 0, len(names) - 1)


def _set_ticks(axis: Any, drawn: GridAxis) -> None:
    """Set the ends of an axis of matplotlib, and ticks at categories and at missing values."""
    low, high = float(drawn.edges[0]), float(drawn.edges[-1])
    axis.set_view_interval(low, high, ignore=True)
    is_x, extent = axis.axis_name == "x", axis.axes.get_window_extent()
    inches = (extent.width if is_x else extent.height) / root_figure(axis.axes).dpi
    if drawn.values.are_rows:
        ticks = {at: shortened(text, CATEGORY_LIMIT) for at, text in drawn.labels.items()}
    elif drawn.has_missing:
        apart = (INCHES_OF_MISSING if is_x else INCHES_OF_LINE) * (high - low) / inches
        ticks = drawn.labels | _number_ticks(max(drawn.edges[2], min(drawn.labels) + apart), high)
    else:
        return
    axis.set_ticks(list(ticks), [plain(text) for text in ticks.values()])
    longest = max(map(len, ticks.values())) if drawn.values.are_rows else 0
    if is_x and len(ticks) * longest > LETTERS_OF_AN_INCH_OF_AXIS * inches:
        axis.set_tick_params(rotation=40)
        for label in axis.get_ticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _number_ticks(low: float, high: float) -> dict[float, str]:
    """Ticks of numbers between two places, and their texts."""
    from matplotlib.ticker import MaxNLocator

    found: Any = MaxNLocator(TICKS).tick_values(low, high)
    return {at: number_text(at, 6) for at in found.tolist() if low <= at <= high}
