"""Feature bundles, and the barrier of the thread pool between passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gpuboost.backends.numba.common.arguments import matrix_of
from gpuboost.backends.numba.level_wise import feature_bundles
from gpuboost.backends.numba.pipeline import EntryCompiler
from gpuboost.backends.numba.threads.barrier import (
    Barrier,
    barrier_wait,
    last_arrives,
    near_task,
    new_words,
    release,
    reset,
)
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.data.binning import bin_columns
from tests.binning import fit_bin_mapper

N_ROWS = 400


def matrix_with(levels: list[int], missing: list[bool]) -> Any:
    """Features with the given numbers of values, of which some have missing values."""
    rng = np.random.default_rng(len(levels))
    columns = [rng.integers(0, n, N_ROWS).astype(np.float64) for n in levels]
    for own, has in zip(columns, missing, strict=True):
        own[:: 7 if has else N_ROWS + 1] = np.nan if has else 0.0
    X = np.stack(columns, axis=1)
    mapper = fit_bin_mapper(X, np.zeros(len(levels), bool))
    return matrix_of(bin_columns(X, mapper, 1))


@njit(pipeline_class=EntryCompiler)
def _take_out(cells: Any, stride: int, values: int, sums: Any) -> None:
    feature_bundles.take_out(cells, stride, values, sums)


kinds = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 5, 15, 16, 17, 200]), st.booleans()), min_size=1
)


@settings(deadline=None, max_examples=60)
@given(kinds)
def test_histograms_of_features_come_from_those_of_columns(features: list[Any]) -> None:
    levels, missing = (list(kind) for kind in zip(*features, strict=True))
    matrix = matrix_with(levels, missing)
    columns = feature_bundles.plan_bundles(matrix)
    assert sorted(columns.order) == list(range(len(levels)))
    codes = feature_bundles.bundle_codes(matrix, columns)
    assert codes.shape == (len(columns.first) - 1, N_ROWS)
    weight = np.random.default_rng(1).integers(-(2**40), 2**40, N_ROWS)
    for column, own in enumerate(codes):
        cells = np.zeros((1, 256), np.int64)
        np.add.at(cells[0], own, weight)
        for feature in columns.order[columns.first[column] : columns.first[column + 1]]:
            expected = np.zeros(256, np.int64)
            np.add.at(expected, matrix.codes[feature], weight)
            values, n_bins = int(columns.values[feature]), int(matrix.n_bins[feature])
            found = np.zeros((1, 256), np.int64)
            if values == 0:
                found[:] = cells
            else:
                _take_out(cells[0], columns.stride[feature], values, found[0])
                if matrix.has_missing[feature]:
                    code = matrix.missing_code
                    expected[n_bins], expected[code] = expected[code], expected[n_bins]
            assert np.array_equal(found[0], expected)


def test_features_of_few_values_share_columns() -> None:
    matrix = matrix_with([2] * 20 + [200, 3, 16, 16], [False] * 24)
    columns = feature_bundles.plan_bundles(matrix)
    assert len(columns.first) - 1 == 3 + 1 + 1  # 8 + 8 + 4 columns of two with 3 and 16; 16; 200
    alone = feature_bundles.plan_bundles(matrix_with([200, 16, 30], [False] * 3))
    assert (alone.values == 0).all() and list(alone.order) == [0, 1, 2]


# ---- barriers ----------------------------------------------------------------------------------


@njit(nogil=True, pipeline_class=EntryCompiler)
def _add_in_turns(barrier: Any, sums: Any, n_turns: int, n_tasks: int) -> None:
    for turn in range(n_turns):
        task = near_task(barrier, n_tasks)
        while task < n_tasks:
            sums[turn + 1, task] += sums[turn, (task + 1) % n_tasks] + 1
            task = near_task(barrier, n_tasks)
        if last_arrives(barrier):
            sums[turn + 1, 0] += turn
            release(barrier)


@njit(nogil=True, pipeline_class=EntryCompiler)
def _take_all(barrier: Any, n_tasks: int, tasks: Any) -> None:
    for i in range(tasks.size):
        tasks[i] = near_task(barrier, n_tasks)


@pytest.mark.parametrize(
    ("thread", "expected"),
    [(0, [0, 1, 2, 3, 4, 5, 6]), (1, [2, 3, 4, 5, 6, 0, 1]), (2, [4, 5, 6, 0, 1, 2, 3])],
)
def test_a_thread_takes_its_own_share_first_and_then_that_of_the_next(
    thread: int, expected: list[int]
) -> None:
    words, tasks = new_words(3), np.zeros(9, np.int64)
    for _ in range(2):
        reset(words)
        _take_all(Barrier(words, thread, 3), 7, tasks)
        assert tasks.tolist() == [*expected, 7, 7]
    _take_all(Barrier(words, 0, 3), 7, tasks)
    assert tasks.tolist() == [7] * 9


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_no_thread_begins_a_pass_before_all_have_ended_the_one_before(n_threads: int) -> None:
    n_turns, n_tasks, pool = 200, 7, ThreadPool(n_threads)
    found, expected = np.zeros((2, n_turns + 1, n_tasks), np.int64)
    pool.share(lambda barrier: _add_in_turns(barrier, found, n_turns, n_tasks))
    pool.dismiss()
    for turn in range(n_turns):
        expected[turn + 1] = np.roll(expected[turn], -1) + 1
        expected[turn + 1, 0] += turn
    assert np.array_equal(found, expected)


def test_all_threads_of_a_pool_run_at_once() -> None:
    """All threads run, even if a thread gets its next task before it waits for one."""
    pool, sums = ThreadPool(6), np.zeros((3, 6), np.int64)
    for _ in range(300):
        pool.share(lambda barrier: None)
    for _ in range(3):
        sums[:] = 0
        pool.share(lambda barrier: _add_in_turns(barrier, sums, 2, 6))
        assert sums[2].sum() > 0
    pool.dismiss()


@njit(nogil=True, pipeline_class=EntryCompiler)
def _come(barrier: Any) -> bool:
    return barrier_wait(barrier)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_nobody_waits_for_a_thread_that_fails(missing: int) -> None:
    pool, came = ThreadPool(3), {}

    def work(barrier: Barrier) -> None:
        if barrier.thread == missing:
            raise ZeroDivisionError(barrier.thread)
        came[barrier.thread] = _come(barrier)

    with pytest.raises(ZeroDivisionError):
        pool.share(work)
    pool.dismiss()
    assert not any(came.values())
