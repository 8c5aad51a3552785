"""int64, which ONNX has everywhere, while x64 is off: exact or refused, never narrowed."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import TensorProto, helper, model

import dml_jax
from dml_jax.onnx import to_jax
from dml_jax.onnx.int64_ranges import _LAWS

make = helper.make_node
IDS = np.int32([[0, 3, -2], [7, 7, -(2**31)]])
TABLE = np.arange(10, dtype=np.float32)


def ids_model(*nodes, outputs=("y",), **constants):
    """A model of int64 ids."""
    return model(nodes, {"ids": IDS.astype(np.int64)}, list(outputs), constants)


def outcome(function, *inputs):
    """What a jitted function gives, in int64 where it has int32; or that it refuses."""
    try:
        return np.asarray(jax.jit(function)(*inputs))
    except dml_jax.DataTypeError as error:
        assert "jax_enable_x64 is off" in str(error)  # noqa: PT017  # the other outcome
        return None


# Indices.


def test_int64_indices_are_exact_without_x64():
    """From an initializer, and as a NumPy array outside of transformations; under jit JAX cuts them before."""
    table = np.float32([[1, 2], [3, 4]])
    far = np.int64([2**32, -1])  # which 32 bits would make row 0
    node = make("Gather", ["t", "i"], ["y"])
    function = to_jax(model([node], {"i": far}, ["y"], {"t": table}))
    assert_same_bits(function(far), table[[1, 1]])
    gradient = jax.grad(lambda p: function(far, parameters=p).sum())(function.parameters)
    assert_same_bits(gradient["t"], np.float32([[0, 0], [2, 2]]))
    constant = to_jax(model([node], {"t": table}, ["y"], {"i": far}))
    assert_same_bits(jax.jit(constant)(table), table[[1, 1]])
    with pytest.raises(dml_jax.DataTypeError, match=r"int32, as JAX makes it .* or say to_jax\(model, int32=\['i'\]\)"):
        jax.jit(function)(far)
    with jax.enable_x64(True):
        assert_same_bits(jax.jit(function)(far), table[[1, 1]])


def test_int32_is_widened_for_int64():
    proto = ids_model(make("Add", ["ids", "one"], ["y"]), one=np.int64(2**40))
    wanted = IDS.astype(np.int64) + 2**40
    with jax.enable_x64(True):
        for function in (to_jax(proto), jax.jit(to_jax(proto))):
            assert_same_bits(function(IDS), wanted)
    eager = to_jax(ids_model(make("Add", ["ids", "one"], ["a"]), make("Sub", ["a", "one"], ["y"]), one=np.int64(2**40)))
    assert_same_bits(eager(jax.numpy.asarray(IDS)), IDS)  # by way of numbers beyond 32 bits


def test_announced_int32_are_data_under_jit():
    embed = to_jax(ids_model(make("Gather", ["table", "ids"], ["y"]), table=TABLE), int32=["ids"])
    assert str(embed.inputs[0]) == "ids: int32[2, 3]"
    assert_same_bits(jax.jit(embed)(IDS), TABLE[np.clip(np.where(IDS < 0, IDS.astype(np.int64) + 10, IDS), 0, 9)])
    with pytest.raises(dml_jax.onnx.OnnxError, match="int32 must name int64 inputs, ids, but it has 'table'"):
        to_jax(ids_model(make("Identity", ["ids"], ["y"])), int32=["table"])
    with pytest.raises(dml_jax.onnx.OnnxError, match=r"must be a list of names, such as \['ids'\], but it is 'ids'"):
        to_jax(ids_model(make("Identity", ["ids"], ["y"])), int32="ids")


def test_indices_that_a_node_makes_are_data_under_jit():
    """ArgMax and TopK: no index reaches the number of elements."""
    x = np.float32([[3, 1, 2], [1, 5, 4]])
    nodes = [make("ArgMax", ["x"], ["best"], axis=1, keepdims=0), make("Gather", ["names", "best"], ["y"])]
    function = to_jax(model(nodes, {"x": x}, ["y", "best"], {"names": TABLE}))
    y, best = jax.jit(function)(x)
    assert_same_bits(y, TABLE[[0, 1]])
    assert_same_bits(best, np.int32([0, 1]))
    top = to_jax(model([make("TopK", ["x", "k"], ["v", "i"])], {"x": x}, ["v", "i"], {"k": np.int64([2])}))
    assert_same_bits(jax.jit(top)(x)[1], np.int32([[0, 2], [1, 2]]))
    with jax.enable_x64(True):
        assert_same_bits(jax.jit(top)(x)[1], np.int64([[0, 2], [1, 2]]))


def test_outputs_that_fit_are_int32_and_others_refused():
    function = to_jax(model([make("Shape", ["x"], ["y"])], {"x": IDS}, ["y"]))
    assert_same_bits(function(IDS), np.int32([2, 3]))
    with jax.enable_x64(True):
        assert_same_bits(function(IDS), np.int64([2, 3]))
    nodes = [make("Shape", ["x"], ["s"]), make("Mul", ["s", "far"], ["y"])]
    far = to_jax(model(nodes, {"x": IDS}, ["y"], {"far": np.int64(2**31)}))
    with pytest.raises(dml_jax.DataTypeError, match="output 'y': int64 must not be narrowed, but jax_enable_x64 is"):
        far(IDS)


# Numbers that are computed.

SMALL = np.int64([[5, -1, 0]])
CALLS = {
    "add": ([make("Add", ["small", "c"], ["y"])], True),
    "beyond": ([make("Add", ["ids", "c"], ["y"])], False),
    "subtract": ([make("Sub", ["c", "small"], ["y"])], True),
    "multiply": ([make("Mul", ["small", "c"], ["y"])], True),
    "multiply_beyond": ([make("Mul", ["ids", "c"], ["y"])], False),
    "greater": ([make("Max", ["small", "c", "small"], ["y"])], True),
    "negate": ([make("Neg", ["small"], ["y"])], True),
    "negate_beyond": ([make("Neg", ["ids"], ["y"])], False),
    "magnitude_beyond": ([make("Abs", ["ids"], ["y"])], False),
    "remainder": ([make("Mod", ["small", "seven"], ["y"])], True),
    "remainder_of_any": ([make("Mod", ["ids", "seven"], ["y"])], True),
    "clip": ([make("Clip", ["ids", "seven"], ["y"])], True),
    "reduce": ([make("ReduceSum", ["small"], ["y"])], True),
    "reduce_beyond": ([make("ReduceSum", ["ids"], ["y"])], False),
    "greatest": ([make("ReduceMax", ["ids"], ["y"])], True),
    "cumulative": ([make("CumSum", ["small", "axis"], ["y"])], True),
    "compare": ([make("Less", ["ids", "c"], ["y"])], True),
    "compare_beyond": ([make("Equal", ["ids", "far"], ["y"])], False),
    "choose": ([make("Less", ["ids", "c"], ["b"]), make("Where", ["b", "ids", "c"], ["y"])], True),
    "join": ([make("Concat", ["ids", "c"], ["y"], axis=0)], True),
    "join_beyond": ([make("Concat", ["ids", "far"], ["y"], axis=0)], False),
    "cast": ([make("Cast", ["ids"], ["y"], to=TensorProto.FLOAT)], True),
}
CONSTANTS = {"c": SMALL, "seven": np.int64(7), "axis": np.int64(1), "far": np.int64([[2**31, 0, 1]])}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_exact_or_refused(name):
    """`small` are bytes made int64; `ids` may be any number of 32 bits."""
    nodes, fits = CALLS[name]
    constants = {key: value for key, value in CONSTANTS.items() if any(key in node.input for node in nodes)}
    inputs = {"ids": IDS.astype(np.int64), "bytes": np.int8([[-128, 127, 3], [0, 1, 2]])}
    proto = model([make("Cast", ["bytes"], ["small"], to=TensorProto.INT64), *nodes], inputs, ["y"], constants)
    with jax.enable_x64(True):
        wanted = np.asarray(to_jax(proto)(*inputs.values()))
    made = outcome(to_jax(proto, int32=["ids"]), IDS, inputs["bytes"])
    assert (made is not None) == fits
    if made is not None:
        np.testing.assert_array_equal(made, wanted)
        assert made.dtype == (np.int32 if wanted.dtype == np.int64 else wanted.dtype)


def test_ranges_hold_every_result():
    """Of all pairs of small numbers; a law that says less than the truth would let a number be cut."""
    rng, numbers = np.random.default_rng(0), np.arange(-6, 7)
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}
    one = {"Neg": np.negative, "Abs": np.abs, "ReduceSum": np.sum, "CumSum": np.cumsum, "ReduceMax": np.max}
    for _ in range(200):
        a, b = (np.sort(rng.choice(numbers, 2)) for _ in range(2))
        grid = np.meshgrid(np.arange(a[0], a[1] + 1), np.arange(b[0], b[1] + 1))
        for name, function in functions.items():
            low, high = _LAWS[name]([tuple(a), tuple(b)], grid[0].shape)
            made = function(*grid)
            assert (low, high) == (made.min(), made.max())
        for name, function in one.items():
            low, high = _LAWS[name]([tuple(a)], (3, 2))
            made = function(rng.integers(a[0], a[1] + 1, (3, 2)))
            assert low <= made.min() <= made.max() <= high


def test_a_scatter_that_adds_is_refused_but_by_indices():
    ones = np.ones((3,), np.float32)
    into = make("ScatterElements", ["t", "row", "u"], ["y"], reduction="add")
    row = make("Gather", ["ids", "zero"], ["row"])
    proto = ids_model(row, into, t=TABLE, u=ones, zero=np.int64(0))
    wanted = TABLE.copy()
    np.add.at(wanted, IDS[0], 1)
    assert_same_bits(jax.jit(to_jax(proto, int32=["ids"]))(IDS), wanted)
    added = make("ScatterElements", ["ids", "rows", "ids"], ["y"], reduction="add")
    assert outcome(to_jax(ids_model(added, rows=np.zeros((2, 3), np.int64)), int32=["ids"]), IDS) is None


def test_updates_that_are_added_to_constants_may_not_fit():
    into = make("ScatterElements", ["most", "zero", "u"], ["y"], reduction="add")
    constants = {"most": np.int64([2**31 - 1]), "zero": np.int64([0])}
    proto = model([into], {"u": np.int64([1])}, ["y"], constants)
    assert outcome(to_jax(proto, int32=["u"]), np.int32([1])) is None
    into.attribute[0].s = b"max"
    greatest = to_jax(model([into], {"u": np.int64([1])}, ["y"], constants), int32=["u"])
    assert_same_bits(outcome(greatest, np.int32([1])), np.int32([2**31 - 1]))


def test_padding_brings_zeros_in():
    nodes = [
        make("Max", ["x", "ten"], ["a"]),
        make("Pad", ["a", "one"], ["b"]),
        make("Sub", ["b", "most"], ["c"]),
        make("Sub", ["c", "eight"], ["y"]),
    ]
    constants = {"ten": [10], "one": [1, 0], "most": [2**31 - 1], "eight": [8]}
    proto = model(nodes, {"x": np.int64([10])}, ["y"], {name: np.int64(value) for name, value in constants.items()})
    assert outcome(to_jax(proto, int32=["x"]), np.int32([10])) is None


def test_branches_give_int64_that_fits():
    """Of an unknown condition: the range is that of both."""
    output = helper.make_tensor_value_info("k", TensorProto.INT64, None)
    numbers = [make("Constant", [], ["k"], value_ints=[n]) for n in (0, 3)]
    branches = [helper.make_graph([number], "g", [], [output]) for number in numbers]
    choose = make("If", ["c"], ["k"], then_branch=branches[0], else_branch=branches[1])
    proto = model([choose, make("Gather", ["t", "k"], ["y"])], {"c": np.array(True), "t": TABLE}, ["y"])
    for known, row in ((True, 0), (False, 3)):
        assert_same_bits(jax.jit(to_jax(proto))(np.array(known), TABLE), TABLE[[row]])
    nodes = [choose, make("Add", ["k", "far"], ["y"])]
    for far, fits in ((2**31 - 4, True), (2**31 - 3, False)):
        added = to_jax(model(nodes, {"c": np.array(True)}, ["y"], {"far": np.int64([far])}))
        assert (outcome(added, np.array(False)) is not None) == fits
