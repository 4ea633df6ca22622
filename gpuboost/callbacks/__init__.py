"""Callbacks for long fits: checkpoints, time limits, progress and logs.

Every ensemble takes them as ``callbacks=[...]``. A callback is a function of a `RoundResult` and is
called after each tree or round; if it returns True, the fit ends and keeps the trees so far.
"""

from gpuboost.callbacks.checkpoint import Checkpoint
from gpuboost.callbacks.reports import Log, Progress, TimeBudget
from gpuboost.estimators.fitting.callbacks import RoundResult

__all__ = ["Checkpoint", "Log", "Progress", "RoundResult", "TimeBudget"]
