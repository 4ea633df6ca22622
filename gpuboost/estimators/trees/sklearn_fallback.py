"""Ensembles of base learners that are not gpuboost's trees: scikit-learn's own class fits them.

So a script that changes its import keeps working. Such an estimator fits and keeps an estimator of
scikit-learn with the same parameters (``_sklearn_model``). Its methods and fitted attributes are
those of that estimator, and ``device_`` is "scikit-learn".
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import sklearn.tree
from sklearn.base import BaseEstimator, is_classifier

from gpuboost.backends.select import check_device
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.inputs.dataset import Dataset
from gpuboost.estimators.trees.base_learners import changes_methods, classes_of, sklearn_classes_of
from gpuboost.estimators.trees.tree import SingleTree

SKLEARN_DEVICE = "scikit-learn"  # value of ``device_``
# Parameters that scikit-learn's class lacks, and that do not change its model.
_HARMLESS = {"device", "n_jobs", "verbose"}
# Methods of both.
_OWN = {"fit", "score", "get_params", "set_params", "get_metadata_routing", "to_sklearn"}

Class = TypeVar("Class", bound=type)


class OnlyForTrees(TypeError, AttributeError):
    """A method or attribute of gpuboost's trees, used after a fit of other base learners.

    It is an AttributeError too, so that `hasattr` is False for such attributes.
    """


def falls_back_to(sklearn_class: type) -> Callable[[Class], Class]:
    """Class decorator: after a fit that was left to scikit-learn, use scikit-learn's estimator.

    Public methods and attributes come from ``sklearn_class``. Those that it lacks raise
    `OnlyForTrees`.
    """

    def decorate(own_class: Class) -> Class:
        own: Any = own_class
        own._sklearn_class, own._own_parameters = sklearn_class, frozenset(own._get_param_names())
        names = set(dir(own)) - set(dir(BaseEstimator)) - set(own._get_param_names()) - _OWN
        for name in names:
            if name.startswith(("_", "set_")):
                continue
            found = next(vars(base)[name] for base in own.__mro__ if name in vars(base))
            if isfunction(found):
                setattr(own, name, _method_with_fallback(name, found))
            elif hasattr(found, "__get__"):
                setattr(own, name, _AttributeWithFallback(name, found))
        return own_class

    return decorate


def _method_with_fallback(name: str, own: Any) -> Any:
    """A method, or that of scikit-learn's estimator after its fit."""

    @wraps(own)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._sklearn_model is None:
            return own(self, *args, **kwargs)
        return _of_sklearn(self, name)(*args, **kwargs)

    return method


class _AttributeWithFallback:
    """A property, or the attribute of scikit-learn's estimator after its fit."""

    def __init__(self, name: str, own: Any) -> None:
        self._name, self._own, self.__doc__ = name, own, own.__doc__

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None or estimator._sklearn_model is None:
            return self._own.__get__(estimator, owner)
        return _of_sklearn(estimator, self._name)

    def __set__(self, estimator: Any, value: Any) -> None:
        self._own.__set__(estimator, value)

    def __delete__(self, estimator: Any) -> None:
        self._own.__delete__(estimator)


def _of_sklearn(estimator: Any, name: str) -> Any:
    """A method or attribute of scikit-learn's estimator."""
    model = estimator._sklearn_model
    if hasattr(type(model), name) or name in vars(model):
        return getattr(model, name)
    own = type(estimator)
    raise OnlyForTrees(
        f"{own.__name__}.{name} needs gpuboost's trees, but this model was fitted by scikit-learn, "
        f"because its base learner is {model.estimator!r:.80}; use {own._tree_class.__name__} as "
        f"the base learner, or do without {name}"
    )


class SklearnFallback(TreeModel):
    """Base of ensembles whose base learner can be any estimator."""

    if TYPE_CHECKING:  # a parameter of the subclasses

        @property
        def estimator(self) -> Any: ...

    _sklearn_class: ClassVar[Any]
    _own_parameters: ClassVar[frozenset[str]]
    _tree_class: ClassVar[type[SingleTree]]
    _sklearn_model: ClassVar[Any] = None  # set by a fit that is left to scikit-learn

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Grow the trees, or fit other base learners with scikit-learn.

        Parameters
        ----------
        **fit_params : dict
            Metadata for base learners that are not trees (see scikit-learn's metadata routing).

        Returns
        -------
        self
        """
        self._check_warm_start()
        if self._is_for_trees():
            if fit_params:
                raise TypeError(
                    f"{type(self).__name__}.fit() got unexpected arguments {sorted(fit_params)}; "
                    "trees take sample_weight only"
                )
            return super().fit(X, y, sample_weight)
        if getattr(sample_weight, "shape", ())[1:] == (1,):  # a table of one column
            sample_weight = np.asarray(sample_weight).ravel()
        model = self._for_sklearn(X)
        model.fit(X, y, sample_weight=sample_weight, **fit_params)
        own = {name: value for name, value in vars(model).items() if self._is_copied(name)}
        self._adopt({**own, "_sklearn_model": model, "device_": SKLEARN_DEVICE})
        return self

    def _is_for_trees(self) -> bool:
        """Whether the base learner is a tree that gpuboost grows."""
        learner, trees = self.estimator, sklearn_classes_of(self._tree_class)
        if isinstance(learner, self._tree_class):
            return not changes_methods(type(learner))
        return learner is None or type(learner) in trees

    def _for_sklearn(self, X: Any) -> Any:
        """scikit-learn's estimator with the same parameters; in a warm start, the fitted one."""
        self._check_learner()
        check_device(self.device)
        if isinstance(X, Dataset):
            raise TypeError(
                f"the base learner {self.estimator!r:.80} is fitted by scikit-learn, which cannot "
                "read a gpuboost.Dataset; pass the table itself"
            )
        if self.device not in ("auto", "cpu"):
            raise ValueError(
                f"device={self.device!r} was given, but the base learner {self.estimator!r:.80} is "
                "fitted by scikit-learn, which has no backends; use device='auto'"
            )
        names = set(self._sklearn_class._get_param_names()) & self._own_parameters
        for name in self._own_parameters - names - _HARMLESS:
            given, default = getattr(self, name), getattr(type(self), name)
            if type(given) is not type(default) or given != default:
                raise ValueError(
                    f"{name}={given!r:.80} is for gpuboost's trees, but the base learner is "
                    f"{self.estimator!r:.80}; leave {name} at its default ({default!r})"
                )
        given = {name: getattr(self, name) for name in names}
        # Defaults are left out, since older versions of scikit-learn have other ones.
        changed = {name for name in names if given[name] is not getattr(type(self), name, None)}
        new = self._sklearn_class(**{name: given[name] for name in changed})
        if self._sklearn_model is None or not given.get("warm_start"):
            return new
        model = copy(self._sklearn_model)  # so that this model stays as it is if the fit fails
        for name in ("estimators_", "estimators_features_"):
            setattr(model, name, list(getattr(model, name)))
        return model.set_params(**new.get_params(deep=False))

    def _check_warm_start(self) -> None:
        """Check that a warm start adds learners of the kind that the model has."""
        has_trees, has_others = self._model is not None, self._sklearn_model is not None
        is_other = has_others if self._is_for_trees() else has_trees
        if is_other and getattr(self, "warm_start", False):
            raise ValueError(
                f"with warm_start, estimator={self.estimator!r:.80} cannot follow on a model of "
                f"{'trees' if has_trees else 'other learners'}; fit with warm_start=False"
            )

    def _check_learner(self) -> None:
        """Check that a base learner is an estimator, and no tree of the other kind."""
        learner = self.estimator
        is_ready = hasattr(learner, "fit") and not isinstance(learner, type)
        is_tree = isinstance(learner, (SingleTree, sklearn.tree.BaseDecisionTree))
        if not is_ready or (is_tree and is_classifier(learner) != is_classifier(self)):
            allowed = " or ".join(kind.__name__ for kind in classes_of(self._tree_class))
            raise TypeError(
                f"estimator must be None, a {allowed}, or an estimator that is no tree, "
                f"got {learner!r:.80}"
            )

    def _is_copied(self, name: str) -> bool:
        """Whether a fitted attribute of scikit-learn's estimator becomes one of this estimator."""
        is_fitted = name.endswith("_") and not name.startswith("_")
        return (is_fitted or name == "_max_samples") and not hasattr(type(self), name)

    def __getattr__(self, name: str) -> Any:
        """Methods that only scikit-learn's estimator has, also before its fit (for `hasattr`)."""
        model = vars(self).get("_sklearn_model")
        if name.startswith("_") or "estimator" not in vars(self):
            return object.__getattribute__(self, name)  # raises the original error
        if model is None and (name.endswith("_") or self._is_for_trees()):
            return object.__getattribute__(self, name)
        if name in dir(type(self)):
            return _of_sklearn(self, name)
        return getattr(self._sklearn_class(self.estimator) if model is None else model, name)

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None or self._sklearn_model is not None

    def get_metadata_routing(self) -> Any:
        """Metadata that `fit` takes, and that scikit-learn passes on to base learners."""
        if self._is_for_trees():
            return super().get_metadata_routing()
        return self._sklearn_class(self.estimator).get_metadata_routing()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not self._is_for_trees():
            model = self._sklearn_class(self.estimator).__sklearn_tags__()
            tags.input_tags = model.input_tags
            tags.target_tags.multi_output = model.target_tags.multi_output
        return tags
