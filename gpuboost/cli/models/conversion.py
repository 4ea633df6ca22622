"""``gpuboost convert``: models for other programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpuboost
from gpuboost.cli.models.json_trees import model_to_json


def convert(path: str, kind: str, out: str) -> None:
    """Convert a model file and write the result.

    Parameters
    ----------
    path : str
        The model file.
    kind : str
        A key of `CONVERSIONS`.
    out : str
        The file to write.

    Raises
    ------
    ValueError
        If it is no model file, or the model cannot be converted.
    TypeError
        If the model was imported; its own library can export it.
    ImportError
        If a library that is needed is not installed.
    OSError
        If a file cannot be read or written.
    """
    CONVERSIONS[kind](gpuboost.load(path), out)


def _to_json(model: Any, out: str) -> None:
    text = json.dumps(model_to_json(model), ensure_ascii=False, allow_nan=False)
    Path(out).write_text(f"{text}\n", encoding="utf-8")


def _to_onnx(model: Any, out: str) -> None:
    model.to_onnx(out)


def _to_treelite(model: Any, out: str) -> None:
    model.to_treelite().serialize(out)


def _to_sklearn(model: Any, out: str) -> None:
    import joblib

    joblib.dump(model.to_sklearn(), out)


CONVERSIONS: dict[str, Callable[[Any, str], None]] = {
    "treelite": _to_treelite,
    "onnx": _to_onnx,
    "json": _to_json,
    "sklearn": _to_sklearn,
}
