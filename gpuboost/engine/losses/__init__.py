"""Losses, the functions that gradient boosting minimises, and their interface to training.

::

    loss = make_loss("huber", n_outputs=1, alpha=0.9)      # or user_loss(objective)
    loss.check_target(y)
    raw = np.tile(loss.baseline(y, weights), (len(y), 1))  # (n, loss.columns)
    each round:
        rows = Predicted(y, raw, weights)
        parameter = loss.round_parameter(rows)
        g, h = loss.gradients(rows, parameter)
        ...                                                # trees, and new raw predictions
        if loss.leaf_rule is not None:
            values = loss.leaf_rule.leaf_values(rows, leaf, n_leaves, column, parameter)
        score = loss.mean_loss(rows, parameter)
    loss.predict(raw)

Arrays: ``y`` is float64 (n,) or (n, n_outputs), for classifiers the int32 codes (n,) of classes;
``raw`` float64 (n, columns); ``weights`` float64 (n,) or None for ones; ``parameter`` float64
(columns,). A backend may pass `Predicted` other functions for order statistics.

Attributes of a loss, which follow from its row in the table (`table`) or its class:

facts : LossFacts
    The row: number, name, link, kinds of hessian and target, and whether the leaves of one tree can
    hold all columns (outputs of one regression, classes).
formula : int
    Number by which backends choose the functions of the loss in `formulas`, or `USER`.
has_formula : bool
    Whether `formulas` has functions of the loss; a user-defined loss has none.
columns : int
    Number of raw predictions per row: the number of outputs of a regression, of quantile levels,
    or of classes if there are more than two; 1 for two classes.
constant_hessian : bool
    Whether the hessian of every row is its weight; ``h`` is then a read-only view of the weights.
moves_with_target : bool
    Whether a constant added to the target is added to the best raw predictions, too.
is_classifier : bool
    Whether targets are codes of classes.
takes_rows : bool
    Whether the formulas take probabilities, which depend on all columns of a row.
hessian_is_information : bool
    Whether the hessians of rows with weight 1 are Fisher information (times K / (K - 1) for K > 2
    classes): the variance of the best raw prediction for some rows is about 1 over the sum of their
    hessians. Such hessians do not depend on the target or its units, except where `formulas.raised`
    raises them.
leaf_rule : LeafRule or None
    If not None, leaves get its `leaf_values` instead of Newton steps -G / (H + lambda): the
    quantile of the residuals at ``leaf_quantile_level`` (columns,). Huber adds a second step
    (``clip_quantile_level``).
"""

from gpuboost.engine.losses.base import USER, LeafRule, Loss, Predicted
from gpuboost.engine.losses.custom import UserLoss, user_loss
from gpuboost.engine.losses.table import LOSSES, make_loss

__all__ = ["LOSSES", "USER", "LeafRule", "Loss", "Predicted", "UserLoss", "make_loss", "user_loss"]
