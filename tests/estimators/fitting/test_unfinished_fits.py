"""A fit that runs out of memory or is interrupted raises a clear error and leaves no model."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from gpuboost import BaggingRegressor, ExtraTreesClassifier
from tests.estimators.estimator_cases import fitted_facts

X = np.random.default_rng(0).normal(size=(30, 4))
Y = np.arange(30) % 3


def test_out_of_memory_says_what_to_change(monkeypatch):
    from gpuboost.backends.numpy.backend import NumpyBackend

    def grow(self, task):
        raise MemoryError("Unable to allocate 7.45 TiB")
        yield

    monkeypatch.setattr(NumpyBackend, "grow", grow)
    estimator = ExtraTreesClassifier(device="numpy")
    with pytest.raises(MemoryError, match=r"max_depth.*n_estimators.*Unable to allocate 7\.45 TiB"):
        estimator.fit(X, Y)
    assert not fitted_facts(estimator)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_real_memory_error_says_what_to_change():
    code = """
        import resource
        import numpy as np
        from gpuboost import RandomForestRegressor
        X = np.random.default_rng(0).normal(size=(300_000, 20))
        used = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (used + 60 * 2**20,) * 2)
        model = RandomForestRegressor(device="numpy", n_jobs=1)
        try:
            model.fit(X, X[:, 0])
        except MemoryError as error:
            assert "max_depth" in str(error), error
            assert not hasattr(model, "estimators_")
            print("told")
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "told"


def test_an_interrupted_fit_leaves_no_model(monkeypatch):
    from gpuboost.backends.numpy.backend import NumpyBackend

    whole = NumpyBackend.grow

    def grow(self, task):
        for count, item in enumerate(whole(self, task)):
            if count == 2:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(NumpyBackend, "grow", grow)
    estimator = BaggingRegressor(n_estimators=4, device="numpy")
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, X[:, 0])
    assert not fitted_facts(estimator) and pickle.loads(pickle.dumps(estimator)) is not None
