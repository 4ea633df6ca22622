"""``gpuboost demo``: compares all estimators with those of other libraries.

The tables are real, from scikit-learn, and synthetic.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import gpuboost
from gpuboost.backends.compiling import omit_notice
from gpuboost.cli import demo_table
from gpuboost.cli.bench.rows import SYNTHETIC_FEATURES, synthetic_rows
from gpuboost.cli.demo_peers import installed_peers, make_peer
from gpuboost.cli.demo_table import (
    ONE_THREAD,
    SCIKIT_LEARN,
    SYNTHETIC,
    TREE_COST,
    DemoTable,
    FitOutcome,
    Job,
    Line,
)
from gpuboost.cli.output import ProgressBar, progress, say
from gpuboost.data.parameters import thread_count
from gpuboost.estimators import HOMES

REAL_TABLES = ("iris", "wine", "breast_cancer", "digits", "diabetes")
TEST_SHARE = 0.25
N_TREES, WARM_UP_TREES = 20, 2  # trees of the ensembles on the synthetic table
MIN_ROWS = 1000  # of the synthetic table, also if scikit-learn then takes too long
WARM_UP_ROWS = 8_000  # large enough for the compiled programs of large tables
NUMPY_ROWS = 20_000  # maximum rows of the synthetic table with the NumPy backend
PEER_SHARE = 0.7  # of the time for the synthetic table that scikit-learn may take
ROWS_POWER = 1.15  # seconds of scikit-learn's trees grow with this power of the rows (measured)


@dataclass(frozen=True)
class DemoOptions:
    """Options of the command line.

    Attributes
    ----------
    device : str
        The `device` of the estimators.
    rows : int
        Maximum number of rows of the synthetic table; with the NumPy backend, `NUMPY_ROWS` if that
        is less.
    seconds : float
        Intended duration of the whole demonstration, which determines the number of rows of the
        synthetic table.
    seed : int
        Seed of the synthetic table, the test rows and the estimators.
    """

    device: str = "auto"
    rows: int = 200_000
    seconds: float = 70.0
    seed: int = 0


def estimator_names(is_classification: bool) -> list[str]:
    """Names of the public classifiers or regressors, single trees first.

    HistGradientBoosting* are left out, because they grow the trees of GradientBoosting*.
    """
    suffix = "Classifier" if is_classification else "Regressor"
    names = [name for name in HOMES if name.endswith(suffix) and not name.startswith("Hist")]
    return sorted(names, key=lambda name: (name in TREE_COST, name))


def run(options: DemoOptions) -> int:
    """Train all estimators, show progress and print the results.

    Returns the exit status: 1 if the backends grew different forests, else 0.
    """
    started, peers = time.perf_counter(), installed_peers()
    print(f"gpuboost {gpuboost.__version__}, device {options.device!r}\n")
    real = [load_table(name, options.seed) for name in REAL_TABLES]
    backend = fastest_backend(options.device)
    if backend == "numpy" and options.rows > NUMPY_ROWS:
        print(f"The NumPy backend is used: at most {NUMPY_ROWS:,} synthetic rows.")
        options = replace(options, rows=NUMPY_ROWS)
    small = make_tables(min(WARM_UP_ROWS, options.rows), options.seed)
    warm_up(small, backend, options.seed)
    n_fits = (1 + len(peers)) * len(small_jobs(real + small))
    say(f"training {n_fits} models ...")
    with progress("", n_fits, "fits") as bar:
        lines = [compare(job, options, peers, bar) for job in small_jobs(real)]
        left = options.seconds - (time.perf_counter() - started)
        rows = rows_for(PEER_SHARE * left, tree_seconds(small[1]), len(small[1].X_train))
        options = replace(options, rows=min(options.rows, rows))
        for job in synthetic_jobs(make_tables(options.rows, options.seed)):
            lines.append(compare(job, options, peers, bar))
    print(chosen_sentence(options))
    demo_table.print_outcomes(lines, peers)
    same, sentence = one_model(real, options)
    print(f"{demo_table.footer(lines, time.perf_counter() - started)}\n{sentence}")
    return 0 if same else 1


# ---- data --------------------------------------------------------------------------------------


def load_table(name: str, seed: int) -> DemoTable:
    """A dataset of scikit-learn, split into training and test rows."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return _split(name, X.astype(np.float32), y, name != "diabetes", seed)


def make_tables(rows: int, seed: int) -> list[DemoTable]:
    """Friedman's first problem with noise, as a classification and as a regression table."""
    X, y, classes = synthetic_rows(rows, seed)
    return [_split(SYNTHETIC, X, classes, True, seed), _split(SYNTHETIC, X, y, False, seed)]


def _split(name: str, X: Any, y: Any, is_classification: bool, seed: int) -> DemoTable:
    from sklearn.model_selection import train_test_split

    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, random_state=seed, stratify=y if is_classification else None
    )
    return DemoTable(name, X_train, X_test, y_train, y_test, is_classification)


# ---- jobs --------------------------------------------------------------------------------------


def small_jobs(tables: list[DemoTable]) -> list[Job]:
    """Jobs with default parameters: each classifier or regressor on each table of its kind."""
    return [
        Job(name, table) for table in tables for name in estimator_names(table.is_classification)
    ]


def synthetic_jobs(tables: list[DemoTable]) -> list[Job]:
    """Jobs with ensembles of `N_TREES` trees, single trees first."""
    jobs = sorted(small_jobs(tables), key=lambda job: job.is_ensemble)
    few = {"n_estimators": N_TREES}
    return [replace(job, parameters=few) if job.is_ensemble else job for job in jobs]


def tree_seconds(table: DemoTable) -> float:
    """Seconds that scikit-learn takes to train a single tree on a table."""
    job = Job("DecisionTreeRegressor", table)
    return _train(make_peer(SCIKIT_LEARN, job, 0), job).seconds


def rows_for(seconds: float, of_tree: float, n_measured: int) -> int:
    """Number of rows on which scikit-learn trains all ensembles in about ``seconds``.

    ``of_tree`` is its time for a single tree on ``n_measured`` rows.
    """
    cores = thread_count(None)
    costs = [cost / (1 if name in ONE_THREAD else cores) for name, cost in TREE_COST.items()]
    needed = max(N_TREES * sum(costs) * of_tree, 1e-9)
    n_train = n_measured * (max(seconds, 0.0) / needed) ** (1 / ROWS_POWER)
    return max(MIN_ROWS, int(n_train / (1 - TEST_SHARE)) // 1000 * 1000)


def chosen_sentence(options: DemoOptions) -> str:
    """A sentence with the size of the synthetic table, and the reason for it."""
    reason = f"chosen so that the demo takes about {options.seconds:.0f} s"
    if options.rows <= MIN_ROWS:
        reason = f"the fewest, as there is too little time for more in {options.seconds:.0f} s"
    return (
        f"Synthetic table: {options.rows:,} x {SYNTHETIC_FEATURES}, a quarter of the rows held out;"
        f"\n{reason}.\n"
    )


# ---- training ----------------------------------------------------------------------------------


def warm_up(tables: list[DemoTable], backend: str, seed: int) -> None:
    """Fit every estimator with few trees, so that compilation is not measured; print the time.

    Large tables, and tables of ten or more classes, run other compiled programs than others.
    """
    omit_notice()
    text = "Warm-up: compiling for {} (once on this machine, then kept on disk) ..."
    print(text.format(backend), end=" ", flush=True)
    started = time.perf_counter()
    for job in small_jobs([load_table("iris", seed), load_table("digits", seed), *tables]):
        words = {"n_estimators": WARM_UP_TREES} if job.is_ensemble else {}
        model = getattr(gpuboost, job.estimator)(device=backend, random_state=0, **words)
        model.fit(job.table.X_train, job.table.y_train).predict(job.table.X_test[:100])
    print(f"{time.perf_counter() - started:.1f} s\n", flush=True)


def fastest_backend(device: str) -> str:
    """The backend of ``device``; for "auto" and "cpu", the fastest usable backend on large data."""
    from gpuboost.backends.select import available_backends

    if device not in ("auto", "cpu"):
        return device
    usable = [name for name, works, _ in available_backends() if works]
    order = ("numba", "numpy") if device == "cpu" else ("cuda", "numba", "numpy")
    return next(name for name in order if name in usable)


def one_model(tables: list[DemoTable], options: DemoOptions) -> tuple[bool, str]:
    """Whether all usable backends grow the same forest, and a sentence with its fingerprints."""
    from gpuboost.backends.select import available_backends

    table = next(table for table in tables if table.name == "digits")
    prints = {}
    for device in [name for name, works, _ in available_backends() if works]:
        model = gpuboost.RandomForestClassifier(device=device, random_state=options.seed)
        prints[device] = model.fit(table.X_train, table.y_train).fingerprint()
    if len(set(prints.values())) > 1:
        different = ", ".join(f"{device} {value[:16]}" for device, value in prints.items())
        return False, f"The forest of digits DIFFERS between devices: {different}."
    first = next(iter(prints.values()))
    return True, f"The forest of digits on {' and '.join(prints)}: fingerprint {first[:16]}."


def compare(job: Job, options: DemoOptions, peers: tuple[str, ...], bar: ProgressBar) -> Line:
    """Train our estimator, then those of other libraries, with the same parameters.

    Those that can use several processors use all.
    """
    what = f"{job.estimator} on {job.table.name}"
    _show(bar, what)
    words = {"random_state": options.seed, **job.parameters}
    ours = _train(getattr(gpuboost, job.estimator)(device=options.device, **words), job)
    others = {}
    for peer in peers:
        _show(bar, f"{peer}: {what}")
        model = make_peer(peer, job, options.seed)
        if model is not None:
            others[peer] = _train(model, job)
    return Line(job, ours, others)


def _show(bar: ProgressBar, what: str) -> None:
    """Show the next fit in the progress bar."""
    bar.describe(what[:40].ljust(40))
    bar.advance()


def _train(model: Any, job: Job) -> FitOutcome:
    import joblib

    table = job.table
    # For scikit-learn's bagging, threads start and run faster than processes.
    with joblib.parallel_config(backend="threading"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LightGBM's, about names of features
        started = time.perf_counter()
        model.fit(table.X_train, table.y_train)
        seconds = time.perf_counter() - started
        score = float(model.score(table.X_test, table.y_test))
    return FitOutcome(seconds, score, getattr(model, "device_", ""))
