"""Files from which a fit goes on that did not end."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from gpuboost.data.parameters import boolean, integer_at_least, number_between
from gpuboost.estimators.files.estimators import load_checkpoint, save_checkpoint
from gpuboost.estimators.files.parameters import known_parameters
from gpuboost.estimators.fitting.callbacks import RoundResult

# Parameters that may differ: they do not change the trees that a checkpoint has.
_MAY_DIFFER = {
    "n_estimators",
    "verbose",
    "callbacks",
    "keep_on_interrupt",
    "warm_start",
    "oob_score",
}


class Checkpoint:
    """Writes the model of the trees so far to a file, and goes on from it in the next fit.

    A fit with a checkpoint whose file exists loads the trees in it and grows only the others. The
    model, its scores and early stopping are then the same, bit for bit, as after a fit that was
    never stopped; with ``random_state=None``, the seed is that of the first fit. The file must be
    of the same data and parameters, except for ``n_estimators``, ``device`` and ``n_jobs``.

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
        Whether a fit goes on from the file if there is one. Otherwise it is overwritten.
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
        self._identity, self._stored = "", ""  # of this fit, and of the file
        self._last, self._written = time.monotonic(), -1  # when, and the number of its last tree

    def resume(self, estimator: Any) -> Any:
        """The fitted estimator in the file; None if there is no file.

        Raises
        ------
        ValueError
            If the file is damaged, is no checkpoint, or is of another kind of estimator.
        """
        self._stored, self._written = "", -1
        if not (self._resumes and self.path.exists()):
            return None
        found, self._stored = load_checkpoint(self.path)
        if type(found) is not type(estimator):
            raise ValueError(
                f"the checkpoint {str(self.path)!r} is of a {type(found).__name__}, not of a "
                f"{type(estimator).__name__}; delete it, or use another path"
            )
        return found

    def begin(self, estimator: Any, data: str) -> None:
        """Check that the file is of the same data and parameters; called by the fit.

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
        self._identity, self._last = f"{parameters} {data}", time.monotonic()
        if self._stored and self._stored != self._identity:
            same_data = self._stored.split()[-1] == data
            what = "parameters" if same_data else "data, weights or evaluation sets"
            raise ValueError(
                f"the checkpoint {str(self.path)!r} is of a fit with other {what}; delete it to "
                "start anew, pass resume=False, or use another path"
            )

    def __call__(self, result: RoundResult) -> None:
        """Write the file if it is time."""
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
        save_checkpoint(result.estimator(), self.path, self._identity)
        self._last, self._written = time.monotonic(), result.number
