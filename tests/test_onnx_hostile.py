"""Malicious ONNX models: each is refused with a message, and control characters of its names are escaped."""

import os
import re
import signal
import subprocess
import sys
from threading import Event

import jax
import numpy as np
import pytest
from commands import check, dml_jax_command
from onnx_building import TensorProto, helper, model, numpy_helper, onnx
from onnx_one_node import refused

import dml_jax
from dml_jax.command import long_work
from dml_jax.core import memory_checks
from dml_jax.onnx import OnnxError, run_node, to_descs, to_jax
from dml_jax.onnx.node_limits import MAX_NODES

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


def test_functions_that_make_too_many_nodes():
    """Each calls the next one twice: 2**48 nodes. Each is read once."""
    calls = [
        function(f"F{i}", [make(f"F{i + 1}", [a], [b], domain="mine") for a, b in (("a", "c"), ("c", "b"))])
        for i in range(48)
    ]
    rule = "there must be at most 16384 nodes, those of functions in each call, but there are 24576; to_jax"
    refused(with_functions(*calls, function("F48", [make("Neg", ["a"], ["b"])])), rule)


def test_nodes_after_expansion_have_a_limit_that_can_be_raised():
    """A body is counted in each call, and a loop in each iteration that is unrolled."""
    twice = function("Twice", [make("Neg", ["a"], ["c"]), make("Neg", ["c"], ["b"])])
    called = with_functions(twice)
    chain = model([make("Neg", ["x"], ["c"]), make("Neg", ["c"], ["d"]), make("Neg", ["d"], ["y"])], {"x": X}, ["y"])
    for proto in (called, chain):
        np.testing.assert_array_equal(to_jax(proto, max_nodes=np.int64(3))(X), X if proto is called else -X)
        with pytest.raises(
            OnnxError, match="at most 2 nodes, those of functions in each call, but there are 3; to_jax"
        ):
            to_jax(proto, max_nodes=2)
    with pytest.raises(OnnxError, match="max_nodes must be an integer of at least 1, but it is 0"):
        to_jax(chain, max_nodes=0)


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
        tried.append(check(path).output)
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


@pytest.mark.parametrize("is_external", [False, True])
def test_tensors_of_damaged_shapes(is_external, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(X.nbytes))
    for dims in ([2**62, 0], [2**62, 2**62], [2**63 - 1], [0, 2**63 - 1, 2**63 - 1]):
        proto = model([make("Identity", ["w"], ["y"])], {}, ["y"], {"w": X})
        tensor = proto.graph.initializer[0]
        tensor.ClearField("dims")
        tensor.dims.extend(dims)
        if is_external:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="w.bin")
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        refused(tmp_path / "m.onnx", "tensor 'w'")
    assert numpy_helper.to_array(model([], {}, [], {"w": X}).graph.initializer[0]).size == 2


# Sizes.

LARGE = 2**40  # of floats: more than any machine has


def said_of(proto, path):
    """What `to_jax` or the call says; the command says where without running it."""
    path.write_bytes(proto.SerializeToString())
    checked = check(path)
    assert checked.exit_code == 1, checked.output
    with pytest.raises(OnnxError) as caught, jax.enable_x64(True):
        call_by_shapes(to_jax(proto))
    said = str(caught.value)
    assert said[: max(20, said.find(": "))] in checked.output
    return said


def call_by_shapes(function):
    jax.eval_shape(function, *(jax.ShapeDtypeStruct(spec.sizes, spec.dtype) for spec in function.inputs))


@pytest.mark.parametrize("sizes", [[LARGE], [2**32, 2**32], [2**62], [2**63 - 1, 3], [2**63 - 1, 0]])
def test_inputs_that_no_memory_holds(sizes, tmp_path):
    """Products of sizes may leave 63 bits; `to_jax` says it already."""
    proto = model([make("Shape", ["x"], ["y"])], {"x": X}, ["y"])
    del proto.graph.input[0].type.tensor_type.shape.dim[:]
    for n in sizes:
        proto.graph.input[0].type.tensor_type.shape.dim.add(dim_value=n)
    refused(proto, f"are for input 'x', float32[{','.join(map(str, sizes))}]")
    assert "the model needs " in said_of(proto, tmp_path / "m.onnx")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    to_jax(proto)  # it may be 0


PICTURE = {"x": np.ones((1, 1, 2, 2), np.float32)}
GROWING = {
    "ConstantOfShape": ({}, {"c": np.int64([LARGE])}, {}),
    "DFT": ({"x": np.ones((1, 4, 1), np.float32)}, {"n": np.int64(2**62)}, {}),
    "Expand": ({"x": X[:1]}, {"c": np.int64([2**62])}, {}),
    "MaxRoiPool": (PICTURE | {"r": np.ones((1, 5), np.float32)}, {}, {"pooled_shape": [2**31, LARGE]}),
    "OneHot": ({"i": np.int64([1])}, {"n": np.int64(2**63 - 1), "v": np.int8([0, 1])}, {}),
    "Pad": ({"x": X}, {"c": np.int64([LARGE, 0])}, {"mode": "wrap"}),
    "Range": ({}, {"a": np.int64(0), "n": np.int64(LARGE), "d": np.int64(1)}, {}),
    "Resize": (PICTURE, {"": None, "c": np.int64([1, 1, 2**26, 2**26])}, {}),
    "RoiAlign": (
        PICTURE | {"r": np.ones((1, 4), np.float32), "b": np.int64([0])},
        {},
        {"sampling_ratio": 2**31 - 1},
    ),
    "Tile": ({"x": X}, {"c": np.int64([LARGE])}, {}),
}


@pytest.mark.parametrize("are_constants", [False, True])
@pytest.mark.parametrize("op_type", GROWING)
def test_nodes_that_make_more_than_memory_holds(op_type, are_constants, tmp_path):
    """Also of constants, which are computed while a model is described or traced."""
    data, constants, attributes = GROWING[op_type]
    names = [*data, "", *constants] if op_type == "Resize" else [*data, *constants]
    constants = {name: array for name, array in constants.items() if name}
    inputs, fixed = ({}, data | constants) if are_constants else (data, constants)
    said = said_of(model([make(op_type, names, ["y"], **attributes)], inputs, ["y"], fixed), tmp_path / "m.onnx")
    assert said.startswith(f"{op_type} node #0: ")
    assert "GiB" in said
    assert "has" in said


def test_intermediates_that_no_memory_holds(tmp_path):
    """The scores of attention are as large as the product of two lengths; `check` and `run` find the node."""
    node = make("Attention", ["x", "x", "x"], ["y"], name="far")
    proto = model([node], {"x": np.zeros((1, 1, 2**20, 1), np.float32)}, ["y"], opset=23)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    for verb in ("check", "run"):
        result = dml_jax_command(verb, tmp_path / "m.onnx")
        assert result.exit_code == 1
        assert "Attention node 'far': the model needs 4096.0 GiB for one array, and the machine has" in result.output


@pytest.mark.parametrize("rank", [33, 65])
def test_more_dimensions_than_numpy_and_jax_handle(rank, tmp_path):
    ones = np.ones(rank, np.int64)
    for node, inputs in (
        (make("Reshape", ["x", "c"], ["y"]), {"x": X[:1]}),
        (make("Expand", ["x", "c"], ["y"]), {"x": X[:1]}),
        (make("ConstantOfShape", ["c"], ["y"]), {}),
    ):
        assert "dimension" in said_of(model([node], inputs, ["y"], {"c": ones}), tmp_path / "m.onnx")
    refused(declared_rank(rank), f"an array must have at most 32 dimensions, but input 'x' has {rank}")


def declared_rank(rank):
    proto = model([make("Neg", ["x"], ["y"])], {"x": X}, ["y"])
    sizes = proto.graph.input[0].type.tensor_type.shape.dim
    sizes.extend([sizes[0]] * (rank - 1))
    return proto


def test_a_constant_that_each_node_doubles(monkeypatch):
    """All that a call makes counts together: 1 MiB after the other."""
    monkeypatch.setattr(memory_checks, "_available", lambda: 2**26)
    nodes = [make("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(70)]
    proto = model(nodes, {}, ["v70"], {"v0": np.ones(2**18, np.float32)})
    with pytest.raises(OnnxError, match=r"Concat node #\d+: the model needs .* for the values of its nodes"):
        to_jax(proto)()


@pytest.mark.parametrize("options", [{"static": {"n": 2**30}}, {"maximum": {"rows": 2**40}, "int32": ["n"]}], ids=str)
def test_rows_of_a_loop_that_no_memory_holds(options):
    """They are counted before it runs: those of all its iterations, or as many as are stated."""
    infos = [value("i"), value("go"), value("s")]
    nodes = [make("Identity", ["go"], ["on"]), make("Neg", ["s"], ["t"]), make("Neg", ["s"], ["row"])]
    body = helper.make_graph(nodes, "body", infos, [value("on"), value("t"), value("row")])
    inputs = {"x": np.zeros(2**10, np.float32), "n": np.int64(3)}
    proto = model([make("Loop", ["n", "", "x"], ["last", "rows"], body=body)], inputs, ["rows"])
    given = [inputs["x"], np.int32(3)][: 2 - len(options.get("static", ()))]
    with pytest.raises(OnnxError, match=r"Loop node #0: the model needs \d+.0 GiB .* output 'rows'"):
        to_jax(proto, **options)(*given)


def test_a_program_that_no_memory_holds(tmp_path, monkeypatch):
    """Each array fits; an input, an output and what is between do not."""
    monkeypatch.setattr(memory_checks, "device_limit", lambda _: None)
    nodes = [make("MatMul", ["x", "x"], ["a"]), make("MatMul", ["a", "x"], ["b"]), make("Add", ["a", "b"], ["y"])]
    (tmp_path / "m.onnx").write_bytes(model(nodes, {"x": np.zeros((512, 512), np.float32)}, ["y"]).SerializeToString())
    for mebibytes, code in ((64, 0), (2.5, 1)):
        monkeypatch.setattr(memory_checks, "_available", lambda size=int(mebibytes * 2**20): size)
        ran = dml_jax_command("run", tmp_path / "m.onnx")
        assert ran.exit_code == code, ran.output
    assert "for its tensors, and the machine has" in ran.output


def sums(count):
    """A chain of nodes that each double their input."""
    return model([make("Sum", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(count)], {"v0": X}, [f"v{count}"])


def test_long_chains_and_many_outputs():
    """No real network of ten thousand nodes has as many as the limit."""
    refused(sums(17_000), "there must be at most 16384 nodes")
    outputs = [f"y{i}" for i in range(17_000)]
    refused(model([make("Split", ["x"], outputs, num_outputs=17_000)], {"x": X}, outputs), "but there are 17000")
    assert MAX_NODES == 16384  # XLA of jaxlib 0.10 ends the process at more than 20,000 after each other


def test_max_nodes_of_the_command(tmp_path):
    chain = [make("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(4)]
    (tmp_path / "m.onnx").write_bytes(model(chain, {"v0": X}, ["v4"]).SerializeToString())
    for verb in ("check", "run"):
        few = dml_jax_command(verb, tmp_path / "m.onnx", "--max-nodes", "3")
        assert (few.exit_code, "at most 3 nodes" in few.output) == (1, True)
        assert dml_jax_command(verb, tmp_path / "m.onnx", "--max-nodes", "4").exit_code == 0
        assert str(MAX_NODES) in dml_jax_command(verb, "--help").output


def nested_loops(trips, levels):
    node = make("Add", ["a0", "one"], ["b0"])
    for i in range(levels):
        infos = [value(f"i{i}"), value(f"go{i}"), value(f"a{i}")]
        nodes = [make("Identity", [f"go{i}"], [f"on{i}"]), node]
        body = helper.make_graph(nodes, "body", infos, [value(f"on{i}"), value(f"b{i}")])
        node = make("Loop", ["n", "", f"a{i + 1}"], [f"b{i + 1}"], body=body)
    return model([node], {f"a{levels}": X}, [f"b{levels}"], {"n": np.int64(trips), "one": np.float32(1)})


def test_loops_in_loops_are_counted():
    """2**5 iterations of two nodes and more; 2**30 would take forever."""
    jax.eval_shape(to_jax(nested_loops(2, 5), max_nodes=300), X)
    for trips, levels in ((2, 30), (8, 8), (8, 20)):
        with pytest.raises(OnnxError, match="at most 300 nodes may run"):
            jax.eval_shape(to_jax(nested_loops(trips, levels), max_nodes=300), X)


def test_arrays_of_sequences_are_counted():
    """An insertion copies the sequence: of 99 of up to 98 arrays, each 16 count as a node more."""
    nodes = [make("SequenceEmpty", [], ["s0"])]
    nodes += [make("SequenceInsert", [f"s{i}", "x"], [f"s{i + 1}"]) for i in range(99)]
    proto = model([*nodes, make("ConcatFromSequence", ["s99"], ["y"], axis=0)], {"x": X}, ["y"])
    assert jax.eval_shape(to_jax(proto, max_nodes=400), X).shape == (198,)
    with pytest.raises(OnnxError, match="at most 300 nodes may run"):
        jax.eval_shape(to_jax(proto, max_nodes=300), X)


def test_functions_are_read_once_and_their_errors_too():
    """Of 2**40 calls of a function with an operator that is not supported, one is told."""
    calls = [
        function(f"F{i}", [make(f"F{i + 1}", [a], [b], domain="mine") for a, b in (("a", "c"), ("c", "b"))])
        for i in range(40)
    ]
    proto = with_functions(*calls, function("F40", [make("StringNormalizer", ["a"], ["b"])]))
    refused(proto, "StringNormalizer")


# Long work.


def test_long_work_is_told(monkeypatch, capsys):
    monkeypatch.setattr(long_work, "FIRST", 0.01)
    said = Event()
    with long_work.told_if_long(lambda: said.set() or "XLA compiles"):
        said.wait(60)
    assert "s: XLA compiles" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_run_says_which_node_it_traces_and_can_be_interrupted_while_xla_compiles(tmp_path):
    """Python runs no signal handler before XLA returns, which would take minutes."""
    (tmp_path / "m.onnx").write_bytes(sums(12_000).SerializeToString())
    often = "from dml_jax.command import long_work; long_work.FIRST = long_work.THEN = 0.2"
    code = f"{often}; from dml_jax.__main__ import main; main()"
    arguments = [sys.executable, "-c", code, "run", str(tmp_path / "m.onnx")]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert any(re.search(r"s: Sum node #\d+, after \d+ nodes", line) for line in process.stderr)
        assert any("XLA compiles" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().endswith("interrupted\n")
        assert process.wait(10) == 130
