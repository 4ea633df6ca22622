"""What gradient boosting minimises. A `Loss` knows everything about it that the trainer asks for.

::

    loss = make_loss("huber", n_outputs=1, alpha=0.9)      # or user_loss(objective)
    loss.check_target(y)
    raw = np.tile(loss.baseline(y, weights), (len(y), 1))  # (n, loss.columns)
    each round:
        rows = Predicted(y, raw, weights)
        parameter = loss.round_parameter(rows)
        g, h = loss.gradients(rows, parameter)
        ...                                                # trees, and new raw predictions
        if loss.has_leaf_quantiles:                             # an `OrderStatisticLoss`
            values = loss.leaf_values(rows, groups, column, parameter)
        score = loss.mean_loss(rows, parameter)
    loss.predict(raw)

Arrays: ``y`` is float64 (n,) or (n, n_outputs), for classifiers the int32 codes (n,) of classes;
``raw`` float64 (n, columns); ``weights`` float64 (n,) or None for ones; ``parameter`` float64
(columns,). A backend may give `Predicted` order statistics of its own.

Attributes of a loss, facts of its row in the table (`table`) or of its class:

facts : LossFacts
    The row.
name : str
formula : int
    Which functions of `formulas`; backends compile them by this number. `USER` if none.
columns : int
    Raw predictions of a row: outputs of a regression, levels of quantile, classes if more than
    two, else 1.
constant_hessian : bool
    The hessian of every row is its weight; ``h`` is then a read-only view of the weights.
has_leaf_quantiles : bool
    It is an `OrderStatisticLoss`: leaves take its `leaf_values` of the residuals in place of
    Newton's -G / (H + lambda), ``leaf_quantile_level`` (columns,) being the quantile. Huber adds a
    step (``clips_residuals``).
is_classifier : bool
takes_rows : bool
    Its formulas take probabilities, made of all columns of a row.
hessian_is_information : bool
    Hessians of weight 1 are Fisher's information, whatever the units of the target: 1 over that of
    some rows is the variance of their best raw prediction. They then do not depend on the target.
sums_outputs : bool
    One tree may hold all columns in a leaf (outputs of one regression, classes).
"""

from gpuboost.engine.losses.base import USER, Loss, Predicted
from gpuboost.engine.losses.custom import UserLoss, user_loss
from gpuboost.engine.losses.regression import OrderStatisticLoss
from gpuboost.engine.losses.table import LOSSES, make_loss

__all__ = [
    "LOSSES",
    "USER",
    "Loss",
    "OrderStatisticLoss",
    "Predicted",
    "UserLoss",
    "make_loss",
    "user_loss",
]
