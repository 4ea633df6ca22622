"""Pruning, importances and learning curves of arrays on a GPU: equal to those of NumPy arrays.

The GPU is the fake CuPy, whose kernels run on the CPU.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost.explain import bias_variance, learning_curve
from tests import cuda_shim
from tests.estimators.device_cases import table
from tests.estimators.estimator_cases import make
from tests.fakes import fake_cupy
from tests.fakes.gpu_arrays import to_gpu

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "BaggingRegressor"])
def test_sampled_trees(name: str, machine: fake_cupy.Machine) -> None:
    X, y = table(name)
    rows = (X[::2], y[::2]), (X[1::2], y[1::2])
    on_gpu = [tuple(map(to_gpu, own)) for own in rows]
    right = make(name).fit(*rows[0])
    model = make(name, device="auto").fit(*on_gpu[0])
    assert model.device_ == "cuda:0" and model.fingerprint() == right.fingerprint()
    assert model.prune(*on_gpu[1]).fingerprint() == right.prune(*rows[1]).fingerprint()
    found, expected = (
        each.oob_permutation_importance(*own).importances
        for each, own in ((model, on_gpu[0]), (right, rows[0]))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "name",
    [
        *("ExtraTreesRegressor", "RandomForestClassifier", "BaggingRegressor"),
        *("GradientBoostingClassifier", "AdaBoostRegressor"),
    ],
)
def test_learning_curves(name: str, machine: fake_cupy.Machine) -> None:
    X, y = table(name)
    given, own_y = to_gpu(X), to_gpu(y)
    right = learning_curve(make(name).fit(X, y), X, y, X_val=X[:50], y_val=y[:50])
    model = make(name, device="auto").fit(given, own_y)
    found = learning_curve(model, given, own_y, X_val=given[:50], y_val=own_y[:50])
    np.testing.assert_array_equal(found.train, right.train)
    np.testing.assert_array_equal(found.validation, right.validation)
    if right.out_of_bag is None:
        assert found.out_of_bag is None
    else:
        np.testing.assert_array_equal(found.out_of_bag, right.out_of_bag)


def test_bias_and_variance(machine: fake_cupy.Machine) -> None:
    X, y = table("DecisionTreeClassifier")
    tree = make("DecisionTreeClassifier", max_depth=3)
    found = bias_variance(tree, to_gpu(X), to_gpu(y), 3, random_state=0)
    assert vars(found) == vars(bias_variance(tree, X, y, 3, random_state=0))
