"""GraphDesc: a value of its own, its constants, and nothing that happens between nodes that need nothing.

test_random_graphs.py has graphs of the whole catalogue.
"""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import DESCS
from checks import assert_is, assert_same_bits
from graph_cases import CHANNELS, EDGES, GRAPH, NODES, PICTURE, X, Y, alone, chain, copied, operations, parts
from operator_cases import f16, f32, u8, u32

import dml_jax
from dml_jax import (
    Constant,
    CumulativeSummationDesc,
    DataTypeError,
    DepthToSpaceDesc,
    GraphDesc,
    compile_operator,
)

pytestmark = pytest.mark.device


def test_its_repr_says_what_it_takes_and_makes():
    assert repr(GRAPH) == "GraphDesc(x: FLOAT32[1,4,1,1]) -> (y: FLOAT32[1,1,2,2]) of 3 nodes"
    assert repr(compile_operator(GRAPH)) == "CompiledOperator GRAPH(x: float32[4]) -> (y: float32[4])"


def test_buffers_are_taken_by_the_names_of_inputs():
    two = GraphDesc(
        {"add": dml_jax.ElementWiseAddDesc(CHANNELS, CHANNELS, CHANNELS)},
        {("add", "a"): "left", ("add", "b"): "right", "sum": ("add", "output")},
    )
    assert_is(compile_operator(two)(right=X, left=10 * X), 11 * X)


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
    columns, as_bytes = f16(3, 2, strides=(1, 0)), u8(8)
    as_bytes_of_words = u32(2)
    nodes = {"three": Constant(halves), "a": copied(columns, f16(3, 2, strides=(1, 3)))}
    nodes |= {"b": copied(replace(columns, total_tensor_size_in_bytes=8), f16(3, 2, strides=(2, 1)))}
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


@pytest.mark.thinned(12)
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
