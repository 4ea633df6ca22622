"""Docstrings list the errors of public methods, attributes, and the losses of the table."""

from __future__ import annotations

import inspect
import re

import pytest

import gpuboost
from gpuboost.engine.losses import LOSSES
from gpuboost.engine.losses.base import INFORMATION, WEIGHT
from gpuboost.engine.losses.regression import OrderStatisticLoss
from gpuboost.engine.losses.table import TABLE
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.model.tree_view import TreeView
from tests.estimators.estimator_cases import NAMES, data_for, make

ONLY_SOMETIMES = {"feature_names_in_", "init_"}
# Parameters of `GradientBoosting` whose text names losses, and the rows of the table they are for.
LISTS = {
    "min_hessian_leaf": lambda row: row.hessian == WEIGHT,
    "min_samples_category": lambda row: row.hessian == INFORMATION,
    "l1_regularization": lambda row: issubclass(row.kind, OrderStatisticLoss),
    "monotonic_cst": lambda row: issubclass(row.kind, OrderStatisticLoss),
    "multi_strategy": lambda row: row.sums_outputs,
}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_method_says_what_it_raises(name):
    methods = {
        method_name: inspect.getdoc(method)
        for method_name, method in inspect.getmembers(getattr(gpuboost, name), inspect.isfunction)
        if not method_name.startswith("_") and method.__module__.startswith("gpuboost.")
    }
    assert {"fit", "predict", "score", "fingerprint"} <= set(methods)
    for method_name, text in methods.items():
        assert text.count("\nRaises\n------\n") == 1, method_name
        sections = re.findall(r"\n(\w+)\n-{5,}\n", text)
        order = ["Parameters", "Returns", "Yields", "Raises"]
        assert sections == [section for section in order if section in sections], method_name


@pytest.mark.parametrize("kind", [gpuboost.Dataset, TreeView])
def test_every_method_with_arguments_says_what_it_raises(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        given = list(inspect.signature(method).parameters.values())[1:]
        needs_one = any(each.default is inspect.Parameter.empty for each in given)
        if needs_one and (not name.startswith("_") or name == "__getitem__"):
            assert inspect.getdoc(method).count("\nRaises\n------\n") == 1, name


def test_a_dataset_documents_its_errors_and_properties():
    text = inspect.getdoc(gpuboost.Dataset)
    sections = re.findall(r"\n(\w+)\n-{5,}\n", text)
    assert sections == ["Parameters", "Attributes", "Raises", "Examples"]
    assert "\nRaises\n------\n" in inspect.getdoc(gpuboost.Dataset.feature_names_in_)
    section = text.split("\nAttributes\n----------\n")[1].split("\n\n")[0]
    told = re.findall(r"\w+", " ".join(re.findall(r"^(\w.*) :", section, re.MULTILINE)))
    known = [*vars(gpuboost.Dataset), *vars(gpuboost.Dataset([[1.0], [2.0]]))]
    known.remove("from_batches")  # a class method, with a docstring of its own
    assert set(told) == {name for name in known if not name.startswith("_")}


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_attribute_is_documented(name):
    estimator = make(name)
    if hasattr(estimator, "bootstrap"):
        estimator.set_params(bootstrap=True, oob_score=True)
    if hasattr(estimator, "subsample"):
        estimator.set_params(subsample=0.5, n_iter_no_change=2)
    model = estimator.fit(*data_for(name))
    section = inspect.getdoc(type(model)).split("\nAttributes\n----------\n")[1].split("\n\n")[0]
    told = set(re.findall(r"^(\w+) :", section, re.MULTILINE))
    fitted = [each for each in dir(model) if each.endswith("_") and not each.startswith("_")]
    assert told - ONLY_SOMETIMES == {each for each in fitted if hasattr(model, each)}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_losses_follow_the_table(name):
    entry = re.search(rf"\n{name} : .*((?:\n    .*)+)", inspect.getdoc(GradientBoosting)).group(1)
    named = set(re.findall(r"'(\w+)'", entry)) & set(LOSSES)
    assert named == {row.name for row in TABLE if LISTS[name](row)}
