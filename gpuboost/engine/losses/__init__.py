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
        if isinstance(loss, OrderStatisticLoss):
            values = loss.leaf_values(rows, groups, column, parameter)
        score = loss.mean_loss(rows, parameter)
    loss.predict(raw)

Arrays: ``y`` is float64 (n,) or (n, n_outputs), for classifiers the int32 codes (n,) of classes;
``raw`` float64 (n, columns); ``weights`` float64 (n,) or None for ones; ``parameter`` float64
(columns,). A backend may give `Predicted` order statistics of its own.

Attributes of a loss, facts of its row in the table (`table`) or of its class:

facts : LossFacts
    The row: name, link, kinds of hessian and target, and whether one tree may hold all columns in
    a leaf (outputs of one regression, classes).
formula : int
    Which functions of `formulas`; backends compile them by this number. `USER` if none.
has_formula : bool
    Whether there are such functions; a loss that a user brings has none.
columns : int
    Raw predictions of a row: outputs of a regression, levels of quantile, classes if more than
    two, else 1.
constant_hessian : bool
    The hessian of every row is its weight; ``h`` is then a read-only view of the weights.
moves_with_target : bool
    Adding to the target adds the same to the best raw predictions.
is_classifier : bool
takes_rows : bool
    Its formulas take probabilities, made of all columns of a row.
hessian_is_information : bool
    Hessians of weight 1 are Fisher's information, whatever the units of the target: 1 over that of
    some rows is the variance of their best raw prediction. They then do not depend on the target.

Leaves take the `leaf_values` of an `OrderStatisticLoss` in place of Newton's -G / (H + lambda):
the quantile ``leaf_quantile_level`` (columns,) of the residuals. Huber adds a step
(``clip_level``).
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
