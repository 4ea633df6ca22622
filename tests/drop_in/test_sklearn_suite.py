"""The list of exceptions, and the verdict, of the run of scikit-learn's own tests."""

from __future__ import annotations

import pytest

from tests.drop_in import sklearn_suite as suite


def test_exceptions_have_an_id_and_a_reason(monkeypatch, tmp_path):
    expected = suite.read_exceptions()
    assert 0 < len(expected) <= suite.MAX_EXCEPTIONS
    for test, reason in expected.items():
        assert test.split("::")[0] in {name.rpartition("/")[2] for name in suite.FILES}
        assert len(reason.split()) > 2
    listed = tmp_path / "exceptions.txt"
    monkeypatch.setattr(suite, "EXCEPTIONS", listed)
    listed.write_text("test_tree.py::test_a[x # y] # why so\n\n")
    assert suite.read_exceptions() == {"test_tree.py::test_a[x # y]": "why so"}
    listed.write_text("a # b\n" * 51)
    with pytest.raises(ValueError, match="has 51 lines, at most 50"):
        suite.read_exceptions()


@pytest.mark.parametrize(
    ("listed", "found", "verdict"),
    [
        ("xfailed", "passed", True),
        ("xfailed", "failed", True),  # not listed, but enough others pass
        ("xpassed", "passed", False),
        (None, "passed", False),
    ],
)
def test_the_verdict(monkeypatch, capsys, listed, found, verdict):
    monkeypatch.setattr(suite, "MIN_PASSED", 2)
    outcomes = {"one": "passed", "two": "passed", "three": found}
    if listed is not None:
        outcomes["listed"] = listed
    assert suite.as_expected(outcomes, {"listed": "why"}) is verdict
    printed = capsys.readouterr().out
    assert ("not found: listed" in printed) == (listed is None)
    monkeypatch.setattr(suite, "MIN_PASSED", 4)
    assert not suite.as_expected(outcomes, {"listed": "why"})


def test_imports_are_redirected(tmp_path):
    suite.prepare(tmp_path, {})
    text = (tmp_path / "test_bagging.py").read_text()
    assert "from drop_in_names import (" in text and "\nfrom sklearn.ensemble import" not in text
    names: dict[str, object] = {}
    exec((tmp_path / "drop_in_names.py").read_text(), names)
    assert names["BaggingClassifier"].__module__.startswith("gpuboost.")
    assert names["VotingClassifier"].__module__.startswith("sklearn.")
