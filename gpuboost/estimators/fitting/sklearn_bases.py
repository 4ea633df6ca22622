"""scikit-learn's base classes, declared for type checkers, since scikit-learn has no types.

Without the declarations, every estimator would inherit from a class of unknown type, and a type
checker would accept any attribute and any parameter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    class BaseEstimator:
        """Declares what users call of ``sklearn.base.BaseEstimator``."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, *, sample_weight: bool | str | None = None) -> Self: ...
        def set_score_request(self, *, sample_weight: bool | str | None = None) -> Self: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """Declares ``sklearn.base.ClassifierMixin``."""

        def __sklearn_tags__(self) -> Any: ...

    class RegressorMixin:
        """Declares ``sklearn.base.RegressorMixin``."""

        def __sklearn_tags__(self) -> Any: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

__all__ = ["BaseEstimator", "ClassifierMixin", "RegressorMixin"]
