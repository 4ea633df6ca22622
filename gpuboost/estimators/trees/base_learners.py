"""Base learners that a user passes to an ensemble."""

from __future__ import annotations

from typing import Any

from gpuboost.estimators.trees.tree import SingleTree

OF_THE_ENSEMBLE = ("device", "n_jobs", "max_bins", "categorical_features")


def checked_tree(
    tree: Any, tree_class: type[SingleTree], ensemble: str, also: str = ""
) -> SingleTree:
    """Check that a base learner is a gpuboost tree that an ensemble can use, and return it.

    Parameters
    ----------
    tree : object
        The ``estimator`` that the user passed.
    tree_class : type
        The class of the trees; its subclasses are allowed too.
    ensemble : str
        Name of the ensemble, the same as in scikit-learn.
    also : str
        Other allowed base learners, for the error message.

    Raises
    ------
    TypeError
        If the base learner is not a tree of ``tree_class``.
    ValueError
        If it sets a parameter that belongs to the ensemble (`OF_THE_ENSEMBLE`).
    """
    if not isinstance(tree, tree_class):
        allowed = " or ".join(each.__name__ for each in (tree_class, *tree_class.__subclasses__()))
        raise TypeError(
            f"estimator must be None or a gpuboost {allowed}{also}, got {tree!r:.80}; "
            f"for other base learners use sklearn.ensemble.{ensemble}"
        )
    for parameter in OF_THE_ENSEMBLE:
        given, default = getattr(tree, parameter), getattr(tree_class(), parameter)
        if given is not default and given != default:
            raise ValueError(
                f"estimator has {parameter}={given!r:.80}, which belongs to the whole ensemble;"
                f" pass it to {ensemble}"
            )
    return tree


def from_sklearn(tree: Any, tree_class: type[SingleTree]) -> SingleTree:
    """A gpuboost tree with the parameters of a scikit-learn tree.

    Parameters
    ----------
    tree : sklearn.tree.BaseDecisionTree
    tree_class : type
        The gpuboost class. The result belongs to this class or to its subclass, whichever has the
        name of the class of ``tree``.
    """
    classes = (tree_class, *tree_class.__subclasses__())
    ours = next(each for each in classes if each.__name__ == type(tree).__name__)
    return ours(**tree.get_params(deep=False))
