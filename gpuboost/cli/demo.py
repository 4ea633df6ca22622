"""``gpuboost demo``: compares all estimators with scikit-learn's, on real and synthetic tables."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

import gpuboost
from gpuboost.cli import demo_table
from gpuboost.cli.demo_table import SYNTHETIC, TREE_COST, DemoTable, FitOutcome, Job, Line
from gpuboost.data.parameters import thread_count

REAL_TABLES = ("iris", "wine", "breast_cancer", "digits", "diabetes")
SYNTHETIC_FEATURES = 16
TEST_SHARE = 0.25
MAX_TREES, FEWEST_TREES = 20, 2
NUMPY_ROWS = 20_000  # maximum rows of the synthetic table with the NumPy backend


@dataclass(frozen=True)
class DemoOptions:
    """Options of the command line.

    Attributes
    ----------
    device : str
        The `device` of the estimators.
    rows : int
        Number of rows of the synthetic table, at most `NUMPY_ROWS` with the NumPy backend.
    seconds : float
        Intended duration of the whole demonstration, which determines the numbers of trees of the
        ensembles on the synthetic table.
    seed : int
        Seed of the synthetic table, the test rows and the estimators.
    """

    device: str = "auto"
    rows: int = 200_000
    seconds: float = 120.0
    seed: int = 0


def estimator_names(is_classification: bool) -> list[str]:
    """Names of the public classifiers or regressors, single trees first."""
    suffix = "Classifier" if is_classification else "Regressor"
    names = [name for name in gpuboost.__all__ if name.endswith(suffix)]
    return sorted(names, key=lambda name: name in TREE_COST)


def run(options: DemoOptions, out: TextIO | None = None) -> int:
    """Train all estimators, show progress and print the results.

    Returns the exit status: 1 if the backends grew different forests, else 0.
    """
    out = out or sys.stdout
    started = time.perf_counter()
    print(f"gpuboost {gpuboost.__version__}, device {options.device!r}\n", file=out)
    real = [load_table(name, options.seed) for name in REAL_TABLES]
    backend = fastest_backend(options.device)
    if backend == "numpy" and options.rows > NUMPY_ROWS:
        print(f"The NumPy backend is used: {NUMPY_ROWS:,} synthetic rows.", file=out)
        options = replace(options, rows=NUMPY_ROWS)
    synthetic = make_tables(options.rows, options.seed)
    warm_up(synthetic, backend, options.seed, out)
    n_fits = 2 * len(small_jobs(real + synthetic))
    with tqdm(total=n_fits, unit="fit", leave=False, dynamic_ncols=True) as bar:
        lines = [compare(job, options, bar) for job in small_jobs(real)]
        jobs = small_jobs(synthetic)
        singles = [compare(job, options, bar) for job in jobs if not job.is_ensemble]
        lines += singles
        slowest = max(line.theirs.seconds for line in singles)
        waiting = [job for job in jobs if job.is_ensemble]
        while waiting:
            left = options.seconds - (time.perf_counter() - started)
            job = sized(waiting, slowest, left * thread_count(None))
            lines.append(compare(job, options, bar))
            waiting = waiting[1:]
    print(chosen_sentence(lines, options), file=out)
    print(demo_table.table_text(lines), file=out)
    same, sentence = one_model(real, options)
    print(f"{demo_table.footer(lines, time.perf_counter() - started)}\n{sentence}", file=out)
    return 0 if same else 1


# ---- data --------------------------------------------------------------------------------------


def load_table(name: str, seed: int) -> DemoTable:
    """A dataset of scikit-learn, split into training and test rows."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return _split(name, X.astype(np.float32), y, name != "diabetes", seed)


def make_tables(rows: int, seed: int) -> list[DemoTable]:
    """Friedman's first problem with noise, as a classification and as a regression table."""
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(rows, SYNTHETIC_FEATURES, noise=2.0, random_state=seed)
    X = X.astype(np.float32)
    classes = (y > np.median(y)).astype(np.int64)
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


def sized(waiting: list[Job], tree_seconds: float, core_seconds: float) -> Job:
    """The first waiting job, with the number of trees that scikit-learn has time for.

    Parameters
    ----------
    waiting : list of Job
        Ensembles that are not trained yet.
    tree_seconds : float
        Seconds that scikit-learn took to train the slowest estimator of a single tree on a
        synthetic table.
    core_seconds : float
        Time left for all waiting ensembles, in seconds times cores.
    """
    job = waiting[0]
    share = core_seconds / len(waiting)
    trees = trees_for(share, tree_seconds * TREE_COST[job.estimator])
    return replace(job, parameters={"n_estimators": trees})


def trees_for(seconds: float, tree_seconds: float) -> int:
    """Number of trees that one core trains in ``seconds``: `FEWEST_TREES` to `MAX_TREES`."""
    fit = int(seconds / max(tree_seconds, 1e-9))
    return min(MAX_TREES, max(FEWEST_TREES, fit))


def chosen_sentence(lines: list[Line], options: DemoOptions) -> str:
    """A sentence with the size of the synthetic table and the numbers of trees."""
    chosen = [line.job for line in lines if line.job.parameters]
    trees = ", ".join(f"{job.estimator} {job.parameters['n_estimators']}" for job in chosen)
    return (
        f"Synthetic table: {options.rows:,} x {SYNTHETIC_FEATURES}, a quarter of the rows held out."
        f"\nNumbers of trees, chosen so that the demo takes about {options.seconds:.0f} s:\n"
        f"{trees}.\n"
    )


# ---- training ----------------------------------------------------------------------------------


def warm_up(tables: list[DemoTable], backend: str, seed: int, out: TextIO) -> None:
    """Fit every estimator with few trees, so that compilation is not measured; print the time.

    The fits use all training rows: large tables run other compiled programs than small tables.
    """
    text = "Warm-up: compiling for {} (once on this machine, then kept on disk) ..."
    print(text.format(backend), end=" ", file=out, flush=True)
    started = time.perf_counter()
    for job in small_jobs([load_table("iris", seed), *tables]):
        words = {"n_estimators": FEWEST_TREES} if job.is_ensemble else {}
        model = getattr(gpuboost, job.estimator)(device=backend, random_state=0, **words)
        model.fit(job.table.X_train, job.table.y_train).predict(job.table.X_test[:100])
    print(f"{time.perf_counter() - started:.1f} s\n", file=out, flush=True)


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


def compare(job: Job, options: DemoOptions, bar: tqdm) -> Line:
    """Train our estimator, then scikit-learn's, with the same parameters.

    If scikit-learn's has ``n_jobs``, it uses all processors.
    """
    words = {"random_state": options.seed, **job.parameters}
    what = f"{job.estimator} on {job.table.name}"
    _show(bar, what)
    ours = _train(getattr(gpuboost, job.estimator)(device=options.device, **words), job)
    _show(bar, f"scikit-learn's {what}")
    return Line(job, ours, _train(_scikit_learn(job, words), job))


def _show(bar: tqdm, what: str) -> None:
    """Show the next fit in the progress bar."""
    bar.set_description_str(what[:60].ljust(60))
    bar.update()


def _scikit_learn(job: Job, words: dict[str, Any]) -> Any:
    from sklearn import ensemble, tree

    module = ensemble if job.is_ensemble else tree
    model = getattr(module, job.estimator)(**words)
    return model.set_params(n_jobs=-1) if hasattr(model, "n_jobs") else model


def _train(model: Any, job: Job) -> FitOutcome:
    import joblib

    table = job.table
    # For scikit-learn's bagging, threads start and run faster than processes.
    with joblib.parallel_config(backend="threading"):
        started = time.perf_counter()
        model.fit(table.X_train, table.y_train)
        seconds = time.perf_counter() - started
        score = float(model.score(table.X_test, table.y_test))
    return FitOutcome(seconds, score, getattr(model, "device_", ""))
