"""Parameters and fitted attributes that scikit-learn's estimators share with gpuboost's."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.ensemble
import sklearn.tree
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

# Parameters of the machine and of later fits, which keep scikit-learn's defaults.
NOT_COPIED = {"estimator", "init", "n_jobs", "verbose", "warm_start"}
SAME_ATTRIBUTES = (
    *("n_features_in_", "feature_names_in_", "n_outputs_", "max_features_"),
    *("oob_score_", "oob_prediction_", "oob_decision_function_"),
    *("oob_improvement_", "oob_scores_", "train_score_", "n_estimators_"),
    *("n_trees_per_iteration_", "do_early_stopping_", "validation_score_"),
)


def sklearn_class_of(estimator: Any) -> Any:
    """The class of scikit-learn with the name of gpuboost's class."""
    ours = next(c for c in type(estimator).__mro__ if c.__module__.startswith("gpuboost."))
    home = sklearn.tree if hasattr(sklearn.tree, ours.__name__) else sklearn.ensemble
    return getattr(home, ours.__name__)


def with_parameters_of(sklearn_class: Any, estimator: Any) -> Any:
    """An unfitted estimator of scikit-learn with the parameters of gpuboost's that it accepts."""
    ours = estimator.get_params(deep=False)
    constraints, own = sklearn_class._parameter_constraints, sklearn_class()
    for name in own.get_params(deep=False).keys() & ours.keys() - NOT_COPIED:
        try:
            validate_parameter_constraints(
                {name: constraints[name]}, {name: ours[name]}, sklearn_class.__name__
            )
        except InvalidParameterError:
            continue
        own.set_params(**{name: ours[name]})
    return own


def copy_attributes(sklearn_estimator: Any, estimator: Any) -> None:
    """Copy the fitted attributes that both have, and those of classes."""
    names = [name for name in SAME_ATTRIBUTES if hasattr(estimator, name)]
    vars(sklearn_estimator).update({name: getattr(estimator, name) for name in names})
    if hasattr(estimator, "classes_"):
        n_classes = getattr(estimator, "n_classes_", len(estimator.classes_))
        is_list = isinstance(n_classes, list)
        sklearn_estimator.n_classes_ = np.array(n_classes) if is_list else n_classes
        sklearn_estimator.classes_ = estimator.classes_
