"""Estimates of the time to predict or explain in each backend, as `cost_model` has for fits."""

from __future__ import annotations

import math

from gpuboost.backends.cache import EXPLAIN, PREDICT
from gpuboost.backends.cost_model import Amount, WorkTimes, measured_speed, slowness
from gpuboost.engine.ensembles.ensemble import Ensemble

# Seconds of NumPy: STEP, one row, tree and level in prediction; PASS, one level of all trees that
# rows go through together; EDGE and EDGE_ROW, an edge of a tree and, in addition, each row there,
# in SHAP values.
NUMPY_STEP, NUMPY_PASS, NUMPY_EDGE, NUMPY_EDGE_ROW = 20e-9, 1.2e-5, 2.5e-5, 4e-8
NUMPY_PATHS = 1 << 15  # rows times trees that they go through together
# Numba visits, and bytes that kernels read or write (with the time of the arithmetic, converted to
# bytes), of a row and level in prediction, and of a row and edge in SHAP values.
STEP_VISITS, STEP_TRAFFIC, EDGE_VISITS, EDGE_TRAFFIC = 2, 10, 10, 100
EDGE_BYTES = 300  # of an edge that are copied to a GPU
PREDICTION_LAUNCHES = 4
# Work for which it is worth to start a thread (two threads start in 0.3 ms, and 3,000 rows and 100
# trees of depth 6 take 1.4 ms with one thread and 1.2 with two).
SECONDS_OF_A_THREAD = 1e-3


def prediction_amount(n_samples: int, row_bytes: int, ensemble: Ensemble) -> Amount:
    """Amount of work to predict: every row takes one step per level of every tree.

    A tree is assumed to have 1.5 log2(leaves) levels; ``row_bytes`` is the size of a row of X.
    """
    leaves = max(2.0, len(ensemble.left) / max(1, ensemble.n_trees) / 2)
    steps = float(n_samples) * ensemble.n_trees * 1.5 * math.log2(leaves)
    copied = float(n_samples) * (row_bytes + 8 * ensemble.n_values) + 16.0 * len(ensemble.left)
    return Amount(STEP_VISITS * steps, STEP_TRAFFIC * steps, PREDICTION_LAUNCHES, copied)


def prediction_work(n_samples: int, row_bytes: int, ensemble: Ensemble) -> WorkTimes:
    """Estimated seconds to predict in each backend; a row has ``row_bytes`` bytes."""
    amount, speed = prediction_amount(n_samples, row_bytes, ensemble), measured_speed()
    steps, paths = amount.visits / STEP_VISITS, float(n_samples) * ensemble.n_trees
    passes = steps / paths * math.ceil(paths / NUMPY_PATHS)
    return WorkTimes(
        PREDICT,
        numpy=slowness() * (2e-5 + NUMPY_PASS * passes + NUMPY_STEP * steps),
        numba=1e-5 + speed.numba_visit * amount.visits,
        cuda=0.001 + speed.on_cuda(amount),
    )


def explanation_work(
    n_samples: int, row_bytes: int, ensemble: Ensemble, n_background: int
) -> WorkTimes:
    """Estimated seconds of SHAP values in each backend, against so many background rows.

    ``n_background`` is 1 for path-dependent values.
    """
    edges, rows = float(len(ensemble.left)), float(max(n_samples, 8) * n_background)
    copied = float(n_samples) * row_bytes + EDGE_BYTES * edges
    traffic = EDGE_TRAFFIC * edges * rows
    return WorkTimes(
        EXPLAIN,
        numpy=slowness() * edges * (NUMPY_EDGE * n_background + NUMPY_EDGE_ROW * rows),
        numba=measured_speed().numba_visit * EDGE_VISITS * edges * rows,
        cuda=0.001 + measured_speed().on_cuda(Amount(0.0, traffic, PREDICTION_LAUNCHES, copied)),
    )


def threads_that_pay(work: WorkTimes) -> int:
    """Largest number of threads that make a prediction on the CPU faster."""
    return max(1, int(work.numba / SECONDS_OF_A_THREAD))
