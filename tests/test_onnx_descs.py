"""The descriptors of ONNX nodes: DirectML computes with them what ONNX says, and the command lists who takes them."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import TensorProto, helper, model
from onnx_cases import CASES, as_array

import dml_jax
from dml_jax.onnx import OnnxError, to_descs
from dml_jax.onnx.descs import described

MOVEMENT = {
    "Gather",
    "GatherElements",
    "GatherND",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "DepthToSpace",
    "SpaceToDepth",
}


def single(op_type, inputs, opset=18, outputs=("y",), **attributes):
    """A model of one node, named it."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op_type, names, list(outputs), name="it", **attributes)
    proto = model([node], dict(zip(names, inputs, strict=True)), outputs, opset=opset)
    for output in proto.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, as_type(inputs[0]), None))
    return proto


def as_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def zeros(shape, dtype=np.float32):
    return np.zeros(shape, dtype)


F, I = np.float32, np.int64  # noqa: E741

# By ONNX Runtime's rules: leading 1s up to the largest rank, the axis counts them, real ranks in the counts.
DESCS = {
    "gather": (
        single("Gather", [zeros((3, 2)), zeros((4, 5), I)], axis=-2),
        dml_jax.GatherDesc(
            input=dml_jax.TensorDesc(F, (1, 3, 2)),
            indices=dml_jax.TensorDesc(I, (1, 4, 5)),
            output=dml_jax.TensorDesc(F, (4, 5, 2)),
            axis=1,
            index_dimensions=2,
        ),
    ),
    "gather_scalar": (
        single("Gather", [zeros((3, 2)), zeros((), np.int32)], axis=1),
        dml_jax.GatherDesc(
            input=dml_jax.TensorDesc(F, (3, 2)),
            indices=dml_jax.TensorDesc(np.int32, (1, 1)),
            output=dml_jax.TensorDesc(F, (1, 3)),
            axis=1,
            index_dimensions=0,
        ),
    ),
    "gather_elements": (
        single("GatherElements", [zeros((3, 2), bool), zeros((3, 5), I)], axis=-1),
        dml_jax.GatherElementsDesc(
            input=dml_jax.TensorDesc(np.uint8, (3, 2)),
            indices=dml_jax.TensorDesc(I, (3, 5)),
            output=dml_jax.TensorDesc(np.uint8, (3, 5)),
            axis=1,
        ),
    ),
    "gather_nd": (
        single("GatherND", [zeros((2, 3, 4)), zeros((2, 1), I)], batch_dims=1),
        dml_jax.GatherND1Desc(
            input=dml_jax.TensorDesc(F, (2, 3, 4)),
            indices=dml_jax.TensorDesc(I, (1, 2, 1)),
            output=dml_jax.TensorDesc(F, (1, 2, 4)),
            input_dimension_count=3,
            indices_dimension_count=2,
            batch_dimension_count=1,
        ),
    ),
    "scatter_elements": (
        single("ScatterElements", [zeros((3, 2)), zeros((1, 2), I), zeros((1, 2))]),
        dml_jax.ScatterElementsDesc(
            input=dml_jax.TensorDesc(F, (3, 2)),
            indices=dml_jax.TensorDesc(I, (1, 2)),
            updates=dml_jax.TensorDesc(F, (1, 2)),
            output=dml_jax.TensorDesc(F, (3, 2)),
            axis=0,
        ),
    ),
    "scatter_nd": (
        single("ScatterND", [zeros((8,)), zeros((2, 2, 1), I), zeros((2, 2))]),
        dml_jax.ScatterNDDesc(
            input=dml_jax.TensorDesc(F, (1, 1, 8)),
            indices=dml_jax.TensorDesc(I, (2, 2, 1)),
            updates=dml_jax.TensorDesc(F, (1, 2, 2)),
            output=dml_jax.TensorDesc(F, (1, 1, 8)),
            input_dimension_count=1,
            indices_dimension_count=3,
        ),
    ),
    "depth_to_space": (
        single("DepthToSpace", [zeros((1, 8, 2, 3))], blocksize=2, mode="CRD"),
        dml_jax.DepthToSpace1Desc(
            input=dml_jax.TensorDesc(F, (1, 8, 2, 3)),
            output=dml_jax.TensorDesc(F, (1, 2, 4, 6)),
            block_size=2,
            order="COLUMN_ROW_DEPTH",
        ),
    ),
    "space_to_depth": (
        single("SpaceToDepth", [zeros((1, 1, 2, 2), np.float16)], blocksize=2),
        dml_jax.SpaceToDepth1Desc(
            input=dml_jax.TensorDesc(np.float16, (1, 1, 2, 2)),
            output=dml_jax.TensorDesc(np.float16, (1, 4, 1, 1)),
            block_size=2,
            order="DEPTH_COLUMN_ROW",
        ),
    ),
}


@pytest.mark.parametrize("name", DESCS)
def test_a_node_is_described_as_onnx_runtime_does(name):
    proto, expected = DESCS[name]
    assert list(to_descs(proto).values()) == [expected]


def test_descriptors_compute_what_onnx_says():
    """ONNX's own cases of data movement, by descriptors; those that DirectML has none for say why."""
    computed, refused = 0, {}
    for name, case in CASES.items():
        (node, *rest) = case.model.graph.node
        if rest or node.op_type not in MOVEMENT:
            continue
        (one,) = described(case.model)
        if isinstance(one.desc, Exception):
            refused[name] = str(one.desc)
            continue
        for inputs, outputs in case.data_sets:
            inputs, (expected,) = map(as_array, inputs), map(as_array, outputs)
            fitting = zip(inputs, one.desc.input_names(), strict=True)
            arrays = [a.reshape(getattr(one.desc, tensor).sizes) for a, tensor in fitting]
            with jax.enable_x64(True):
                actual = np.asarray(one.desc.compute(*arrays))
            assert_same_bits(actual.reshape(expected.shape), expected)
            computed += 1
    assert computed >= 18
    assert all("reduction must be none in DirectML" in text for text in refused.values())
    assert len(refused) >= 7


# Refused: a model, and why.
REFUSED = {
    "reduction": (
        single("ScatterND", [zeros((8,)), zeros((2, 1), I), zeros((2,))], reduction="add"),
        "reduction must be none in DirectML, but it is add",
    ),
    "smaller_indices": (
        single("GatherElements", [zeros((3, 4)), zeros((2, 4), I)], axis=1),
        "IndicesTensor.Sizes must equal InputTensor.Sizes except along Axis",
    ),
    "empty": (
        single("Gather", [zeros((3, 2)), zeros((0,), I)]),
        "a tensor must have elements in DirectML, but 'x1' is (0,)",
    ),
    "rank_9": (
        single("Gather", [zeros((1,) * 8), zeros((1, 1), I)]),
        "DimensionCount must be in [1, 8], but it is 9",
    ),
    "bfloat16": (
        single("Gather", [zeros((3, 2), helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)), zeros((1,), I)]),
        "DataType must be one of FLOAT32",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_directml_lacks_is_said_of_the_node(name):
    proto, text = REFUSED[name]
    with pytest.raises(dml_jax.ConstraintError) as caught:
        to_descs(proto)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"{proto.graph.node[0].op_type} node 'it': ")
    assert len(caught.value.errors) == 1


def test_sizes_must_follow_from_the_model():
    proto = single("Gather", [zeros((3, 2)), zeros((4,), I)])
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(
        dml_jax.ConstraintError, match="every size must follow from the model, but those of 'x1' do not"
    ):
        to_descs(proto)


def test_contradicting_shapes():
    proto = single("DepthToSpace", [zeros((1, 8, 2))], blocksize=2)
    with pytest.raises(OnnxError, match="DepthToSpace node 'it': input must have 4 dimensions, but its shape is"):
        to_descs(proto)


def test_shapes_are_inferred_through_layout():
    """A Reshape by a computed shape stands before the node, a Transpose after it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Concat", ["s", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["r"]),
        helper.make_node("Gather", ["r", "i"], ["g"], axis=1),
        helper.make_node("Transpose", ["g"], ["y"]),
        helper.make_node("Gather", ["r", "i"], ["unused"], axis=1),
    ]
    proto = model(nodes, {"x": zeros((2, 3, 4))}, ["y"], {"rest": np.int64([12]), "i": np.int64([5])})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, None))
    ((label, desc),) = to_descs(proto).items()
    assert label == "Gather node #3"
    assert (desc.input.sizes, desc.output.sizes) == ((2, 12), (2, 1))


def test_nodes_of_one_name_keep_labels_of_their_own():
    nodes = [helper.make_node("Gather", ["x", "i"], [y], name="same") for y in "ab"]
    proto = model(nodes, {"x": zeros((3,))}, ["a", "b"], {"i": np.int64([0])})
    for output in proto.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, 1, None))
    assert list(to_descs(proto)) == ["Gather node 'same' #0", "Gather node 'same' #1"]
