"""With many classes, some of few rows, boosting is as accurate as a forest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from gpuboost import GradientBoostingClassifier, RandomForestClassifier
from gpuboost.engine.losses import formulas as gradients

N_CLASSES = 15


def table(seed: int, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal clusters of 500 down to 4 rows, times ``times``; 6 of 8 features are informative."""
    sizes = np.maximum(500 * 0.7 ** np.arange(N_CLASSES), 4).astype(int) * times
    centres = np.random.default_rng(0).normal(size=(N_CLASSES, 6)) * 1.6
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(N_CLASSES), sizes)
    X = np.hstack([centres[y] + rng.normal(size=(len(y), 6)), rng.normal(size=(len(y), 2))])
    return X.astype(np.float32), y


def scores(model: object) -> tuple[float, float]:
    """Accuracy and log loss on held-out rows."""
    X, y = table(2, 4)
    probabilities = model.fit(*table(1, 1)).predict_proba(X)  # type: ignore[attr-defined]
    loss = log_loss(y, np.clip(probabilities, 1e-15, 1.0), labels=range(N_CLASSES))
    return float((probabilities.argmax(axis=1) == y).mean()), float(loss)


def boosting() -> GradientBoostingClassifier:
    return GradientBoostingClassifier(n_estimators=40, random_state=0, device="numpy")


def test_boosting_is_as_good_as_a_forest() -> None:
    accuracy, loss = scores(boosting())
    of_forest, its_loss = scores(RandomForestClassifier(random_state=0, device="numpy"))
    assert accuracy > of_forest - 0.01
    assert loss < its_loss


def test_boosting_is_worse_without_a_bound_on_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = scores(boosting())
    monkeypatch.setattr(gradients, "MAX_STEP", 1e300)
    free = scores(boosting())
    assert free[1] > 1.2 * bounded[1]
    assert free[0] < bounded[0]
