"""Damaged and hostile serialized graphs: each is read or refused, in memory of the order of the file."""

import random
import struct
import tracemalloc
from contextlib import suppress
from dataclasses import replace

import pytest
from checks import spread
from serialized_graph_cases import (
    FILL,
    GATHER,
    MATMUL_ADD,
    RAW,
    fused,
    uints,
    with_attributes,
)

from dml_jax import ConstraintError
from dml_jax.graphs.serialized.codec import decode, encode
from dml_jax.graphs.serialized.operator_descs import to_desc
from dml_jax.graphs.serialized.records import ConstantNode, NamedConstant, SerializedGraph

pytest.importorskip("flatbuffers")
from flatbuffers.builder import Builder
from flatbuffers.table import Table


def outcome(content):
    """What comes of a file: a graph that can be written again, or a refusal; never anything else."""
    try:
        graph = decode(content)
        assert decode(encode(graph)) == graph
    except ConstraintError as error:
        return str(error)
    for node in graph.nodes:
        if not isinstance(node, ConstantNode):
            with suppress(ConstraintError):
                to_desc(node)
    return "read"


SMALL = SerializedGraph(
    (
        ConstantNode("i", NamedConstant("i"), ("i",)),
        replace(GATHER, input_names=("x", "i"), output_names=("z",)),
        replace(FILL, output_names=("w",)),
        replace(MATMUL_ADD.nodes[2], attributes=(fused("RELU"), uints("a", 1, 2))),
    ),
    ("x",),
    ("z", "w", "model_output"),
)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("value", "which"), spread([0, 1, 0x7F, 0xFF], [0, 1, 0x7F, 0xFF], 3))
def test_any_byte_may_be_wrong(value, which):
    content = encode(SMALL)
    outcomes = {outcome(content[:i] + bytes([value]) + content[i + 1 :]) for i in range(len(content))[which]}
    assert len(outcomes) > 20  # different rules are broken


def test_a_file_may_end_anywhere():
    content = encode(SMALL)
    assert all("must lie in the" in outcome(content[:size]) for size in range(0, len(content), 3))


@pytest.mark.parametrize("seed", range(4))
def test_offsets_may_lead_anywhere(seed):
    source, content = random.Random(seed), encode(SMALL)
    for _ in range(250):
        damaged = bytearray(content)
        for place in source.sample(range(0, len(content) - 3, 4), 2):
            distance = source.choice([source.randrange(len(content)), -source.randrange(len(content)), 2**32 - 1])
            damaged[place : place + 4] = (distance % 2**32).to_bytes(4, "little")
        outcome(bytes(damaged))


def test_texts_are_utf8_and_hold_no_nul():
    content = encode(SMALL)
    at = content.index(b"DML_OPERATOR_GATHER")
    assert "must be UTF-8" in outcome(content[:at] + b"\xff" + content[at + 1 :])
    assert "must end with its first NUL" in outcome(content[:at] + b"\0" + content[at + 1 :])
    end = at + len("DML_OPERATOR_GATHER")
    assert "must end with its first NUL" in outcome(content[:end] + b"x" + content[end + 1 :])


def table(builder, *fields):
    """A table of offsets; None leaves one out, and of the kind of a union there is its number."""
    builder.StartObject(len(fields))
    for slot, value in enumerate(fields):
        if isinstance(value, bytes):
            builder.PrependUint8Slot(slot, value[0], 0)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, value or 0, 0)
    return builder.EndObject()


def vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def finished(builder, root):
    builder.Finish(root)
    return bytes(builder.Output())


def shared_strings(count):
    """As many references to one long name, all of them."""
    builder = Builder()
    name = builder.CreateString("n" * count)
    return finished(builder, table(builder, None, vector(builder, [name] * count)))


def shared_nodes(count):
    """As many references to one node, which has as many inputs."""
    builder = Builder()
    name = builder.CreateString("n")
    size = vector(builder, [])
    one = table(builder, name, size)
    desc = table(builder, name, vector(builder, [one] * count))
    node = table(builder, b"\1", desc, name)
    return finished(builder, table(builder, vector(builder, [node] * count)))


def shared_arrays(count):
    """As many attributes that are one array of as many numbers."""
    builder = Builder()
    name = builder.CreateString("n")
    array = table(builder, vector(builder, [builder.CreateString("7")] * count))
    attribute = table(builder, name, b"\7", array)
    desc = table(builder, name, None, None, vector(builder, [attribute] * count))
    node = table(builder, b"\1", desc, name)
    return finished(builder, table(builder, vector(builder, [node])))


def overlapping_constants(count):
    """As many constants whose bytes are one and the same."""
    builder = Builder()
    name, raw = builder.CreateString("n"), builder.CreateByteVector(bytes(8 * count))
    desc = table(builder, b"\2", table(builder, raw))
    node = table(builder, b"\2", desc, name)
    return finished(builder, table(builder, vector(builder, [node] * count)))


@pytest.mark.parametrize("bomb", [shared_strings, shared_nodes, shared_arrays, overlapping_constants])
def test_shared_parts_take_no_more_than_the_size_of_the_file(bomb):
    content = bomb(8_000)  # squared, half a gigabyte
    tracemalloc.start()
    try:
        assert "its parts overlap" in outcome(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(content)


def test_a_vector_that_claims_to_be_long_is_not_built():
    content = bytearray(encode(with_attributes(uints("Axes", 1))))
    root = Table(content, struct.unpack_from("<I", content)[0])
    start = root.Vector(root.Offset(4)) - 4
    content[start : start + 4] = b"\xff" * 4
    tracemalloc.start()
    try:
        assert "serialized graph: nodes: 17179869180 bytes at byte" in outcome(bytes(content))
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_activations_cannot_be_nested():
    builder = Builder()
    name = builder.CreateString("n")
    activation = table(builder, name)
    for _ in range(5000):
        attribute = table(builder, name, b"\1", activation)
        activation = table(builder, name, vector(builder, [attribute]))
    attribute = table(builder, name, b"\1", activation)
    desc = table(builder, name, None, None, vector(builder, [attribute]))
    node = table(builder, b"\1", desc, name)
    content = finished(builder, table(builder, vector(builder, [node])))
    assert "val: attributes[0]: an activation must have no activation itself" in outcome(content)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"kind": b"\3"}, "nodes[0]: desc_type must be 1 (OPERATOR), 2 (CONSTANT), but it is 3"),
        ({"kind": b"\0"}, "nodes[0]: desc_type must be 1 (OPERATOR), 2 (CONSTANT), but it is 0"),
        ({"has_name": False}, "nodes[0]: a node must have a name"),
        ({"has_desc": False}, "nodes[0]: desc: desc is missing"),
        ({"kind": b"\2", "has_inputs": True}, "a constant must have no inputs, but it has 1"),
        ({"kind": b"\2", "desc": (b"\3",)}, "desc: data_type must be 1 (NAME), 2 (RAW_DATA), but it is 3"),
        ({"kind": b"\2", "desc": (b"\1",)}, "desc: data is missing"),
        ({"desc": ()}, "desc: the type of an operator is missing"),
    ],
)
def test_parts_that_every_node_has(parts, words):
    builder = Builder()
    name = builder.CreateString("n")
    inputs = vector(builder, [name]) if parts.get("has_inputs") else None
    desc = table(builder, *parts.get("desc", (None,))) if parts.get("has_desc", True) else None
    node = table(builder, parts.get("kind", b"\1"), desc, name if parts.get("has_name", True) else None, inputs)
    content = finished(builder, table(builder, vector(builder, [node])))
    assert words in outcome(content)


def test_fields_that_the_schema_does_not_have_are_refused():
    builder = Builder()
    content = finished(builder, table(builder, None, None, None, builder.CreateString("new")))
    assert "must have no fields but nodes, graphInputNames, graphOutputNames" in outcome(content)


@pytest.mark.parametrize(
    ("at", "value", "words"), [(0, 5, "not 5"), (0, 2, "not 2"), (2, 4, "must lie in its 4 bytes")]
)
def test_the_fields_of_a_table_lie_in_it(at, value, words):
    content = bytearray(encode(RAW))
    (root,) = struct.unpack_from("<I", content)
    vtable = root - struct.unpack_from("<i", content, root)[0]
    struct.pack_into("<H", content, vtable + at, value)
    assert words in outcome(bytes(content))
