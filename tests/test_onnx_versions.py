"""Versions of ONNX's operators: each has a function, and old ones compute what they say."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import declared, helper, model, numpy_helper, onnx

from dml_jax.onnx import OnnxError, run_node, to_jax
from dml_jax.onnx.node_reader import Reader
from dml_jax.onnx.operator_table import ONNX_OPERATORS, find_schema

pytestmark = pytest.mark.usefixtures("full_precision")

# A value of each kind of attribute.
SOME = {
    "INT": 1,
    "INTS": [1],
    "FLOAT": 1.0,
    "FLOATS": [1.0],
    "STRING": "LEFT",
    "GRAPH": helper.make_graph([], "empty", [], []),
}
ACTIVATIONS = {"com.microsoft::FusedGemm": "Relu", "com.microsoft::FusedMatMulActivation": "Softmax"}


@pytest.mark.parametrize("op_type", ONNX_OPERATORS)
def test_every_version_of_onnx_has_a_function(op_type):
    versions = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == op_type and s.domain == ""]
    versions = versions or [find_schema(*op_type.rpartition("::")[::2])]  # of ONNX Runtime
    assert min(ONNX_OPERATORS[op_type]) <= min(s.since_version for s in versions)
    for schema in versions:
        needed = {n: str(a.type).rpartition(".")[2] for n, a in schema.attributes.items() if a.required}
        attributes = {n: SOME[kind] for n, kind in needed.items() if kind in SOME}
        if op_type == "Cast":
            attributes = {"to": "FLOAT" if schema.since_version < 6 else 1}
        elif op_type == "Constant" and schema.since_version < 12:
            attributes = {"value": numpy_helper.from_array(np.float32(0))}
        if "activation" in attributes:
            attributes["activation"] = ACTIVATIONS.get(op_type, 1)
        names = [f"x{i}" for i in range(schema.min_input)]
        proto = helper.make_node(schema.name, names, ["y"] * schema.min_output, domain=schema.domain, **attributes)
        assert Reader({schema.domain: schema.since_version}).step(proto).schema.since_version == schema.since_version


X = np.arange(6, dtype=np.float32).reshape(2, 3)
# What opsets before those of ONNX Runtime say: opset, operator, inputs, attributes, result.
OLD = {
    "add_equal": (1, "Add", [X, X], {"consumed_inputs": [0, 0]}, X + X),
    "add_from_axis": (6, "Add", [X, np.float32([10, 20])], {"broadcast": 1, "axis": 0}, np.add(X, [[10], [20]])),
    "sub_suffix": (6, "Sub", [X, np.float32([1, 2, 3])], {"broadcast": 1}, X - [1, 2, 3]),
    "mul_scalar": (1, "Mul", [X, np.float32(2)], {"broadcast": 1}, X * 2),
    "div_from_negative_axis": (6, "Div", [X, np.float32([1, 2])], {"broadcast": 1, "axis": -2}, X / [[1], [2]]),
    "cast_by_name": (1, "Cast", [X], {"to": "INT32"}, X.astype(np.int32)),
    "concat_along_1": (1, "Concat", [X, X], {}, np.concatenate([X, X], 1)),
    "pad": (1, "Pad", [X], {"paddings": [0, 1, 0, 0], "value": 9.0}, np.pad(X, [(0, 0), (1, 0)], constant_values=9)),
    "pad_2": (2, "Pad", [X], {"pads": [0, 1, 0, 0], "value": 9.0}, np.pad(X, [(0, 0), (1, 0)], constant_values=9)),
    "reshape": (1, "Reshape", [X], {"shape": [0, -1, 1]}, X[..., None]),
    "slice": (1, "Slice", [X], {"starts": [-2], "ends": [1000], "axes": [1]}, X[:, 1:]),
    "split": (2, "Split", [X], {"axis": 1, "split": [3]}, X),
    "squeeze": (1, "Squeeze", [X[None]], {"axes": [0]}, X),
    "tile": (1, "Tile", [X, np.float32([2]), np.float32([1])], {}, np.tile(X, (1, 2))),
    "tile_a_scalar": (13, "Tile", [np.float16(2), np.zeros(0, np.int64)], {}, np.float16(2)),
    "top_k": (1, "TopK", [X], {"k": 1}, X[:, 2:]),
    "unsqueeze": (1, "Unsqueeze", [X], {"axes": [0]}, X[None]),
    "flatten": (1, "Flatten", [X], {"axis": 0}, X.reshape(1, 6)),
    "upsample_1": (
        1,
        "Upsample",
        [X[None, None]],
        {"height_scale": 2.0, "width_scale": 1.5},
        X[None, None][:, :, [0, 0, 1, 1]][..., [0, 0, 1, 2]],
    ),
    "upsample_bilinear": (
        1,
        "Upsample",
        [X[None, None]],
        {"height_scale": 2.0, "width_scale": 1.0, "mode": "bilinear"},
        np.stack([X[0], (X[0] + X[1]) / 2, X[1], X[1]])[None, None],
    ),
    "upsample_7": (7, "Upsample", [X], {"scales": [1.0, 2.0]}, X.repeat(2, axis=1)),
    "resize_10": (10, "Resize", [X, np.float32([2, 0.5])], {}, X.repeat(2, axis=0)[:, :1]),
    "resize_10_to_the_next": (10, "Resize", [X, np.float32([1, 0.67])], {}, X[:, [0, 2]]),
    "resize_11": (11, "Resize", [X, X[0, :0], X[0, :0], np.int64([2, 6])], {}, X.repeat(2, axis=1)),
    "resize_a_mirrored_region": (
        19,
        "Resize",
        [X, np.float32([0, 1, 1, 0]), X[0, :0], np.int64([2, 3])],
        {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
        X[:, ::-1],
    ),
    "resize_beyond": (
        19,
        "Resize",
        [X, np.float32([0, -0.5, 1, 1.5]), X[0, :0], np.int64([2, 5])],
        {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0},
        np.pad(X, [(0, 0), (1, 1)], constant_values=9),
    ),
    "resize_to_nothing": (
        19,
        "Resize",
        [X, X[0, :0], X[0, :0], np.int64([2, 0])],
        {"coordinate_transformation_mode": "half_pixel_symmetric"},
        X[:, :0],
    ),
    "resize_integers_cut_off": (
        19,
        "Resize",
        [np.int32([[0, -10]]), X[0, :0], np.float32([1, 2])],
        {"mode": "linear"},
        np.int32([[0, -2, -7, -10]]),
    ),
    "depth_to_space": (1, "DepthToSpace", [X.reshape(1, 1, 2, 3)], {"blocksize": 1}, X.reshape(1, 1, 2, 3)),
    "space_to_depth_with_mode": (
        13,
        "SpaceToDepth",
        [X[:, :2].reshape(1, 1, 2, 2)],
        {"blocksize": 2, "mode": "CRD"},
        X[:, :2].reshape(1, 4, 1, 1),
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", OLD)
def test_old_versions(name):
    opset, op_type, inputs, attributes, expected = OLD[name]
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op_type, names, ["y", ""] if op_type == "TopK" else ["y"], **attributes)
    with jax.enable_x64(True):
        (y,) = run_node(node, inputs, opset=opset)
    assert_same_bits(y, np.asarray(expected, inputs[0].dtype if op_type != "Cast" else np.int32))


def test_old_broadcasting_stays_in_the_first_operand():
    a, b = np.ones((2, 3, 4), np.float32), np.ones((3, 4), np.float32)
    for first, second, attributes in ((a, b, {"axis": 2}), (b, a, {}), (a[0, 0, 0], a[0, 0, 0], {"axis": 1})):
        node = helper.make_node("Add", ["a", "b"], ["y"], broadcast=1, **attributes)
        function = to_jax(model([node], {"a": np.asarray(first), "b": np.asarray(second)}, ["y"], opset=6))
        with pytest.raises(OnnxError, match="the second operand must lie in the dimensions of the first one"):
            function(np.asarray(first), np.asarray(second))


def test_old_models_list_initializers_among_the_inputs():
    node = helper.make_node("Add", ["x", "w"], ["y"])
    proto = model([node], {"x": np.float32([1, 2])}, ["y"], {"w": np.float32([3, 4])})
    proto.graph.input.append(declared("w", np.float32([3, 4])))
    function = to_jax(proto)
    assert [spec.name for spec in function.inputs] == ["x"]
    assert_same_bits(function(np.float32([1, 2])), np.float32([4, 6]))
