"""Trees that a user passes to an ensemble as its base learner."""

from __future__ import annotations

from typing import Any

import sklearn.tree

from gpuboost.estimators.trees.tree import SingleTree

OF_THE_ENSEMBLE = ("device", "n_jobs", "max_bins", "categorical_features")


def theirs_like(tree_class: type[SingleTree]) -> tuple[type, ...]:
    """scikit-learn's classes with the names of ``tree_class`` and its subclasses."""
    names = (each.__name__ for each in (tree_class, *tree_class.__subclasses__()))
    return tuple(getattr(sklearn.tree, name) for name in names if hasattr(sklearn.tree, name))


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
    ValueError
        If the tree sets a parameter that belongs to the ensemble (`OF_THE_ENSEMBLE`).
    """
    if not isinstance(tree, tree_class):
        classes = (tree_class, *tree_class.__subclasses__())
        ours = next(each for each in classes if each.__name__ == type(tree).__name__)
        return ours(**tree.get_params(deep=False))
    for parameter in OF_THE_ENSEMBLE:
        given, default = getattr(tree, parameter), getattr(tree_class(), parameter)
        if given is not default and given != default:
            raise ValueError(
                f"estimator has {parameter}={given!r:.80}, which belongs to the whole ensemble;"
                f" pass it to {ensemble}"
            )
    return tree
