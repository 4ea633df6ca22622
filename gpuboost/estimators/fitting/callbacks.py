"""Calls of the user's functions during a fit, and fits that end before their time.

A fit calls each of ``callbacks`` after every tree of a forest and every round of boosting or
AdaBoost, with a `RoundResult`. If one returns True, the fit ends and keeps the trees so far. An
object with the methods of `Resumable` can also give the fit a model to go on from, as
`gpuboost.callbacks.Checkpoint` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import boolean
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import SparseCodes

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
    make : callable
        Makes the result of `estimator`.
    """

    number: int
    learning_rate: float | None = None
    train_score: float | None = None
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    n_total: int = 0
    make: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    def estimator(self) -> Any:
        """A fitted estimator with the trees so far. Each call copies the trees."""
        assert self.make is not None
        return self.make()


class Resumable(Protocol):
    """A callback that can give a fit the model of an earlier fit that did not end."""

    def resume(self, estimator: Any) -> Any:
        """The fitted estimator of the earlier fit, to which the fit adds; None without one."""

    def begin(self, estimator: Any, data: str) -> None:
        """Called before the first tree with a digest of the data.

        Raises
        ------
        ValueError
            If the earlier fit had other data or parameters.
        """

    def finish(self, result: RoundResult) -> None:
        """Called after the last tree, with its result, unless an error ends the fit."""


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
        several = (
            () if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)
        )
        for each in several:
            if not callable(each):
                raise TypeError(
                    "callbacks must be a function of a RoundResult, or a list of them, got "
                    f"{each!r:.80}"
                )
        keeps = boolean("keep_on_interrupt", getattr(estimator, "keep_on_interrupt", False))
        return cls(several, keeps)

    @property
    def watches(self) -> bool:
        """Whether trees must be seen as they are finished."""
        return bool(self.functions) or self.keep_on_interrupt

    def end_after(self, result: RoundResult) -> bool:
        """Call all functions; return whether one of them ends the fit."""
        self.last[:] = [result]
        answers = [each(result) is True for each in self.functions]
        return any(answers)

    def finish(self) -> None:
        """Call the method ``finish`` of callbacks that have it, with the last result."""
        for result in self.last:
            for each in self.functions:
                if hasattr(each, "finish"):
                    each.finish(result)

    def resumed(self, estimator: Any) -> Any:
        """The fitted estimator that the fit goes on from, or None."""
        found = [each.resume(estimator) for each in self._resumable()]
        return next((each for each in found if each is not None), None)

    def begin(self, estimator: Any, data: Callable[[], str]) -> None:
        """Tell those that can resume a fit of its data."""
        several = self._resumable()
        if several:
            digest = data()
            for each in several:
                each.begin(estimator, digest)

    def _resumable(self) -> list[Any]:
        return [each for each in self.functions if hasattr(each, "resume")]

    @contextmanager
    def interruptible(self, n_done: Callable[[], int], what: str) -> Iterator[None]:
        """Context of the growth of trees that an interrupt ends, if there are trees to keep."""
        try:
            yield
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
        with self.interruptible(lambda: len(done), "trees"):
            for step in steps:
                done.append(step)
                if self.functions and self.end_after(result_of(done)):
                    break
        self.finish()
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
        host = np.ascontiguousarray(copy_to_host(array))
        sha.update(f"{host.dtype.str} {host.shape}".encode())
        sha.update(host.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
