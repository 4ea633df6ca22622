"""What a model file holds: ``gpuboost inspect``, and the JSON form of ``gpuboost convert``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import gpuboost
from gpuboost.cli.models.training import trees_of


def contents_of(path: str) -> dict[str, Any]:
    """The facts of a model file.

    Raises
    ------
    ValueError
        If it is no model file.
    OSError
        If it cannot be read.
    """
    model = gpuboost.load(path)
    with open(path, "rb") as file:
        data = file.read()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    own = json.loads(header["__metadata__"]["gpuboost"])
    return {
        "file": path,
        "bytes": len(data),
        "sha256": own["sha256"],
        "version": own["version"],
        "writer": own["writer"],
        **facts_of_model(model),
    }


def facts_of_model(model: Any) -> dict[str, Any]:
    """The facts of a fitted estimator, without those of its file."""
    fitted = trees_of(model)
    depths = [int(tree.depths().max()) for tree in fitted.ensemble.trees]
    return {
        "estimator": type(model).__name__,
        "fingerprint": model.fingerprint(),
        "device": getattr(model, "device_", None),
        "source": getattr(model, "source_", None),
        "parameters": changed_parameters(model),
        "classes": classes_of(model),
        "outputs": getattr(fitted, "n_outputs", 1),
        "trees": {
            "count": fitted.ensemble.n_trees,
            "nodes": len(fitted.ensemble.feature),
            "leaves": int((fitted.ensemble.feature < 0).sum()),
            "min_depth": min(depths),
            "max_depth": max(depths),
        },
        "features": features_of(model, fitted),
    }


def changed_parameters(model: Any) -> dict[str, Any]:
    """The parameters that are not default, except those of the machine."""
    defaults = inspect.signature(type(model)).parameters
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in ("device", "n_jobs")
        and not (type(value) is type(defaults[name].default) and value == defaults[name].default)
    }


def classes_of(model: Any) -> list[Any] | None:
    """The classes of a classifier (a list for each of several outputs), or None."""
    classes: Any = getattr(model, "classes_", None)
    if classes is None:
        return None
    return [own.tolist() for own in classes] if isinstance(classes, list) else classes.tolist()


def features_of(model: Any, fitted: Any) -> list[dict[str, Any]]:
    """Name, categories and importance of each feature; categories that share a code are all there.

    Importances are None if the estimator has none.
    """
    schema = fitted.schema
    names = schema.names if schema.names is not None else range(schema.n_features)
    importances = getattr(getattr(model, "_boosting", model), "feature_importances_", None)
    shares = [None] * schema.n_features if importances is None else importances.tolist()
    return [
        {
            "name": str(name),
            "categories": None if codes is None else list(codes),
            "importance": share,
        }
        for name, codes, share in zip(names, schema.codes, shares, strict=True)
    ]
