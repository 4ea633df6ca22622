"""``gpuboost convert``: models for other programs."""

from __future__ import annotations

import json
from pathlib import Path

import gpuboost
from gpuboost.cli.models.json_trees import model_to_json


def convert(path: str, kind: str, out: str) -> None:
    """Convert a model file and write the result.

    Parameters
    ----------
    path : str
        The model file.
    kind : str
        "treelite", "onnx", "json" or "sklearn".
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
    model = gpuboost.load(path)
    if kind == "onnx":
        model.to_onnx(out)
    elif kind == "treelite":
        model.to_treelite().serialize(out)
    elif kind == "sklearn":
        import joblib

        joblib.dump(model.to_sklearn(), out)
    else:
        text = json.dumps(model_to_json(model), ensure_ascii=False, allow_nan=False)
        Path(out).write_text(f"{text}\n", encoding="utf-8")
