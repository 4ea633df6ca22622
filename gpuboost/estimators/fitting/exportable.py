"""Methods of all estimators by which a fitted model leaves the process.

They are written in layers above the estimators, which are imported when a method is called.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import Any


class Exportable:
    """Mixin of all estimators: model files."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, from which `gpuboost.load` reads it.

        The file has arrays in the safetensors format and everything else as JSON, with a SHA-256
        of its content. It takes the place of an older file at once, when it is complete.

        ``device`` and ``n_jobs`` are not part of the file. Parameters that are Python code, such as
        ``callbacks``, are left out with a warning.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        ValueError
            If the model cannot be stored: it depends on Python code (a loss with a method
            ``predict``, or an ``init`` that is no estimator of gpuboost), has categories that are
            neither strings, numbers nor bools, or is of a class of the user.
        OSError
            If the file cannot be written.
        """
        import_module("gpuboost.estimators.files.estimators").save(self, path)

    def to_onnx(self, path: str | PathLike[str] | None = None, dtype: str = "float64") -> Any:
        """TODO"""
        export = import_module("gpuboost.interchange.export.to_onnx").to_onnx
        return export(self, path, dtype)

    def to_treelite(self) -> Any:
        """TODO"""
        return import_module("gpuboost.interchange.export.to_treelite").to_treelite(self)

    def to_sklearn(self) -> Any:
        """TODO"""
        return import_module("gpuboost.interchange.export.to_sklearn").to_sklearn(self)
