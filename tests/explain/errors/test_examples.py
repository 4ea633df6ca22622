"""The examples in the docstrings of `gpuboost.explain` run."""

from __future__ import annotations

import doctest

import pytest

from gpuboost import explain


@pytest.mark.parametrize("name", ["bias_variance", "feature_importances", "learning_curve"])
def test_examples_of_docstrings(name: str) -> None:
    text = getattr(explain, name).__doc__
    found = doctest.DocTestRunner().run(
        doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    )
    assert found.failed == 0 and found.attempted > 3
