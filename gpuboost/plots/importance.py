"""`plot_importance`: importances of features as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.data.parameters import integer_at_least, one_of
from gpuboost.explain.importances import feature_importances
from gpuboost.explain.trees.names import names_of_features
from gpuboost.explain.trees.shown_model import ShownModel
from gpuboost.plots.axes import axes_of, check_axes, plain, root_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS_OF_KINDS = {"gain": "fraction of the gain", "count": "fraction of the splits"}
NAME_LIMIT_OF_BARS = 32
LETTERS_OF_AN_INCH = 7.5  # of the axes, half of which is for bars
BAR_COLOR, ERROR_COLOR = "tab:blue", "0.25"
INCHES_OF_A_BAR = 0.26


def plot_importance(
    model_or_values: Any,
    *,
    kind: str = "gain",
    max_features: int | None = 20,
    feature_names: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw importances of features as horizontal bars, the largest at the top.

    Parameters
    ----------
    model_or_values : estimator, array-like of shape (n_features,), or Bunch
        A fitted estimator of gpuboost, or an imported one; or importances, such as
        ``feature_importances_`` or mean absolute SHAP values; or the result of scikit-learn's
        `permutation_importance` or of `oob_permutation_importance` of forests and bagging, whose
        standard deviations are drawn as error bars.
    kind : {'gain', 'count'}
        Of an estimator: 'gain' draws the fractions of the total impurity decrease, 'count' those
        of the splits, as `gpuboost.explain.feature_importances` returns them.
    max_features : int or None
        How many bars there are at most; if this is less than all, the label of the axis says so.
        None means all.
    feature_names : sequence of str of length n_features, optional
        None means the names that the model knows, or feature_0 and so on.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; None means those of a new figure, which is not known to pyplot.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    TypeError, ValueError
        The importances are not one finite number per feature, or another parameter is wrong.
    ImportError
        matplotlib is not installed.
    """
    check_axes(ax)
    one_of("kind", kind, LABELS_OF_KINDS)
    values, errors, known, label = _read(model_or_values, kind)
    names = names_of_features(feature_names, known, len(values))
    n_shown = len(values)
    if max_features is not None:
        n_shown = min(n_shown, integer_at_least("max_features", max_features, 1))
    order = np.argsort(-values, kind="stable")[:n_shown]
    if n_shown < len(values):
        label += f"\n({n_shown} of {len(values):,} features)"
    ax = axes_of(ax, (6.4, 0.9 + INCHES_OF_A_BAR * n_shown))
    place = np.arange(n_shown)
    ax.barh(place, values[order], color=BAR_COLOR, height=0.75)
    if errors is not None:
        lines: dict[str, Any] = {"ecolor": ERROR_COLOR, "elinewidth": 1.2, "capsize": 2.0}
        ax.errorbar(values[order], place, xerr=errors[order], fmt="none", **lines)
    limit = _letters_of_names(ax)
    ax.set_yticks(place, [plain(shortened(names[feature], limit)) for feature in order.tolist()])
    ax.set(ylim=(n_shown - 0.4, -0.6), xlabel=label)
    if (values >= 0.0).all() and errors is None:
        ax.set_xlim(left=0.0)
    else:
        ax.axvline(0.0, color=ERROR_COLOR, linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _letters_of_names(ax: Axes) -> int:
    """How many letters of names leave half of the width for the bars."""
    inches = ax.get_window_extent().width / root_figure(ax).dpi
    return int(min(max(LETTERS_OF_AN_INCH * inches, 8), NAME_LIMIT_OF_BARS))


def _read(given: Any, kind: str) -> tuple[np.ndarray, np.ndarray | None, Any, str]:
    """Importances, their standard deviations, the names of the features and the label of the axis.

    Standard deviations and names are None if they are unknown.
    """
    if hasattr(given, "fit"):
        shown = ShownModel.of(given)
        return feature_importances(given, kind), None, shown.features, LABELS_OF_KINDS[kind]
    if hasattr(given, "importances_mean"):
        mean, deviation = map(_one_per_feature, (given.importances_mean, given.importances_std))
        return mean, deviation, None, "permutation importance, with standard deviation"
    if isinstance(given, dict):
        raise TypeError(
            f"permutation importances of several scorers ({', '.join(map(str, given))}) are "
            "several pictures; pass those of one of them, and another ax for each"
        )
    return _one_per_feature(given), None, None, "importance"


def _one_per_feature(given: Any) -> np.ndarray:
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            "importances must be one finite number for each feature, got an array of shape "
            f"{values.shape}; pass an array of shape (n_features,) or a fitted estimator"
        )
    return values
