"""The descriptors of ONNX nodes: DirectML computes with them what ONNX says, and the command lists who takes them."""

import itertools
import re
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest
from onnx_building import TensorProto, assert_same_values, helper, model, numpy_helper, onnx
from onnx_cases import as_array, cases, operators
from operator_cases import f16, f32, i32, i64, u8

import dml_jax
from dml_jax import TensorDesc, compile_operator
from dml_jax.onnx import OnnxError, to_descs
from dml_jax.onnx.model_descs import described
from dml_jax.onnx.node_descs import DESC_OF
from dml_jax.onnx.operator_table import ONNX_OPERATORS

# Which inputs are tensors of the descriptor, where it is not the first one alone; the others must be known.
TENSORS = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "ReverseSequence", "MaxUnpool"), (0, 1)),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND", "Where"), (0, 1, 2)),
    **dict.fromkeys(("Constant", "ConstantOfShape", "EyeLike", "Range"), ()),
    "OneHot": (0, 2),
    "Concat": range(99),
}
DESCRIBED = {name for name, versions in ONNX_OPERATORS.items() if set(versions.values()) & set(DESC_OF)}
ROUNDED = {"CumSum", "CumProd", "Resize"}  # in float32 or as XLA likes


def single(op_type, inputs, opset=18, outputs=("y",), kept=None, **attributes):
    """A model of one node, named it, of whose outputs some are kept."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op_type, names, list(outputs), name="it", **attributes)
    proto = model([node], dict(zip(names, inputs, strict=True)), kept or outputs, opset=opset)
    for output in proto.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, as_type(inputs[0]), None))
    return proto


def with_constant(proto, numbers):
    """The node with one more input, which is known."""
    proto.graph.node[0].input.append("c")
    proto.graph.initializer.append(numpy_helper.from_array(np.int64(numbers), "c"))
    return proto


def as_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def zeros(shape, dtype=np.float32):
    return np.zeros(shape, dtype)


I = np.int64  # noqa: E741

# By ONNX Runtime's rules: leading 1s up to the largest rank, the axis counts them, real ranks in the counts.
DESCS = {
    "gather": (
        single("Gather", [zeros((3, 2)), zeros((4, 5), I)], axis=-2),
        dml_jax.GatherDesc(input=f32(1, 3, 2), indices=i64(1, 4, 5), output=f32(4, 5, 2), axis=1, index_dimensions=2),
    ),
    "gather_scalar": (
        single("Gather", [zeros((3, 2)), zeros((), np.int32)], axis=1),
        dml_jax.GatherDesc(input=f32(3, 2), indices=i32(1, 1), output=f32(1, 3), axis=1, index_dimensions=0),
    ),
    "gather_elements": (
        single("GatherElements", [zeros((3, 2), bool), zeros((3, 5), I)], axis=-1),
        dml_jax.GatherElementsDesc(input=u8(3, 2), indices=i64(3, 5), output=u8(3, 5), axis=1),
    ),
    "gather_nd": (
        single("GatherND", [zeros((2, 3, 4)), zeros((2, 1), I)], batch_dims=1),
        dml_jax.GatherND1Desc(
            input=f32(2, 3, 4),
            indices=i64(1, 2, 1),
            output=f32(1, 2, 4),
            input_dimension_count=3,
            indices_dimension_count=2,
            batch_dimension_count=1,
        ),
    ),
    "scatter_elements": (
        single("ScatterElements", [zeros((3, 2)), zeros((1, 2), I), zeros((1, 2))]),
        dml_jax.ScatterElementsDesc(input=f32(3, 2), indices=i64(1, 2), updates=f32(1, 2), output=f32(3, 2), axis=0),
    ),
    "scatter_nd": (
        single("ScatterND", [zeros((8,)), zeros((2, 2, 1), I), zeros((2, 2))]),
        dml_jax.ScatterNDDesc(
            input=f32(1, 1, 8),
            indices=i64(2, 2, 1),
            updates=f32(1, 2, 2),
            output=f32(1, 1, 8),
            input_dimension_count=1,
            indices_dimension_count=3,
        ),
    ),
    "depth_to_space": (
        single("DepthToSpace", [zeros((1, 8, 2, 3))], blocksize=2, mode="CRD"),
        dml_jax.DepthToSpace1Desc(
            input=f32(1, 8, 2, 3), output=f32(1, 2, 4, 6), block_size=2, order="COLUMN_ROW_DEPTH"
        ),
    ),
    "space_to_depth": (
        single("SpaceToDepth", [zeros((1, 1, 2, 2), np.float16)], blocksize=2),
        dml_jax.SpaceToDepth1Desc(
            input=f16(1, 1, 2, 2), output=f16(1, 4, 1, 1), block_size=2, order="DEPTH_COLUMN_ROW"
        ),
    ),
    "transpose": (
        single("Transpose", [zeros((2, 3, 4))], perm=[2, 0, 1]),
        dml_jax.ElementWiseIdentityDesc(f32(4, 2, 3, strides=(1, 12, 4)), f32(4, 2, 3)),
    ),
    "where": (
        single("Where", [zeros((3, 1), bool), zeros((2,)), zeros((3, 2))]),
        dml_jax.ElementWiseIfDesc(
            condition=u8(3, 2, strides=(1, 0)), a=f32(3, 2, strides=(0, 1)), b=f32(3, 2), output=f32(3, 2)
        ),
    ),
    "reverse_sequence": (
        single("ReverseSequence", [zeros((4, 2, 3)), zeros((2,), I)]),
        dml_jax.ReverseSubsequencesDesc(
            input=f32(4, 2, 3),
            sequence_lengths=TensorDesc(np.uint64, (1, 2, 3), (0, 1, 0)),
            output=f32(4, 2, 3),
            axis=0,
        ),
    ),
    "split_with_an_unread_part": (
        single("Split", [zeros((2, 5))], axis=-1, num_outputs=2, outputs=("y", "z"), kept=("y",)),
        dml_jax.SplitDesc(input=f32(2, 5), outputs=(f32(2, 3), f32(2, 2)), axis=1),
    ),
    "top_k_with_unread_indices": (
        single("TopK", [zeros((2, 5))], opset=9, axis=0, k=1, outputs=("y", "z"), kept=("y",)),
        dml_jax.TopK1Desc(
            input=f32(2, 5),
            output_value=f32(1, 5),
            output_index=TensorDesc(np.uint64, (1, 5)),
            axis=0,
            k=1,
            axis_direction="DECREASING",
        ),
    ),
    "pad_by_attributes": (
        single("Pad", [zeros((2, 5), np.float16)], opset=2, pads=[0, 1, 2, 0], value=0.1),
        dml_jax.Padding1Desc(
            input=TensorDesc(np.float16, (2, 5)),
            output=TensorDesc(np.float16, (4, 6)),
            padding_mode="CONSTANT",
            padding_value_data_type=np.float16,
            padding_value=np.float16(0.1),
            start_padding=(0, 1),
            end_padding=(2, 0),
        ),
    ),
    "upsample_of_more_than_four_dimensions": (
        single("Upsample", [zeros((1, 1, 3, 4, 5, 6))], opset=7, scales=[1.0, 1.0, 1.0, 1.0, 2.0, 2.0]),
        dml_jax.Resample2Desc(
            input=f32(3, 4, 5, 6),
            output=f32(3, 4, 10, 12),
            interpolation_mode="NEAREST_NEIGHBOR",
            rounding_direction="DECREASING",
            scales=(1, 1, 2, 2),
            input_pixel_offsets=(0, 0, 0, 0),
            output_pixel_offsets=(0, 0, 0, 0),
        ),
    ),
}


@pytest.mark.parametrize("name", DESCS)
def test_a_node_is_described_as_onnx_runtime_does(name):
    proto, expected = DESCS[name]
    assert list(to_descs(proto).values()) == [expected]


def known(proto, arrays):
    """The model with the inputs that are no tensors of a descriptor as initializers, and the arrays that are left."""
    node = proto.graph.node[0]
    given = dict(zip([info.name for info in proto.graph.input], arrays, strict=True))
    tensors = [name for i, name in enumerate(node.input) if i in TENSORS.get(node.op_type, (0,))]
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    changed.graph.ClearField("input")
    for info in proto.graph.input:
        if info.name in tensors or node.op_type == "EyeLike":
            changed.graph.input.append(
                helper.make_tensor_value_info(info.name, as_type(given[info.name]), given[info.name].shape)
            )
        else:
            changed.graph.initializer.append(numpy_helper.from_array(given[info.name], info.name))
    return changed, [given[name] for name in tensors]


def computed(desc, arrays):
    """What the compiled descriptor makes of flat buffers, as ONNX's types have it."""
    types = [tensor.dtype for tensor in desc.input_ports().values()]
    flat = [np.ravel(array).view(dtype) for array, dtype in zip(arrays, types, strict=True)]
    with jax.enable_x64(True):
        found = compile_operator(desc)(*flat)
        found = [np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))]
    if desc.operator_type == "NONZERO_COORDINATES":
        count, coordinates = found
        return [coordinates.reshape(-1, desc.output_coordinates.sizes[-1])[: count[0]].T]
    return found


def assert_as_expected(op_type, found, expected):
    for actual, wanted in zip(found, expected, strict=True):
        assert actual.size == wanted.size
        if op_type in ROUNDED and wanted.dtype.kind == "f":
            np.testing.assert_allclose(actual.reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6)
        elif op_type == "NonZero":
            np.testing.assert_array_equal(actual, wanted)
        else:
            assert_same_values(actual.view(wanted.dtype).reshape(wanted.shape), wanted)


# Why a case of ONNX's has no descriptor.
LACKS = (
    "reduction must be none in DirectML",
    "DataType must be one of FLOAT32",
    "a tensor must have elements in DirectML",
    "DirectML has no cubic resampling",
    "in DirectML antialias must be 0 where sizes shrink",
    "in DirectML roi must lie in x",
    "the target must not be bool",
    "output_shape must be",
    ".DataType must be one of",
)


def single_nodes(op_type):
    """ONNX's cases of one node of this type: that with the longest name, which asks for most, then the others.

    DirectML has no sequences.
    """
    found = {name: case for name, case in cases().items() if operators(case.model) == {op_type}}
    found = {
        name: case
        for name, case in found.items()
        if all(x.type.HasField("tensor_type") for x in case.model.graph.input)
    }
    return [found[name] for name in sorted(found, key=len, reverse=True) if len(found[name].model.graph.node) == 1]


def outcome(case):
    """Why a case has no descriptor, or None: then it computes what ONNX says."""
    ((inputs, outputs),) = case.data_sets
    proto, arrays = known(case.model, [as_array(x) for x in inputs])
    (one,) = described(proto, {})
    if isinstance(one.desc, Exception):
        return str(one.desc)
    assert_as_expected(proto.graph.node[0].op_type, computed(one.desc, arrays), [as_array(y) for y in outputs])
    return None


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_type", sorted(DESCRIBED))
def test_a_descriptor_computes_what_onnx_says(op_type):
    text = outcome(single_nodes(op_type)[0])
    assert text is None or any(reason in text for reason in LACKS), text


@pytest.mark.exhaustive
def test_every_operator_has_descriptors():
    """Of every case there is one that computes what ONNX says, or it is known why not."""
    texts = {op_type: [outcome(case) for case in single_nodes(op_type)] for op_type in sorted(DESCRIBED)}
    for op_type, of_cases in texts.items():
        assert None in of_cases, op_type
        assert all(text is None or any(reason in text for reason in LACKS) for text in of_cases), of_cases
    assert [*itertools.chain(*texts.values())].count(None) >= 190


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
        "a tensor must have elements in DirectML, but its sizes are (0,)",
    ),
    "no_border": (
        single("Pad", [zeros((3,))], opset=2, pads=[-1, 0]),
        "pads must be at least 0 in DirectML, but they are [-1] and [0]",
    ),
    "bool": (single("Cast", [zeros((3,))], to=TensorProto.BOOL), "the target must not be bool"),
    "both_directions": (
        single("Upsample", [zeros((3, 4))], opset=7, scales=[2.0, 0.5]),
        "scales must not both shrink and enlarge in DirectML, but they are (2.0, 0.5)",
    ),
    "unpooled": (
        with_constant(single("MaxUnpool", [zeros((1, 1, 2)), zeros((1, 1, 2), I)], kernel_shape=[1]), [1, 1, 3]),
        "output_shape must be [1, 1, 2], whose elements the indices count, but it is (1, 1, 3)",
    ),
    "rank_9": (single("Gather", [zeros((1,) * 8), zeros((1, 1), I)]), "DimensionCount must be in [1, 8], but it is 9"),
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
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    wanted = to_descs(single("Gather", [zeros((3, 2)), zeros((4,), I)]))
    assert to_descs(proto, sizes={"n": 4, "x0": (3, 2)}) == wanted
    assert to_descs(proto, sizes={"x1": [4], "x0": (3, 2)}) == wanted
    assert to_descs(proto, sizes={"n": np.int64(4), "x0": np.int32([3, 2])}) == wanted
    for sizes, text in [
        ({}, "by sizes= in Python or --shape in the command, but not all of input 'x0', 'n' of input 'x1'"),
        ({"n": 4}, "by sizes= in Python or --shape in the command, but not all of input 'x0'"),
        ({"m": 4}, "or all sizes of an input, but 'm' is neither; known are n, x0, x1"),
        ({"n": (4, 5)}, "but 'n' is neither"),
        ({"n": -4}, "sizes['n'] must be an integer of at least 0, but it is -4"),
        ({"n": 4.0}, "sizes['n'] must be an integer of at least 0, but it is 4.0"),
        ([4], "sizes must be a dict by name, but it is list"),
        ({"n": 4, "x1": (5,)}, "sizes must fit the input x1: int64[4], but they are [5]"),
        ({"x1": (5, 6)}, "sizes must fit the input x1: int64[n], but they are [5, 6]"),
    ]:
        with pytest.raises(dml_jax.ConstraintError) as caught:
            to_descs(proto, sizes=sizes)
        assert text in str(caught.value)


def test_sizes_that_the_data_decide_are_of_a_value():
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Transpose", ["i"], ["y"], name="it")]
    with pytest.raises(dml_jax.ConstraintError, match=r"'it': for DirectML every size must be .* not those of 'i'"):
        to_descs(model(nodes, {"x": zeros((3,))}, ["y"]))


def table(heading):
    """Of the page of operators, the rows of a section: names, and the other cell."""
    page = (Path(__file__).parents[1] / "docs/reference/onnx_operators.md").read_text()
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    _, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(names.split(", "), text) for names, text in rows]


def test_the_page_lists_every_operator():
    structs = table("DirectML's operators")
    listed = [name for names, _ in table("ONNX's operators") for name in names]
    listed += [f"com.microsoft::{name}" for names, _ in table("ONNX Runtime's operators") for name in names]
    assert Counter(listed) == Counter(list(ONNX_OPERATORS))
    assert Counter(name for names, _ in structs for name in names) == Counter(list(DESCRIBED))
    made = {desc.operator_type for _, desc in DESCS.values()}
    assert made <= {name for _, text in structs for name in re.findall(r"[A-Z][A-Z_0-9]{3,}", text)}


def test_a_border_must_be_known():
    nodes = [helper.make_node("Pad", ["x", "p", "v"], ["y"], name="it")]
    proto = model(nodes, {"x": zeros((3,)), "v": zeros(())}, ["y"], {"p": np.int64([1, 0])})
    with pytest.raises(dml_jax.ConstraintError, match="constant_value must be known in DirectML, but"):
        to_descs(proto)


def test_what_follows_from_shapes_has_no_descriptor_but_arrays_that_are_made():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "one", "two"], ["n"]),
        helper.make_node("ConstantOfShape", ["n"], ["zeros"], name="it"),
        helper.make_node("Expand", ["zeros", "s"], ["y"]),
    ]
    proto = model(nodes, {"x": zeros((2, 3))}, ["y"], {"one": np.int64([1]), "two": np.int64([2])})
    row = f32(3)
    assert to_descs(proto) == {"ConstantOfShape node 'it'": dml_jax.FillValueConstantDesc(row, np.float32, 0)}


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
    descs = to_descs(proto)
    assert list(descs) == ["Reshape node #2", "Gather node #3", "Transpose node #4"]
    desc = descs["Gather node #3"]
    assert (desc.input.sizes, desc.output.sizes) == ((2, 12), (2, 1))


def test_nodes_of_one_name_keep_labels_of_their_own():
    nodes = [helper.make_node("Gather", ["x", "i"], [y], name="same") for y in "ab"]
    proto = model(nodes, {"x": zeros((3,))}, ["a", "b"], {"i": np.int64([0])})
    for output in proto.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, 1, None))
    assert list(to_descs(proto)) == ["Gather node 'same' #0", "Gather node 'same' #1"]
