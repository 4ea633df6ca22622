"""Callbacks for long fits: checkpoints, time limits, progress and logs.

Every ensemble takes them as ``callbacks=[...]``. A callback is a function of a `RoundResult` and is
called after each tree or round; if it returns True, the fit ends and keeps the trees so far. A
subclass of `Callback` is also called at the start and the end of the fit.
"""

from gpuboost.callbacks.checkpoint import Checkpoint
from gpuboost.callbacks.reports import Log, Progress, TimeBudget
from gpuboost.estimators.fitting.callbacks import Callback, RoundResult

__all__ = ["Callback", "Checkpoint", "Log", "Progress", "RoundResult", "TimeBudget"]
