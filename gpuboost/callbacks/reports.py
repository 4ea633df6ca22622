"""Callbacks that report on a fit or limit its time."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import integer_at_least, number_between
from gpuboost.estimators.fitting.callbacks import Callback, RoundResult


class TimeBudget(Callback):
    """Ends a fit after the first tree or round at which its time is over.

    Parameters
    ----------
    seconds : float
        Time from the start of the fit, which includes reading and binning the data.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = number_between("seconds", seconds, 0.0)
        self._end = math.inf

    def start(self, estimator: Any, before: Any) -> None:
        """Start the clock."""
        self._end = time.monotonic() + self.seconds

    def __call__(self, result: RoundResult) -> bool:
        """Return whether the time is over."""
        return time.monotonic() >= self._end


class Log(Callback):
    """Passes on the scores after a tree or round, to a function or as a line of JSON to a file.

    Parameters
    ----------
    target : callable, str or path-like
        Function of a dict with the keys ``number``, ``seconds`` (since the start of the fit),
        ``learning_rate``, ``train_score`` and, for each metric of each evaluation set, a key such
        as ``"validation_0 log_loss"``; or a file to which such dicts are appended as lines of JSON,
        in which scores that are not finite are null.
    every : int
        Number of trees or rounds from one call to the next.
    """

    def __init__(
        self, target: Callable[[dict[str, Any]], Any] | str | os.PathLike[str], *, every: int = 1
    ) -> None:
        if not callable(target) and not isinstance(target, (str, os.PathLike)):
            raise TypeError(f"target must be a function or a path, got {target!r:.80}")
        self.target, self.every = target, integer_at_least("every", every, 1)
        self._start = time.monotonic()

    def start(self, estimator: Any, before: Any) -> None:
        """Start the clock, and open the file once, so that a wrong path is an error now.

        Raises
        ------
        OSError
            If the file cannot be opened.
        """
        self._start = time.monotonic()
        if not callable(self.target):
            with Path(self.target).open("a", encoding="utf-8"):
                pass

    def __call__(self, result: RoundResult) -> None:
        """Report the scores if it is time."""
        if (result.number + 1) % self.every:
            return
        facts = scores_of(result) | {"seconds": round(time.monotonic() - self._start, 6)}
        if callable(self.target):
            self.target(facts)
            return
        known = {name: own if math.isfinite(own) else None for name, own in facts.items()}
        try:
            with Path(self.target).open("a", encoding="utf-8") as file:
                file.write(json.dumps(known, allow_nan=False) + "\n")
        except OSError as error:  # such as a full disk, for which no fit should end
            warn_user(f"the log {str(self.target)!r} could not be written: {error}")


def scores_of(result: RoundResult) -> dict[str, Any]:
    """The number, the learning rate and the last scores of a round, without those unknown."""
    facts = {
        "number": result.number,
        "learning_rate": result.learning_rate,
        "train_score": result.train_score,
    }
    for rows, metrics in result.scores.items():
        facts |= {f"{rows} {name}": own[-1] for name, own in metrics.items()}
    return {name: value for name, value in facts.items() if value is not None}


class Progress(Callback):
    """Shows a progress bar on standard error, with the rate, the time left and the last score."""

    def __init__(self) -> None:
        self._bar: Any = None

    def start(self, estimator: Any, before: Any) -> None:
        """Close the bar of an earlier fit that an error ended."""
        self._close()

    def __call__(self, result: RoundResult) -> None:
        """Advance the bar to the tree or round."""
        if self._bar is None:
            from tqdm.auto import tqdm  # imported only if used

            self._bar = tqdm(total=result.n_total, initial=result.number, desc="training")
        own = {n: v for n, v in scores_of(result).items() if n not in ("number", "learning_rate")}
        if own:
            self._bar.set_postfix(dict([list(own.items())[-1]]), refresh=False)
        self._bar.update(result.number + 1 - self._bar.n)

    def finish(self, result: RoundResult) -> None:
        """Close the bar."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_bar": None}  # a bar cannot be copied
