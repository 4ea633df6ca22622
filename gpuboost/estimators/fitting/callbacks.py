"""Calls of the user's functions during a fit, and fits that end before their time.

A fit calls each of ``callbacks`` after every tree of a forest and every round of boosting or
AdaBoost, with a `RoundResult`. If one returns True, the fit ends and keeps the trees so far. A
`Callback` is also called at the start and the end of the fit, and can give it a model to go on
from, as `gpuboost.callbacks.Checkpoint` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import boolean
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import SparseCodes
from gpuboost.engine.code_blocks import CodeBlocks

Step = TypeVar("Step")


@dataclass(frozen=True)
class RoundResult:
    """The argument of callbacks: the state of a fit after a tree or a round.

    Attributes
    ----------
    number : int
        Number of the round (in forests, of the tree), from 0.
    learning_rate : float or None
        Learning rate of the round; None in forests.
    train_score : float or None
        In boosting, the mean loss after the round on the rows that the round was fitted on; in
        AdaBoost, the weighted error of the tree. None in forests.
    scores : dict of str to dict of str to list of float
        ``evals_result_`` so far; empty in forests and AdaBoost.
    n_total : int
        Number of rounds or trees that the fit will have if nothing ends it before.
    """

    number: int
    learning_rate: float | None = None
    train_score: float | None = None
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    n_total: int = 0
    _make: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    def estimator(self) -> Any:
        """A fitted estimator with the trees so far. Each call copies the trees."""
        assert self._make is not None
        return self._make()


class Callback:
    """Base class of callbacks that are also called at the start and the end of a fit."""

    def start(self, estimator: Any, before: Any) -> Any:
        """Called before the data are read.

        Parameters
        ----------
        estimator : estimator
            The estimator that is fitted.
        before : FittedTrees or None
            The model that the fit adds trees to: that of a warm start or of ``init_model``.

        Returns
        -------
        estimator or None
            A fitted estimator with the first trees of this fit, which grows only the others.
        """

    def check_data(self, estimator: Any, digest: Callable[[], str]) -> None:
        """Called before the first tree grows; ``digest()`` is a digest of the data of the fit."""

    def __call__(self, result: RoundResult) -> bool | None:
        """Called after each tree or round; the fit ends if the result is True."""

    def finish(self, result: RoundResult) -> None:
        """Called at the end, also after an interrupt, but not after another error."""


@dataclass(frozen=True, eq=False)
class FitCallbacks:
    """The callbacks of a fit, and whether an interrupt keeps the trees so far."""

    functions: tuple[Callable[[RoundResult], Any], ...]
    keep_on_interrupt: bool
    last: list[RoundResult] = field(default_factory=list)  # the last argument, if any

    @classmethod
    def of(cls, estimator: Any) -> FitCallbacks:
        """Read and check the parameters of an estimator."""
        given = getattr(estimator, "callbacks", None)
        given = () if given is None else given
        several = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        for each in several:
            if not callable(each) or isinstance(each, type):
                raise TypeError(
                    "callbacks must be a function of a RoundResult, such as an object of a class "
                    f"in gpuboost.callbacks, or a list of them, got {each!r:.80}"
                )
        keeps = boolean("keep_on_interrupt", getattr(estimator, "keep_on_interrupt", False))
        return cls(several, keeps)

    @property
    def watches(self) -> bool:
        """Whether trees must be seen as they are finished."""
        return bool(self.functions) or self.keep_on_interrupt

    def start(self, estimator: Any, before: Any) -> Any:
        """The fitted estimator that the fit goes on from, or None."""
        found = [each.start(estimator, before) for each in self._with_hooks()]
        return next((each for each in found if each is not None), None)

    def check_data(self, estimator: Any, digest: Callable[[], str]) -> None:
        """Pass on the digest of the data."""
        for each in self._with_hooks():
            each.check_data(estimator, digest)

    def end_after(self, result: RoundResult) -> bool:
        """Call all functions; return whether one of them ends the fit."""
        self.last[:] = [result]
        answers = [each(result) for each in self.functions]
        return any(isinstance(own, (bool, np.bool_)) and bool(own) for own in answers)

    def _finish(self) -> None:
        """Call the method ``finish`` of those that have it, with the last result."""
        for result in self.last:
            for each in self._with_hooks():
                each.finish(result)

    def _with_hooks(self) -> list[Callback]:
        return [each for each in self.functions if isinstance(each, Callback)]

    @contextmanager
    def running(self, n_done: Callable[[], int], what: str) -> Iterator[None]:
        """Context of the growth of trees, at whose end callbacks finish, also after an interrupt.

        An interrupt of the growth or of the callbacks is raised unless there are trees to keep.
        """
        try:
            try:
                yield
            except KeyboardInterrupt:
                self._finish()
                raise
            self._finish()
        except KeyboardInterrupt:
            if not (self.keep_on_interrupt and n_done()):
                raise
            warn_user(
                f"the fit was interrupted and keeps the {n_done()} {what} so far "
                "(keep_on_interrupt=True)"
            )

    def watched(
        self, steps: Iterable[Step], result_of: Callable[[list[Step]], RoundResult]
    ) -> Iterable[Step]:
        """The steps (trees or rounds), of which callbacks or an interrupt can end the last.

        Without callbacks, the steps are returned as given. Else they are collected in a list, and
        ``result_of`` makes the argument of the callbacks from it.
        """
        if not self.watches:
            return steps
        done: list[Step] = []
        with self.running(lambda: len(done), "trees"):
            for step in steps:
                done.append(step)
                if self.functions and self.end_after(result_of(done)):
                    break
        return done


def data_digest(prepared: Any, *arrays: Any) -> str:
    """SHA-256 of the codes, the bins, the labels and further arrays of a fit, in hexadecimal."""
    sha, matrix = hashlib.sha256(), prepared.matrix
    matrix.mapper.update_hash(sha)
    prepared.schema.update_hash(sha)
    stored = matrix.stored
    if isinstance(stored, SparseCodes):
        own: tuple[Any, ...] = (stored.start, stored.row, stored.code, stored.zero_code)
    else:
        own = (stored,)
    for array in (*own, prepared.labels.rows, *arrays):
        if array is None:
            sha.update(b"none")
            continue
        if isinstance(array, CodeBlocks):
            sha.update(f"|u1 {array.shape}".encode())
            array.update_hash(sha)
            continue
        host = np.ascontiguousarray(copy_to_host(array))
        sha.update(f"{host.dtype.str} {host.shape}".encode())
        sha.update(host.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
