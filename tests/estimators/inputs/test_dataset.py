"""`Dataset`: contents, bins of a reference, and options that are refused."""

import numpy as np
import pytest

from gpuboost.estimators.inputs.dataset import Dataset
from tests.data.test_frames import EXPECTED, NAMES, N, pandas_frame, polars_frame


def test_dataset_holds_codes_and_not_the_data():
    train = Dataset(pandas_frame(), n_jobs=2)
    assert train.shape == (len(train), train.n_features) == (N, 4)
    assert train.feature_names_in_.tolist() == NAMES
    assert repr(train) == (
        "Dataset(200 samples, 4 features (1 categorical), up to 200 bins, 29 missing values, "
        "0.0 MiB)"
    )
    arrays = [v for v in vars(train).values() if isinstance(v, np.ndarray)]
    assert arrays == [] and train.binned.codes.nbytes == 4 * N
    unnamed = Dataset(EXPECTED)
    assert not hasattr(unnamed, "feature_names_in_")


def test_dataset_with_reference_uses_its_bins():
    train = Dataset(pandas_frame(), max_bins=8)
    test = Dataset(polars_frame()[::-1], reference=train)
    assert test.mapper is train.mapper and test.schema is train.schema
    assert np.array_equal(test.binned.codes, train.binned.codes[:, ::-1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_bins": 256}, ValueError, "max_bins must be an integer from 2 to 255, got 256"),
        ({"max_bins": 1}, ValueError, "max_bins must be"),
        ({"max_bins": 8.0}, TypeError, "max_bins must be .* of type float"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"sample_weight": np.ones(3)}, ValueError, r"expected \(200,\)"),
        ({"reference": np.eye(2)}, TypeError, "reference must be a Dataset, got ndarray"),
    ],
    ids=str,
)
def test_bad_dataset_options(options, error, message):
    with pytest.raises(error, match=message):
        Dataset(EXPECTED, **options)


def test_options_of_bins_are_refused_with_a_reference():
    train = Dataset(EXPECTED)
    with pytest.raises(ValueError, match="max_bins, sample_weight must not be given"):
        Dataset(EXPECTED, reference=train, max_bins=9, sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="contains infinity: feature 2 is -inf in row 5"):
        bad = EXPECTED.copy()
        bad[5, 2] = -np.inf
        Dataset(bad, reference=train)


def test_sample_weights_change_the_bin_edges():
    X = np.arange(1000.0).reshape(-1, 1)
    weights = np.where(X[:, 0] < 500, 9.0, 1.0)
    low = Dataset(X, max_bins=10, sample_weight=weights).mapper.lowest
    assert np.count_nonzero(low < 500) == 9
