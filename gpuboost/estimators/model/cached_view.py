"""Fitted attributes that are computed from the model on first access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")
VIEWS = "_views"  # attribute that caches the views; it is not part of the pickled state


class ModelView(Generic[Value]):
    """Decorator that turns a method into a read-only attribute, computed once after each fit.

    Prediction reads the model itself, so an assigned view would have no effect. If the value is a
    list, each access returns a copy.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> ModelView[Value]: ...
    @overload
    def __get__(self, estimator: Any, owner: type) -> Value: ...
    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        model, made = vars(estimator).get("_model"), vars(estimator).get(VIEWS, {})
        if self._name not in made or made[self._name][0] is not model:  # not one of an earlier fit
            made = vars(estimator)[VIEWS] = {**made, self._name: (model, self._make(estimator))}
        value = made[self._name][1]
        return list(value) if isinstance(value, list) else value

    def __set__(self, estimator: Any, value: Any) -> None:
        raise AttributeError(
            f"{self._name} cannot be assigned: it shows the fitted model of this "
            f"{type(estimator).__name__}, which only fit changes"
        )

    def __delete__(self, estimator: Any) -> None:
        raise AttributeError(f"{self._name} cannot be deleted; only fit replaces it")
