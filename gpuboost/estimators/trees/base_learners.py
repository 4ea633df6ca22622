"""Trees that a user passes to an ensemble as its base learner."""

from __future__ import annotations

from typing import Any

import sklearn.tree

from gpuboost.estimators.trees.tree import SingleTree

OF_THE_ENSEMBLE = ("device", "n_jobs", "max_bins", "categorical_features")


def classes_of(tree_class: type[SingleTree]) -> tuple[type[SingleTree], ...]:
    """gpuboost's tree class and its subclasses, without those of users."""
    found = (tree_class, *tree_class.__subclasses__())
    return tuple(each for each in found if each.__module__.startswith("gpuboost."))


def changes_methods(tree_class: type[SingleTree]) -> bool:
    """Whether a user's class of trees has a fit or predictions of its own.

    Ensembles grow their trees by the parameters of the base learner, and never call its methods.
    """
    ours = next(each for each in tree_class.__mro__ if each.__module__.startswith("gpuboost."))
    names = ("fit", "predict", "predict_proba", "apply")
    return any(getattr(tree_class, name, None) is not getattr(ours, name, None) for name in names)


def sklearn_classes_of(tree_class: type[SingleTree]) -> tuple[type, ...]:
    """scikit-learn's classes with the names of gpuboost's tree class and its subclasses."""
    return tuple(getattr(sklearn.tree, each.__name__) for each in classes_of(tree_class))


def checked_tree(tree: Any, tree_class: type[SingleTree], ensemble: str) -> SingleTree:
    """Check that an ensemble can use a tree as its base learner, and return it as gpuboost's.

    Parameters
    ----------
    tree : SingleTree or sklearn.tree.BaseDecisionTree
        The ``estimator`` that the user passed.
    tree_class : type
        The class of the trees, or a base class of it. A tree of scikit-learn becomes a tree of the
        class that has the same name.
    ensemble : str
        Name of the ensemble.

    Raises
    ------
    TypeError
        If it is not such a tree.
    ValueError
        If the tree sets a parameter that belongs to the ensemble (`OF_THE_ENSEMBLE`).
    """
    names = [each.__name__ for each in classes_of(tree_class)]
    if type(tree) in sklearn_classes_of(tree_class):
        ours = classes_of(tree_class)[names.index(type(tree).__name__)]
        return ours(**tree.get_params(deep=False))
    if not isinstance(tree, tree_class):
        raise TypeError(
            f"only trees ({' or '.join(names)}) are grown by gpuboost, got {tree!r:.80}; fits with "
            f"other base learners are those of sklearn.ensemble.{ensemble}"
        )
    for parameter in OF_THE_ENSEMBLE:
        given, default = getattr(tree, parameter), getattr(tree_class(), parameter)
        if given is not default and given != default:
            raise ValueError(
                f"estimator has {parameter}={given!r:.80}, which belongs to the whole ensemble;"
                f" pass it to {ensemble}"
            )
    return tree
