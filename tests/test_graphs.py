"""GraphDesc: rules, JSON, calls, transformations, meshes, 64 bits, and what an edge between unlike tensors is.

test_random_graphs.py has graphs of the whole catalogue.
"""

import base64
import copy
import json
import pickle
import re
from dataclasses import FrozenInstanceError, replace

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import DESCS, STRUCTS
from checks import assert_is, assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from operator_cases import f32, u32
from strided_cases import seen

import dml_jax
from dml_jax import (
    CastDesc,
    CompiledOperator,
    Constant,
    ConstraintError,
    CumulativeSummationDesc,
    DataTypeError,
    DepthToSpaceDesc,
    ElementWiseIdentityDesc,
    FeatureLevel,
    GatherDesc,
    GraphDesc,
    SplitDesc,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
)
from dml_jax.desc_json import read_desc
from dml_jax.errors import Faults
from dml_jax.graphs.rules import RULES, Wiring, faults

pytestmark = pytest.mark.device

# Four channels in an order of the graph's own, then one picture of them.
CHANNELS, PICTURE = f32(1, 4, 1, 1), f32(1, 1, 2, 2)
NODES = {
    "order": Constant(np.uint32([3, 2, 1, 0])),
    "pick": GatherDesc(CHANNELS, u32(1, 1, 1, 4), CHANNELS, 1, index_dimensions=1),
    "enlarge": DepthToSpaceDesc(CHANNELS, PICTURE, block_size=2),
}
EDGES = {
    ("pick", "input"): "x",
    ("pick", "indices"): ("order", "output"),
    ("enlarge", "input"): ("pick", "output"),
    "y": ("enlarge", "output"),
}
GRAPH = GraphDesc(NODES, EDGES)
X = np.arange(1, 5, dtype=np.float32)
Y = X[::-1]


def owned(tensor):
    return replace(tensor, flags=dml_jax.TensorFlags.OWNED_BY_DML)


def copied(tensor, output=None):
    """An operator that copies."""
    return ElementWiseIdentityDesc(tensor, output or tensor)


def chain(*descs, **tensors):
    """Operators of one input and one output, one behind the other."""
    nodes = {f"n{i}": desc for i, desc in enumerate(descs)}
    edges = {(f"n{i}", "input"): (f"n{i - 1}", "output") if i else "x" for i in range(len(descs))}
    return GraphDesc(nodes, edges | {"y": (f"n{len(descs) - 1}", "output")}, **tensors)


def alone(desc):
    """A graph of one operator, every port of which is one of the graph's own."""
    edges = {("op", port): port for port in desc.input_ports()} | {port: ("op", port) for port in desc.output_ports()}
    return GraphDesc({"op": desc}, edges)


def test_its_repr_says_what_it_takes_and_makes():
    assert repr(GRAPH) == "GraphDesc(x: FLOAT32[1,4,1,1]) -> (y: FLOAT32[1,1,2,2]) of 3 nodes"
    assert repr(compile_operator(GRAPH)) == "CompiledOperator GRAPH(x: float32[4]) -> (y: float32[4])"


def test_buffers_are_taken_by_the_names_of_inputs():
    two = GraphDesc(
        {"add": dml_jax.ElementWiseAddDesc(CHANNELS, CHANNELS, CHANNELS)},
        {("add", "a"): "left", ("add", "b"): "right", "sum": ("add", "output")},
    )
    assert_is(compile_operator(two)(right=X, left=10 * X), 11 * X)


# Rules.


def without(mapping, *keys):
    return {key: value for key, value in mapping.items() if key not in keys}


def parts(**changes):
    """The graph's parts, some of them replaced."""
    return {"nodes": NODES, "edges": EDGES, "inputs": {}, "outputs": {}, **changes}


OWNED_INDICES = {**NODES, "pick": replace(NODES["pick"], indices=owned(u32(1, 1, 1, 4)))}
# A change per rule, and where it is broken by what fact.
BREAKS = {
    "available": (
        parts(),
        "6_1",
        "GRAPH: node 'order'",
        "constant nodes exist from feature level 6_2 on",
    ),
    "has_output": (
        parts(edges=without(EDGES, "y")),
        "6_4",
        "GRAPH",
        "no edge leads to one",
    ),
    "own_names": (
        parts(edges={**EDGES, "x": ("pick", "output")}),
        "6_4",
        "GRAPH: input 'x'",
        "it is that of an output too",
    ),
    "known_ends": (
        parts(edges={**EDGES, "z": ("enlarg", "output")}),
        "6_4",
        "GRAPH: edge 'enlarg'.output -> 'z'",
        "there is no node 'enlarg'; did you mean 'enlarge'?",
    ),
    "inputs_connected": (
        parts(edges=without(EDGES, ("pick", "input"))),
        "6_4",
        "GRAPH: node 'pick'",
        "no edge leads to InputTensor",
    ),
    "outputs_connected": (
        parts(nodes={**NODES, "more": copied(PICTURE)}, edges={**EDGES, ("more", "input"): ("enlarge", "output")}),
        "6_4",
        "GRAPH: node 'more'",
        "no edge begins at OutputTensor: make it an output of the graph",
    ),
    "own_ports_connected": (
        parts(inputs={"z": PICTURE}),
        "6_4",
        "GRAPH: input 'z'",
        "no node reads it",
    ),
    "computed_outputs": (
        parts(edges={**EDGES, "z": "x"}),
        "6_4",
        "GRAPH: output 'z'",
        "it is an input of the graph: put an ELEMENT_WISE_IDENTITY between them",
    ),
    "acyclic": (
        parts(edges={**EDGES, ("pick", "input"): ("enlarge", "output")}),
        "6_4",
        "GRAPH",
        "this is one: 'pick' -> 'enlarge' -> 'pick'",
    ),
    "ownership": (
        parts(nodes=OWNED_INDICES),
        "6_4",
        "GRAPH: edge 'order'.Data -> 'pick'.IndicesTensor",
        "it is none",
    ),
    "same_bytes": (
        parts(outputs={"y": f32(1, 1, 2, 3)}),
        "6_4",
        "GRAPH: edge 'enlarge'.OutputTensor -> 'y'",
        "they have 16 (FLOAT32[1,1,2,2]) and 24 (FLOAT32[1,1,2,3])",
    ),
    "constant_data": (
        parts(nodes={**NODES, "order": Constant(np.uint32([3]))}),
        "6_4",
        "GRAPH: edge 'order'.Data -> 'pick'.IndicesTensor",
        "it has 4 bytes and UINT32[1,1,1,4] takes 16",
    ),
    "writable_outputs": (
        parts(outputs={"y": owned(PICTURE)}),
        "6_4",
        "GRAPH: output 'y'",
        "it is OWNED_BY_DML",
    ),
}


def test_every_rule_is_broken_once():
    assert [*BREAKS] == [rule.name for rule in RULES]
    for rule in RULES:
        changed, level, place, fact = BREAKS[rule.name]
        errors = [str(error) for error in faults(Wiring(**changed, level=FeatureLevel.of(level)))]
        assert [e for e in errors if rule.text in e] == [f"{place}: {rule.text}, but {fact}"]
        if level == "6_4":
            with pytest.raises(ConstraintError):
                GraphDesc(**changed)


OTHER_BREAKS = {
    "an empty name": ("own_names", parts(nodes={**NODES, "": Constant(b"")}), "one is empty"),
    "no such input": (
        "known_ends",
        parts(edges={**EDGES, ("pick", "inpt"): "x"}),
        "GATHER 'pick' has no input 'inpt'; did you mean 'input'?",
    ),
    "an output where an input belongs": (
        "known_ends",
        parts(edges={**EDGES, ("pick", "output"): "x"}),
        "GATHER 'pick' has no input 'output'; known are input, indices",
    ),
    "an edge to a constant": (
        "known_ends",
        parts(edges={**EDGES, ("order", "input"): "x"}),
        "CONSTANT 'order' has no input 'input'; it has none",
    ),
    "a constant that nobody reads": (
        "outputs_connected",
        parts(nodes={**NODES, "more": Constant(b"1234")}),
        "no edge begins at Data: make it an output of the graph",
    ),
    "an output without an edge": ("own_ports_connected", parts(outputs={"z": PICTURE}), "no edge leads to it"),
    "a constant as an output": (
        "computed_outputs",
        parts(edges={**EDGES, "z": ("order", "output")}),
        "it is a constant of the graph: put an ELEMENT_WISE_IDENTITY between them",
    ),
    "a node that reads itself": (
        "acyclic",
        parts(edges={**EDGES, ("pick", "input"): ("pick", "output")}),
        "this is one: 'pick' -> 'pick'",
    ),
    "an owned input": (
        "ownership",
        parts(inputs={"x": owned(CHANNELS)}),
        "it is OWNED_BY_DML and its readers are not",
    ),
    "an input that is not owned": (
        "ownership",
        parts(nodes={**NODES, "pick": replace(NODES["pick"], input=owned(CHANNELS))}, inputs={"x": CHANNELS}),
        "it is not OWNED_BY_DML and its readers are",
    ),
    "readers that differ": (
        "ownership",
        parts(
            nodes={**NODES, "more": copied(owned(CHANNELS), CHANNELS)},
            edges={**EDGES, ("more", "input"): "x", "z": ("more", "output")},
        ),
        "'more'.InputTensor is OWNED_BY_DML and 'pick'.InputTensor is not",
    ),
    "an input's readers of other sizes": (
        "same_bytes",
        parts(
            nodes={**NODES, "more": copied(f32(5))}, edges={**EDGES, ("more", "input"): "x", "z": ("more", "output")}
        ),
        "they have 16 (FLOAT32[1,4,1,1]) and 20 (FLOAT32[5])",
    ),
    "an output that shares elements": (
        "writable_outputs",
        parts(outputs={"y": f32(2, 3, strides=(1, 1))}),
        "sizes (2, 3) with strides (1, 1) address one element twice",
    ),
    "the first reader does not exist": (
        "known_ends",
        parts(edges={("no", "input"): "x", **EDGES}),
        "there is no node 'no'; known are order, pick, enlarge",
    ),
}


@pytest.mark.parametrize(("name", "changed", "fact"), OTHER_BREAKS.values(), ids=OTHER_BREAKS)
def test_other_ways_to_break_a_rule(name, changed, fact):
    (rule,) = (rule for rule in RULES if rule.name == name)
    errors = [str(error) for error in faults(Wiring(**changed, level=FeatureLevel.of("6_4")))]
    assert [e for e in errors if e.endswith(f"{rule.text}, but {fact}")], errors
    with pytest.raises(ConstraintError, match=re.escape(rule.text)):
        GraphDesc(**changed)


def test_feature_levels():
    """Graphs are there from 2_1 on, constants from 6_2 on, and an operator as soon as its own table says."""
    for level in FeatureLevel:
        errors = [str(error) for error in GRAPH.faults(level)]
        assert any("graphs exist from feature level 2_1 on" in e for e in errors) == (level < FeatureLevel.of("2_1"))
        assert any("constant nodes exist from" in e for e in errors) == (level < FeatureLevel.of("6_2"))
    with pytest.raises(ConstraintError, match="feature_level must be one of 1_0, "):
        GRAPH.validate("7_0")


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_the_feature_level_of_an_operator(struct):
    graph = alone(struct.desc)
    for level in FeatureLevel:
        of_node = [e for e in map(str, graph.faults(level)) if e.startswith("GRAPH: node 'op': ")]
        assert of_node or level >= FeatureLevel.of(struct.levels[-1].since)
        assert [e.removeprefix("GRAPH: node 'op': ") for e in of_node] == [
            *map(str, struct.desc.faults(struct.desc.operands(), level))
        ]


# A value of its own.


def test_frozen_hashable_equal_copied():
    with pytest.raises(FrozenInstanceError):
        GRAPH.nodes = {}
    with pytest.raises(TypeError, match="does not support item assignment"):
        GRAPH.nodes["order"] = NODES["order"]
    same = GraphDesc(dict(NODES), dict(EDGES), {"x": CHANNELS}, {"y": PICTURE})
    assert (same, hash(same)) == (GRAPH, hash(GRAPH))
    assert same != replace(GRAPH, inputs={"x": f32(4)})
    assert same != "GRAPH"
    for again in (pickle.loads(pickle.dumps(GRAPH)), copy.deepcopy(GRAPH), copy.copy(GRAPH), replace(GRAPH)):
        assert (again, hash(again)) == (GRAPH, hash(GRAPH))
        assert [*again.nodes] == [*GRAPH.nodes]


def test_the_parts_that_were_given_may_change():
    nodes, edges = dict(NODES), dict(EDGES)
    graph = GraphDesc(nodes, edges)
    nodes.clear()
    edges.clear()
    assert graph == GRAPH


def test_nodes_stand_behind_those_that_they_read():
    order = GraphDesc(dict(reversed(NODES.items())), dict(reversed(EDGES.items())))
    assert [*order.nodes].index("enlarge") > [*order.nodes].index("pick") > [*order.nodes].index("order")
    assert_same_bits(order.compute(X.reshape(1, 4, 1, 1)), Y.reshape(1, 1, 2, 2))


def test_a_long_chain():
    graph = chain(*[copied(f32(2))] * 2000)
    assert len(graph.nodes) == 2000
    assert pickle.loads(pickle.dumps(graph)) == graph


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"nodes": [NODES]}, "nodes must be a mapping, but it is list"),
        ({"nodes": {**NODES, 3: NODES["pick"]}}, r"nodes must map name to .* Constant, but 3 is no name"),
        ({"nodes": {**NODES, "more": CHANNELS}}, r"but FLOAT32\[1,4,1,1\] is no descriptor of an operator or Constant"),
        ({"nodes": {**NODES, "more": GRAPH}}, "is no descriptor of an operator or Constant"),
        ({"nodes": {**NODES, "more": DepthToSpaceDesc}}, "is no descriptor of an operator or Constant"),
        ({"edges": {**EDGES, "z": None}}, r"edges must map name or \(node, tensor\) to .*, but None is no name or"),
        ({"edges": {**EDGES, "z": ("pick",)}}, r"but \('pick',\) is no name or \(node, tensor\)"),
        ({"edges": {**EDGES, "z": ("pick", 0)}}, r"but \('pick', 0\) is no name or \(node, tensor\)"),
        ({"edges": {**EDGES, "z": ["pick", "output"]}}, r"is no name or \(node, tensor\)"),
        ({"edges": {**EDGES, ("a", "b", "c"): "x"}}, r"is no name or \(node, tensor\)"),
        ({"inputs": {"x": (1, 4, 1, 1)}}, r"inputs must map name to TensorDesc, but \(1, 4, 1, 1\) is no TensorDesc"),
        ({"outputs": PICTURE}, "outputs must be a mapping, but it is TensorDesc"),
        ({"outputs": {("enlarge", "output"): PICTURE}}, "outputs must map name to TensorDesc"),
    ],
)
def test_kinds_of_arguments(changed, match):
    with pytest.raises(DataTypeError, match=f"^GRAPH: {match}" if match[0] not in "ib" else match):
        GraphDesc(**parts(**changed))


# Constants.


def test_constants_hold_the_bytes_of_arrays():
    numbers = np.uint32([3, 2, 1, 0])
    columns = np.asfortranarray(numbers.reshape(2, 2))
    same = (numbers, jnp.asarray(numbers), columns, numbers.astype(">u4"), numbers.tobytes(), memoryview(numbers))
    for given in same:
        assert Constant(given) == NODES["order"]
        assert hash(Constant(given)) == hash(NODES["order"])
    assert pickle.loads(pickle.dumps(Constant(numbers))) == NODES["order"]
    assert repr(NODES["order"]) == "Constant(16 bytes)"


def test_what_is_no_constant_is_refused():
    deleted = jnp.zeros(3)
    deleted.delete()
    for given, fact in (
        ([1, 2], r"it is \[1, 2\]"),
        ("1234", "it is '1234'"),
        (np.float32(3), "it is "),
        (np.ma.masked_array(np.float32([1, 2]), [True, False]), "it is masked"),
        (deleted, "it is deleted"),
    ):
        with pytest.raises(DataTypeError, match=rf"CONSTANT: data must be bytes or an array of one of .*, but {fact}"):
            Constant(given)
    with pytest.raises(DataTypeError, match="but it is traced"):
        jax.eval_shape(lambda x: Constant(x).data, X)
    for given in (jax.random.key(0), np.bool_([True]), jnp.zeros(3, jnp.bfloat16)):
        with pytest.raises(DataTypeError, match="DataType must be one of FLOAT32, "):
            Constant(given)


def test_a_constant_is_whatever_tensors_read_it():
    """As halves in columns, and as the bytes that these are; three halves of eight bytes, the rest of which is 0."""
    halves = np.float16([1, 2, 3])
    columns, as_bytes = TensorDesc("FLOAT16", (3, 2), (1, 0)), TensorDesc("UINT8", (8,))
    as_bytes_of_words = TensorDesc("UINT32", (2,))
    nodes = {"three": Constant(halves), "a": copied(columns, TensorDesc("FLOAT16", (3, 2), (1, 3)))}
    nodes |= {"b": copied(replace(columns, total_tensor_size_in_bytes=8), TensorDesc("FLOAT16", (3, 2), (2, 1)))}
    edges = {("a", "input"): ("three", "output"), ("b", "input"): ("three", "output")}
    graph = GraphDesc(nodes, edges | {"a": ("a", "output"), "b": ("b", "output")})
    for made in graph.compute():
        assert_same_bits(made, np.stack([halves] * 2, 1))
    padded = GraphDesc(
        {"three": Constant(halves.tobytes().ljust(8, b"\0")), "a": copied(as_bytes), "b": copied(as_bytes_of_words)},
        edges | {"a": ("a", "output"), "b": ("b", "output")},
    )
    for made in padded.compute():
        assert np.asarray(made).tobytes() == halves.tobytes() + b"\0\0"


def test_constants_are_not_evaluated_when_xla_compiles():
    """It mixes up the elements of a constant that it gathers and then casts: one more than one device is known for."""
    pixels = np.arange(24, dtype=np.float32).reshape(4, 1, 3, 2)
    desc = dml_jax.ResampleDesc(f32(4, 1, 3, 2), f32(2, 1, 2, 4), 0, (0.3, 3, 3, 1))
    graph = GraphDesc({"c": Constant(pixels), "op": desc}, {("op", "input"): ("c", "output"), "y": ("op", "output")})
    assert_same_bits(graph.compute(), desc.compute(pixels))
    assert_same_bits(compile_operator(graph)(), np.ravel(desc.compute(pixels)))


# Nothing happens between nodes that need nothing.

STORED = re.compile(r"stablehlo\.(\w+)")


def operations(function, *arrays):
    return STORED.findall(jax.jit(function).lower(*arrays).as_text())


@pytest.mark.thinned(6)
@pytest.mark.parametrize("desc", DESCS.values(), ids=DESCS)
def test_a_graph_of_one_operator_is_that_operator(desc):
    """The same operations on the same buffers, in both forms."""
    run, graph = compile_operator(desc), compile_operator(alone(desc))
    buffers = [jnp.zeros(spec.length, spec.dtype) for port, spec in run.buffers.items() if port in desc.input_ports()]
    assert operations(graph, *buffers) == operations(run, *buffers)
    assert {**graph.buffers} == {**run.buffers}


def test_an_edge_between_equal_tensors_adds_no_operation():
    """Nor one between strides that mean the same; other sizes of the same elements are a reshape."""
    to_space, picture = DepthToSpaceDesc(CHANNELS, PICTURE, 2), f32(1, 1, 2, 2, strides=(4, 9, 2, 1))
    running, row = CumulativeSummationDesc(picture, picture, 3, "INCREASING", False), f32(1, 1, 4)
    x = X.reshape(CHANNELS.sizes)
    composed = lambda x: dml_jax.cumulative_summation(dml_jax.depth_to_space(x, 2), 3)  # noqa: E731
    assert operations(chain(to_space, running).compute, x) == operations(composed, x)
    reshaped = operations(chain(to_space, copied(row)).compute, x)
    assert {*reshaped} - {*operations(to_space.compute, x)} <= {"reshape"}


# Calls.

SPLIT = SplitDesc(f32(1, 6), (f32(1, 2), f32(1, 4)), 1)
SEVERAL = GraphDesc(
    {"split": SPLIT, "sum": CumulativeSummationDesc(f32(1, 4), f32(1, 4), 1, "INCREASING", False)},
    {
        ("split", "input"): "x",
        ("sum", "input"): ("split", "outputs[1]"),
        "sums": ("sum", "output"),
        "head": ("split", "outputs[0]"),
        "tail": ("split", "outputs[1]"),
    },
    outputs={"tail": f32(2, 2, strides=(1, 2))},
)
SIX = np.arange(1, 7, dtype=np.float32)
# The tensor that is given first, then the others in the order of the edges; the tail is bytes, whatever its strides.
SEVERAL_MADE = {"tail": [3, 4, 5, 6], "sums": [3, 7, 12, 18], "head": [1, 2]}


def test_several_outputs_are_a_tuple():
    made = compile_operator(SEVERAL)(SIX)
    assert [*SEVERAL.outputs] == [*SEVERAL_MADE]
    assert_is(made, tuple(np.float32(wanted) for wanted in SEVERAL_MADE.values()))
    computed = SEVERAL.compute(SIX.reshape(1, 6))
    assert_is(computed, (np.float32([[3, 5], [4, 6]]), np.float32([[3, 7, 12, 18]]), np.float32([[1, 2]])))


def test_outputs_are_written_into_bound_buffers():
    out = tuple(jnp.full(count, 9, jnp.float32) for count in (5, 4, 2))
    addresses = [one.unsafe_buffer_pointer() for one in out]
    made = compile_operator(SEVERAL)(SIX, out=out)
    assert all(one.is_deleted() for one in out)
    assert [one.unsafe_buffer_pointer() for one in made] == addresses
    wanted = [*SEVERAL_MADE.values()]
    assert_is(made, (np.float32([*wanted[0], 9]), *map(np.float32, wanted[1:])))
    with pytest.raises(ConstraintError, match="GRAPH: out= must be a tuple of buffers for tail, sums, head, but it"):
        compile_operator(SEVERAL)(SIX, out=made[0])
    with pytest.raises(ConstraintError, match=r"out= for sums must not be bound twice: .* buffer of tail too"):
        compile_operator(SEVERAL)(SIX, out=(made[1], made[1], made[2]))


def test_strided_inputs_and_outputs():
    """Gaps of an output keep what the bound buffer holds."""
    rows, columns = f32(2, 3, strides=(4, 1)), f32(2, 3, strides=(1, 2))
    graph = chain(copied(rows, f32(2, 3)), copied(f32(2, 3), columns), outputs={"y": f32(6)})
    x = np.arange(7, dtype=np.float32)
    assert_same_bits(compile_operator(graph)(x), np.float32([0, 4, 1, 5, 2, 6]))
    padded = chain(copied(rows, f32(2, 3)), copied(f32(2, 3), rows))
    made = np.asarray(compile_operator(padded)(x, out=jnp.full(8, 9, jnp.float32)))
    assert_same_bits(made, np.float32([0, 1, 2, 9, 4, 5, 6, 9]))


def test_readers_of_one_input_see_its_buffer():
    """Also what lies between the elements of its own tensor; an array has nothing there, which is 0."""
    rows = f32(2, 3, strides=(4, 1))
    nodes = {"rows": copied(rows, f32(2, 3)), "all": copied(f32(7))}
    edges = {("rows", "input"): "x", ("all", "input"): "x", "r": ("rows", "output"), "a": ("all", "output")}
    graph, x = GraphDesc(nodes, edges), np.arange(1, 8, dtype=np.float32)
    assert graph.inputs == {"x": rows}
    assert_is(compile_operator(graph)(x), (np.delete(x, 3), x))
    computed = graph.compute(np.delete(x, 3).reshape(2, 3))
    assert_same_bits(computed[1], np.float32([1, 2, 3, 0, 5, 6, 7]))


def test_an_input_that_repeats_elements_is_read_otherwise():
    repeated = f32(2, 3, strides=(0, 1))
    nodes = {"twice": copied(repeated, f32(2, 3)), "once": copied(f32(3))}
    edges = {("twice", "input"): "x", ("once", "input"): "x", "t": ("twice", "output"), "o": ("once", "output")}
    graph = GraphDesc(nodes, edges)
    assert_is(compile_operator(graph)(X), (np.append(X[:3], X[:3]), X[:3]))
    assert_same_bits(graph.compute(np.stack([X[:3]] * 2))[1], X[:3])


def test_owned_inputs_are_bound_by_name():
    """Whatever the name is: also one that a file, or an argument, cannot have."""
    pytest.importorskip("flatbuffers")
    pick = replace(NODES["pick"], input=owned(CHANNELS))
    for name in ("table", "desc", "../a\0\ud800.npy"):
        edges = {**EDGES, ("pick", "input"): name, ("pick", "indices"): "i"}
        graph = GraphDesc(without(NODES, "order") | {"pick": pick}, edges)
        run = compile_operator(graph, **{name: X})
        assert [*run.buffers] == ["i", "y"]
        assert_same_bits(run(np.uint32([3, 2, 1, 0])), Y)
        restored = CompiledOperator.deserialize(run.serialize())
        assert restored.desc == graph
        assert_same_bits(restored(np.uint32([3, 2, 1, 0])), Y)
        with pytest.raises(ConstraintError, match="it is OWNED_BY_DML and not bound"):
            compile_operator(graph)
    with pytest.raises(ConstraintError, match="x must be bound at every call, but it is not OWNED_BY_DML"):
        compile_operator(GRAPH, x=X)
    with pytest.raises(ConstraintError, match="only inputs can be bound at compilation, but y= is none"):
        compile_operator(GRAPH, y=X)


def test_a_graph_is_serialised():
    pytest.importorskip("flatbuffers")
    restored = CompiledOperator.deserialize(compile_operator(SEVERAL).serialize())
    assert restored.desc == SEVERAL
    wanted = tuple(np.float32(one) for one in SEVERAL_MADE.values())
    assert_is(restored(SIX), wanted)
    out = tuple(jnp.zeros(one.shape, one.dtype) for one in wanted)
    assert_is(restored(SIX, out=out), wanted)


def test_wrong_arrays_are_refused():
    for given, error, match in (
        ((), ConstraintError, "GRAPH: takes arrays for x, but there are 0"),
        ((X,), ConstraintError, r"GRAPH: the array of x must have its sizes, \(1, 4, 1, 1\), but its shape is \(4,\)"),
        ((np.int32(X).reshape(1, 4, 1, 1),), DataTypeError, "the array of x must have elements of float32, but"),
    ):
        with pytest.raises(error, match=match):
            GRAPH.compute(*given)
    with pytest.raises(ConstraintError, match="GRAPH: the buffer of x must be 1-D with at least 4 elements"):
        compile_operator(GRAPH)(X[1:])


def test_a_graph_without_inputs():
    graph = GraphDesc(
        {"c": Constant(X), "op": DepthToSpaceDesc(CHANNELS, PICTURE, 2)},
        {("op", "input"): ("c", "output"), "y": ("op", "output")},
    )
    assert_same_bits(graph.compute(), X.reshape(1, 1, 2, 2))
    assert_same_bits(compile_operator(graph)(), X)
    assert_same_bits(compile_operator(graph)(out=jnp.zeros(4)), X)


def test_compute_takes_the_form_of_its_call():
    """Also one that was computed before in another."""
    lines = TensorDesc("UINT8", (64, 4096))
    graph = alone(GatherDesc(lines, u32(1, 64), lines, 0, 1))
    arrays = np.zeros(lines.sizes, np.uint8), np.zeros((1, 64), np.uint32)
    traced = lambda: operations(lambda *arrays: graph.compute(*arrays), *arrays)  # noqa: E731
    plain = traced()
    with dml_jax.use_form("words"):
        assert traced() != plain
    assert traced() == plain


# Transformations: those of the composed functions.


def composed(x):
    """What `WEIGHED` computes."""
    picked = dml_jax.gather(x, np.uint32([3, 0, 0]), 1)
    return dml_jax.cumulative_summation(jnp.reshape(picked, (3, 2)), 0)


WEIGHED = GraphDesc(
    {
        "order": Constant(np.uint32([3, 0, 0])),
        "pick": GatherDesc(f32(2, 4), u32(1, 3), f32(2, 3), 1, 1),
        "sum": CumulativeSummationDesc(f32(3, 2), f32(3, 2), 0, "INCREASING", False),
    },
    {
        ("pick", "input"): "x",
        ("pick", "indices"): ("order", "output"),
        ("sum", "input"): ("pick", "output"),
        "y": ("sum", "output"),
    },
)
EIGHT = np.arange(1, 9, dtype=np.float32).reshape(2, 4)


def flat(x):
    """The graph on buffers."""
    return compile_operator(WEIGHED)(x.reshape(8)).reshape(3, 2)


@pytest.mark.parametrize("function", [WEIGHED.compute, flat], ids=["computed", "compiled"])
def test_transformations_are_those_of_the_composed_functions(function):
    tangent, cotangent = EIGHT[::-1].copy(), np.float32([[1, 2], [3, 4], [5, 6]])
    assert_same_bits(jax.jit(function)(EIGHT), composed(EIGHT))
    batch = np.stack([EIGHT, 2 * EIGHT])
    assert_same_bits(jax.vmap(function)(batch), np.stack([composed(EIGHT), composed(2 * EIGHT)]))
    assert_same_bits(jax.vmap(function, in_axes=1, out_axes=2)(batch.swapaxes(0, 1)), jax.vmap(composed, 0, 2)(batch))
    assert_is(jax.jvp(function, (EIGHT,), (tangent,)), jax.jvp(composed, (EIGHT,), (tangent,)))
    back = jax.vjp(composed, EIGHT)[1](cotangent)[0]
    assert_same_bits(jax.vjp(function, EIGHT)[1](cotangent)[0], back)
    assert_same_bits(jax.jit(jax.vjp(jax.checkpoint(function), EIGHT)[1])(cotangent)[0], back)
    assert_same_bits(jax.grad(lambda x: (function(x) * cotangent).sum())(EIGHT), back)
    assert_same_bits(jax.linear_transpose(function, EIGHT)(cotangent)[0], back)


def test_gradients_through_strides():
    """Elements that an edge reads twice count twice, and those that it does not read not at all."""
    graph = chain(copied(f32(4)), copied(f32(2, 3, strides=(0, 1), total_tensor_size_in_bytes=16), f32(2, 3)))
    assert_same_bits(jax.grad(lambda x: graph.compute(x).sum())(X), np.float32([2, 2, 2, 0]))


def test_no_gradient_flows_through_other_data_types():
    as_bits = chain(copied(f32(4)), copied(u32(4)), copied(f32(4)))
    assert_same_bits(as_bits.compute(X), X)
    assert_same_bits(jax.grad(lambda x: as_bits.compute(x).sum())(X), np.zeros(4, np.float32))


def test_a_graph_is_exported():
    pytest.importorskip("flatbuffers")
    exported = jax.export.export(jax.jit(WEIGHED.compute))(jax.ShapeDtypeStruct((2, 4), np.float32))
    assert_same_bits(jax.export.deserialize(exported.serialize()).call(EIGHT), composed(EIGHT))
    (b,) = jax.export.symbolic_shape("b")
    batched = jax.export.export(jax.jit(jax.vmap(WEIGHED.compute)))(jax.ShapeDtypeStruct((b, 2, 4), np.float32))
    assert_same_bits(batched.call(np.stack([EIGHT] * 3))[2], composed(EIGHT))


# Eight devices.

BATCH = f32(8, 4, 1, 2)
SHARDED = {
    "equal": BATCH,
    "other sizes": f32(8, 2, 2, 2),
    "merged": f32(8, 8),
    "the batch too": f32(16, 4),
    "other strides": f32(8, 4, 2, strides=(8, 1, 4)),
    "bytes": TensorDesc("UINT8", (8, 32)),
    "words of bytes": TensorDesc("UINT16", (16, 8)),
}


@pytest.mark.skipif(jax.device_count() < 8, reason="needs eight devices")
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("reader", SHARDED.values(), ids=SHARDED)
def test_a_sharded_batch_stays_so(kind, reader):
    x = np.arange(64, dtype=np.float32).reshape(BATCH.sizes)
    graph, mesh = chain(copied(BATCH), copied(reader)), jax.make_mesh((8,), ("d",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, P("d")))
        made = graph.compute(sharded)
        assert made.sharding.spec[0] == "d"
        assert not re.search(
            "all-gather|all-reduce|all-to-all|permute", jax.jit(graph.compute).lower(sharded).compile().as_text()
        )
    assert_same_bits(made, seen(x.view(reader.dtype).ravel(), reader))


# 64 bits.

WIDE = np.array([2**63 - 1, -(2**63), -1, 2**32, 2**32 - 1, 5], np.int64)


@pytest.mark.parametrize("data_type", ["INT64", "UINT64", "FLOAT64"])
def test_64_bit_data_moves_between_nodes(data_type, x64):
    """As words while x64 is off, through strides, and as other data types."""
    tensor, columns = TensorDesc(data_type, (2, 3)), TensorDesc(data_type, (3, 2), (1, 3))
    graph = chain(copied(tensor), copied(columns, TensorDesc(data_type, (3, 2))), copied(TensorDesc("INT16", (24,))))
    data = WIDE.view(tensor.dtype)
    wanted = np.ascontiguousarray(WIDE.reshape(2, 3).T).view(np.int16).ravel()
    assert_same_bits(compile_operator(graph)(data), wanted)
    if x64:
        assert_same_bits(graph.compute(data.reshape(2, 3)), wanted)
    else:
        with pytest.raises(DataTypeError, match=r"x of type .*64 needs 64-bit types"):
            graph.compute(data.reshape(2, 3))


def test_64_bit_numbers_are_computed_between_nodes(x64):
    """Inside of a graph there may be some while x64 is off, for its arrays too."""
    narrow, wide = TensorDesc("INT32", (3,)), TensorDesc("INT64", (3,))
    running = CumulativeSummationDesc(wide, wide, 0, "INCREASING", False)
    graph = chain(CastDesc(narrow, wide), running, CastDesc(wide, narrow))
    x = np.int32([2**31 - 1, 2**31 - 1, 3 - 2**31])
    assert_same_bits(graph.compute(x), np.cumsum(x, dtype=np.int64).astype(np.int32))
    assert_same_bits(compile_operator(graph)(x), np.cumsum(x, dtype=np.int64).astype(np.int32))


@pytest.mark.parametrize("data_type", ["INT64", "UINT64"])
def test_64_bit_indices(data_type, x64):
    tensor = TensorDesc(data_type, (6,))
    graph, indices = alone(GatherDesc(f32(4), tensor, f32(6), 0, 1)), WIDE.view(tensor.dtype)
    wanted = X[[3, 0, 3, 3, 3, 3]] if data_type == "INT64" else X[[3] * 6]
    for made in (graph.compute(X, indices), compile_operator(graph)(X, indices)):
        assert_same_bits(made, wanted)


def test_64_bit_inputs_that_are_read_as_other_indices_are_bytes(x64):
    """They cannot be clamped: these are two indices each."""
    graph = GraphDesc(
        {"op": GatherDesc(f32(4), TensorDesc("INT32", (2,)), f32(2), 0, 1)},
        {("op", "input"): "x", ("op", "indices"): "i", "y": ("op", "output")},
        inputs={"i": TensorDesc("INT64", (1,))},
    )
    indices = np.int64([3 * 2**32 + 2])
    assert [*graph.inputs] == ["i", "x"]
    assert_same_bits(compile_operator(graph)(indices, X), X[[2, 3]])
    if x64:
        assert_same_bits(graph.compute(indices, X), X[[2, 3]])
    else:
        with pytest.raises(DataTypeError, match="i of type int64 needs 64-bit types"):
            graph.compute(indices, X)


# Bytes along an edge.

EDGES_BETWEEN = {
    "wider": (("UINT8", (2, 12)), ("FLOAT32", (3, 2))),
    "narrower": (("FLOAT32", (2, 3)), ("UINT8", (24,))),
    "much wider": (("UINT8", (16,)), ("INT64", (2,))),
    "much narrower": (("UINT64", (3,)), ("INT8", (4, 6))),
    "as wide": (("FLOAT16", (2, 4)), ("INT16", (8,))),
    "other sizes": (("FLOAT16", (2, 4)), ("FLOAT16", (4, 1, 2))),
    "transposed": (("FLOAT32", (2, 3)), ("FLOAT32", (3, 2), (1, 3))),
    "written transposed": (("FLOAT32", (2, 3), (1, 2)), ("FLOAT32", (6,))),
    "both transposed": (("FLOAT32", (2, 3), (1, 2)), ("FLOAT32", (2, 3), (1, 2))),
    "transposed bytes": (("FLOAT32", (2, 3), (1, 2)), ("UINT8", (4, 6), (1, 4))),
    "padded rows": (("UINT16", (2, 3), (5, 1)), ("UINT32", (4,))),
    "of padded rows": (("UINT8", (2, 10)), ("UINT8", (4, 4), (5, 1), 20)),
    "broadcast": (("INT32", (3,)), ("INT32", (2, 3), (0, 1))),
    "broadcast bytes": (("INT64", (2,)), ("UINT16", (2, 8), (0, 1))),
    "overlapping": (("INT16", (6,)), ("INT16", (4, 3), (1, 1))),
    "interleaved": (("UINT8", (2, 3), (4, 3)), ("UINT8", (11,))),
    "three halves in eight bytes": (("FLOAT16", (3,)), ("UINT32", (2,))),
    "eight bytes as three halves": (("UINT32", (2,)), ("FLOAT16", (3,))),
    "five bytes in eight": (("UINT8", (5,)), ("INT64", (1,))),
    "one byte of four": (("INT8", (1,)), ("FLOAT32", (1,))),
    "more bytes than are written": (("INT32", (2,), None, 32), ("FLOAT64", (4,))),
    "fewer than are written": (("FLOAT64", (4,)), ("INT32", (2,), None, 32)),
}


def edge_tensor(data_type, sizes, strides=None, total=None):
    return TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=total)


def spanned(data, tensor):
    """The elements of a buffer of bytes that a tensor spans."""
    return data[: tensor.element_span * tensor.dtype.itemsize].view(tensor.dtype)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("ends", EDGES_BETWEEN.values(), ids=EDGES_BETWEEN)
def test_an_edge_is_the_bytes_that_are_written(ends, x64):
    """NumPy's view of them; between and behind the elements that are written there is 0."""
    written, read = (edge_tensor(*end) for end in ends)
    plain = TensorDesc(written.data_type, written.sizes)
    data = np.random.default_rng(5).bytes(plain.element_span * plain.dtype.itemsize)
    source = np.frombuffer(data, plain.dtype)
    buffer = np.zeros(written.total_tensor_size_in_bytes, np.uint8)
    seen(spanned(buffer, written), written)[...] = source.reshape(written.sizes)
    wanted = seen(spanned(buffer, read), read)
    graph = chain(copied(plain, written), copied(read, TensorDesc(read.data_type, read.sizes)))
    made = np.asarray(compile_operator(graph)(source)).view(read.dtype)
    assert_same_bits(made.reshape(read.sizes), wanted)
    as_output = chain(copied(plain, written), outputs={"y": TensorDesc("UINT8", buffer.shape)})
    assert_same_bits(compile_operator(as_output)(source), buffer)


def test_every_half_keeps_its_bits():
    """NaNs that signal and subnormals too, through transposes, bytes and other operators."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    columns = TensorDesc("FLOAT16", (256, 256), (1, 256))
    rows, four = TensorDesc("FLOAT16", (256, 256)), TensorDesc("FLOAT16", (1, 4, 128, 128))
    to_space = DepthToSpaceDesc(four, TensorDesc("FLOAT16", (1, 1, 256, 256)), 2)
    last = copied(TensorDesc("UINT8", (2**17,)))
    made = compile_operator(chain(copied(rows, columns), to_space, last))(halves)
    pixels = halves.reshape(256, 256).T.reshape(2, 2, 128, 128).transpose(2, 0, 3, 1)
    assert_same_bits(made, np.ascontiguousarray(pixels).view(np.uint8).ravel())


def test_casts_between_nodes_round():
    """XLA may leave out a cast there and back."""
    x = np.float32([1 + 2**-12, 2049, 65519, 65520, 1e-7, -3e-8, np.inf, 1 / 3])
    single, half, whole = (TensorDesc(t, x.shape) for t in ("FLOAT32", "FLOAT16", "INT32"))
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16).astype(np.float32)
    assert_same_bits(chain(CastDesc(single, half), CastDesc(half, single)).compute(x), wanted)
    i = np.int32([2**24 + 1, 2**31 - 65, 16777219, -(2**24) - 3, 5, -1, 0, 2**30 + 1])
    made = chain(CastDesc(whole, single), CastDesc(single, whole)).compute(i)
    assert_same_bits(made, i.astype(np.float32).astype(np.int32))
    with jax.enable_x64(True):
        double, wide = TensorDesc("FLOAT64", x.shape), x.astype(np.float64) + 2**-40
        made = chain(CastDesc(double, single), CastDesc(single, double)).compute(wide)
    assert_same_bits(made, wide.astype(np.float32).astype(np.float64))


def test_casts_of_several_widths_follow_each_other(x64):
    """XLA merges such casts, and failed on some of their shapes."""
    data_types = ["UINT8", "INT64", "INT16", "FLOAT64", "UINT32", "FLOAT16", "UINT64", "INT8"]
    graph = chain(*(copied(TensorDesc(t, (16 // dml_jax.DataType.of(t).itemsize,))) for t in data_types))
    data = np.arange(16, dtype=np.uint8)
    assert np.asarray(compile_operator(graph)(data)).tobytes() == data.tobytes()


# JSON.


def form(**changes):
    """The graph in JSON form, some of its fields replaced; None removes one."""
    desc = json.loads(json.dumps(desc_to_json(GRAPH)))["desc"] | changes
    return {"type": "DML_GRAPH_DESC", "desc": {key: value for key, value in desc.items() if value is not None}}


def test_json_round_trip():
    for graph in (GRAPH, SEVERAL, WEIGHED, *map(alone, DESCS.values())):
        assert desc_from_json(json.loads(json.dumps(desc_to_json(graph)))) == graph
    assert form()["desc"]["InputEdges"] == [{"GraphInput": "x", "ToNode": "pick", "ToNodeInput": "InputTensor"}]
    assert form()["desc"]["OutputEdges"] == [
        {"FromNode": "enlarge", "FromNodeOutput": "OutputTensor", "GraphOutput": "y"}
    ]


def test_spellings():
    """The graph's own tensors, and names of edges, may be left out; a constant may be a list of numbers."""
    named = [{**edge, "Name": "an edge"} for edge in form()["desc"]["InputEdges"]]
    data = {"type": "DML_GRAPH_NODE_TYPE_CONSTANT", "desc": {"Data": [3, 2, 1, 0], "DataType": "UINT32"}}
    nodes = {**form()["desc"]["Nodes"], "order": data}
    assert desc_from_json(form(Inputs=None, Outputs=None, InputEdges=named, Nodes=nodes)) == GRAPH
    assert form()["desc"]["Nodes"]["order"]["desc"] == {"Data": base64.b64encode(NODES["order"].data).decode()}


def with_node(name, node):
    return form(Nodes={**form()["desc"]["Nodes"], name: node})


def constant(**desc):
    return with_node("order", {"type": "DML_GRAPH_NODE_TYPE_CONSTANT", "desc": desc})


def with_edge(kind, **edge):
    return form(**{kind: [*form()["desc"][kind], edge]})


FROM_PICK = {"FromNode": "pick", "FromNodeOutput": "OutputTensor"}


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({**form(), "descr": {}}, "unknown field 'descr'; did you mean 'desc'"),
        ({**form(), "desc": 3}, 'GRAPH: "desc" must be a JSON object'),
        ({"type": "DML_GRAPH_DESC"}, "GRAPH: a graph must have an output, but no edge leads to one"),
        (form(nodes={}), "GRAPH: unknown field 'nodes'; did you mean 'Nodes'"),
        (form(Nodes=[]), "GRAPH: Nodes must be a JSON object"),
        (form(Nodes=None), "GRAPH: InputEdges[0]: there is no node 'pick'; known are "),
        (with_node("more", None), "GRAPH: node 'more': a descriptor must be a JSON object"),
        (with_node("more", {"type": "GATHR"}), "GRAPH: node 'more': unknown operator 'GATHR'; did you mean 'GATHER'"),
        (with_node("more", {"type": "GATHER"}), "GRAPH: node 'more': GATHER: InputTensor is missing"),
        (with_node("more", "other"), "node 'more': no operator is named 'other'; there are none beside the graph"),
        (with_node(3, NODES["order"]), "GRAPH: Nodes: a name must be a string, but it is 3"),
        (constant(), "GRAPH: node 'order': Data must be a list of numbers beside their DataType, or bytes in base64"),
        (constant(Data="!"), "GRAPH: node 'order': Data must be bytes in base64: "),
        (constant(Data="AAAA", DataType="INT8"), "node 'order': Data must be a list of numbers beside their DataType"),
        (constant(Data=[1], DataType="INT4"), "node 'order': DataType must be one of FLOAT32, "),
        (constant(Data=[1, "x"], DataType="INT8"), "GRAPH: node 'order': Data[1]: it must be a number, or"),
        (constant(Data=[1, 300], DataType="INT8"), "GRAPH: node 'order': Data[1]: "),
        (constant(Data=[1.5], DataType="INT8"), "GRAPH: node 'order': Data[0]: "),
        (constant(Data="AAAA", Size=3), "GRAPH: node 'order': unknown field 'Size'"),
        (form(InputEdges={}), "GRAPH: InputEdges must be an array, but it is {}"),
        (with_edge("InputEdges"), "GRAPH: InputEdges[1]: GraphInput must be a name, but it is missing"),
        (with_edge("InputEdges", GraphInput=3), "GRAPH: InputEdges[1]: GraphInput must be a name, but it is 3"),
        (
            with_edge("InputEdges", GraphInput="x", ToNode="pick", ToNodeInput="Input"),
            "GRAPH: InputEdges[1]: GATHER 'pick' has no input 'Input'; known are InputTensor, IndicesTensor",
        ),
        (
            with_edge("InputEdges", GraphInput="x", ToNode="pick", ToNodeInput="InputTensor"),
            "GRAPH: InputEdges[1]: a second edge leads to 'pick'.InputTensor",
        ),
        (
            with_edge("IntermediateEdges", **FROM_PICK, ToNode="order", ToNodeInput="Data"),
            "GRAPH: IntermediateEdges[2]: CONSTANT 'order' has no input 'Data'; it has none",
        ),
        (
            with_edge("OutputEdges", FromNode="pick", FromNodeOutput="InputTensor", GraphOutput="z"),
            "GRAPH: OutputEdges[1]: GATHER 'pick' has no output 'InputTensor'; known are OutputTensor",
        ),
        (with_edge("OutputEdges", **FROM_PICK, GraphOutput="z", To="a"), "OutputEdges[1]: unknown field 'To'"),
        (form(Inputs={"x": {"Sizes": [1]}}), "GRAPH: Inputs: x: DataType is missing"),
        (form(Outputs={3: {}}), "GRAPH: Outputs: a name must be a string, but it is 3"),
        (form(Outputs={"z": {"DataType": "INT8", "Sizes": [4]}}), "output 'z': every input and output of the graph"),
    ],
)
def test_bad_forms_are_refused_by_name(bad, match):
    with pytest.raises(ConstraintError, match=re.escape(match)):
        desc_from_json(bad)


def find_faults(bad, *level):
    found = Faults()
    assert read_desc(bad, found, *level) is None
    return [str(error).split("; ")[0] for error in found.errors]


def test_all_faults_are_found():
    """All of the form, or else all rules that are broken."""
    bad = constant(Data=[1, "x", None], DataType="INT8")
    bad["desc"]["InputEdges"].append({"ToNode": "pick"})
    bad["desc"]["Inputs"]["x"] = {"Sizes": [1]}
    assert find_faults(bad) == [
        'GRAPH: node \'order\': Data[1]: it must be a number, or "nan", "inf" or "-inf", but it is \'x\'',
        'GRAPH: node \'order\': Data[2]: it must be a number, or "nan", "inf" or "-inf", but it is None',
        "GRAPH: InputEdges[1]: GraphInput must be a name, but it is missing",
        "GRAPH: InputEdges[1]: ToNodeInput must be a name, but it is missing",
        "GRAPH: Inputs: x: DataType is missing",
    ]
    assert find_faults(form(OutputEdges=[]), "1_0") == [
        "GRAPH: the feature level must have what the graph is made of, but graphs exist from feature level 2_1 on",
        "GRAPH: node 'order': the feature level must have what the graph is made of, but constant nodes exist from "
        "feature level 6_2 on",
        "GRAPH: a graph must have an output, but no edge leads to one",
        "GRAPH: node 'enlarge': every output of a node must be connected, but no edge begins at OutputTensor: make it "
        "an output of the graph",
        "GRAPH: output 'y': every input and output of the graph must be connected, but no edge leads to it",
        *(
            f"GRAPH: node 'pick': {str(e).split('; ')[0]}"
            for e in NODES["pick"].faults(NODES["pick"].operands(), "1_0")
        ),
    ]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="elsewhere a flat output costs nothing more")
def test_an_output_is_made_in_its_shape_on_a_cpu():
    """XLA:CPU loops over a flat output with divisions; the last node's loop is over its dimensions instead."""
    picture, blocks = TensorDesc("FLOAT32", (1, 4, 128, 64)), TensorDesc("FLOAT32", (1, 16, 64, 32))
    graph = chain(dml_jax.SpaceToDepthDesc(picture, blocks, 2), copied(blocks))
    entry = compile_operator(graph).as_text(bound=True).split("ENTRY")[1]
    assert "-> f32[16,64,32]" in entry.splitlines()[0]
