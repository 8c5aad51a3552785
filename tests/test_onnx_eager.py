"""Calls outside of `jax.jit`: a node of floats is one program, and nodes of one kind share it."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import helper, model
from onnx_loops import value

from dml_jax import use_form
from dml_jax.onnx import OnnxError, eager_nodes, to_jax
from dml_jax.onnx.progress import DOING

make = helper.make_node
X = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((2, 4, 4, 3, 3)).astype(np.float32)


@pytest.fixture
def programs():
    """How many programs of nodes there are since the test began."""
    eager_nodes._program.cache_clear()
    return lambda: eager_nodes._program.cache_info().currsize


def chain(*nodes, constants=None, x=X):
    """Nodes after one another, each with names of its other inputs and its attributes."""
    names = ["x", *(f"y{i}" for i in range(len(nodes)))]
    made = [
        make(kind, [name, *others], [after], **attributes)
        for (kind, others, attributes), name, after in zip(nodes, names[:-1], names[1:], strict=True)
    ]
    return to_jax(model(made, {"x": x}, [names[-1]], constants))


def test_convolutions_of_one_kind_share_a_program(programs):
    network = chain(*(("Conv", [w], {"pads": [1] * 4}) for w in "vw"), constants=dict(zip("vw", W, strict=True)))
    np.testing.assert_allclose(network(X), jax.jit(network)(X), rtol=1e-5, atol=1e-5)
    assert programs() == 1
    chain(("Conv", ["w"], {"pads": [0] * 4}), constants={"w": W[0]})(X)
    assert programs() == 2


def test_operands_keep_their_order(programs):
    """Also where one of them is a known number."""
    for node, expected in (
        (make("Greater", ["x", "b"], ["y"]), X > 0.5),
        (make("Greater", ["b", "x"], ["y"]), X < 0.5),
        (make("Sub", ["b", "x"], ["y"]), np.float32(0.5) - X),
        (make("Sub", ["x", "b"], ["y"]), X - np.float32(0.5)),
        (make("Sum", ["x", "b", "x"], ["y"]), X + np.float32(0.5) + X),
    ):
        y = to_jax(model([node], {"x": X}, ["y"], {"b": np.float32(0.5)}))(X)
        np.testing.assert_array_equal(y, expected)
    for zero, sign in ((0.0, 1), (-0.0, -1)):
        over = to_jax(model([make("Div", ["x", "b"], ["y"])], {"x": X}, ["y"], {"b": np.float32(zero)}))
        np.testing.assert_array_equal(over(X), sign * np.sign(X) * np.inf)
    assert programs() == 4


@pytest.fixture
def compiled(caplog):
    """What a call compiles."""

    def names(call):
        caplog.clear()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            call()
        return [record.getMessage() for record in caplog.records if "Compiling" in record.getMessage()]

    return names


OPERANDS = {kind: ["x", "n"] for kind in ("Add", "Mul", "Div", "Pow", "Max", "Sum", "PRelu")}
OPERANDS |= {"Sub": ["n", "x"], "Clip": ["x", "", "n"]}


@pytest.mark.parametrize("kind", OPERANDS)
def test_other_numbers_compile_nothing(kind, compiled):
    def call(number, x=X):
        return to_jax(model([make(kind, OPERANDS[kind], ["y"])], {"x": x}, ["y"], {"n": np.float32([number])}))(x)

    call(1.5)
    assert compiled(lambda: call(2.5)) == []
    assert compiled(lambda: call(2.5, X[..., 1:]))


def test_iterations_share_programs(compiled):
    """Where the number of an iteration is an operand, an index, or the beginning of a slice."""
    number, condition = value("i", np.int64, ()), value("c", bool, ())
    body = [
        make("Cast", ["i"], ["f"], to=1),
        make("Mul", ["a", "f"], ["b"]),
        make("Gather", ["x", "i"], ["row"], axis=1),
        make("Add", ["b", "row"], ["d"]),
        make("Reshape", ["i", "one"], ["first"]),
        make("Add", ["first", "one"], ["last"]),
        make("Slice", ["x", "first", "last", "one"], ["column"]),
        make("Squeeze", ["column", "one"], ["flat"]),
        make("Add", ["d", "flat"], ["e"]),
    ]
    state = [value(name, np.float32) for name in "ae"]
    graph = helper.make_graph(body, "body", [number, condition, state[0]], [condition, state[1]])
    wide = np.arange(18, dtype=np.float32).reshape(2, 9)
    a, x = np.float32([1, 2]), wide[:, :8]
    loop = make("Loop", ["m", "", "a"], ["y"], body=graph)

    def call(trips, x=x):
        known = {"m": np.int64(trips), "one": np.int64([1])}
        expected = a
        for i in range(trips):
            expected = expected * np.float32(i) + 2 * x[:, i]
        np.testing.assert_array_equal(to_jax(model([loop], {"a": a, "x": x}, ["y"], known))(a, x), expected)

    call(3)
    assert compiled(lambda: call(7)) == []
    assert compiled(lambda: call(7, wide))


def test_sizes_are_known_in_a_program(programs):
    """Scales decide sizes: each of them has a program."""
    for scale in (2, 3, 2):
        scales = np.float32([1, 1, scale, 1])
        y = to_jax(model([make("Resize", ["x", "", "s"], ["y"], mode="linear")], {"x": X}, ["y"], {"s": scales}))(X)
        assert y.shape == (1, 4, 6 * scale, 6)
    assert programs() == 2


def test_what_is_known_stays_known():
    """A shape of data decides a size, and a value that is there may, too."""
    nodes = [
        make("Shape", ["x"], ["s"], start=1),
        make("ReduceMax", ["x"], ["m"], keepdims=0),
        make("Cast", ["m"], ["n"], to=7),
        make("Unsqueeze", ["n", "zero"], ["k"]),
        make("Concat", ["s", "k"], ["sizes"], axis=0),
        make("Expand", ["m", "sizes"], ["y"]),
    ]
    x = np.ones((2, 3), np.float32) * 2
    expand = to_jax(model(nodes, {"x": x}, ["y"], {"zero": np.int64([0])}))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(expand(x), np.full((3, 2), 2))


def test_transformations_do_not_nest_programs():
    """Under `jit` a node is traced into the program around it."""
    network = chain(("Conv", ["w"], {}), ("Relu", [], {}), constants={"w": W[0]})
    assert "jit" not in {str(e.primitive) for e in jax.make_jaxpr(network)(X).eqns if e.params.get("name") == "run"}
    slope = jax.grad(lambda x: network(x).sum())(X)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(lambda x: network(x).sum()))(X), rtol=1e-5, atol=1e-5)


def test_errors_and_forms(programs):
    with pytest.raises(OnnxError, match="Conv node #0: x and w must have one rank"):
        chain(("Conv", ["w"], {}), constants={"w": W[0, 0]})(X)
    network = chain(("Conv", ["w"], {}), constants={"w": W[0]})
    before, y = programs(), network(X)
    with use_form("plain"):
        np.testing.assert_allclose(network(X), y, rtol=1e-5, atol=1e-5)
    assert programs() == before + 1


def test_64_bits_are_not_narrowed():
    network = chain(("Add", ["b"], {}), constants={"b": np.float64(1)}, x=np.float64([1, 2]))
    with jax.enable_x64(True):
        assert_same_bits(network(np.float64([1, 2])), np.float64([2, 3]))
    power = to_jax(model([make("Pow", ["x", "b"], ["y"])], {"x": X}, ["y"], {"b": np.float64([2])}))
    with pytest.raises(TypeError, match="float64 must not be narrowed"):
        power(X)


def test_it_is_known_which_node_runs():
    for count, before in ((1, "0 nodes"), (2, "1 node"), (3, "2 nodes")):
        chain(*[("Relu", [], {})] * count)(X)
        assert DOING.text == f"Relu node #{count - 1}, after {before}"
