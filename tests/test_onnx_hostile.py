"""Malicious ONNX models: each is refused with a message, and control characters of its names are escaped."""

import os

import jax
import numpy as np
import pytest
from click.testing import CliRunner
from onnx_building import TensorProto, helper, model, numpy_helper, onnx

import dml_jax
from dml_jax.command.main import command
from dml_jax.onnx import OnnxError, run_node, to_descs, to_jax

X = np.float32([1, 2])
make = helper.make_node


def value(name):
    return onnx.ValueInfoProto(name=name)


def function(name, nodes, opset=20):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return onnx.FunctionProto(name=name, domain="mine", input=["a"], output=["b"], node=nodes, opset_import=imports)


def with_functions(*functions):
    """A model that calls the first one."""
    proto = model([make(functions[0].name, ["x"], ["y"], domain="mine")], {"x": X}, ["y"])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    proto.functions.extend(functions)
    return proto


def refused(source, text):
    with pytest.raises(OnnxError) as caught:
        to_jax(source)
    assert text in str(caught.value)


# Names, versions.


def test_inputs_and_outputs_without_a_name():
    rule = "every input and output of the graph must have a name, but one has none"
    refused(model([make("Neg", ["x"], ["y"])], {"x": X}, ["y", ""]), rule)
    refused(model([make("Neg", ["x"], ["y"])], {"x": X, "": X}, ["y"]), rule)
    proto = nested(1, make("Neg", ["x"], ["y"]))
    proto.graph.node[0].attribute[0].g.output[0].name = ""
    refused(proto, "then_branch: every output of the graph must have a name, but one has none")


@pytest.mark.parametrize("version", [2**40, 2**63 - 1, 0, -1, -(2**63)])
@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"])
def test_versions_that_there_are_not(version, domain):
    """Of the model, and of a function in it; a domain of nobody's may have any version."""
    proto = with_functions(function("F", [make("Adam", ["a"], ["b"], domain=domain)]))
    imported = helper.make_opsetid(domain, version)
    for place in (proto.opset_import, proto.functions[0].opset_import):
        place.append(imported)
        refused(proto, f"but that of the domain {domain.removeprefix('ai.onnx') and domain!r} is {version}")
        del place[-1]


# Depth and number.


def nested(count, node):
    """A node in the branches of as many Ifs, each in the last one; made in place, as protobuf copies none so deep."""
    proto = model([], {"x": X, "c": np.array(True)}, ["y"])
    graph = proto.graph
    for depth in range(count):
        made = graph.node.add(op_type="If", input=["c"], output=[f"y{depth}" if depth else "y"])
        graph = made.attribute.add(name="then_branch", type="GRAPH").g
        other = made.attribute.add(name="else_branch", type="GRAPH").g
        other.node.add().CopyFrom(make("Identity", ["x"], [f"z{depth}"]))
        other.output.add(name=f"z{depth}")
        graph.output.add(name=f"y{depth + 1}")
    graph.node.add().CopyFrom(node)
    graph.node[0].output[0] = f"y{count}"
    return proto


@pytest.mark.parametrize("count", [10, 31])
def test_nested_branches_are_traced_once(count):
    """As deep as protobuf reads them; traced twice at every depth they would take forever."""
    run = jax.jit(to_jax(nested(count, make("Neg", ["x"], ["y"])).SerializeToString()))
    np.testing.assert_array_equal(run(X, np.array(True)), -X)
    np.testing.assert_array_equal(run(X, np.array(False)), X)


@pytest.mark.parametrize("count", [40, 400, 4000])
def test_branches_nested_too_deep(count):
    refused(nested(count, make("Neg", ["x"], ["y"])), "its parts must lie at most 100 deep in each other")


@pytest.mark.parametrize("count", [51, 400])
def test_functions_that_call_one_another(count):
    calls = [function(f"F{i}", [make(f"F{i + 1}", ["a"], ["b"], domain="mine")]) for i in range(count)]
    functions = [*calls, function(f"F{count}", [make("Neg", ["a"], ["b"])])]
    refused(with_functions(*functions), "graphs and functions must lie at most 50 deep in each other")
    run = jax.jit(to_jax(with_functions(*functions[-50:])))
    np.testing.assert_array_equal(run(X), -X)


def test_functions_that_make_too_many_nodes(monkeypatch):
    """Each calls the next one twice: 2**30 nodes."""
    monkeypatch.setattr("dml_jax.onnx.node_reader.MOST_NODES", 1000)  # so that it takes no time
    calls = [
        function(f"F{i}", [make(f"F{i + 1}", [a], [b], domain="mine") for a, b in (("a", "c"), ("c", "b"))])
        for i in range(30)
    ]
    rule = "there must be at most 1000 nodes, those of functions in each call, but there are more"
    refused(with_functions(*calls, function("F30", [make("Neg", ["a"], ["b"])])), rule)
    refused(model([make("Neg", ["x"], [f"y{i}"]) for i in range(1001)], {"x": X}, ["y0"]), rule)


# Every text of a file.


def everything():
    """A model with every kind of text: names, operators, domains, attributes, sizes, files, comments."""
    branches = {
        name: helper.make_graph([make("Neg", ["x"], [name], name="inner")], name, [], [value(name)], doc_string="d")
        for name in ("then_branch", "else_branch")
    }
    nodes = [
        make("Called", ["x"], ["f"], name="call", domain="mine", doc_string="d"),
        make("If", ["c"], ["i"], name="if", **branches),
        make("DepthToSpace", ["picture"], ["p"], name="depth", blocksize=1, mode="CRD"),
        make("Gather", ["x", "indices"], ["g"], name="rows"),
        make("Add", ["f", "i"], ["y"], name="add"),
    ]
    inputs = {"x": X, "c": np.array(True), "picture": np.zeros((1, 1, 1, 1), np.float32)}
    proto = model(nodes, inputs, ["y", "p", "g"], {"indices": np.int64([0])})
    proto.producer_name = proto.domain = "somebody"
    proto.metadata_props.add(key="k", value="v")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    proto.graph.value_info.append(helper.make_tensor_value_info("f", TensorProto.FLOAT, ["n"]))
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    called = function("Called", [make("LeakyRelu", ["a"], ["b"], name="leaky")])
    called.node[0].attribute.add(name="alpha", ref_attr_name="alpha", type="FLOAT")
    called.attribute_proto.append(helper.make_attribute("alpha", 0.5))
    proto.functions.append(called)
    weights = proto.graph.initializer.add(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="none.bin")
    return proto


def texts(message):
    """Yields every text of a message, and what puts another one in its place."""
    for field, content in message.ListFields():
        if field.type == field.TYPE_STRING and isinstance(content, str):
            yield content, lambda new, at=field.name: setattr(message, at, new)
        elif field.type == field.TYPE_STRING:
            for i, text in enumerate(content):
                yield text, lambda new, at=i, row=content: row.__setitem__(at, new)
        elif field.message_type:
            for part in [content] if hasattr(content, "ListFields") else content:
                yield from texts(part)


def changed_texts(new):
    proto = everything()
    for old, change in texts(proto):
        change(new)
        yield old, proto
        change(old)


def test_texts_that_are_not_utf8():
    count = 0
    for _, proto in changed_texts("QQQQ"):
        with pytest.raises(OnnxError, match="is not an ONNX model: every text must be UTF-8, but ") as caught:
            to_jax(proto.SerializeToString().replace(b"QQQQ", b"\xff\xfeQQ"))
        assert r"is b'\xff\xfeQQ'" in str(caught.value)
        count += 1
    assert count >= 60


NAME = "\x1b[2J\n\x07\u202e"  # clears the screen, rings, turns the direction of writing


def is_harmless(text):
    return not {"\x1b", "\x07", "\u202e"}.intersection(text)


def said(act):
    """What an error says, or what is printed."""
    try:
        return str(act())
    except dml_jax.ConstraintError as error:
        return str(error)


def test_no_name_reaches_a_terminal_raw(tmp_path):
    """Neither from an error, nor from what a function prints of itself, nor from the command."""
    (tmp_path / "none.bin").write_bytes(bytes(4))
    path = tmp_path / "model.onnx"
    outcomes = set()
    for old, proto in changed_texts(NAME):
        path.write_bytes(proto.SerializeToString())
        read = said(lambda: to_jax(path))
        outcomes.add(read.startswith("OnnxFunction"))
        tried = [read, said(lambda: to_descs(path)), *said_by_calls(path)]
        tried.append(CliRunner().invoke(command, ["check", str(path)]).output)
        assert all(map(is_harmless, tried)), (old, tried)
        assert "\n" not in read.partition("supported here")[0], old
    assert outcomes == {True, False}


def said_by_calls(path):
    """Errors of wrong calls, which list the names of inputs, sizes and initializers."""
    try:
        function = to_jax(path)
    except OnnxError:
        return []
    wrong = [np.zeros((2, 2), bool)] * len(function.inputs)
    return [
        str(function.inputs),
        said(lambda: function()),
        said(lambda: function(*wrong)),
        said(lambda: function(**{NAME: X})),
        said(lambda: function(*wrong, parameters={"none": X})),
        said(lambda: to_jax(path, static={"none": X})),
        said(lambda: to_jax(path, int32=["none"])),
        said(lambda: to_descs(path, sizes={"none": 2})),
    ]


def test_run_node_escapes_names():
    node = make(NAME, [NAME, "b"], ["y"])
    assert is_harmless(said(lambda: run_node(node, [X, X])))
    assert is_harmless(said(lambda: run_node(node, [X])))


def test_a_pipe_as_external_data_is_not_opened(tmp_path):
    """It would wait for somebody to write."""
    os.mkfifo(tmp_path / "none.bin")
    proto = everything()
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    refused(tmp_path / "model.onnx", "tensor 'w': its file 'none.bin' must be a regular file")


def test_tensors_of_damaged_shapes():
    for dims in ([2**62, 0], [2**62, 2**62], [2**63 - 1], [0, 2**63 - 1, 2**63 - 1]):
        proto = model([make("Identity", ["w"], ["y"])], {}, ["y"], {"w": X})
        tensor = proto.graph.initializer[0]
        tensor.ClearField("dims")
        tensor.dims.extend(dims)
        refused(proto, "tensor 'w'")
    assert numpy_helper.to_array(model([], {}, [], {"w": X}).graph.initializer[0]).size == 2


CONSTANTS = {
    "ConstantOfShape": [np.int64([2**50])],
    "Range": [np.int64(0), np.int64(2**50), np.int64(1)],
    "Tile": [X, np.int64([2**50])],
    "OneHot": [np.int64([1]), np.int64(2**50), np.float32([0, 1])],
}


@pytest.mark.parametrize("op_type", CONSTANTS)
def test_constants_that_no_memory_holds(op_type):
    """They are computed while the model is described or traced; petabytes are more than an address may reach."""
    named = {f"c{i}": array for i, array in enumerate(CONSTANTS[op_type])}
    proto = model([make(op_type, [*named], ["y"])], {}, ["y"], named)
    for act in (to_jax(proto), lambda: to_descs(proto)):
        with pytest.raises(OnnxError, match=f"{op_type} node #0: its constant outputs must fit in memory, but"):
            act()
