"""What gradient boosting minimises. A `Loss` knows everything about it that the trainer asks for.

::

    loss = make_loss("huber", n_outputs=1, alpha=0.9)      # or user_loss(objective)
    loss.check_target(y)
    raw = np.tile(loss.baseline(y, weights), (len(y), 1))  # (n, loss.columns)
    each round:
        parameter = loss.round_parameter(y, raw, weights)
        g, h = loss.gradients(y, raw, weights, parameter)
        ...                                                # trees, and new raw predictions
        if loss.refits_leaves:
            values = loss.leaf_values(y, raw, weights, groups, column, parameter)
        score = loss.mean_loss(y, raw, weights, parameter)
    loss.predict(raw)

Arrays: ``y`` is float64 (n,) or (n, n_outputs), for classifiers the int32 codes (n,) of classes;
``raw`` float64 (n, columns); ``weights`` float64 (n,) or None for ones; ``parameter`` float64
(columns,). `baseline`, `round_parameter` and `leaf_values` take a last argument ``order``: a
backend's functions in place of those of `engine.order_statistics`.

Attributes of a loss, facts of its class but for ``columns``:

name : str
formula : int
    Which functions of `engine.gradients`; backends compile them by this number. `USER` if none.
columns : int
    Raw predictions of a row: outputs of a regression, levels of quantile, classes if more than
    two, else 1.
constant_hessian : bool
    The hessian of every row is its weight; ``h`` is then a read-only view of the weights.
refits_leaves : bool
    Leaves take `Loss.leaf_values` of the residuals in place of Newton's -G / (H + lambda).
refit_level : float64 (columns,) or None
    The quantile that is, None for Newton leaves. Huber adds a step to it.
is_classifier : bool
sums_outputs : bool
    One tree may hold all columns in a leaf (outputs of one regression, classes).
"""

from gpuboost.engine.losses.base import USER, Loss
from gpuboost.engine.losses.choice import LOSSES, make_loss
from gpuboost.engine.losses.user import UserLoss, user_loss

__all__ = ["LOSSES", "USER", "Loss", "UserLoss", "make_loss", "user_loss"]
