"""Tables that are read, checked and binned once for many fits."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from gpuboost.backends.cost_model import binning_times
from gpuboost.backends.select import choose_backend, numpy_backend
from gpuboost.data.arrays import copied_to_host
from gpuboost.data.frames import FeatureSchema, apply_schema, fit_schema
from gpuboost.data.parameters import integer_between, thread_count
from gpuboost.data.validation import check_features, check_shape, check_weights
from gpuboost.engine.bins import MAX_BINS, BinMapper, BinnedMatrix, BinRule


class Dataset:
    """Features that are read, checked and binned once.

    Pass a dataset to `fit`, `predict` and `score` in place of `X`. The dataset keeps one byte per
    value, or five bytes per stored entry of a sparse matrix, not `X` itself. ``data[rows]`` selects
    rows by a slice, a mask or indices and keeps the bins of the whole dataset. In cross-validation,
    the bins and the codes of categories therefore depend on the test rows, but nothing else in a
    fit does.

    A dataset holds bin codes only. A value between the training values of two bins may therefore
    fall on the other side of a threshold between these bins than the same value in ``predict(X)``.
    For training rows of positive weight, both predictions are the same.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Also an Arrow table, a lazy frame of polars, and any object that exports Arrow data or
        DLPack. NaN means missing. X and weights on a GPU are copied to the host.
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Which features are categorical: columns of categories or strings in a data frame, no
        features, or the features given by a mask, indices or names.
    max_bins : int
        Maximum number of bins per numeric feature, from 2 to 255. A categorical feature has up to
        255 bins. Missing values have an extra bin.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows in the quantiles that become bin edges; rows of weight 0 are left out.
        Fits use the `sample_weight` of `fit`.
    reference : Dataset, optional
        Dataset whose features and bins are used; for test data, pass the training dataset. With a
        reference, the parameters above other than `X` must keep their defaults.
    n_jobs : int, optional
        Number of threads. None means one thread per processor that the process can use, but at most
        ``OMP_NUM_THREADS``; -1 means the same without this limit.

    Attributes
    ----------
    schema : FeatureSchema
        Names and kinds of the features, and the codes of their categories.
    binned : BinnedMatrix
        Bin codes of the values, and the bins.
    mapper : BinMapper
        Bins of the features.
    n_samples, n_features : int
        Number of rows and number of features.
    shape : tuple of int
        ``(n_samples, n_features)``.
    y, sample_weight : ndarray of shape (n_samples,), or None
        The columns of labels and of weights that `from_batches` was given.
    feature_names_in_ : ndarray of str of shape (n_features,)
        Names of the features, if all of them are strings.

    Raises
    ------
    TypeError, ValueError
        X, a weight or a parameter is invalid; the message says what is allowed.
    MemoryError
        There is not enough memory.
    ImportError
        X is an Arrow table of another library than pandas or polars, and pyarrow is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuboost import Dataset
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> train = Dataset(X[:7])
    >>> Dataset(X[7:], reference=train).shape
    (3, 2)
    """

    schema: FeatureSchema
    binned: BinnedMatrix
    y: np.ndarray | None = None
    sample_weight: np.ndarray | None = None

    def __init__(
        self,
        X: Any,
        *,
        categorical_features: Any = "from_dtype",
        max_bins: int = MAX_BINS,
        sample_weight: Any = None,
        reference: Dataset | None = None,
        n_jobs: int | None = None,
    ) -> None:
        n_threads = thread_count(n_jobs)
        X, sample_weight = copied_to_host(X, sample_weight)
        if reference is None:
            max_bins = integer_between("max_bins", max_bins, 2, MAX_BINS)
            matrix, self.schema = fit_schema(X, categorical_features)
            check_features(matrix, self.schema.names)
            weights = check_weights(sample_weight, len(matrix))
            rule = BinRule(self.schema.is_categorical, max_bins, weights)
            backend = choose_backend("cpu", binning_times(matrix.shape))
            self.binned = backend.fit_bins(matrix, rule, n_threads)
        else:
            _check_reference(reference, categorical_features, max_bins, sample_weight)
            self.schema = reference.schema
            matrix = check_features(apply_schema(X, self.schema), self.schema.names)
            self.binned = numpy_backend().bin(matrix, reference.mapper, n_threads)

    @classmethod
    def from_batches(
        cls,
        source: Any,
        *,
        label: str | None = None,
        weight: str | None = None,
        categorical_features: Any = "from_dtype",
        max_bins: int = MAX_BINS,
        memory_limit: int | None = None,
        reference: Dataset | None = None,
        n_jobs: int | None = None,
    ) -> Dataset:
        """Make a dataset of data that need not fit in memory.

        Columns are read and binned a few at a time. Codes that exceed half of the memory limit are
        in a temporary file, and trees grow by reading it once for each level. Neither the limit nor
        the sizes of files and batches show in a model: it is that of ``Dataset(X)`` with the whole
        table. See docs/large_data.md.

        Parameters
        ----------
        source : object
            Parquet or Arrow files (a path, a glob pattern, a folder, or a list of paths), a dataset
            of pyarrow, a lazy frame of polars, a relation of duckdb, an object that exports an
            Arrow stream, an iterable of tables, or a function that returns any of these but paths.
            Files are read in place; a stream is read once, and kept in a temporary file meanwhile.
        label, weight : str, optional
            Columns that become `y` and `sample_weight`; all other columns are features. Weights
            also weight the quantiles that become bin edges.
        categorical_features, max_bins, n_jobs
            As in `Dataset`.
        memory_limit : int, optional
            Bytes for codes and for growing trees, besides what each row takes (about 90 bytes in
            boosting) and the values of a column while it is binned. None means half of the
            machine's memory.
        reference : Dataset, optional
            Dataset whose features and bins are used, for test data; `categorical_features` and
            `max_bins` must keep their defaults.

        Raises
        ------
        TypeError, ValueError
            The source, a column or a parameter is invalid; the message says what is allowed.
        SourceChangedError, SpillError
            Files changed while they were read, or the temporary file failed.
        ImportError
            pyarrow is not installed.
        """
        from gpuboost.blocks.sources import open_source
        from gpuboost.estimators.inputs.batches import BatchReader

        reader = BatchReader(open_source(source), label, weight, memory_limit, thread_count(n_jobs))
        made = cls.__new__(cls)
        made.y, made.sample_weight = reader.y, reader.weights
        if reference is None:
            max_bins = integer_between("max_bins", max_bins, 2, MAX_BINS)
            made.schema, made.binned = reader.learn(categorical_features, max_bins)
        else:
            _check_reference(reference, categorical_features, max_bins, None)
            made.schema = reference.schema
            made.binned = reader.bin_as(reference.schema, reference.mapper)
        return made

    @property
    def mapper(self) -> BinMapper:
        return self.binned.mapper

    @property
    def n_samples(self) -> int:
        return self.binned.n_samples

    @property
    def n_features(self) -> int:
        return self.binned.n_features

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_samples, self.n_features

    @property
    def feature_names_in_(self) -> np.ndarray[Any, np.dtype[np.object_]]:
        """Names of the features, if all of them are strings.

        Raises
        ------
        AttributeError
            The features have no such names.
        """
        if self.schema.names is None:
            raise AttributeError("this Dataset has no feature_names_in_: X had no string names")
        return self.schema.names

    def __getitem__(self, rows: Any) -> Dataset:
        """Return the rows given by a slice, a mask or indices as a dataset.

        Raises
        ------
        TypeError
            ``rows`` is not a slice or an array of bools or integers.
        ValueError
            ``rows`` selects no row, or is not a valid slice or array.
        IndexError
            An index is out of range, or a mask has another length than the dataset.
        """
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # scikit-learn indexes rows this way
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(chosen, np.ndarray):
            if chosen.size == 0 and chosen.ndim == 1 and chosen.dtype.kind == "f":
                chosen = chosen.astype(np.intp)
            if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
                raise TypeError(
                    "rows of a Dataset are selected by a slice or an array of bools or integers, "
                    f"got {rows!r:.80}; features cannot be selected: make a Dataset of them"
                )
        part = copy(self)
        part.binned = self.binned.take(chosen)
        if self.y is not None:
            part.y = self.y[chosen]
        if self.sample_weight is not None:
            part.sample_weight = self.sample_weight[chosen]
        check_shape(np.broadcast_to(np.uint8(0), (part.n_samples, part.n_features)))
        return part

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        n_categorical = int(np.count_nonzero(self.schema.is_categorical))
        n_missing = int(self.binned.n_missing.sum())
        return (
            f"Dataset({self.n_samples} samples, {self.n_features} features "
            f"({n_categorical} categorical), up to {self.mapper.missing_code} bins, "
            f"{n_missing} missing values, {self.binned.stored.nbytes / 2**20:.1f} MiB)"
        )


def _check_reference(
    reference: Any, categorical_features: Any, max_bins: Any, sample_weight: Any
) -> None:
    """Check that only `X` and `n_jobs` are given together with a reference."""
    if not isinstance(reference, Dataset):
        raise TypeError(f"reference must be a Dataset, got {type(reference).__name__}")
    given = {
        "categorical_features": not (
            isinstance(categorical_features, str) and categorical_features == "from_dtype"
        ),
        "max_bins": max_bins != MAX_BINS,
        "sample_weight": sample_weight is not None,
    }
    excess = [name for name, is_given in given.items() if is_given]
    if excess:
        raise ValueError(
            f"{', '.join(excess)} must not be given with a reference, which has its own"
        )
