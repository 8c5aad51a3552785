"""ONNX's Unique, beside ONNX Runtime."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import assert_same_values, helper, model, runtime
from onnx_one_node import assert_as_runtime, assert_refused, shape

from dml_jax import DataTypeError
from dml_jax.onnx import NotConstantError, OnnxError, to_jax

TYPES = (np.float32, np.float64, np.int64, np.int8, np.float16)


@pytest.mark.parametrize("seed", sampled(range(30), [2, 10]))
def test_unique_is_that_of_onnx_runtime(seed):
    """All outputs or fewer, of a flat array or along an axis, sorted or as they come."""
    rng = np.random.default_rng(seed)
    sizes = shape(rng, 0 if seed % 2 else 1, 3)
    x = rng.integers(-1, 2, sizes).astype(TYPES[seed % 5])
    attributes = {} if seed % 2 else {"axis": int(rng.integers(-len(sizes), len(sizes)))}
    attributes |= {"sorted": seed // 4 % 2} if seed % 3 else {}
    assert_as_runtime("Unique", [x], 1 + seed % 4, opset=11, static={0}, **attributes)


@pytest.mark.parametrize("sizes", sampled([(0, 3), (0,)], [(0, 3)]))
def test_of_nothing(sizes):
    assert_as_runtime("Unique", [np.zeros(sizes, np.float32)], 4, opset=11, static={0})


def test_the_elements_must_be_known():
    node = helper.make_node("Unique", ["x"], ["y"])
    x = np.float32([2, 1, 2])
    constant = to_jax(model([node], {}, ["y"], {"x": x}, opset=11))
    assert not constant.parameters
    np.testing.assert_array_equal(jax.jit(constant)(), [1, 2])
    function = to_jax(model([node], {"x": x}, ["y"], opset=11))
    np.testing.assert_array_equal(function(x), [1, 2])
    with pytest.raises(NotConstantError) as caught:
        jax.jit(function)(x)
    assert str(caught.value) == (
        "Unique node #0: x must be known under jax.jit, because it decides how many elements differ, but it depends on "
        "the data of an input, or on a parameter that is given; to_jax(model, maximum={'y': 100}) states 100"
    )


def test_an_axis_that_is_not_there():
    assert_refused("axis must be in [-1, 0], but it is 1", "Unique", [np.zeros(3, np.float32)], opset=11, axis=1)


# Up to a stated number of elements.

OUTPUTS = ["y", "first", "inverse", "counts"]


def padded(results, x, axis, most):
    """What NumPy or ONNX Runtime finds, cut or filled to `most` elements."""
    y, first, inverse, counts = results
    room = x.size if axis is None else x.shape[axis]
    rest, along = max(0, most - len(counts)), (axis or 0) % y.ndim
    y = np.pad(y, [(0, rest if d == along else 0) for d in range(y.ndim)])
    first, counts = np.pad(first, (0, rest), constant_values=room), np.pad(counts, (0, rest))
    return np.take(y, range(most), along), first[:most], inverse, counts[:most]


@pytest.mark.parametrize("most", sampled([0, 2, 30], [2]))
@pytest.mark.parametrize("seed", sampled(range(24), [3, 4]))
def test_a_maximum_makes_the_size_known(seed, most, exhaustive):
    """Of data: elements and counts after the last one are 0, and their first indices the size, as of a NonZero."""
    rng = np.random.default_rng(seed)
    sizes = shape(rng, 0 if seed % 2 else 1, 3)
    x = rng.integers(-1, 2, sizes).astype(TYPES[seed % 5])
    axis = None if seed % 2 else int(rng.integers(-len(sizes), len(sizes)))
    how = ({} if axis is None else {"axis": axis}) | ({"sorted": 0} if seed % 3 == 1 else {})
    proto = model([helper.make_node("Unique", ["x"], OUTPUTS, **how)], {"x": x}, OUTPUTS, opset=11)
    expected = padded(runtime(proto, {"x": x}), x, axis, most)
    function = to_jax(proto, maximum={"y": most})
    with jax.enable_x64(True):
        for results in [jax.jit(function)(x)] + [function(x)] * exhaustive:
            for y, wanted in zip(results, expected, strict=True):
                assert_same_values(y, wanted)


def test_64_bits_without_x64():
    """The indices are int32, as their number is known; so are declared ids, whose range has the zeros after them."""
    ids = np.int32([7, 5, 7])
    node = helper.make_node("Unique", ["x"], OUTPUTS)
    found = to_jax(model([node], {"x": ids.astype(np.int64)}, OUTPUTS), int32=["x"], maximum={"y": 3})
    for results in (jax.jit(found)(ids), found(ids)):
        for y, wanted in zip(results, ([5, 7, 0], [1, 0, 3], [1, 0, 1], [1, 2, 0]), strict=True):
            assert_same_bits(y, np.int32(wanted))
    known = to_jax(model([node], {"x": ids.astype(np.int64)}, OUTPUTS), int32=["x"])
    for y, wanted in zip(known(ids), ([5, 7], [1, 0], [1, 0, 1], [1, 2]), strict=True):
        assert_same_bits(y, np.int32(wanted))
    nodes = [
        helper.make_node("Max", ["x", "ten"], ["a"]),
        helper.make_node("Unique", ["a"], ["b"]),
        helper.make_node("Sub", ["b", "most"], ["c"]),
        helper.make_node("Sub", ["c", "eight"], ["y"]),
    ]
    constants = {"ten": np.int64([10]), "most": np.int64([2**31 - 1]), "eight": np.int64([8])}
    proto = model(nodes, {"x": ids.astype(np.int64)}, ["y"], constants)
    with pytest.raises(DataTypeError, match="must fit 32 bits"):
        jax.jit(to_jax(proto, int32=["x"], maximum={"b": 3}))(ids)


def test_bits_and_nothing():
    """-0.0 equals 0.0, and the first one of them is taken; all NaNs are one element."""
    x = np.float32([0.0, np.nan, -0.0, -1, np.nan])
    node = helper.make_node("Unique", ["x"], OUTPUTS, sorted=0)
    proto = model([node], {"x": x}, OUTPUTS)
    for most in (4, 9):
        results = jax.jit(to_jax(proto, maximum={"y": most}))(x)
        for y, wanted in zip(results, padded(to_jax(proto)(x), x, None, most), strict=True):
            assert_same_bits(y, np.asarray(wanted))
    nothing = to_jax(model([node], {"x": np.zeros((0, 3), np.float32)}, OUTPUTS), maximum={"y": 2})
    assert [y.shape for y in jax.jit(nothing)(np.zeros((0, 3), np.float32))] == [(2,), (2,), (0,), (2,)]


@pytest.mark.parametrize("names", [["", "f"], ["", "", "f", "c"], ["", "", "", "f"]])
def test_the_first_output_that_is_there_states_the_size(names):
    x = np.float32([2, 1, 2, 3])
    proto = model([helper.make_node("Unique", ["x"], names)], {"x": x}, list(filter(None, names)))
    with pytest.raises(NotConstantError, match=r"maximum=\{'f': 100\}"):
        jax.jit(to_jax(proto))(x)
    results = jax.tree.leaves(jax.jit(to_jax(proto, maximum={"f": 2}))(x))
    whole = dict(zip(OUTPUTS, ([1, 2], [1, 0], [1, 0, 1, 2], [1, 2]), strict=True))
    expected = [whole[output] for output, name in zip(OUTPUTS, names, strict=False) if name]
    for y, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(y, wanted)


def test_another_output_states_no_size():
    x = np.float32([2, 1, 2, 3])
    proto = model([helper.make_node("Unique", ["x"], OUTPUTS)], {"x": x}, OUTPUTS)
    with pytest.raises(OnnxError, match="NonZero, Unique: y, but it has 'counts'"):
        to_jax(proto, maximum={"counts": 2})


@pytest.mark.parametrize(
    "x",
    [
        np.float32([[1, np.nan], [0, 1], [1, np.nan], [np.nan, 2], [np.nan, 1], [np.nan, 1]]),
        np.float32([1, np.nan, 0, np.nan]),
        np.zeros((3, 0), np.float32),
        np.zeros((2, 0, 3), np.float32),
        np.zeros((0, 2), np.float32),
    ],
    ids=lambda x: str(x.shape),
)
@pytest.mark.parametrize("how", [{}, {"sorted": 0}])
def test_slices_of_nan_and_of_nothing(x, how):
    """With a maximum and without: a slice with a NaN equals no other one, and slices without elements are equal."""
    proto = model([helper.make_node("Unique", ["x"], OUTPUTS, axis=0, **how)], {"x": x}, OUTPUTS)
    for most in (1, 9):
        results = jax.jit(to_jax(proto, maximum={"y": most}))(x)
        for y, wanted in zip(results, padded(to_jax(proto)(x), x, 0, most), strict=True):
            assert_same_values(y, wanted)


def test_gradients_reach_the_first_of_equal_elements():
    x = np.float32([3, 1, 3, 2, 1])
    weights = np.float32([5, 7, 11, 13, 0])  # of 1, 2, 3, and two zeros
    function = to_jax(model([helper.make_node("Unique", ["x"], ["y"])], {"x": x}, ["y"]), maximum={"y": 5})
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: function(x) @ weights))(x), [11, 5, 0, 7, 0])
    np.testing.assert_array_equal(jax.jit(jax.vmap(function))(np.stack([x, x[::-1]])), [[1, 2, 3, 0, 0]] * 2)


def test_weights_before_it_are_parameters():
    """If the size is stated: else the data, and so the weights, must be known."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("Unique", ["s"], ["y"])]
    proto = model(nodes, {"x": np.eye(2, dtype=np.float32)}, ["y"], {"w": np.ones((2, 3), np.float32)})
    assert not to_jax(proto).parameters
    assert list(to_jax(proto, maximum={"y": 3}).parameters) == ["w"]
