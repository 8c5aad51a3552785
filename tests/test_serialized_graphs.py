"""Serialized graphs: what is written can be read, by us and by flatbuffers itself; what is no graph is refused."""

import struct
import sys
from dataclasses import replace

import numpy as np
import pytest
from catalogue_cases import DESCS
from operator_cases import f16
from serialized_graph_cases import (
    ALEXNET,
    FILL,
    GATHER,
    MATMUL_ADD,
    RAW,
    node_of,
    real,
    tensor,
    uint,
    uints,
    with_attributes,
)

from dml_jax import ConstraintError, DataTypeError
from dml_jax.core.arguments.static_values import Real
from dml_jax.core.structs.activation import Activation as FusedActivation
from dml_jax.core.structs.activation_table import ACTIVATIONS
from dml_jax.graphs.serialized.codec import decode, encode
from dml_jax.graphs.serialized.operator_descs import to_desc, to_node
from dml_jax.graphs.serialized.records import Activation, Attribute, SerializedGraph
from dml_jax.graphs.serialized.records import AttributeKind as Kind

pytest.importorskip("flatbuffers")
from flatbuffers.table import Table

# Whole graphs.


@pytest.mark.parametrize("graph", [MATMUL_ADD, ALEXNET, RAW, SerializedGraph((), ("",), ())])
def test_what_is_written_is_read(graph):
    assert decode(encode(graph)) == graph


def test_bytes_of_other_kinds_are_read():
    content = encode(RAW)
    assert decode(bytearray(content)) == decode(memoryview(content)) == RAW
    with pytest.raises(DataTypeError, match="must be bytes, but it is str"):
        decode("graph.bin")


# By flatbuffers' own reader and the numbers of the fields that DmlGraphDesc_generated.h has.


def field(table, slot):
    """Where a field lies; 0 if it is left out."""
    offset = table.Offset(slot)
    return offset and offset + table.Pos


def text(table, slot):
    return table.String(field(table, slot)).decode() if field(table, slot) else None


def inner(table, slot):
    return Table(table.Bytes, table.Indirect(field(table, slot))) if field(table, slot) else None


def items(table, slot, read):
    offset = table.Offset(slot)
    return [read(table.Vector(offset) + 4 * i) for i in range(table.VectorLen(offset))] if offset else None


def numbers(table, slot):
    return items(table, slot, lambda at: struct.unpack_from("<I", table.Bytes, at)[0])


def texts(table, slot):
    return items(table, slot, lambda at: table.String(at).decode())


def tables(table, slot):
    return items(table, slot, lambda at: Table(table.Bytes, table.Indirect(at)))


def tensor_by_hand(table):
    (total,) = struct.unpack_from("<Q", table.Bytes, field(table, 10))
    return text(table, 4), numbers(table, 6), numbers(table, 8), total


def attribute_by_hand(table):
    kind, value = table.Bytes[field(table, 6)], inner(table, 8)
    raw = None if value is None else bytes(value.Bytes[value.Pos : value.Pos + 4])
    return text(table, 4), kind, raw


def test_flatbuffers_reads_the_layout_of_onnx_runtime():
    content = encode(MATMUL_ADD)
    graph = Table(content, struct.unpack_from("<I", content)[0])
    assert texts(graph, 6) == ["model_input"]
    assert texts(graph, 8) == ["model_output"]
    first, _, gemm = tables(graph, 4)

    assert (text(first, 8), texts(first, 10)) == ("matmul_b_tensor", [])
    assert texts(first, 12) == ["matmul_b_tensor-nodeIdx:0-outputIdx:0"]
    assert content[field(first, 4)] == 2  # a constant
    assert content[field(inner(first, 6), 4)] == 1  # by name
    assert text(inner(inner(first, 6), 6), 4) == "matmul_b_tensor"

    desc = inner(gemm, 6)
    assert content[field(gemm, 4)] == 1  # an operator
    assert text(desc, 4) == "DML_OPERATOR_GEMM"
    assert [tensor_by_hand(one) for one in tables(desc, 6)] == [
        ("DML_TENSOR_DATA_TYPE_FLOAT32", [1, 1, 1, 5], None, 20),
        ("DML_TENSOR_DATA_TYPE_FLOAT32", [1, 1, 5, 5], None, 100),
        ("DML_TENSOR_DATA_TYPE_FLOAT32", [1, 1, 1, 5], None, 20),
    ]
    assert [tensor_by_hand(one) for one in tables(desc, 8)] == [
        ("DML_TENSOR_DATA_TYPE_FLOAT32", [1, 1, 1, 5], None, 20)
    ]
    assert [attribute_by_hand(one) for one in tables(desc, 10)] == [
        ("TransA", 3, bytes(4)),
        ("TransB", 3, bytes(4)),
        ("Alpha", 6, struct.pack("<f", 1)),
        ("Beta", 6, struct.pack("<f", 1)),
        (None, 1, None),
    ]


def test_numbers_lie_at_multiples_of_their_size():
    """C++ reads them in place."""
    long, union = Attribute("Long", Kind.UINT64, 2**63), Attribute("Value", Kind.SCALAR_UNION, b"\7" + bytes(7))
    content = encode(with_attributes(uint("a", 1), long, union, uints("b", 1)))
    (node,) = tables(Table(content, struct.unpack_from("<I", content)[0]), 4)
    _, long, union, array = tables(inner(node, 6), 10)
    assert inner(long, 8).Pos % 8 == 0
    assert struct.unpack_from("<Q", content, inner(long, 8).Pos) == (2**63,)
    assert content[field(inner(union, 8), 4)] == 1  # the bytes themselves
    assert content[inner(inner(union, 8), 6).Pos :][:8] == b"\7" + bytes(7)
    assert inner(array, 8).Vector(inner(array, 8).Offset(4)) % 4 == 0
    assert field(tables(inner(node, 6), 6)[0], 10) % 8 == 0  # TotalTensorSizeInBytes


# Attributes.


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.NONE, None),
        (Kind.ACTIVATION, Activation("DML_OPERATOR_ACTIVATION_ELU", (real("Alpha", 0.5),))),
        (Kind.ACTIVATION_ARRAY, (Activation("DML_OPERATOR_ACTIVATION_TANH"),) * 2),
        (Kind.ACTIVATION_ARRAY, ()),
        (Kind.UINT32, 2**32 - 1),
        (Kind.UINT64, 2**64 - 1),
        (Kind.INT32, -(2**31)),
        (Kind.FLOAT32, Real("nan")),
        (Kind.FLOAT32, Real(-0.0)),
        (Kind.UINT_ARRAY, (0, 2**32 - 1)),
        (Kind.UINT_ARRAY, ()),
        (Kind.INT_ARRAY, (-1, 2**31 - 1)),
        (Kind.FLOAT_ARRAY, (Real("-inf"), Real(0.5))),
        (Kind.SCALE_BIAS, (Real(2.0), Real(-1.0))),
        (Kind.SIZE_2D, (3, 2**32 - 1)),
        (Kind.SCALAR_UNION, bytes(range(8))),
        (Kind.BOOL, True),
        *((kind, None) for kind in Kind if kind),
    ],
)
def test_attributes_of_every_kind(kind, value):
    graph = with_attributes(Attribute("Field", kind, value))
    assert decode(encode(graph)) == graph


@pytest.mark.parametrize("member", range(1, 12))
def test_every_member_of_a_scalar_union_is_read_as_its_bytes(member):
    """ONNX Runtime writes the bytes; the format has a member for every type too."""
    size = (8, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8)[member - 1]
    content = bytearray(encode(with_attributes(Attribute("Value", Kind.SCALAR_UNION, b"\1\2\3\4\5\6\7\x08"))))
    (node,) = tables(Table(content, struct.unpack_from("<I", content)[0]), 4)
    content[field(inner(tables(inner(node, 6), 10)[0], 8), 4)] = member
    assert decode(content).nodes[0].attributes[0].value == bytes(range(1, size + 1)).ljust(8, b"\0")


# Operators.


@pytest.mark.parametrize("name", DESCS)
def test_every_struct_survives(name):
    node = node_of(DESCS[name])
    (read,) = decode(encode(SerializedGraph((node,), node.input_names, node.output_names))).nodes
    assert to_desc(read) == DESCS[name]


def test_attributes_stand_in_the_order_of_directmls_schema():
    slice1 = node_of(DESCS["SLICE1"]).attributes
    assert [(one.name, one.kind) for one in slice1] == [
        ("DimensionCount", Kind.UINT32),
        ("InputWindowOffsets", Kind.UINT_ARRAY),
        ("InputWindowSizes", Kind.UINT_ARRAY),
        ("InputWindowStrides", Kind.INT_ARRAY),
    ]
    assert slice1[0].value == len(DESCS["SLICE1"].input_window_offsets)
    join = node_of(DESCS["JOIN"])
    assert [(one.name, one.value) for one in join.attributes] == [
        ("InputCount", len(join.inputs)),
        ("Axis", DESCS["JOIN"].axis),
    ]
    # Of an enumeration the number; C's BOOL is an integer too.
    running_sum = replace(DESCS["CUMULATIVE_SUMMATION"], axis_direction="DECREASING", has_exclusive_sum=True)
    assert [(one.name, one.kind, one.value) for one in node_of(running_sum).attributes[1:]] == [
        ("AxisDirection", Kind.UINT32, 1),
        ("HasExclusiveSum", Kind.UINT32, 1),
    ]


def changed(node, position, **changes):
    """The node with an attribute changed."""
    attributes = list(node.attributes)
    attributes[position] = replace(attributes[position], **changes)
    return replace(node, attributes=tuple(attributes))


@pytest.mark.parametrize(("kind", "value"), [(Kind.UINT32, 1), (Kind.UINT32, 7), (Kind.BOOL, True)])
def test_whatever_is_not_zero_is_true(kind, value):
    desc = DESCS["CUMULATIVE_SUMMATION"]
    node = changed(node_of(desc), 2, kind=kind, value=value)
    assert to_desc(node) == replace(desc, has_exclusive_sum=True)


def test_a_scalar_union_is_read_as_a_number_of_its_data_type():
    output = f16(2)
    constant = replace(DESCS["FILL_VALUE_CONSTANT"], output=output, value_data_type="FLOAT16", value=0.5)
    node = node_of(constant)
    assert node.attributes[1].value == np.float16(0.5).tobytes() + bytes(6)
    assert to_desc(changed(node, 1, value=np.float16(0.5).tobytes() + b"other!")) == constant
    as_bits = replace(constant, value=np.uint16(0x3800))  # the member that DirectML's union has for FLOAT16
    assert node_of(as_bits) == node


@pytest.mark.parametrize(
    ("desc", "names"),
    [
        (replace(DESCS["GEMM"], c=None, fused_activation=None), ("a", "b", "")),
        (replace(DESCS["DIAGONAL_MATRIX1"], input=None), ("",)),
        (replace(DESCS["ELEMENT_WISE_IDENTITY"], scale_bias=None), ("input",)),
        (replace(DESCS["ELEMENT_WISE_IDENTITY"], scale_bias=(0.5, -1)), ("input",)),
    ],
)
def test_optional_fields_survive(desc, names):
    node = node_of(desc)
    assert node.input_names == names
    (read,) = decode(encode(SerializedGraph((node,), (), ("output",)))).nodes
    assert to_desc(read) == desc
    assert all((one.name == "") == (one.value is None) for one in read.attributes)


@pytest.mark.parametrize(
    ("name", "field", "position"), [("GEMM", "fused_activation", 4), ("ELEMENT_WISE_IDENTITY", "scale_bias", 0)]
)
def test_what_is_left_out_may_be_of_no_kind(name, field, position):
    node = changed(node_of(DESCS[name]), position, kind=Kind.NONE, name="", value=None)
    assert to_desc(node) == replace(DESCS[name], **{field: None})


FUSED = {"ACTIVATION_SOFTMAX1": ((3, 1),), "ELEMENT_WISE_CLIP": ((2, 1), -1.0, 1.0)}


@pytest.mark.parametrize("name", [name for name, row in ACTIVATIONS.items() if row.hosts != ()])
def test_every_activation_survives(name):
    parameters = FUSED.get(name, tuple(0.5 * (i + 2) for i in range(len(ACTIVATIONS[name].parameters))))
    gemm = replace(DESCS["GEMM"], fused_activation=FusedActivation(name, parameters))
    (read,) = decode(encode(SerializedGraph((node_of(gemm),), (), ()))).nodes
    assert to_desc(read) == gemm


def test_attributes_of_an_activation_stand_in_the_order_of_directmls_schema():
    softmax = replace(DESCS["GEMM"], fused_activation=FusedActivation("ACTIVATION_SOFTMAX1", ((3, 1),)))
    assert node_of(softmax).attributes[4] == Attribute(
        "FusedActivation",
        Kind.ACTIVATION,
        Activation("DML_OPERATOR_ACTIVATION_SOFTMAX1", (uint("AxisCount", 2), uints("Axes", 3, 1))),
    )
    clip = replace(DESCS["GEMM"], fused_activation=FusedActivation("ELEMENT_WISE_CLIP", (None, -1.0, 1.0)))
    assert node_of(clip).attributes[4].value.attributes == (
        Attribute("", Kind.SCALE_BIAS, None),
        real("Min", -1.0),
        real("Max", 1.0),
    )


@pytest.mark.parametrize(
    ("name", "attributes", "words"),
    [
        ("ACTIVATION_ELU", (real("Beta", 0.5),), "there must be Alpha where 'Beta' stands"),
        ("ACTIVATION_ELU", (uint("Alpha", 1),), "Alpha must be FLOAT32, but it is UINT32"),
        ("ACTIVATION_ELU", (real("Alpha", 1.0),) * 2, "the attributes must be Alpha, but there are 2"),
        ("ACTIVATION_SOFTMAX1", (uint("AxisCount", 2), uints("Axes", 3)), "AxisCount is 2 and Axes has 1 entries"),
        ("ACTIVATION_MISH", (), "GEMM: ACTIVATION_MISH: no operator can be fused with it"),
    ],
)
def test_an_activation_that_is_none_is_refused(name, attributes, words):
    node = node_of(replace(DESCS["GEMM"], fused_activation=FusedActivation("ACTIVATION_RELU")))
    with pytest.raises(ConstraintError) as caught:
        to_desc(changed(node, 4, value=Activation(f"DML_OPERATOR_{name}", attributes)))
    assert words in str(caught.value)


def test_what_reads_a_constant_by_name_is_owned():
    gather = DESCS["GATHER"]
    owned = replace(gather, indices=replace(gather.indices, flags="OWNED_BY_DML"))
    node = node_of(owned, owned={"indices"})
    assert node == node_of(gather)
    assert to_desc(node, owned={"indices"}) == owned


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (replace(GATHER, type="DML_OPERATOR_GATHERS"), "unknown operator 'DML_OPERATOR_GATHERS'; `dml-jax ops`"),
        (replace(GATHER, inputs=GATHER.inputs[:1]), "there are 1 tensors for the values ('input', 'indices')"),
        (replace(GATHER, inputs=GATHER.inputs[:1], input_names=("x", "")), "GATHER: IndicesTensor is missing"),
        (replace(GATHER, inputs=GATHER.inputs[:1], input_names=("x",)), "GATHER: IndicesTensor is missing"),
        (replace(GATHER, outputs=(), output_names=()), "GATHER: OutputTensor is missing"),
        (
            replace(GATHER, inputs=GATHER.inputs * 2, input_names=("a", "b", "c", "d")),
            "GATHER: there are more tensors than InputTensor, IndicesTensor",
        ),
        (replace(GATHER, inputs=(tensor("FLOAT32", 0), GATHER.inputs[1])), "InputTensor: TENSOR: every one of Sizes"),
        (replace(GATHER, outputs=(replace(GATHER.outputs[0], data_type="BOOL"),)), "OutputTensor: DataType must be"),
        (replace(GATHER, attributes=GATHER.attributes[:1]), "must be Axis, IndexDimensions, but there are 1"),
        (replace(GATHER, attributes=GATHER.attributes[::-1]), "there must be Axis where 'IndexDimensions' stands"),
        (changed(GATHER, 0, name=""), "there must be Axis where '' stands"),
        (changed(GATHER, 0, kind=Kind.INT32), "Axis must be UINT32, but it is INT32"),
        (changed(GATHER, 0, value=None), "GATHER: Axis is missing"),
        (changed(GATHER, 0, value=9), "GATHER: Axis must be"),
        (changed(node_of(DESCS["SLICE1"]), 0, value=9), "SLICE1: DimensionCount is 9 and InputWindowOffsets has"),
        (changed(node_of(DESCS["JOIN"]), 0, value=9), "JOIN: InputCount is 9 and InputTensors has"),
        (changed(node_of(DESCS["JOIN"]), 0, value=None), "JOIN: InputCount is missing"),
        (changed(FILL, 0, value=77), "ValueDataType must be the number of a data type, but it is 77"),
        (changed(FILL, 1, kind=Kind.FLOAT32, value=1.0), "Value must be SCALAR_UNION, but it is FLOAT32"),
    ],
)
def test_a_node_that_is_no_descriptor_is_refused(node, words):
    with pytest.raises(ConstraintError) as caught:
        to_desc(node)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "keywords", "words"),
    [
        ({"guaranteed_base_offset_alignment": 16}, {}, "GATHER: InputTensor: GuaranteedBaseOffsetAlignment must be 0"),
        ({"flags": "OWNED_BY_DML"}, {}, "InputTensor: Flags must be OWNED_BY_DML in a serialized graph for what reads"),
        ({}, {"owned": {"input"}}, "and for nothing else, but they are NONE"),
    ],
)
def test_what_a_file_has_no_place_for_is_refused(changes, keywords, words):
    gather = DESCS["GATHER"]
    with pytest.raises(ConstraintError) as caught:
        node_of(replace(gather, input=replace(gather.input, **changes)), **keywords)
    assert words in str(caught.value)


@pytest.mark.parametrize("names", [("x",), ("x", ""), ("x", "i", "j")])
def test_every_tensor_takes_a_name(names):
    with pytest.raises(ConstraintError, match=r"GATHER: there must be names for InputTensor, IndicesTensor, but they"):
        to_node(DESCS["GATHER"], "node", names, ("y",))


# What cannot be written.


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (
            SerializedGraph((replace(RAW.nodes[0], name=""),), (), ("v",)),
            "serialized graph: nodes[0]: a node must have",
        ),
        (replace(RAW, output_names=("v\0",)), "graphOutputNames[0]: a name must have no NUL, but it is 'v\\x00'"),
        (replace(RAW, output_names=("\ud800",)), "a name must be writable in UTF-8"),
        (with_attributes(uint("Axis", -1)), "nodes[0]: attributes[0]: Axis: (-1,) must fit its field"),
        (with_attributes(real("Alpha", 1e39)), "must fit its field"),
        (with_attributes(uints("Sizes", 2**32)), "must fit its field"),
        (with_attributes(Attribute("Value", Kind.SCALAR_UNION, b"1")), "must have 8 bytes, but it has 1"),
        (with_attributes(Attribute("Value", Kind.NONE, 1)), "of kind NONE must have no value, but it is 1"),
    ],
)
def test_values_that_the_format_cannot_hold_are_refused(graph, words):
    with pytest.raises(ConstraintError) as caught:
        encode(graph)
    assert words in str(caught.value)


def test_writing_names_the_package_that_it_needs(monkeypatch):
    content = encode(RAW)
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    monkeypatch.setitem(sys.modules, "flatbuffers.builder", None)
    assert decode(content) == RAW
    with pytest.raises(ConstraintError, match=r"pip install '\.\[graphs\]' in a clone installs it"):
        encode(RAW)
