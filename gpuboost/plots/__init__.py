"""Pictures of fitted models, drawn by matplotlib on the axes that the caller passes."""

from gpuboost.plots.importance import plot_importance
from gpuboost.plots.learning_curve import plot_learning_curve
from gpuboost.plots.surface import plot_decision_surface
from gpuboost.plots.tree import plot_tree

__all__ = ["plot_decision_surface", "plot_importance", "plot_learning_curve", "plot_tree"]
