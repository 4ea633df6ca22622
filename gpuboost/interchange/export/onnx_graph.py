"""A graph of ONNX that is written node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.interchange.export.contents import optional_module


class OnnxGraph:
    """Nodes and constants of a graph; values are called by the names that methods return."""

    def __init__(self) -> None:
        self._onnx = optional_module("onnx", "onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a constant."""
        name = f"constant_{len(self._constants)}"
        array = np.asarray(values, dtype=dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; arrays among the attributes are tensors.

        Returns
        -------
        str or list of str
            Name of its output, or names of all outputs if there are several.
        """
        number = len(self._nodes)
        names = [f"value_{number}_{k}" for k in range(n_outputs)]
        self._add(operator, inputs, names, attributes)
        return names[0] if n_outputs == 1 else names

    def _add(self, operator: str, inputs: Any, names: list[str], attributes: dict) -> None:
        of_array = self._onnx.numpy_helper.from_array
        given = {
            name: of_array(value, name) if isinstance(value, np.ndarray) else value
            for name, value in attributes.items()
        }
        domain = "ai.onnx.ml" if operator in ("TreeEnsemble", "LabelEncoder") else ""
        node = self._onnx.helper.make_node(operator, [*inputs], names, domain=domain, **given)
        self._nodes.append(node)

    def output(self, name: str, value: str, dtype: Any, shape: list[int | None]) -> None:
        """Make a value an output of the graph, cast to ``dtype``; strings are not cast."""
        kind = self.type_of(dtype)
        if np.dtype(dtype).kind == "O":
            self._add("Identity", [value], [name], {})
        else:
            self._add("Cast", [value], [name], {"to": kind})
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, kind, shape))

    def type_of(self, dtype: Any) -> int:
        """ONNX's number of a type of NumPy; that of strings for the type of objects."""
        return self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def model(self, name: str, n_features: int, dtype: Any, facts: dict[str, str]) -> Any:
        """The finished model, with an input ``X`` of shape (n, n_features); it is checked.

        Parameters
        ----------
        name : str
            Name of the graph.
        facts : dict
            Entries of the model's metadata.
        """
        helper = self._onnx.helper
        given = helper.make_tensor_value_info("X", self.type_of(dtype), [None, n_features])
        graph = helper.make_graph(self._nodes, name, [given], self._outputs, self._constants)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        model.producer_name = "gpuboost"
        helper.set_model_props(model, facts)
        self._onnx.checker.check_model(model)
        return model
