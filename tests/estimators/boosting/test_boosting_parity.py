"""Gradient boosting fits the same model with NumPy and Numba, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor

pd = pytest.importorskip("pandas")

ROUNDS = 100
N = 400


def table(seed=0):
    """Numeric and categorical columns with missing values, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
    frame["kind"] = pd.Categorical(rng.choice(list("pqrstuvw"), N))
    signal = frame.a * frame.b + frame.c + (frame.kind.cat.codes % 3) + 0.3 * rng.normal(size=N)
    frame.loc[rng.random(N) < 0.2, "b"] = np.nan
    return frame, signal.to_numpy()


def weights(seed=1):
    """Real weights over several orders of magnitude, some of them zero."""
    rng = np.random.default_rng(seed)
    return 10.0 ** rng.uniform(-3, 0, N) * (rng.random(N) < 0.9)


REGRESSIONS = {
    "squared error": {},
    "squared error, whole weights": {"_weights": "whole"},
    "absolute error": {"loss": "absolute_error", "subsample": 0.7},
    "huber": {"loss": "huber", "max_depth": 5, "min_samples_leaf": 7},
    "quantiles": {"loss": "quantile", "alpha": [0.1, 0.5, 0.9]},
    "poisson, offset": {"loss": "poisson", "_offset": True, "l2_regularization": 1.0},
    "gamma": {"loss": "gamma", "max_leaf_nodes": 9, "max_depth": None, "min_samples_category": 0},
    "tweedie": {"loss": "tweedie", "max_features": 2, "max_features_per_tree": 4},
    "log cosh, offset": {"loss": "log_cosh", "_offset": True, "_weights": "real", "subsample": 0.8},
    "early stopping": {"n_iter_no_change": 5, "subsample": 0.5, "learning_rate": 0.3},
    "monotonic": {"monotonic_cst": {"a": 1, "c": -1}, "max_depth": 5},
    "interactions": {"interaction_cst": [{"a", "b"}, {"c", "kind"}], "max_features_per_level": 3},
    "l1, bounded": {"l1_regularization": 2.0, "max_delta_step": 0.2, "min_hessian_leaf": 5.0},
    "outputs": {"_outputs": True, "min_samples_category": 30},
    "outputs apart": {"_outputs": True, "multi_strategy": "one_output_per_tree"},
    "real weights": {"_weights": "real", "max_depth": 6},
}
CLASSIFICATIONS = {
    "two classes": {},
    "two classes, deep": {"max_depth": 8, "l2_regularization": 1.0, "max_features": 3},
    "exponential": {"loss": "exponential", "subsample": 0.6},
    "five classes": {"_classes": 5},
    "five classes in a leaf": {"_classes": 5, "multi_strategy": "multi_output_tree"},
    "weighted classes": {"_classes": 3, "class_weight": "balanced", "_weights": "real"},
    "early stopping": {"_classes": 3, "n_iter_no_change": 3, "learning_rate": 0.5},
}


def fitted(estimator, words, device, n_threads):
    """Fit a model to the case, and return it with its predictions."""
    own = {name: value for name, value in words.items() if not name.startswith("_")}
    X, signal = table()
    n_classes = words.get("_classes", 2)
    if estimator is GradientBoostingClassifier:
        y = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    else:
        y = np.exp(0.3 * signal) if own.get("loss") else signal
        y = np.column_stack([y, -y * y]) if words.get("_outputs") else y
    given = {"real": weights(), "whole": np.arange(N) % 4}.get(words.get("_weights"))
    offset = {"offset": np.linspace(-1, 1, N)} if words.get("_offset") else {}
    model = estimator(
        **{"n_estimators": ROUNDS, "random_state": 3, **own}, device=device, n_jobs=n_threads
    )
    model.fit(X, y, given, **offset)
    method = "predict_proba" if estimator is GradientBoostingClassifier else "predict"
    return model, getattr(model, method)(X, **offset)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        *((GradientBoostingRegressor, words) for words in REGRESSIONS.values()),
        *((GradientBoostingClassifier, words) for words in CLASSIFICATIONS.values()),
    ],
    ids=[*REGRESSIONS, *(f"{name} (classifier)" for name in CLASSIFICATIONS)],
)
def test_one_model_on_numpy_and_numba_with_any_number_of_threads(estimator, words):
    model, expected = fitted(estimator, words, "numpy", 1)
    assert model.n_estimators_ == ROUNDS or "n_iter_no_change" in words
    for n_threads in (1, 2, 3):
        other, found = fitted(estimator, words, "numba", n_threads)
        assert other.fingerprint() == model.fingerprint(), n_threads
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(other.train_score_, model.train_score_)
        assert other.evals_result_ == model.evals_result_
        assert other.device_ == "numba"
