"""Fitted attributes that are made from the model when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Callable

VIEWS = "_views"  # where an estimator keeps what was made; it is no part of its state


class ModelView:
    """Decorator: a method becomes an attribute that is made once and cannot be assigned.

    What the model does is in the model; a view that could be replaced would be ignored.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> ModelView: ...
    @overload
    def __get__(self, estimator: object, owner: type) -> Any: ...

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        made = vars(estimator).get(VIEWS, {})
        if self._name not in made:
            made = vars(estimator)[VIEWS] = {**made, self._name: self._make(estimator)}
        value = made[self._name]
        return list(value) if isinstance(value, list) else value

    def __set__(self, estimator: Any, value: Any) -> None:
        raise AttributeError(
            f"{self._name} cannot be assigned: it shows the fitted model of this "
            f"{type(estimator).__name__}, which only fit changes"
        )

    def __delete__(self, estimator: Any) -> None:
        raise AttributeError(f"{self._name} cannot be deleted; fit makes a new one")
