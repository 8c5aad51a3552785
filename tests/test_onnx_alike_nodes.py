"""`check` traces alike nodes once, and no more than a number of different ones: long chains take seconds."""

import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from commands import check
from fuzz_hostile import LINKS, chain
from onnx_building import TensorProto, helper, model, numpy_helper, onnx
from onnx_cases import as_array, cases

from dml_jax.core import memory_checks
from dml_jax.onnx import alike_nodes, check_file, to_jax
from dml_jax.onnx.errors import OnnxError
from dml_jax.onnx.graph import read_graph
from dml_jax.onnx.shape_inference import known_shapes

make = helper.make_node
X = np.ones((2, 6), np.float32)
INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
BOTH = "`dml-jax run` takes it\n", "`to_jax(model)` takes it; under jax.jit, too\n"
COUNTED = "more than 10 nodes had to be traced in all, each MiB of constants counted as a node"
NOT, LONG = f"not traced, because {COUNTED}", "not traced, because to compute its constants may take long"


def checked(proto, folder, monkeypatch, most=10):
    """What `dml-jax check` says where so many nodes are traced."""
    monkeypatch.setattr(check_file, "MOST_TRACED", most)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    result = check(folder / "m.onnx")
    assert result.exit_code == 0, result.output
    return result.output.replace(f"{folder / 'm.onnx'}: ", "")


# How many.


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("kind", LINKS)
def test_chains(kind, is_constant, tmp_path, monkeypatch):
    """Of data, those whose sizes grow are not alike."""
    said = checked(chain(kind, 200, is_constant), tmp_path, monkeypatch)
    if is_constant or kind not in ("longer", "sequence"):
        assert said.startswith("".join(BOTH))
    else:
        assert said.startswith(
            f"{NOT}; `dml-jax run` traces all\n`to_jax(model)` takes it; not traced\nnot checked for DirectML"
        )


def test_the_limit_counts_all_traces(tmp_path, monkeypatch):
    """The first one is with x64; what it showed is told."""
    said = checked(chain("longer", 8, False), tmp_path, monkeypatch)
    assert said.startswith(f"{BOTH[0]}`to_jax(model)` takes it; under jax.jit it was {NOT}\nConcat node #0: JOIN")
    assert checked(chain("longer", 8, False), tmp_path, monkeypatch, 16).startswith("".join(BOTH))


def test_bytes_of_constants_count(tmp_path, monkeypatch):
    """Each MiB that is read or made is a node, in each of two traces."""
    proto = model([make("Neg", ["x"], ["y"]), make("Neg", ["y"], ["z"])], {}, ["z"], {"x": np.ones(2**18, np.float32)})
    assert checked(proto, tmp_path, monkeypatch, 8).startswith("".join(BOTH))
    assert checked(proto, tmp_path, monkeypatch, 3).startswith("not traced, because more than 3")


def loop(trips, is_constant, body):
    """A loop whose body is a Neg, or another loop."""
    inputs = [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", BOOL, [])]
    outputs = [helper.make_tensor_value_info("on", BOOL, []), onnx.ValueInfoProto(name="t")]
    nodes = [make("Identity", ["go"], ["on"]), body]
    graph = helper.make_graph(nodes, "body", [*inputs, onnx.ValueInfoProto(name="s")], outputs)
    node = make("Loop", ["n", "", "x"], ["y"], body=graph)
    state = {"x": np.ones((1, 1), np.float32)}
    constants = {"n": np.int64(trips)} | (state if is_constant else {})
    return model([node], {} if is_constant else state, ["y"], constants)


NEG = make("Neg", ["s"], ["t"])


@pytest.mark.parametrize("trips", [10**4, 10**6, 2**30])
def test_long_loops_of_constants_are_not_computed(trips, tmp_path, monkeypatch):
    """Loops of data are traced whatever their number of iterations is."""
    said = checked(loop(trips, True, NEG), tmp_path, monkeypatch)
    assert said.startswith(BOTH[0] if trips == 10**4 else LONG)
    assert checked(loop(trips, False, NEG), tmp_path, monkeypatch).startswith("".join(BOTH))


def test_loops_in_loops_of_constants_are_not_computed(tmp_path, monkeypatch):
    """Their numbers of iterations multiply."""
    inner = loop(100, True, NEG).graph.node[0]
    inner.input[2], inner.output[0] = "s", "t"
    assert checked(loop(100, True, inner), tmp_path, monkeypatch).startswith(LONG)
    assert checked(loop(8, True, inner), tmp_path, monkeypatch, 100).startswith(BOTH[0])


def test_constants_of_loops_that_a_condition_ends_are_not_computed(tmp_path, monkeypatch):
    """Without M nothing says when it ends; this one never does."""
    endless = loop(3, True, NEG)
    endless.graph.node[0].input[0] = ""
    assert checked(endless, tmp_path, monkeypatch).startswith(LONG)


@pytest.mark.parametrize("op_type", ["MatMul", "Conv", "Einsum"])
def test_large_products_of_constants_are_not_computed(op_type, tmp_path, monkeypatch):
    """Their sizes are known: computed, they would take hours."""
    square = np.ones((1, 1, 2000, 2000), np.float32)
    constants = {"x": square, "w": square[..., :1000, :1000] if op_type == "Conv" else square}
    attributes = {"equation": "ijkl,ijlm->ijkm"} if op_type == "Einsum" else {}
    proto = model([make(op_type, ["x", "w"], ["y"], **attributes)], {}, ["y"], constants)
    assert checked(proto, tmp_path, monkeypatch, 100).startswith("".join(BOTH))
    expected = (1, 1, 1001, 1001) if op_type == "Conv" else (1, 1, 2000, 2000)
    assert sizes_of(proto)["y"] == (np.float32, expected)


def test_rows_by_large_matrices_are_computed():
    """A row of 4,096 by a square takes 2**24 products of numbers."""
    constants = {"x": np.ones((1, 4096), np.int8), "w": np.ones((4096, 4096), np.int8)}
    graph = read_graph(model([make("MatMulInteger", ["x", "w"], ["y"])], {}, ["y"], constants), Path())
    assert isinstance(known_shapes(graph)["y"], np.ndarray)


@pytest.mark.parametrize("trips", [[], [10**4, 10**4]])
def test_numbers_of_iterations_that_are_none(trips, tmp_path):
    proto = loop(3, True, NEG)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.int64(trips), "n"))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    result = check(tmp_path / "m.onnx")
    assert f"M must have one element, but its shape is ({len(trips)},)" in result.output


def test_scans_are_as_long_as_the_dimension_that_they_scan(tmp_path, monkeypatch):
    """A row of 2**21 elements is no loop of so many iterations."""
    infos = [onnx.ValueInfoProto(name=name) for name in "rt"]
    graph = helper.make_graph([make("Neg", ["r"], ["t"])], "body", infos[:1], infos[1:])
    row = {"x": np.ones((1, 2**21), np.int8)}
    for axis, start in ((0, BOTH[0]), (1, LONG)):
        node = make("Scan", ["x"], ["y"], body=graph, num_scan_inputs=1, scan_input_axes=[axis])
        assert checked(model([node], {}, ["y"], row), tmp_path, monkeypatch).startswith(start)


def test_what_one_trace_found_is_told_where_another_ends(tmp_path, monkeypatch):
    """Where open sizes are 1, the model is traced again."""
    nodes = [*chain("longer", 8, False).graph.node, make("Neg", ["z"], ["w"])]
    proto = model(nodes, {"v0": np.ones(1, np.float32), "z": X}, ["v8", "w"])
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    lines = checked(proto, tmp_path, monkeypatch).splitlines()
    fact = f"where open sizes are 1, it was {NOT}"
    assert lines[:2] == [f"`dml-jax run` takes it; {fact}", f"`to_jax(model)` takes it; {fact}"]
    assert lines[2].startswith("Concat node #0: JOIN")


# Large constants, which the first trace leaves out.

ONE, TWELVE = (numpy_helper.from_array(np.int64([n])) for n in (1, 12))
BIG = {
    "ConstantOfShape": (make("ConstantOfShape", ["s"], ["c"], value=ONE), [2048] * 2),
    "Expand": (make("Expand", ["one", "s"], ["c"]), [2048] * 2),
    "Tile": (make("Tile", ["one", "s"], ["c"]), [2048] * 2),
}


@pytest.mark.parametrize("op_type", BIG)
def test_large_constants_of_64_bits_are_taken_without_x64(op_type, tmp_path, monkeypatch):
    first, sizes = BIG[op_type]
    nodes = [
        first,
        make("Trilu", ["c"], ["t"]),
        make("Slice", ["t", "zero", "two"], ["u"]),
        make("Cast", ["u"], ["f"], to=1),
        make("MatMul", ["x", "f"], ["y"]),
    ]
    constants = {"s": np.int64(sizes), "one": np.int64([[1]]), "zero": np.int64([0]), "two": np.int64([6])}
    constants = {n: v for n, v in constants.items() if any(n in node.input for node in nodes)}
    proto = model(nodes, {"x": X}, ["y"], constants)
    assert checked(proto, tmp_path, monkeypatch, 4000).startswith("".join(BOTH))


FOUND = {
    "slice": [make("Range", ["zero", "many", "one"], ["r"]), make("Slice", ["r", "start", "end"], ["s"])],
    "element": [make("ConstantOfShape", ["size"], ["r"], value=TWELVE), make("Gather", ["r", "start"], ["s"])],
}


@pytest.mark.parametrize("found", FOUND)
def test_sizes_that_follow_from_large_constants_are_known(found, tmp_path, monkeypatch):
    """The second trace computes them."""
    nodes = [*FOUND[found], make("Reshape", ["x", "s"], ["y"])]
    values = {"zero": 0, "many": 3_000_000, "one": 1, "start": [3], "end": [4], "size": [3_000_000]}
    constants = {name: np.int64(x) for name, x in values.items() if any(name in node.input for node in nodes)}
    x = np.ones(3 if found == "slice" else 12, np.float32)
    proto = model(nodes, {"x": x}, ["y"], constants)
    assert checked(proto, tmp_path, monkeypatch, 4000).startswith("".join(BOTH))
    assert sizes_of(proto)["y"][1] == x.shape


def test_sizes_that_follow_from_very_large_constants_are_not_told(tmp_path, monkeypatch):
    """To compute them would take long."""
    nodes = [*FOUND["element"], make("Reshape", ["x", "s"], ["y"])]
    proto = model(nodes, {"x": X}, ["y"], {"size": np.int64([2**26]), "start": np.int64([3])})
    assert checked(proto, tmp_path, monkeypatch, 4000).startswith(LONG)


def test_sums_of_many_factors_are_no_long_products(tmp_path, monkeypatch):
    """Their result, which decides sizes, is computed."""
    nodes = [
        make("Einsum", ["c"] * 4, ["e"], equation="i,i,i,i->"),
        make("Cast", ["e"], ["n"], to=INT64),
        make("Reshape", ["n", "one"], ["s"]),
        make("Expand", ["x", "s"], ["y"]),
    ]
    constants = {"c": np.ones(300, np.float32), "one": np.int64([1])}
    assert checked(model(nodes, {"x": X[:1, :1]}, ["y"], constants), tmp_path, monkeypatch).startswith("".join(BOTH))


def test_nodes_with_graphs_or_random_numbers_are_never_alike(tmp_path, monkeypatch):
    def branch(name):
        return helper.make_graph([], name, [], [onnx.ValueInfoProto(name="x")])

    names = [f"y{i}" for i in range(11)]
    ifs = [make("If", ["c"], [name], then_branch=branch("t"), else_branch=branch("e")) for name in names]
    draws = [make("RandomNormal", [], [name], shape=[2]) for name in names]
    for nodes in (ifs, draws):
        assert checked(model(nodes, {"x": X, "c": np.array(True)}, names), tmp_path, monkeypatch).startswith(NOT)


def test_what_alike_nodes_make_counts_for_each(monkeypatch, tmp_path):
    """As where the model runs: 20 constants of 4 MiB do not fit 64."""
    monkeypatch.setattr(memory_checks, "_available", lambda: 2**26)
    names = [f"y{i}" for i in range(20)]
    nodes = [make("Concat", ["c", "c"], [name], axis=0) for name in names]
    proto = model(nodes, {}, names, {"c": np.ones(2**19, np.float32)})
    rule = "Concat node #16: the model needs 0.1 GiB for the values of its nodes"
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    result = check(tmp_path / "m.onnx")
    assert (result.exit_code, rule in result.output) == (1, True)
    with pytest.raises(OnnxError, match=rule):
        to_jax(proto)()


# What is alike.


def sizes_of(proto):
    arrays = known_shapes(read_graph(proto, Path())).items()
    return {name: (array.dtype, array.shape) for name, array in arrays}


# Two nodes that differ in one thing, and the sizes of their outputs.
PAIRS = {
    "attribute": (
        make("Transpose", ["x"], ["a"]),
        make("Transpose", ["x"], ["b"], perm=[0, 1]),
        ((6, 2), (2, 6)),
    ),
    "integers": (make("Reshape", ["x", "twelve"], ["a"]), make("Reshape", ["x", "minus"], ["b"]), ((12, 1), (1, 12))),
    "sizes as floats": (
        make("Resize", ["x", "", "s1"], ["a"]),
        make("Resize", ["x", "", "s2"], ["b"]),
        ((2, 6), (4, 6)),
    ),
    "floats": (make("NonZero", ["many"], ["a"]), make("NonZero", ["few"], ["b"]), ((1, 200), (1, 1))),
    "type": (make("Equal", ["x", "x"], ["a"]), make("Equal", ["i", "i"], ["b"]), ((2, 6), (2, 6))),
    "number of outputs": (
        make("Split", ["x"], ["a", "c"], num_outputs=2, axis=1),
        make("Split", ["x"], ["b", "d", "e"], num_outputs=3, axis=1),
        ((2, 3), (2, 2)),
    ),
    "tensors of a sequence": (
        make("ConcatFromSequence", ["q1"], ["a"], axis=0),
        make("ConcatFromSequence", ["q2"], ["b"], axis=0),
        ((4, 6), (6, 6)),
    ),
}
CONSTANTS = {
    "twelve": np.int64([12, 1]),
    "minus": np.int64([1, -1]),
    "s1": np.float32([1, 1]),
    "s2": np.float32([2, 1]),
    "many": np.ones(200, np.float32),
    "few": np.eye(1, 200, dtype=np.float32)[0],
}


@pytest.mark.parametrize("pair", PAIRS)
def test_nodes_that_differ(pair):
    first, second, expected = PAIRS[pair]
    before = [make("SequenceConstruct", ["x", "x"], ["q1"]), make("SequenceConstruct", ["x", "x", "x"], ["q2"])]
    names = ["a", "b", *second.output[1:], *first.output[1:]]
    for nodes in ([first, second], [second, first]):
        proto = model([*before, *nodes], {"x": X, "i": np.ones((2, 6), np.int32)}, names, CONSTANTS)
        sizes = sizes_of(proto)
        assert (sizes["a"][1], sizes["b"][1]) == expected


def test_constants_in_sequences_that_hold_data_too():
    """They are passed on, and decide sizes."""
    nodes = []
    for c, y in (("c", "p"), ("d", "q")):
        nodes += [
            make("SequenceConstruct", [c, "x"], [f"s{y}"]),
            make("SequenceAt", [f"s{y}", "zero"], [f"f{y}"]),
            make("Cast", [f"f{y}"], [f"n{y}"], to=INT64),
            make("Reshape", ["x", f"n{y}"], [y]),
        ]
    constants = {"c": np.float32([3, 4]), "d": np.float32([6, 2]), "zero": np.int64(0)}
    sizes = sizes_of(model(nodes, {"x": X}, ["p", "q"], constants))
    assert (sizes["p"][1], sizes["q"][1]) == ((3, 4), (6, 2))


def test_zeros_of_two_signs_are_not_alike(tmp_path, monkeypatch):
    nodes = [make("LeakyRelu", ["x"], [f"y{i}"], alpha=alpha) for i, alpha in enumerate((0.0, -0.0))]
    proto = model(nodes, {"x": X}, ["y0", "y1"])
    assert "was not traced" in checked(proto, tmp_path, monkeypatch, 2)


def test_constants_are_not_kept():
    """What the iterations of a loop of constants make is freed."""
    alike = alike_nodes._AlikeNodes(10)
    node = read_graph(model([make("Neg", ["x"], ["y"])], {}, ["y"], {"x": X}), Path()).steps[0]
    made = np.ones(3)
    before = sys.getrefcount(made)
    alike.outputs(node, [X], lambda: {"y": made})
    assert sys.getrefcount(made) == before


def test_alike_nodes_inside_and_outside_of_branches():
    """What is traced in a branch is of no use outside of it."""

    def branch(name, axes):
        nodes = [make("Neg", ["x"], [f"n{name}"]), make("ReduceSum", [f"n{name}", axes], [name])]
        return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=name)])

    choose = make("If", ["c"], ["i"], then_branch=branch("t", "zero"), else_branch=branch("e", "zero"))
    nodes = [choose, make("Neg", ["x"], ["n"]), make("Neg", ["n"], ["m"]), make("Add", ["m", "i"], ["y"])]
    for order in (nodes, [*nodes[1:3], nodes[0], nodes[3]]):
        proto = model(order, {"x": X, "c": np.array(True)}, ["y"], {"zero": np.int64([0])})
        assert sizes_of(proto)["y"] == (np.float32, (2, 6))


def with_constants(case, prefix):
    """A case with its integers as constants, and with names of its own."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    inputs = {info.name: as_array(x) for info, x in zip(proto.graph.input, case.data_sets[0][0], strict=True)}
    known = {name: x for name, x in inputs.items() if isinstance(x, np.ndarray) and x.dtype.kind in "iub"}
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(x), name) for name, x in known.items())
    left = [info for info in proto.graph.input if info.name not in known]
    del proto.graph.input[:]
    proto.graph.input.extend(left)
    return onnx.compose.add_prefix(proto, prefix)


def together(protos):
    """The graphs of several models as one."""
    graph = onnx.GraphProto(name="all")
    for proto in protos:
        for part in ("node", "input", "output", "initializer"):
            getattr(graph, part).extend(getattr(proto.graph, part))
    return helper.make_model(graph, opset_imports=protos[0].opset_import)


@pytest.mark.exhaustive
def test_many_nodes_have_the_sizes_that_each_has_alone():
    """ONNX's cases, all of one opset in one graph."""
    alone, protos = defaultdict(dict), defaultdict(list)
    for name, case in cases().items():
        opset = tuple((entry.domain, entry.version) for entry in case.model.opset_import)
        if not case.model.functions:
            proto = with_constants(case, f"{name}/")
            with suppress(OnnxError):  # of sizes that contradict each other once they are constants
                alone[opset] |= sizes_of(proto)
                protos[opset].append(proto)
    assert sum(map(len, protos.values())) > 1000
    for opset, found in protos.items():
        assert sizes_of(together(found)) == alone[opset]
