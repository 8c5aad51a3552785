"""ONNX models, as a program that is checked strictly runs them."""

from typing import Any, assert_type

import jax
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from dml_jax import OperatorDesc
from dml_jax.onnx import (
    Backend,
    NotConstantError,
    OnnxError,
    OnnxFunction,
    UnsupportedError,
    run_node,
    to_descs,
    to_jax,
)


def main() -> None:
    """Takes a model through every function."""
    model = embedding(helper.make_node("Gather", ["table", "rows"], ["y"], name="embed", axis=0))
    function = to_jax(model)
    assert_type(function, OnnxFunction)
    assert_type(to_jax(model.SerializeToString()), OnnxFunction)
    assert_type(function.output_names, tuple[str, ...])
    assert_type(function.parameters, dict[str, np.ndarray])
    assert_type([spec.name for spec in function.inputs], list[str])
    rows = np.array([2, 0], np.int32)
    assert_type(function(rows, parameters=function.parameters), Any)
    assert_type(to_descs(model), dict[str, OperatorDesc[Any]])
    data = np.array([1, 2, 3], np.float32)
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    assert_type(run_node(node, [data, rows], opset=18), tuple[jax.Array, ...])
    assert_type(Backend.run_model(model, [rows]), tuple[np.ndarray, ...])
    assert_type(Backend.run_node(node, [data, rows]), tuple[np.ndarray, ...])
    assert_type(Backend.prepare(model, "CPU").run([rows]), tuple[np.ndarray, ...])
    assert_type(Backend.supports_device("CUDA"), bool)
    assert_type(Backend.is_compatible(model), bool)
    refused()


def embedding(node: NodeProto) -> ModelProto:
    table = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "table")
    rows = helper.make_tensor_value_info("rows", TensorProto.INT32, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    return helper.make_model(helper.make_graph([node], "embedding", [rows], [y], [table]))


def refused() -> None:
    try:
        to_jax(embedding(helper.make_node("Erf", ["table"], ["y"])))
    except UnsupportedError as error:
        assert_type(error.nodes, tuple[str, ...])
        assert_type(error.supported, tuple[str, ...])
    try:
        to_jax(b"")
    except (NotConstantError, OnnxError) as error:
        assert_type(str(error), str)
