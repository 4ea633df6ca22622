"""Checkpoints, from which an interrupted fit is resumed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import boolean, integer_at_least, number_between
from gpuboost.estimators.files.estimators import check_storable, load_checkpoint, save_checkpoint
from gpuboost.estimators.files.parameters import known_parameters
from gpuboost.estimators.fitting.callbacks import Callback, RoundResult
from gpuboost.io.container import check_writable

# Parameters that may differ: they do not change the trees that a checkpoint has.
_MAY_DIFFER = {
    "n_estimators",
    "verbose",
    "callbacks",
    "keep_on_interrupt",
    "warm_start",
    "oob_score",
}
_IDENTITY_PARTS = (  # of the identity
    "another version of gpuboost",
    "another model to which it adds trees (warm_start, init_model)",
    "other parameters",
    "other data, weights or evaluation sets",
)


class Checkpoint(Callback):
    """Writes the model of the trees so far to a file, from which the next fit is resumed.

    A fit with a checkpoint whose file exists loads the trees in it and grows only the others. The
    model, its scores and early stopping are then the same, bit for bit, as after a fit that was
    never stopped; with ``random_state=None``, the seed is that of the first fit. The file must be
    of the same data (compared after binning), parameters and version of gpuboost;
    ``n_estimators``, ``device`` and ``n_jobs`` may differ. With ``warm_start`` or ``init_model``,
    it must be of a fit that adds trees to the same model, so each of several fits in a row needs a
    path of its own.

    The file is also written after the last tree, and when Ctrl-C ends the fit.

    The file is a model file: `gpuboost.load` returns the estimator with the trees so far. It is
    written beside its path and renamed, so it is whole at every moment. Delete it to start anew.

    Parameters
    ----------
    path : str or path-like
        The file.
    every_trees : int or None
        Number of trees (in boosting and AdaBoost, of rounds) from one file to the next; None means
        that only the time counts.
    every_seconds : float or None
        Time from one file to the next; None means that only the number counts. If both are None,
        the time is 60 seconds.
    resume : bool
        Whether a fit is resumed from the file if there is one. Otherwise it is overwritten.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every_trees: int | None = None,
        every_seconds: float | None = None,
        resume: bool = True,
    ) -> None:
        self.path = Path(path)
        self.every_trees = (
            None if every_trees is None else integer_at_least("every_trees", every_trees, 1)
        )
        if every_seconds is None and every_trees is None:
            every_seconds = 60.0
        self.every_seconds = (
            None if every_seconds is None else number_between("every_seconds", every_seconds, 0.0)
        )
        self._resumes = boolean("resume", resume)
        self._identity = ""  # of this fit
        self._stored: str | None = None  # identity of the fit that is resumed
        self._words: tuple[str, ...] = ()  # the first words of the identity
        self._is_checked = False  # whether the model is known to be storable
        self._last, self._written = time.monotonic(), -1  # when, and the number of its last tree

    def start(self, estimator: Any, before: Any) -> Any:
        """The fitted estimator in the file; None if there is no file.

        Raises
        ------
        OSError
            If the file could not be written.
        ValueError
            If the file is damaged, is no checkpoint, is of another kind of estimator or version, or
            adds trees to another model.
        """
        check_writable(self.path)
        self._stored, self._written, self._is_checked = None, -1, False
        before = "none" if before is None else before.fingerprint()
        self._words = (metadata.version("gpuboost"), before)
        if not (self._resumes and self.path.exists()):
            return None
        found, stored = load_checkpoint(self.path)
        if type(found) is not type(estimator):
            raise ValueError(
                f"the checkpoint {str(self.path)!r} is of a {type(found).__name__}, not of a "
                f"{type(estimator).__name__}; delete it, or use another path"
            )
        if found.fingerprint() == before:
            return None  # the fit adds trees to the very model in the file
        self._stored = stored
        self._check(self._words)
        return found

    def check_data(self, estimator: Any, digest: Callable[[], str]) -> None:
        """Check that the file is of the same data and parameters.

        Raises
        ------
        ValueError
            If the file is of another fit.
        """
        given = {
            name: value
            for name, value in known_parameters(estimator).items()
            if name not in _MAY_DIFFER and not (name == "random_state" and value is None)
        }
        parameters = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
        words = (*self._words, parameters, digest())
        self._identity, self._last = " ".join(words), time.monotonic()
        self._check(words)

    def _check(self, words: tuple[str, ...]) -> None:
        """Check that the identity of the file begins with some words."""
        if self._stored is None:
            return
        for what, own, stored in zip(_IDENTITY_PARTS, words, self._stored.split(), strict=False):
            if own != stored:
                raise ValueError(
                    f"the checkpoint {str(self.path)!r} is of a fit with {what}; delete it to "
                    "start anew, pass resume=False, or use another path"
                )

    def __call__(self, result: RoundResult) -> None:
        """Write the file if it is time.

        Raises
        ------
        ValueError
            After the first tree, if the model depends on Python code, which no file can hold.
        """
        if not self._is_checked:
            check_storable(result.estimator())
            self._is_checked = True
        n_done, now = result.number + 1, time.monotonic()
        by_number = self.every_trees is not None and n_done % self.every_trees == 0
        by_time = self.every_seconds is not None and now - self._last >= self.every_seconds
        if by_number or by_time:
            self._write(result)

    def finish(self, result: RoundResult) -> None:
        """Write the file after the last tree, unless it has this tree already."""
        if self._written != result.number:
            self._write(result)

    def _write(self, result: RoundResult) -> None:
        """Write the file; a full disk does not end the fit."""
        self._last = time.monotonic()
        try:
            save_checkpoint(result.estimator(), self.path, self._identity)
        except OSError as error:
            warn_user(
                f"the checkpoint {str(self.path)!r} could not be written after tree or round "
                f"{result.number}: {error}; the fit goes on, and the file is as it was"
            )
        else:
            self._written = result.number
