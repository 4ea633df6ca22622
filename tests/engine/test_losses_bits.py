"""Losses have the same bits in NumPy, Numba and the kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.runtime.source import constant, kernel_folder
from gpuboost.backends.numba.boosting import row_sets
from gpuboost.backends.numba.boosting.row_sets import VisitedRows
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.losses import LOSSES, Predicted, formulas, make_loss
from gpuboost.engine.losses.base import CLASSES, as_columns
from gpuboost.engine.losses.table import TABLE
from tests import cuda_shim
from tests.cuda.runtime.test_kernels_compile import ARCHITECTURES, complaints, needs_nvrtc
from tests.cuda.runtime.test_kernels_compile import compiled as compiled_kernel
from tests.cuda_shim.launcher import Module
from tests.engine.loss_cases import (
    MAKERS,
    assert_same_bits,
    each_loss,
    extreme,
    gradients,
    mean_loss,
    row_losses,
    sample,
)

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@each_loss
@pytest.mark.parametrize("make", [sample, extreme])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_numba_finds_the_same_bits(
    kind: str, make: Any, weighted: bool, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sets, "VISIT_CHUNK", 777)
    pool = ThreadPool(n_threads)
    loss = MAKERS[kind]()
    y, raw, weights = make(loss, 3000)
    w = weights if weighted else None
    parameter = loss.round_parameter(Predicted(y, raw, w))
    expected = gradients(loss, y, raw, w, parameter)
    for order in ("C", "F"):
        rows = VisitedRows(
            loss, Predicted(y, np.asarray(raw, order=order), w), pool, np.empty(len(y))
        )
        rows.set_parameter(parameter)
        found = rows.directions()
        hessian = np.broadcast_to(found.hessian, raw.T.shape)
        for own, other in zip((-found.gradient, hessian), expected, strict=True):
            assert_same_bits(own.T, other)
        for own, of_chunks in ((found.gradient, found.sizes[:, :2]), (hessian, found.sizes[:, 2:])):
            assert abs(own).max() == of_chunks[:, 0].max()
    assert_same_bits(rows.row_losses(), row_losses(loss, y, raw, parameter))
    mean = rows.mean_loss()
    pool.dismiss()
    assert mean == mean_loss(loss, y, raw, w, parameter)
    assert np.isfinite(expected[0]).all() and np.isfinite(expected[1]).all()


def test_compiled_mean_of_tiny_and_of_infinite_losses() -> None:
    loss = make_loss("squared_error")
    y = np.array([0.0, 0.0, 1e-160])

    def compiled(raw: np.ndarray) -> float:
        rows = VisitedRows(
            loss, Predicted(y, raw), ThreadPool(1), np.empty(len(y)), is_trained=False
        )
        rows.set_parameter(np.zeros(1))
        return rows.mean_loss()

    for raw in (np.full((3, 1), 1e-155), np.full((3, 1), 1e-140), np.full((3, 1), 1e150)):
        assert compiled(raw) == mean_loss(loss, y, raw) > 0
    assert compiled(np.zeros((3, 1))) > 0  # 1e-320, a denormal number
    with np.errstate(over="ignore"):
        assert mean_loss(loss, y, np.full((3, 1), 1e200)) == np.inf
    assert compiled(np.full((3, 1), 1e200)) == np.inf


KERNELS = """
#include "boosting/losses.cuh"

extern "C" __global__ void columns(int32 formula, const double* y, const double* raw,
                                   double parameter, int32 n, double* out)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Derivatives found = derivatives(formula, y[i], raw[i], parameter);
    out[i] = found.gradient;
    out[n + i] = found.hessian;
    out[2 * (int64)n + i] = loss_value(formula, y[i], raw[i], parameter);
    out[3 * (int64)n + i] = sigmoid(raw[i]);
}

extern "C" __global__ void classes(const int32* y, const double* raw, double factor,
                                   int32 n_classes, int32 n, double* g, double* h, double* losses)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double* own = raw + i * n_classes;
    double largest = own[0], total = 0.0;
    for (int32 k = 1; k < n_classes; ++k) largest = max(largest, own[k]);
    for (int32 k = 0; k < n_classes; ++k) total += softmax_weight(own[k], largest);
    for (int32 k = 0; k < n_classes; ++k) {
        const double probability = softmax_weight(own[k], largest) / total;
        const Derivatives found = softmax(y[i] == k ? 1.0 : 0.0, probability, factor);
        g[i * n_classes + k] = found.gradient;
        h[i * n_classes + k] = found.hessian;
    }
    losses[i] = softmax_loss(own[y[i]], largest, total);
}
"""


def launch(name: str, n: int, *args: Any) -> None:
    kernel = Module(KERNELS, file_name="losses_test.cu").get_function(name)
    kernel((-(-n // 256),), (256,), args)


@needs_compiler
@pytest.mark.parametrize("kind", [k for k in MAKERS if not k.endswith("classes")])
def test_kernels_find_the_same_bits(kind: str) -> None:
    loss = MAKERS[kind]()
    y, raw, _ = extreme(loss)
    parameter = loss.round_parameter(Predicted(y, raw))
    g, h = gradients(loss, y, raw, None, parameter)
    targets = np.broadcast_to(as_columns(y), raw.shape)
    for k in range(loss.columns):
        out = np.empty((4, len(y)))
        target, column = targets[:, k].copy(), raw[:, k].copy()
        n, formula = np.int32(len(y)), np.int32(loss.formula)
        launch("columns", len(y), formula, target, column, np.float64(parameter[k]), n, out)
        assert_same_bits(out[0], g[:, k])
        assert_same_bits(out[1], h[:, k])
        assert_same_bits(out[2], loss.facts.value(target, column, parameter[k]))
        assert_same_bits(out[3], formulas.sigmoid(column))


@needs_compiler
def test_kernels_find_the_same_bits_of_classes() -> None:
    loss = MAKERS["log_loss of classes"]()
    y, raw, _ = extreme(loss)
    parameter = loss.round_parameter(Predicted(y, raw))
    g, h, losses = np.empty(raw.shape), np.empty(raw.shape), np.empty(len(y))
    sizes = (np.int32(loss.columns), np.int32(len(y)))
    launch("classes", len(y), y, raw, np.float64(parameter[0]), *sizes, g, h, losses)
    expected = gradients(loss, y, raw, None, parameter)
    assert_same_bits(g, expected[0])
    assert_same_bits(h, expected[1])
    assert_same_bits(losses, row_losses(loss, y, raw))


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile_to_exact_and_lean_code(architecture: str) -> None:
    assert not complaints(compiled_kernel(KERNELS, "losses_test.cu", architecture))


def test_kernels_have_the_losses_of_the_table() -> None:
    text = (kernel_folder() / "boosting/losses.cuh").read_text()
    rows = [
        (int(number), name) for number, name in re.findall(r"^ +ROW\((\d+), (\w+)\)", text, re.M)
    ]
    of_columns = [row for row in TABLE if row.target != CLASSES]
    assert rows == [(row.number, row.pair.__name__) for row in of_columns]
    assert [row.value.__name__ for row in TABLE] == [f"{row.pair.__name__}_loss" for row in TABLE]
    (softmax,) = (row.number for row in TABLE if row.target == CLASSES)
    assert constant("boosting/losses.cuh", "SOFTMAX") == softmax
    assert [row.number for row in TABLE] == list(range(len(TABLE)))


def test_every_loss_is_tested() -> None:
    assert {MAKERS[kind]().facts.name for kind in MAKERS} == set(LOSSES)
