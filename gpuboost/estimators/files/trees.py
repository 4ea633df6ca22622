"""Fitted models in a file: trees, bins, and how rows and features were drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.data.validation import MAX_ROWS
from gpuboost.engine.sampling import ALL_ROWS, WITH_REPLACEMENT, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.estimators.model.fitted import FeatureDraw, FittedTrees, TreeBatch
from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.features import features_from_file, features_to_file
from gpuboost.io.json_values import from_json, to_json
from gpuboost.io.trees import trees_from_file, trees_to_file

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]  # the JSON and the arrays of a part of a file
METHODS = ALL_ROWS, WITH_REPLACEMENT, WITHOUT_REPLACEMENT


def prefixed(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with names that begin with ``name`` and a slash."""
    return {f"{name}/{own}": array for own, array in arrays.items()}


def trees_to_parts(model: FittedTrees, encode: Callable[[Any], Any]) -> Parts:
    """The parts of what all models have; ``encode`` makes JSON of unfitted estimators."""
    features, bins = features_to_file(model.schema, model.mapper)
    arrays = prefixed("trees", trees_to_file(model.ensemble)) | prefixed("bins", bins)
    batches = []
    for number, batch in enumerate(model.batches):
        header, drawn = _batch_to_parts(batch, encode)
        batches.append(header)
        arrays |= prefixed(f"batch{number}", drawn)
    return {"features": features, "batches": batches}, arrays


def trees_from_parts(
    fields: Fields, arrays: Arrays, shape: tuple[int, int], decode: Callable[[str, Any], Any]
) -> FittedTrees:
    """Check and read what all models have.

    Parameters
    ----------
    fields, arrays : Fields, Arrays
    shape : (int, int)
        Number of outputs, and number of values of a leaf.
    decode : callable
        Makes unfitted estimators of JSON.
    """
    schema, mapper = features_from_file(fields.part("features"), arrays.part("bins"))
    ensemble = trees_from_file(arrays.part("trees"), mapper, shape[1])
    batches = tuple(
        _batch_from_parts(Fields(own, "a batch"), arrays.part(f"batch{number}"), decode)
        for number, own in enumerate(fields.items("batches"))
    )
    stops = [0, *(batch.trees.stop for batch in batches)]
    starts = [batch.trees.start for batch in batches]
    in_turn = starts == stops[:-1] and stops[-1] == ensemble.n_trees
    require(in_turn, "the batches do not cover all trees in order")
    n_features = schema.n_features
    fits = all(b.feature_draw is None or b.feature_draw.n_features == n_features for b in batches)
    require(fits, "features are drawn from another number of features")
    return FittedTrees(ensemble, mapper, schema, batches, n_outputs=shape[0])


def _batch_to_parts(batch: TreeBatch, encode: Callable[[Any], Any]) -> Parts:
    sampler, draw = batch.sampler.copied_to_host, batch.feature_draw
    header = {
        "trees": [batch.trees.start, batch.trees.stop],
        "method": sampler.method,
        "n_samples": int(sampler.n_samples),
        "n_draws": int(sampler.n_draws),
        "seed": int(sampler.seed),
        "feature_draw": None
        if draw is None
        else [int(draw.n_features), int(draw.count), bool(draw.replace)],
        "template": None if batch.template is None else to_json(batch.template, encode),
    }
    arrays = {}
    if sampler.method == WITH_REPLACEMENT and sampler.cumulative is not None:
        arrays["cumulative"] = sampler.cumulative.astype(np.int64)
    if sampler.method == WITHOUT_REPLACEMENT and sampler.weights is not None:
        arrays["weights"] = sampler.weights
    return header, arrays


def _batch_from_parts(
    fields: Fields, arrays: Arrays, decode: Callable[[str, Any], Any]
) -> TreeBatch:
    trees = fields.items("trees", 2)
    is_range = all(type(end) is int and end >= 0 for end in trees)
    require(is_range, "the trees of a batch are not a range")
    n_samples, n_draws = (fields.integer(name, 1, MAX_ROWS) for name in ("n_samples", "n_draws"))
    method, seed = fields.one_of("method", METHODS), fields.integer("seed", 0, 2**32 - 1)
    fits = method == WITH_REPLACEMENT or n_draws <= n_samples
    require(fits, "more rows are drawn than there are")
    known = _draw_arrays(arrays, method, n_samples)
    sampler = RowSampler(method, n_samples, n_draws, seed)
    sampler = sampler.with_state(sampler.__getstate__() | known)
    draw, template = fields.take("feature_draw"), from_json(fields.take("template"), decode)
    fields.end()
    return TreeBatch(range(*trees), sampler, _feature_draw(draw), template)


def _draw_arrays(arrays: Arrays, method: str, n_samples: int) -> dict[str, np.ndarray]:
    """The arrays by which rows are drawn in proportion to their weights, if a file has them."""
    if method == WITH_REPLACEMENT and "cumulative" in arrays:
        cumulative = arrays.take("cumulative", np.int64, (n_samples,))
        steps = np.diff(cumulative, prepend=0)
        require((steps >= 0).all() and cumulative[-1] > 0, "the weights of rows are negative or 0")
        return {"cumulative": cumulative.view(np.uint64)}
    if method == WITHOUT_REPLACEMENT and "weights" in arrays:
        weights = arrays.finite("weights", (n_samples,))
        require((weights >= 0).all(), "a row has a negative weight")
        return {"weights": weights}
    return {}


def _feature_draw(given: Any) -> FeatureDraw | None:
    if given is None:
        return None
    is_draw = (
        isinstance(given, list)
        and [*map(type, given)] == [int, int, bool]
        and 1 <= given[1] <= (2**31 - 1 if given[2] else given[0])
    )
    require(is_draw, "a draw of features is not of at least one of its features")
    return FeatureDraw(*given)
