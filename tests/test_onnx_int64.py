"""int64, which ONNX has everywhere, while x64 is off: exact or refused, never narrowed."""

from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx import numpy_helper
from onnx_building import TensorProto, helper, model

import dml_jax
from dml_jax.onnx import to_jax
from dml_jax.onnx.int64_ranges import Bounded, compute_bounded
from dml_jax.onnx.node_reader import Reader

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


def is_taken(function, *inputs):
    """Whether numbers of 32 bits are enough, which is known before there are data."""
    try:
        return bool(jax.eval_shape(function, *inputs))
    except dml_jax.DataTypeError:
        return False


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
    with pytest.raises(dml_jax.DataTypeError, match=r"int32, as JAX makes it .*: say to_jax\(model, int32=\['i'\]\)"):
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


FINDERS = {
    "ArgMax": make("ArgMax", ["x"], ["at"], axis=3),
    "TopK": make("TopK", ["x", "one"], ["", "at"]),
    "MaxPool": make("MaxPool", ["x"], ["", "at"], kernel_shape=[1, 4]),
}
READERS = {
    "MaxUnpool": make("MaxUnpool", ["u", "at"], ["y"], kernel_shape=[1, 4]),
    "MaxUnpool, padded": make("MaxUnpool", ["u", "at", "sizes"], ["y"], kernel_shape=[1, 4]),
    "Gather": make("Gather", ["t", "at"], ["y"]),
    "GatherElements": make("GatherElements", ["t", "at"], ["y"]),
    "GatherND": make("GatherND", ["t", "at"], ["y"]),
    "ScatterElements": make("ScatterElements", ["t", "at", "u"], ["y"]),
    "ScatterND": make("ScatterND", ["t", "at", "update"], ["y"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("finder", FINDERS)
def test_indices_that_a_node_finds_are_read_as_with_x64(finder, reader):
    """The greatest of four numbers is the last one, of index 3."""
    u = np.float32([9]).reshape(1, 1, 1, 1)
    inputs = {"x": TABLE[:4].reshape(1, 1, 1, 4), "t": TABLE[:4].reshape(4, 1, 1, 1), "u": u, "update": u[None, None]}
    constants = {"one": np.int64([1]), "sizes": np.int64([1, 1, 2, 5])}
    function = to_jax(model([FINDERS[finder], READERS[reader]], inputs, ["y"], constants))
    with jax.enable_x64(True):
        wanted = np.asarray(function(*inputs.values()))
    for run in (function, jax.jit(function)):
        assert_same_bits(run(*inputs.values()), wanted)


@pytest.mark.parametrize("node", [make("ArgMax", ["x"], ["i"], axis=2), make("TopK", ["x", "one"], ["v", "i"], axis=2)])
def test_indices_count_along_their_axis_alone(node):
    """Logits of 17 texts of 2,048 words and 65,536 tokens are more than 2**31 numbers; an index is below 65,536."""
    x = jax.ShapeDtypeStruct((17, 2**11, 2**16), np.int8)
    proto = model([node, make("Add", ["i", "far"], ["y"])], {"x": np.zeros((1, 1, 1), np.int8)}, ["y"])
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    for far, fits in ((2**31 - 2**16, True), (2**31 - 2**16 + 1, False)):
        del proto.graph.initializer[:]
        for name, value in (("one", [1]), ("far", far)):
            proto.graph.initializer.append(numpy_helper.from_array(np.int64(value), name))
        assert is_taken(to_jax(proto), x) == fits


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


def quotient(a, b):
    """Rounded to 0; a number divided by 0, of which ONNX says nothing, is -1 where XLA divides."""
    return np.where(b == 0, -1, np.trunc(a / np.where(b == 0, 1, b))).astype(np.int64)


def rest(of, a, b):
    """A number divided by 0 remains."""
    return np.where(b == 0, a, of(a, np.where(b == 0, 1, b)))


# Nodes on a and b, or on a alone, and the same in NumPy: their results, or a list of parts of them.
UP, ROW, ZERO = {"up": np.int64([1, 0, 0, 0])}, {"row": np.int64([0])}, {"zero": np.int64(0)}
TWO, LESS, SEVEN = {"two": np.int64([[2]])}, {"less": np.int64([[-2]])}, {"seven": np.int64(7)}
RANGED = {
    "add": (make("Add", ["a", "b"], ["y"]), np.add, {}),
    "subtract": (make("Sub", ["a", "b"], ["y"]), np.subtract, {}),
    "multiply": (make("Mul", ["a", "b"], ["y"]), np.multiply, {}),
    "maximum": (make("Max", ["a", "b", "a"], ["y"]), np.maximum, {}),
    "minimum": (make("Min", ["b", "a"], ["y"]), np.minimum, {}),
    "join": (make("Concat", ["a", "b"], ["y"], axis=0), lambda a, b: [a, b], {}),
    "update": (
        make("ScatterElements", ["a", "zeros", "b"], ["y"]),
        lambda a, b: [a, b],
        {"zeros": np.zeros((2, 2), int)},
    ),
    "choose": (make("Where", ["mask", "a", "b"], ["y"]), lambda a, b: [a, b], {}),
    "choose constants": (make("Where", ["mask", "two", "less"], ["y"]), lambda a: np.int64([2, -2]), TWO | LESS),
    "one hot": (
        make("OneHot", ["ids", "seven", "ends"], ["y"]),
        lambda a: np.int64([3, 5]),
        {"ends": np.int64([3, 5])} | SEVEN,
    ),
    "negate": (make("Neg", ["a"], ["y"]), np.negative, {}),
    "magnitude": (make("Abs", ["a"], ["y"]), np.abs, {}),
    "clip below": (make("Clip", ["a", "zero"], ["y"]), lambda a: np.maximum(a, 0), ZERO),
    "clip above": (make("Clip", ["a", "", "zero"], ["y"]), lambda a: np.minimum(a, 0), ZERO),
    "clip": (make("Clip", ["a", "zero", "seven"], ["y"]), lambda a: np.clip(a, 0, 7), ZERO | SEVEN),
    "remainder": (make("Mod", ["a", "two"], ["y"]), lambda a: np.mod(a, 2), TWO),
    "remainder of a negative": (make("Mod", ["a", "less"], ["y"]), lambda a: np.mod(a, -2), LESS),
    "fmod": (make("Mod", ["a", "two"], ["y"], fmod=1), lambda a: np.fmod(a, 2), TWO),
    "remainder of any": (make("Mod", ["a", "b"], ["y"]), partial(rest, np.mod), {}),
    "fmod of any": (make("Mod", ["a", "b"], ["y"], fmod=1), partial(rest, np.fmod), {}),
    "quotient": (make("Div", ["a", "b"], ["y"]), quotient, {}),
    "sign": (make("Sign", ["a"], ["y"]), np.sign, {}),
    "bits": (make("BitwiseNot", ["a"], ["y"]), np.invert, {}),
    "rectify": (make("Relu", ["a"], ["y"]), lambda a: np.maximum(a, 0), {}),
    "triangle": (make("Trilu", ["a"], ["y"]), lambda a: [a, 0 * a], {}),
    "sum": (make("ReduceSum", ["a"], ["y"]), lambda a: a.sum((0, 1)), {}),
    "sum of a row": (make("ReduceSum", ["a", "row"], ["y"]), lambda a: a.sum(0), ROW),
    "greatest": (make("ReduceMax", ["a", "row"], ["y"]), lambda a: a.max(0), ROW),
    "least": (make("ReduceMin", ["a", "row"], ["y"]), lambda a: a.min(0), ROW),
    "cumulative": (make("CumSum", ["a", "zero"], ["y"]), lambda a: a.cumsum(0), ZERO),
    "reverse": (make("CumSum", ["a", "zero"], ["y"], reverse=1), lambda a: a[::-1].cumsum(0), ZERO),
    "exclusive": (make("CumSum", ["a", "zero"], ["y"], exclusive=1), lambda a: a.cumsum(0) - a, ZERO),
    "border": (make("Pad", ["a", "up"], ["y"]), lambda a: [a, 0 * a], UP),
    "border of 7": (make("Pad", ["a", "up", "seven"], ["y"]), lambda a: [a, 0 * a + 7], UP | SEVEN),
    "edge": (make("Pad", ["a", "up"], ["y"], mode="edge"), lambda a: a, UP),
    "read": (make("Gather", ["a", "row"], ["y"]), lambda a: a[:1], ROW),
}
RANGES = [(-2, 1), (0, 1), (1, 2), (-3, -1), (-1, 2)]


@pytest.mark.thinned(10)
@pytest.mark.parametrize("ranges", [*zip(RANGES, RANGES[1:] + RANGES[:1], strict=True)], ids=str)
@pytest.mark.parametrize("name", RANGED)
def test_the_range_of_results_is_exact(name, ranges):
    """Numbers that can just reach the limits of 32 bits are taken, those that can go beyond by one are refused."""
    node, oracle, constants = RANGED[name]
    every = [np.stack(np.meshgrid(*[np.arange(low, high + 1)] * 4)).reshape(2, 2, -1) for low, high in ranges]
    operands = (every[0][..., None], every[1][..., None, :])[: 1 + ("b" in node.input)]
    results = oracle(*operands)
    low, high = (f([f(part) for part in results]) for f in (np.min, np.max))
    ends = {
        f"{x}_{end}": np.int64([[n]])
        for x, r in zip("ab", ranges, strict=True)
        for end, n in (("low", r[0]), ("high", r[1]))
    }
    zeros = np.zeros((2, 2), np.int32)
    nodes = [make("Max", ["ids", f"{x}_low"], [f"{x}_least"]) for x in "ab"]
    nodes += [make("Min", [f"{x}_least", f"{x}_high"], [x]) for x in "ab"]
    nodes += [node, make("Add", ["y", "c"], ["z"]), make("Add", ["z", "rest"], ["sum"])]
    for limit, bound, beyond in ((2**31 - 1, high, 1), (-(2**31), low, -1)):
        for total, fits in ((limit - bound, True), (limit - bound + beyond, False)):
            c = np.clip(total, -(2**31), 2**31 - 1)
            added = {"c": np.int64([[c]]), "rest": np.int64([[total - c]])}
            proto = model(nodes, {"ids": zeros.astype(np.int64), "mask": zeros == 0}, ["sum"], ends | constants | added)
            assert is_taken(to_jax(proto, int32=["ids"]), zeros, zeros == 0) == fits, (bound, total)


COMBINED = {
    "Div": quotient,
    "Mod": partial(rest, np.mod),
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


@pytest.mark.parametrize("name", COMBINED)
def test_random_ranges_hold_all_results(name, exhaustive):
    """Every pair of numbers from two random ranges; that of a quotient is exact."""
    node = Reader({"": 20}).step(make(name, ["a", "b"], ["y"]))
    rng = np.random.default_rng(0)
    for _ in range(2000 if exhaustive else 100):
        ends = np.sort(rng.integers(-9, 10, (2, 2)), 1)
        pairs = np.stack(np.meshgrid(*(np.arange(low, high + 1) for low, high in ends))).reshape(2, -1)
        a, b = np.pad(pairs, ((0, 0), (0, 19 * 19 - pairs.shape[1])), "edge")
        ranges = map(tuple, ends.tolist())
        operands = [Bounded(jax.numpy.asarray(x, np.int32), r) for x, r in zip((a, b), ranges, strict=True)]
        (y,) = compute_bounded(node, operands)
        results = COMBINED[name](a, b)
        np.testing.assert_array_equal(y.array, results)
        least, greatest = results.min(), results.max()
        assert y.range[0] <= least <= greatest <= y.range[1]
        assert name != "Div" or y.range == (least, greatest)


MASKS = {
    "int32": [make("Cast", ["is_word"], ["mask"], to=TensorProto.INT32), make("CumSum", ["mask", "one"], ["at"])],
    "int64": [
        make("Cast", ["is_word"], ["mask"], to=TensorProto.INT32),
        make("Cast", ["mask"], ["wide"], to=TensorProto.INT64),
        make("CumSum", ["wide", "one"], ["sum"]),
        make("Cast", ["sum"], ["at"], to=TensorProto.INT32),
    ],
}


@pytest.mark.parametrize("added_as", MASKS)
def test_positions_of_words_fit(added_as):
    """RoBERTa's: a mask is added up as int32, made int64, and the number of the padding is added."""
    nodes = [
        make("Equal", ["ids", "pad"], ["is_pad"]),
        make("Not", ["is_pad"], ["is_word"]),
        *MASKS[added_as],
        make("Mul", ["at", "mask"], ["masked"]),
        make("Cast", ["masked"], ["offset"], to=TensorProto.INT64),
        make("Add", ["offset", "pad"], ["positions"]),
        make("Gather", ["table", "positions"], ["y"]),
    ]
    ids = np.int64([[0, 5, 6, 2, 1], [0, 4, 1, 1, 1]])
    constants = {"pad": np.int64(1), "one": np.int64(1), "table": TABLE}
    function = to_jax(model(nodes, {"ids": ids}, ["y"], constants), int32=["ids"])
    is_word = ids != 1
    assert_same_bits(jax.jit(function)(ids.astype(np.int32)), TABLE[is_word.cumsum(1) * is_word + 1])


def test_ranges_of_narrow_integers_are_forgotten_where_they_wrap():
    """int32 that overflows is no error, and may be any number then; so may sums with numbers of unknown size."""
    nodes = [
        make("Cast", ["b"], ["x"], to=TensorProto.INT32),
        make("Mul", ["x", "most"], ["large"]),
        make("Add", ["large", "large"], ["wrapped"]),
        make("Add", ["x", "n"], ["unknown"]),
    ]
    constants = {"most": np.int32(2**31 - 1), "one": np.int64(1)}
    inputs = {"b": np.array([True, False]), "n": np.int32([2**31 - 1, 0])}
    wrapped = to_jax(model(nodes, inputs, ["wrapped", "unknown", "large"], constants))
    for made, wanted in zip(jax.jit(wrapped)(*inputs.values()), ([-2, 0], [-(2**31), 0], [2**31 - 1, 0]), strict=True):
        assert_same_bits(made, np.int32(wanted))
    for name, fits in (("x", True), ("large", False), ("wrapped", False), ("unknown", False)):
        wide = [*nodes, make("Cast", [name], ["w"], to=TensorProto.INT64), make("Add", ["w", "one"], ["y"])]
        assert (outcome(to_jax(model(wide, inputs, ["y"], constants)), *inputs.values()) is not None) == fits


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
