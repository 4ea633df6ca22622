"""Mean losses of user-defined losses."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.cuda.boosting.round_rows import RoundRows
from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet
from gpuboost.backends.host.boosting import no_row_error
from gpuboost.engine.ensembles.boosting_task import BoostTask, RoundLosses
from gpuboost.engine.growth.frontier import Array


class UserLosses:
    """Mean losses of a round for a user-defined loss, which is called with device arrays.

    The object must be made before the round changes raw predictions: it computes the loss of the
    rows that the round does not draw.

    Parameters
    ----------
    rounds : RoundRows
        Device data of the fit. Its ``draw`` is used here, too, to find the rows of the round.
    task : BoostTask
    number : int
        Number of the round.

    Raises
    ------
    ValueError
        If all rows drawn for the round have weight zero.
    """

    def __init__(self, rounds: RoundRows, task: BoostTask, number: int) -> None:
        self._rounds, self._loss = rounds, task.loss
        train, xp = rounds.rows, rounds.runtime.xp
        self._inside, self._outside = train.weights, None
        drawn = rounds.draw.counts()
        if drawn is None:
            return
        weights = xp.ones(train.n) if train.weights is None else train.weights
        self._inside = xp.where(drawn[0] > 0, weights, 0.0)
        if not bool(self._inside.any()):
            raise no_row_error(task.sampler, number)
        outside = xp.where(drawn[0] > 0, 0.0, weights)
        if bool(outside.any()):
            self._outside, self._before = outside, self._mean(train, outside)

    def after(self) -> RoundLosses:
        """Compute mean losses, after leaf values were added to raw predictions."""
        train, *watched = self._rounds.sets
        outside = None
        if self._outside is not None:
            outside = self._before, self._mean(train, self._outside)
        others = tuple(self._mean(rows, rows.weights) for rows in watched)
        return RoundLosses(self._mean(train, self._inside), outside, others)

    def _mean(self, rows: DeviceRowSet, weights: Array | None) -> float:
        seen = rows.for_user(self._rounds.runtime.xp, weights)
        return self._loss.mean_loss(seen, np.zeros(self._loss.columns))
