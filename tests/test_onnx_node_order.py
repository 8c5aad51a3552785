"""Nodes in any order, cycles, and nodes that nothing uses, in graphs, branches, loops and functions."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import TensorProto, helper, model, numpy_helper, onnx, runtime

from dml_jax.onnx import OnnxError, UnsupportedError, to_jax
from dml_jax.onnx.node_order import in_order

make = helper.make_node
X = np.float32([1, -2, 3])


def value(name, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, None)


# Where a graph can be: each returns a model that runs these nodes, which make "y" of "x".


def in_graph(nodes):
    return model(nodes, {"x": X}, ["y"])


def in_branch(nodes):
    """Both branches read x from around them; each has values of its own."""
    other = helper.make_graph([make("Neg", ["x"], ["n"])], "other", [], [value("n")])
    body = helper.make_graph(nodes, "body", [], [value("y")])
    nodes = [
        make("Constant", [], ["on"], value=numpy_helper.from_array(np.array(True))),
        make("If", ["on"], ["out"], then_branch=body, else_branch=other),
    ]
    return model(nodes, {"x": X}, ["out"])


def in_loop(nodes):
    """One iteration, whose state is x."""
    once = make("Constant", [], ["one"], value=numpy_helper.from_array(np.array(1)))
    inputs = [value("i", TensorProto.INT64), value("go", TensorProto.BOOL), value("x")]
    still = make("Identity", ["go"], ["still"])
    body = helper.make_graph([*nodes, still], "body", inputs, [value("still", TensorProto.BOOL), value("y")])
    return model([once, make("Loop", ["one", "", "start"], ["out"], body=body)], {"start": X}, ["out"])


def in_function(nodes):
    proto = model([make("F", ["given"], ["out"], domain="own")], {"given": X}, ["out"])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(helper.make_function("own", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 20)]))
    return proto


places = pytest.mark.parametrize("place", [in_graph, in_branch, in_loop, in_function])


# y = tanh(x) * (|x| - x) + |x|
NODES = [
    make("Abs", ["x"], ["a"]),
    make("Tanh", ["x"], ["t"]),
    make("Sub", ["a", "x"], ["s"]),
    make("Mul", ["t", "s"], ["m"]),
    make("Add", ["m", "a"], ["y"]),
]


@places
@pytest.mark.parametrize("seed", sampled(range(6), [0]))
def test_nodes_in_any_order(place, seed):
    shuffled = [NODES[i] for i in np.random.default_rng(seed).permutation(len(NODES))]
    assert_same_bits(to_jax(place(shuffled))(X), to_jax(place(NODES))(X))


def test_onnx_runtime_sorts_them_too():
    proto = in_graph(NODES[::-1])
    np.testing.assert_allclose(to_jax(proto)(X), runtime(proto, {"x": X})[0], rtol=1e-6)


def test_a_branch_needs_what_comes_after_it():
    """A node reads what the graphs among its attributes read of those around them."""
    body = helper.make_graph([make("Neg", ["later"], ["n"])], "body", [], [value("n")])
    on = make("Constant", [], ["on"], value=numpy_helper.from_array(np.array(True)))
    nodes = [make("If", ["on"], ["y"], then_branch=body, else_branch=body), make("Exp", ["x"], ["later"]), on]
    np.testing.assert_allclose(to_jax(in_graph(nodes))(X), -np.exp(X), rtol=1e-6)


def steps(*reads):
    """Steps that read the outputs of others: one whose row is [2, 0] those of the steps 2 and 0."""
    names = [tuple(f"v{i}" for i in row) for row in reads]
    return [SimpleNamespace(label=f"#{i}", inputs=row, outputs=(f"v{i}",), captured=()) for i, row in enumerate(names)]


def test_an_order_that_is_right_stays():
    rng = np.random.default_rng(0)
    given = steps(*(rng.integers(0, i, min(i, 2)).tolist() for i in range(40)))
    assert in_order(given) == given


def test_a_long_chain_backwards():
    """Without recursion, and each name once: a step may read thousands of others."""
    count = 20_000
    chain = steps(*([i + 1] for i in range(count - 1)), [])
    assert in_order(chain) == chain[::-1]
    wide = steps([*range(1, count)], *([] for _ in range(count - 1)))
    assert in_order(wide) == [*wide[1:], wide[0]]


# Cycles.


@places
def test_a_cycle_names_its_nodes(place):
    nodes = [
        make("Add", ["x", "c"], ["a"], name="first"),
        make("Neg", ["a"], ["b"], name="second"),
        make("Abs", ["b"], ["c"], name="third"),
        make("Exp", ["a"], ["y"]),
    ]
    text = "but there is a cycle of Add node 'first', Abs node 'third', Neg node 'second'$"
    with pytest.raises(OnnxError, match=text):
        to_jax(place(nodes))


def test_a_long_cycle_is_cut():
    nodes = [make("Neg", [f"v{(i + 1) % 9}"], [f"v{i}"]) for i in range(9)]
    with pytest.raises(OnnxError, match=r"cycle of Neg node #0, .*, Neg node #5 and 3 more$"):
        to_jax(in_graph([*nodes, make("Neg", ["v0"], ["y"])]))


def test_a_cycle_through_a_branch():
    body = helper.make_graph([make("Neg", ["y"], ["n"])], "body", [], [value("n")])
    on = make("Constant", [], ["on"], value=numpy_helper.from_array(np.array(True)))
    choice = make("If", ["on"], ["y"], name="choice", then_branch=body, else_branch=body)
    with pytest.raises(OnnxError, match=r"cycle of If node 'choice'$"):
        to_jax(in_graph([on, choice]))


# Nodes that nothing uses.

STRINGS = [make("StringNormalizer", ["x"], ["s1"]), make("StringConcat", ["s1", "s1"], ["s2"])]


@places
def test_an_unsupported_node_that_nothing_uses(place):
    assert_same_bits(to_jax(place([*STRINGS, *NODES]))(X), to_jax(place(NODES))(X))


@places
def test_an_unsupported_node_that_is_used(place):
    """Those that it needs are listed too."""
    with pytest.raises(UnsupportedError) as caught:
        to_jax(place([*STRINGS, make("Identity", ["s2"], ["y"])]))
    assert [node.rpartition(": ")[2] for node in caught.value.nodes] == [
        "StringNormalizer (node #0)",
        "StringConcat (node #1)",
    ]


def test_unsupported_nodes_that_a_branch_needs():
    """A branch is not run here, and what it reads is listed."""
    nodes = [make("StringConcat", ["text", "text"], ["both"]), make("StringSplit", ["both"], ["y", "count"])]
    body = helper.make_graph(nodes, "body", [], [value("y")])
    choice = make("If", ["x"], ["out"], name="choice", then_branch=body, else_branch=body)
    proto = model([make("StringNormalizer", ["x"], ["text"]), choice], {"x": np.array(True)}, ["out"])
    with pytest.raises(UnsupportedError) as caught:
        to_jax(proto)
    assert "StringNormalizer (node #0)" in caught.value.nodes
    assert len(caught.value.nodes) == 5


def test_an_output_that_no_caller_of_a_function_reads():
    body = [make("StringConcat", ["x", "x"], ["s"]), make("Neg", ["x"], ["y"])]
    proto = model([make("F", ["x"], ["", "y"], domain="own")], {"x": X}, ["y"])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(helper.make_function("own", "F", ["x"], ["s", "y"], body, [helper.make_opsetid("", 20)]))
    assert_same_bits(jax.jit(to_jax(proto))(X), -X)


def test_unsupported_nodes_are_told_of_a_model_without_its_weights():
    """The files of its tensors may be large: they are not read before."""
    proto = model([make("StringConcat", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": X})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="none.bin")
    with pytest.raises(UnsupportedError, match="StringConcat"):
        to_jax(proto)
