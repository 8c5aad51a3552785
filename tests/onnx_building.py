"""Builds small ONNX models and runs them in ONNX Runtime; without either package, importing tests are skipped."""

import numpy as np
import pytest
from checks import bits

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

IR_VERSION = 10  # which every onnx and onnxruntime that is accepted reads


def declared(name, array):
    """The declaration of an input like an array."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model(nodes, inputs, outputs, initializers=None, opset=20):
    """A model: `inputs` and `initializers` are arrays by name, `outputs` are names."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [declared(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def one_node(kind, inputs, outputs=1, domain="", opset=20, **attributes):
    """A model of one node, and its inputs by name; an input that is None is left out."""
    named = {f"x{i}": np.asarray(array) for i, array in enumerate(inputs) if array is not None}
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(inputs)]
    made = [f"y{i}" for i in range(outputs)]
    return model([helper.make_node(kind, names, made, domain=domain, **attributes)], named, made, opset=opset), named


def with_changes(changes, inputs, attributes=None):
    """Inputs and attributes of a node, of which `changes` replace some: inputs by position, attributes by name."""
    inputs = [changes.get(i, x) for i, x in enumerate(inputs)]
    return inputs, {**(attributes or {}), **{name: x for name, x in changes.items() if isinstance(name, str)}}


def runtime(proto, inputs):
    """What ONNX Runtime computes on the CPU, node by node as they stand."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))


def assert_same_values(actual, expected):
    """Same dtype, same shape, same bits, but that a NaN is a NaN: a conversion leaves its bits open."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    has_nan = actual.dtype.kind in "fV" and "int" not in actual.dtype.name
    nan = np.isnan(actual) & np.isnan(expected) if has_nan else np.zeros(actual.shape, bool)
    np.testing.assert_array_equal(*(np.where(nan[..., None], np.uint8(0), bits(x)) for x in (actual, expected)))
