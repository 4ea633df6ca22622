"""The list of exceptions, and the verdict, of the run of scikit-learn's own tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.drop_in.sklearn_suite import (
    MAX_EXCEPTIONS,
    SUITES,
    Suite,
    as_expected,
    outcomes_of,
    prepare,
    read_exceptions,
)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.exceptions.stem)
def test_exceptions_have_an_id_and_a_reason(suite):
    expected = read_exceptions(suite.exceptions)
    assert 0 < len(expected) <= MAX_EXCEPTIONS
    for test, reason in expected.items():
        assert test.split("::")[0] in suite.files
        assert len(reason.split()) > 2


def test_exceptions_are_few_and_read_with_their_reasons(tmp_path):
    listed = tmp_path / "exceptions.txt"
    listed.write_text("test_tree.py::test_a[x # y] # why so\n\n")
    assert read_exceptions(listed) == {"test_tree.py::test_a[x # y]": "why so"}
    listed.write_text("a # b\n" * 51)
    with pytest.raises(ValueError, match="has 51 lines, at most 50"):
        read_exceptions(listed)


@pytest.mark.parametrize(
    ("listed", "found", "verdict"),
    [
        ("xfailed", "passed", True),
        ("xfailed", "failed", True),  # not listed, but enough others pass
        ("xpassed", "passed", False),
        (None, "passed", False),
    ],
)
def test_the_verdict(tmp_path, capsys, listed, found, verdict):
    exceptions = tmp_path / "exceptions.txt"
    exceptions.write_text("listed # why so\n")
    suite = Suite({"test_a.py": "tests/test_a.py"}, exceptions, min_passed=2)
    outcomes = {"one": "passed", "two": "passed", "three": found}
    if listed is not None:
        outcomes["listed"] = listed
    assert as_expected(outcomes, suite) is verdict
    printed = capsys.readouterr().out
    assert ("not found: listed" in printed) == (listed is None)
    assert not as_expected(outcomes, replace(suite, min_passed=4))
    assert outcomes_of(suite, {"test_a.py::one": "passed", "test_b.py::one": "passed"}) == {
        "test_a.py::one": "passed"
    }


def test_imports_are_redirected(tmp_path):
    prepare(tmp_path)
    text = (tmp_path / "test_bagging.py").read_text()
    assert "from drop_in_names import (" in text and "\nfrom sklearn.ensemble import" not in text
    names: dict[str, object] = {}
    exec((tmp_path / "drop_in_names.py").read_text(), names)
    assert names["BaggingClassifier"].__module__.startswith("gpuboost.")
    assert names["VotingClassifier"].__module__.startswith("sklearn.")
