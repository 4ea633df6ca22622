"""Damage that random mutations seldom do: one function for each, on a header and its arrays."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier

import gpuboost
from gpuboost.estimators.files.estimators import model_file_parts
from gpuboost.io.container import to_bytes, with_digest
from tests.io.mutations import frame
from tests.io.small_models import (
    FEW,
    adaboost,
    after_boosting,
    after_classifier,
    after_regressor,
    by_category,
    forest,
    histogram_classifier,
    imported_adaboost,
    imported_classifier,
    imported_forest,
    imported_with_categories,
    imported_with_shared_codes,
    pasting,
    rounds,
    stump,
    tweedie,
    two_outputs,
)

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]
DAMAGES: dict[str, tuple[Any, Callable[[Header, Arrays], None]]] = {}
TREES = ("feature", "threshold", "code", "missing_left", "value", "impurity_decrease", "weight")


def damage(model: Callable[[], Any]) -> Callable[[Callable[[Header, Arrays], None]], Any]:
    """Register a function that damages the file of a model."""

    def register(function: Callable[[Header, Arrays], None]) -> Any:
        DAMAGES[function.__name__] = model, function
        return function

    return register


def damaged(name: str) -> bytes:
    """The file that has the damage."""
    model, function = DAMAGES[name]
    header, arrays = model_file_parts(model())
    header, arrays = copy.deepcopy(header), {name: np.array(own) for name, own in arrays.items()}
    function(header, arrays)
    return to_bytes(header, arrays)


# ---- trees ---------------------------------------------------------------------------------------


@damage(forest)
def no_trees(header: Header, arrays: Arrays) -> None:
    for name in [name for name in arrays if name.startswith("model/trees/")]:
        arrays[name] = arrays[name][:0]
    header["model"]["batches"][0]["trees"] = [0, 0]
    for name in ("impurity", "count"):
        arrays[f"model/trees/{name}"] = np.ones(1, arrays[f"model/trees/{name}"].dtype)


@damage(forest)
def negative_masks(header: Header, arrays: Arrays) -> None:
    arrays["model/trees/n_masks"][:2] = -1, 1
    arrays["model/trees/category"] = np.full(len(arrays["model/trees/feature"]), -1, np.int32)
    arrays["model/trees/n_masks"][1] += 1
    arrays["model/trees/masks"] = np.zeros((1, 8), np.uint32)


@damage(stump)
def split_below_a_leaf(header: Header, arrays: Arrays) -> None:
    """The nodes leaf, split, leaf: as many as in a tree, but the second has no parent."""
    for name in TREES:
        own = arrays.get(f"model/trees/{name}")
        if own is not None and len(own) == 3:
            own[:2] = own[1::-1].copy()


@damage(stump)
def lost_leaf(header: Header, arrays: Arrays) -> None:
    for name in (*TREES, "impurity", "count"):
        own = arrays.get(f"model/trees/{name}")
        if own is not None and len(own) == 3:
            arrays[f"model/trees/{name}"] = own[:2]
    arrays["model/trees/n_nodes"][0] = 2


@damage(forest)
def tree_without_nodes(header: Header, arrays: Arrays) -> None:
    for name in ("n_nodes", "n_masks"):
        own = arrays[f"model/trees/{name}"]
        arrays[f"model/trees/{name}"] = np.append(own, 0).astype(np.int32)
    header["model"]["batches"][0]["trees"][1] += 1


@damage(forest)
def sum_beyond_float64(header: Header, arrays: Arrays) -> None:
    arrays["model/trees/value"][:] = 1e308


@damage(by_category)
def mask_that_does_not_exist(header: Header, arrays: Arrays) -> None:
    category = arrays["model/trees/category"]
    category[category >= 0] += 5


@damage(pasting)
def negative_weights(header: Header, arrays: Arrays) -> None:
    arrays["model/batch0/weights"][0] = -1.0


@damage(rounds)
def lost_tree(header: Header, arrays: Arrays) -> None:
    """One of nine trees is missing, of three in a round."""
    n_nodes = arrays["model/trees/n_nodes"]
    m, lost = n_nodes.sum(), n_nodes[-1]
    for name, own in list(arrays.items()):
        if name.startswith("model/trees/") and len(own) == m:
            arrays[name] = own[:-lost]
    for name in ("n_nodes", "n_masks"):
        arrays[f"model/trees/{name}"] = arrays[f"model/trees/{name}"][:-1]
    header["model"]["batches"][-1]["trees"][1] -= 1


@damage(rounds)
def all_trees_in_one_round(header: Header, arrays: Arrays) -> None:
    header["model"]["trees_per_round"] = 9


@damage(two_outputs)
def probability_of_no_class(header: Header, arrays: Arrays) -> None:
    """The second output has two classes, but the same number of columns as the first."""
    arrays["model/trees/value"][:, 5] = arrays["model/trees/value"][:, 4]
    arrays["model/trees/value"][:, 4] = 0.0


@damage(adaboost)
def several_outputs(header: Header, arrays: Arrays) -> None:
    arrays["model/trees/value"] = np.repeat(arrays["model/trees/value"], 2, axis=1)
    header["n_outputs"] = 2


# ---- columns and bins ----------------------------------------------------------------------------


@damage(by_category)
def bins_of_no_codes(header: Header, arrays: Arrays) -> None:
    arrays["model/bins/lowest"] += 0.5
    arrays["model/bins/highest"] += 0.5


@damage(forest)
def too_many_bins(header: Header, arrays: Arrays) -> None:
    arrays["model/bins/n_bins"][0] = 300
    arrays["model/bins/lowest"] = arrays["model/bins/highest"] = np.arange(300.0)


@damage(stump)
def same_name_twice(header: Header, arrays: Arrays) -> None:
    header["model"]["features"]["names"] = ["a", "a"]


@damage(by_category)
def same_category_twice(header: Header, arrays: Arrays) -> None:
    categories = header["model"]["features"]["categories"]["0"]
    categories[0][1] = categories[0][0]


@damage(by_category)
def categories_with_one_hash(header: Header, arrays: Arrays) -> None:
    values = [i * sys.hash_info.modulus for i in range(20)]
    header["model"]["features"]["categories"]["0"] = [values, [0] * 20]


@damage(stump)
def categories_of_a_number(header: Header, arrays: Arrays) -> None:
    header["model"]["features"]["categories"]["0"] = [["red"], [0]]


# ---- values of the header ------------------------------------------------------------------------


@damage(stump)
def key_twice(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"dict": [["a", 1], ["a", -1]]}


@damage(by_category)
def set_of_lists(header: Header, arrays: Arrays) -> None:
    header["model"]["features"]["categories"]["0"][0][0] = {"set": [[0], 1]}


@damage(stump)
def value_of_a_set_twice(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = [{"set": [0, 1, 0]}]


@damage(stump)
def unknown_type_of_value(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"function": ["DecisionTreeRegressor", {}]}


@damage(stump)
def strings_that_are_cut(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"array": ["<U2", ["long"]]}


@damage(stump)
def strings_of_a_type_that_does_not_exist(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"array": ["<U99999999999", []]}


@damage(stump)
def float_beyond_its_type(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"array": ["<f2", [1e300]]}


@damage(rounds)
def class_that_is_nan(header: Header, arrays: Arrays) -> None:
    header["classes"] = [{"array": ["<f8", [0.0, 1.0, {"float": "nan"}]]}]


@damage(rounds)
def class_twice(header: Header, arrays: Arrays) -> None:
    header["classes"] = [{"array": ["<U3", ["yes", "no", "yes"]]}]


@damage(stump)
def float_that_is_none(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"array": ["<f8", [0.5, "1.5"]]}


@damage(stump)
def numbers_beyond_their_type(header: Header, arrays: Arrays) -> None:
    header["parameters"]["monotonic_cst"] = {"array": ["|i1", [300]]}


@damage(rounds)
def objects_that_are_no_labels(header: Header, arrays: Arrays) -> None:
    header["classes"] = [{"array": ["object", ["no", "yes", 0.5]]}]


@damage(rounds)
def labels_that_need_much_memory(header: Header, arrays: Arrays) -> None:
    labels = ["x" * 20_000, *map(str, range(2_000))]
    header["parameters"]["class_weight"] = {"array": ["<U20000", labels]}


# ---- losses and nested estimators ----------------------------------------------------------------


@damage(lambda: after_regressor("squared_error"))
def parameter_of_a_loss_without(header: Header, arrays: Arrays) -> None:
    header["model"]["loss"]["given"] = 0.5


@damage(rounds)
def loss_of_other_columns(header: Header, arrays: Arrays) -> None:
    header["model"]["loss"]["columns"] = 2


@damage(tweedie)
def power_that_is_text(header: Header, arrays: Arrays) -> None:
    header["model"]["loss"]["given"] = "1.5"


@damage(after_classifier)
def init_of_other_classes(header: Header, arrays: Arrays) -> None:
    header["model"]["init"]["classes"][0]["array"] = ["<U5", ["maybe", "no"]]
    arrays["model/init/model/trees/value"] = np.full((3, 2), 0.5)


@damage(lambda: after_regressor("squared_error"))
def init_of_classes(header: Header, arrays: Arrays) -> None:
    other, own = model_file_parts(after_classifier().init_)
    header["model"]["init"] = {k: v for k, v in other.items() if k not in ("version", "writer")}
    for name in [name for name in arrays if name.startswith("model/init/")]:
        del arrays[name]
    arrays.update({f"model/init/{name}": array for name, array in own.items()})


@damage(after_regressor)
def negative_init(header: Header, arrays: Arrays) -> None:
    arrays["model/init/model/trees/value"][:] = -1.0


@damage(after_boosting)
def init_that_overflows(header: Header, arrays: Arrays) -> None:
    arrays["model/init/model/baseline"][:] = 1e4


@damage(lambda: after_regressor("squared_error"))
def init_of_other_columns(header: Header, arrays: Arrays) -> None:
    header["model"]["init"]["model"]["features"]["names"] = ["a", "b", "colour"]


@damage(pasting)
def draw_of_other_features(header: Header, arrays: Arrays) -> None:
    header["model"]["batches"][0]["feature_draw"] = [7, 2, False]


@damage(imported_classifier)
def link_without_probabilities(header: Header, arrays: Arrays) -> None:
    header["model"]["link"] = ["exp", 1.0, 1.0]


@damage(imported_classifier)
def more_columns_than_trees(header: Header, arrays: Arrays) -> None:
    arrays["model/column"] = np.append(arrays["model/column"], 0).astype(np.int32)


@damage(imported_classifier)
def missing_value_that_is_nan(header: Header, arrays: Arrays) -> None:
    header["model"]["missing_value"] = {"float": "nan"}


@damage(imported_with_categories)
def imported_category_twice(header: Header, arrays: Arrays) -> None:
    categories = header["model"]["categories"]["0"]
    categories[1] = categories[0]


@damage(imported_forest)
def divided_probabilities(header: Header, arrays: Arrays) -> None:
    header["model"]["link"][2] = 0.25


@damage(imported_adaboost)
def choice_without_classes(header: Header, arrays: Arrays) -> None:
    header["model"]["decision"] = "raw > 0"


@damage(imported_adaboost)
def trees_without_weight(header: Header, arrays: Arrays) -> None:
    arrays["model/median_weights"][:] = 0.0


@damage(imported_adaboost)
def medians_of_two_columns(header: Header, arrays: Arrays) -> None:
    arrays["model/base"] = np.zeros(2)


@damage(imported_with_shared_codes)
def shared_code_that_no_mask_has(header: Header, arrays: Arrays) -> None:
    header["model"]["columns"][0][3][0] = 300


@damage(imported_classifier)
def classes_of_another_model(header: Header, arrays: Arrays) -> None:
    X, classes, _ = frame()
    boosting = GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X[["b"]], classes)
    header["classes"] = model_file_parts(gpuboost.from_sklearn(boosting))[0]["classes"]


@damage(imported_with_shared_codes)
def more_categories_than_codes(header: Header, arrays: Arrays) -> None:
    del header["model"]["columns"][0][3]


@damage(histogram_classifier)
def boosting_of_values(header: Header, arrays: Arrays) -> None:
    X, _, y = frame()
    other, own = model_file_parts(gpuboost.GradientBoostingRegressor(**FEW).fit(X, y))
    header["boosting"] = {k: v for k, v in other.items() if k not in ("version", "writer")}
    for name in [name for name in arrays if name.startswith("boosting/")]:
        del arrays[name]
    arrays.update({f"boosting/{name}": array for name, array in own.items()})


# ---- text of the header --------------------------------------------------------------------------


def edited(model: Any, old: str, new: str) -> bytes:
    """The file of a model with other text in its header, and the right digest."""
    data = to_bytes(*model_file_parts(model))
    stop = 8 + int.from_bytes(data[:8], "little")
    outer = json.loads(data[8:stop])
    inner = outer["__metadata__"]["gpuboost"]
    assert old in inner
    outer["__metadata__"]["gpuboost"] = inner.replace(old, new, 1)
    body = json.dumps(outer, separators=(",", ":")).encode()
    return with_digest(bytearray(len(body).to_bytes(8, "little") + body + data[stop:]))


EDITS = {
    "NaN": ('"ccp_alpha":0.0', '"ccp_alpha":NaN'),
    "a field twice": ('"ccp_alpha":0.0', '"ccp_alpha":0.0,"ccp_alpha":1.0'),
    "a float that is none": ('"ccp_alpha":0.0', '"ccp_alpha":{"float":"one"}'),
    "deep nesting": ('"ccp_alpha":0.0', '"ccp_alpha":' + "[" * 100_000 + "]" * 100_000),
    "a huge integer": ('"ccp_alpha":0.0', '"ccp_alpha":' + "9" * 100_000),
    "an integer of 1,000 digits": ('"ccp_alpha":0.0', '"ccp_alpha":' + "9" * 1_000),
    "a float beyond float64": ('"ccp_alpha":0.0', '"ccp_alpha":1e999'),
    "many values": ('"ccp_alpha":0.0', '"ccp_alpha":[' + "0," * 1_100_000 + "0]"),
    "version 2": ('"version":1', '"version":2'),
    "version true": ('"version":1', '"version":true'),
}
