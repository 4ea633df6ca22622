"""Docstrings of public estimators list the errors of methods and the fitted attributes."""

from __future__ import annotations

import inspect
import re

import pytest

import gpuboost
from tests.estimators.estimator_cases import NAMES, data_for, make

ONLY_SOMETIMES = {"feature_names_in_", "init_"}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_method_says_what_it_raises(name):
    methods = {
        method_name: inspect.getdoc(method)
        for method_name, method in inspect.getmembers(getattr(gpuboost, name), inspect.isfunction)
        if not method_name.startswith("_") and method.__module__.startswith("gpuboost.")
    }
    assert {"fit", "predict", "apply", "score", "fingerprint"} <= set(methods)
    for method_name, text in methods.items():
        assert text.count("\nRaises\n------\n") == 1, method_name
        sections = re.findall(r"\n(\w+)\n-{5,}\n", text)
        order = ["Parameters", "Returns", "Yields", "Raises"]
        assert sections == [section for section in order if section in sections], method_name


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
