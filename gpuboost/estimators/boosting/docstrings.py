"""What the parameters of gradient boosting mean: texts for the docstrings of its estimators."""

from __future__ import annotations

from textwrap import fill

from gpuboost.engine.losses.table import CLASSIFICATION, REGRESSION

OF_BOTH = {
    "learning_rate": (
        "float or callable",
        "Multiplies what each tree adds; a function is called with the round, from 0.",
    ),
    "n_estimators": ("int", "Rounds, at most so many where fitting stops early."),
    "subsample": (
        "float",
        "Share of the rows drawn for each round, without replacement (Friedman, Stochastic\n"
        "gradient boosting, 2002).",
    ),
    "min_hessian_leaf": (
        "float",
        "Smallest sum of hessians of a leaf: of weights where the loss is a squared error, of\n"
        "p (1 - p) in a classification.",
    ),
    "min_samples_category": (
        "int, float or 'auto'",
        "Categories with fewer rows in a node go where missing values go: none is split off\n"
        "alone. Rows are counted by their hessians, the tree's mean being one row; a float is a\n"
        "share of all rows. Only of features with more than 4 levels. 'auto': 20 rows, or with\n"
        "log loss and poisson as many as have a hessian of 5 before the first round, if that is\n"
        "more: 105 where one row in 20 is positive; at most one row in a hundred. 0: no category\n"
        "is too rare.\n"
        "HistGradientBoosting and LightGBM (``cat_smooth``) ask for 10 and smooth beside that.",
    ),
    "max_features_per_level": (
        "int, float, 'sqrt', 'log2' or None",
        "Features drawn for each level of a tree from those of the tree. None: all.",
    ),
    "max_features_per_tree": (
        "int, float, 'sqrt', 'log2' or None",
        "Features drawn for each tree. None: all.",
    ),
    "l1_regularization": (
        "float",
        "Weight of the absolute values of leaves: gradients of a leaf smaller than this give 0.",
    ),
    "l2_regularization": ("float", "Weight of the squared values of leaves."),
    "max_delta_step": (
        "float",
        "Largest absolute value of a leaf, before the learning rate. None: no limit.",
    ),
    "ccp_alpha": (
        "float",
        "What a leaf costs when a tree is pruned, before its values are added, in the units of\n"
        "``min_impurity_decrease``: those of the variance of Newton's steps, weighted by hessian.\n"
        "0: the whole tree.",
    ),
    "monotonic_cst": (
        "array-like of int of shape (n_features,), or dict",
        "1 where predictions must rise with a feature, -1 where they must fall, 0 where they may\n"
        "do both; or these by name.",
    ),
    "interaction_cst": (
        "'pairwise', 'no_interactions', or sequence of sets of int or str",
        "Groups of features that may follow one another on a path. Features in no group are one\n"
        "of their own. None: all may.",
    ),
    "multi_strategy": (
        "{'auto', 'one_output_per_tree', 'multi_output_tree'}",
        "A tree for each class or output in every round, or one whose leaves hold all of them.\n"
        "'auto': the first for classes, the second for outputs of a regression.",
    ),
    "init": (
        "estimator or 'zero'",
        "Predicts where boosting starts. None: the best constant.",
    ),
    "validation_fraction": (
        "float",
        "Share of the rows set aside to decide when to stop, where ``n_iter_no_change`` says so\n"
        "and `fit` is given no ``eval_set``.",
    ),
    "n_iter_no_change": (
        "int",
        "Stop when so many rounds brought no improvement of more than ``tol``. The rounds stay in\n"
        "the model; ``best_iteration_`` tells the best. None: do not stop early.",
    ),
    "tol": ("float", "The least improvement that counts."),
    "eval_metric": (
        "str, callable, or list of these",
        "Followed beside the loss on ``eval_set``, or on the rows set aside. Regressors: 'rmse',\n"
        "'mse', 'mae', 'mape', 'r2', 'poisson_deviance', 'gamma_deviance', 'tweedie_deviance';\n"
        "classifiers: 'accuracy', 'balanced_accuracy', 'error', 'log_loss', 'auc',\n"
        "'average_precision'; or ``metric(truth, prediction)``, smaller being better unless it\n"
        "has ``greater_is_better``, of classifiers with numbered classes and probabilities.",
    ),
    "callbacks": (
        "callable, or list of these",
        "Called after each round with its number, learning rate and scores; one that returns True\n"
        "ends the fit.",
    ),
    "criterion": (
        "str",
        "Deprecated in scikit-learn; splits are chosen by the gain of Newton's step.",
    ),
    "importance_type": (
        "{'gain', 'count'}",
        "What ``feature_importances_`` adds up: gains of splits, or splits.",
    ),
}
_OWN_LOSS = (
    "or an object with ``gradient(y, raw)`` and ``hessian(y, raw)``,\n"
    "arrays in and out, and maybe ``loss(y, raw)``, ``predict(raw)`` and ``baseline(y, weights)``."
)


def _listed(losses: tuple[str, ...]) -> str:
    """Names of losses, in lines of a docstring."""
    return fill(", ".join(map(repr, losses)), 90)


OF_REGRESSOR = {
    "loss": ("str or object", f"{_listed(REGRESSION)};\n{_OWN_LOSS}"),
    **OF_BOTH,
    "alpha": (
        "float, or list of float for several quantiles",
        "Level of loss='quantile'; share of the residuals that loss='huber' squares.",
    ),
    "tweedie_power": ("float", "Power of the variance of loss='tweedie', between 1 and 2."),
}
OF_CLASSIFIER = {
    "loss": ("str or object", f"{_listed(CLASSIFICATION)} (two classes);\n{_OWN_LOSS}"),
    **OF_BOTH,
}
