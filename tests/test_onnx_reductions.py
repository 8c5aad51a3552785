"""ONNX's reductions: against its reference in float64 and ONNX Runtime, of integers, of nothing, in every version."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model
from onnx_calls import (
    assert_derivatives,
    assert_like,
    assert_rounded_once,
    assert_vmap_is_a_loop,
    call,
    computed,
    gradients,
    ran,
    referred,
    run,
)

from dml_jax.onnx import NotConstantError, OnnxError, reductions, to_jax

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 1.6, (3, 4, 5))
FLAT, NOOP = {"keepdims": 0}, {"noop_with_empty_axes": 1}
AXES = [((0,), {}), ((1, -1), FLAT), ((0, 1, 2), FLAT), ((), {}), ((), NOOP)]
REDUCTIONS = sorted(name for name in reductions.OPERATORS if name.startswith("Reduce"))
CALLS = [call(name, X, np.int64(axes), given=(1,), **more) for name in REDUCTIONS for axes, more in AXES]
TIES = np.rint(X)
PLACES = [
    call(name, TIES, axis=axis, keepdims=keepdims, select_last_index=last)
    for name in ("ArgMax", "ArgMin")
    for axis, keepdims, last in ((0, 1, 0), (1, 0, 1), (-1, 1, 1))
]


def test_the_tables_have_every_row():
    assert {one.op_type for one in (*CALLS, *PLACES)} == set(reductions.OPERATORS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16], [np.float16]))
def test_floats_are_rounded_once(dtype):
    assert_rounded_once(CALLS + PLACES, np.dtype(dtype), 16)


def test_many_narrow_numbers_are_added_in_float32():
    """In float16 the sum would end at 2048."""
    x = np.ones(5000, np.float16)
    names = ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    made = computed([call(name, x) for name in names])
    for y, wanted in zip(made, (5000, 1, 5000, np.sqrt(5000), 5000), strict=True):
        assert_same_bits(y, np.full(1, wanted, np.float16))


@pytest.mark.exhaustive
def test_float64_is_not_narrowed():
    assert_like(CALLS + PLACES, computed(CALLS + PLACES), referred(CALLS + PLACES), rtol=1e-13)


@pytest.mark.exhaustive
def test_derivatives_are_those_of_differences():
    shift = dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), 0)
    assert_derivatives([call(name, X - shift.get(name, 1), np.int64([0, 2]), given=(1,)) for name in REDUCTIONS])


@pytest.mark.exhaustive
def test_vmap_is_a_loop():
    assert_vmap_is_a_loop(CALLS + PLACES)


INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.parametrize("dtype", sampled(INTEGERS, [np.int32]))
def test_integers_wrap(dtype):
    """But by the mean and the roots, which are cut off."""
    limits = np.iinfo(dtype)
    x = np.array([[1, 2, limits.max], [3, 4, 5], [limits.min, 7, 100]], dtype)
    names = ("ReduceL1", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
    calls = [call(name, x, np.int64([1]), given=(1,)) for name in names]
    for one, actual, wanted in zip(calls, computed(calls), referred(calls), strict=True):
        assert actual.dtype == dtype
        np.testing.assert_array_equal(actual, wanted.astype(dtype), err_msg=str(one))
    small = np.array([[3, 4, 12], [1, 2, 2], [9, 9, 9]], dtype)
    roots = [call(name, small, np.int64([1]), given=(1,)) for name in ("ReduceL2", "ReduceMean", "ReduceLogSum")]
    for y, wanted in zip(computed(roots, 18), ([13, 3, 15], [6, 1, 9], [2, 1, 3]), strict=True):
        assert_same_bits(y, np.array(wanted, dtype)[:, None])


def test_the_mean_of_negative_integers_is_cut_off():
    assert_same_bits(run("ReduceMean", np.int32([-3, -4])), np.int32([-3]))


def test_bools():
    x = np.array([[True, False], [True, True], [False, False]])
    assert_same_bits(run("ReduceMax", x, np.int64([1]), given=(1,), keepdims=0), np.array([True, True, False]))
    assert_same_bits(run("ReduceMin", x, np.int64([1]), given=(1,), keepdims=0), np.array([False, True, False]))
    assert_same_bits(run("ReduceMax", x[:, :0], np.int64([1]), given=(1,), keepdims=0), np.array([False] * 3))
    assert_same_bits(run("ReduceMin", x[:, :0], np.int64([1]), given=(1,), keepdims=0), np.array([True] * 3))


OF_NOTHING = {
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare"), 0),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp", "ReduceMax"), -np.inf),
    "ReduceMean": np.nan,
    "ReduceMin": np.inf,
    "ReduceProd": 1,
}


def test_of_nothing():
    calls = [call(name, np.zeros((2, 0, 3), np.float32), np.int64([1]), given=(1,)) for name in REDUCTIONS]
    for one, y in zip(calls, computed(calls), strict=True):
        np.testing.assert_array_equal(y, np.full((2, 1, 3), OF_NOTHING[one.op_type], np.float32), err_msg=str(one))
    empty = np.zeros((0, 2), np.int32)
    for name, wanted in (("ReduceMax", -(2**31)), ("ReduceMin", 2**31 - 1), ("ReduceMean", 0), ("ReduceSum", 0)):
        assert_same_bits(run(name, empty, np.int64([0]), given=(1,)), np.full((1, 2), wanted, np.int32))
    assert run("ReduceMax", empty, np.int64([1]), given=(1,)).shape == (0, 1)


def test_special_values_are_those_of_onnx_runtime():
    rows = np.float32([[1, np.nan, 2], [1e30, -1e30, 0], [-np.inf, 1, 2], [1, np.inf, 2], [np.inf, -np.inf, 0]])
    oracles = {"ReduceMax": referred, "ReduceMin": referred, "ReduceLogSumExp": None}  # NaNs and infinities are lost
    for oracle in (ran, referred):
        names = [name for name in REDUCTIONS if oracles.get(name, ran) is oracle]
        calls = [call(name, rows, np.int64([1]), given=(1,)) for name in names]
        assert_like(calls, computed(calls, 20), oracle(calls, 20), rtol=1e-6)
    (y,) = computed([call("ReduceLogSumExp", rows, np.int64([1]), given=(1,))])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y[:, 0], np.logaddexp.reduce(np.float64(rows), 1), rtol=1e-6)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_a_nan_is_the_first_extreme(op_type):
    x = np.float32([[1, np.nan, np.nan], [1, 0, 1]])
    first, last = ([1, 0], [2, 2]) if op_type == "ArgMax" else ([1, 1], [2, 1])
    assert_same_bits(run(op_type, x, axis=1, keepdims=0), np.int64(first))
    assert_same_bits(run(op_type, x, axis=1, keepdims=0, select_last_index=1), np.int64(last))


# Where several are extreme they share the derivative; where a norm is 0 it is 0.
CORNERS = [
    (call("ReduceMax", [1.0, 3.0, 3.0]), [0, 0.5, 0.5]),
    (call("ReduceMin", [1.0, 1.0, 3.0]), [0.5, 0.5, 0]),
    (call("ReduceL1", [0.0, -2.0]), [0, -1]),
    (call("ReduceL2", [0.0, 0.0]), [0, 0]),
    (call("ReduceProd", [0.0, 2.0, 3.0]), [6, 0, 0]),
    (call("ReduceProd", [0.0, 0.0, 3.0]), [0, 0, 0]),
    (call("ReduceLogSumExp", [-np.inf, 0.0, 0.0]), [0, 0.5, 0.5]),
    (call("ReduceLogSumExp", [1000.0, -1000.0]), [1, 0]),
]


def test_derivatives_at_corners_are_numbers():
    for (one, wanted), (made,) in zip(CORNERS, gradients([one for one, _ in CORNERS]), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12, err_msg=str(one))


# Versions, constants, mistakes.


def test_axes_were_an_attribute():
    calls = [call(name, np.float32(X), **a) for name in REDUCTIONS for a in ({"axes": [-1, 0]}, FLAT)]
    assert_like(calls, computed(calls, 11), ran(calls, 11), rtol=1e-5)


def test_scalars():
    assert all(y.shape == () for y in computed([call(name, np.float32(2)) for name in REDUCTIONS]))


def test_size_and_reductions_of_shapes_are_constants():
    """A number of elements decides a shape, in every way that exporters write it."""
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ReduceProd", ["s"], ["p"], keepdims=0),
        helper.make_node("ReduceMax", ["s"], ["m"]),
        helper.make_node("Sub", ["n", "p"], ["zero"]),
        helper.make_node("Add", ["m", "zero"], ["sizes"]),
        helper.make_node("Expand", ["x", "sizes"], ["y"]),
    ]
    x = np.zeros((2, 1), np.float32)
    assert jax.jit(to_jax(model(nodes, {"x": x}, ["y"])))(x).shape == (2, 2)


BROKEN = [
    ("ReduceSum", [X, np.int64([3])], {}, r"axes must be in \[-3, 2\], but it is 3"),
    ("ReduceSum", [X, np.int64([0, -3])], {}, "axes must differ from each other"),
    ("ArgMax", [X], {"axis": 3}, r"axis must be in \[-3, 2\], but it is 3"),
    ("ArgMin", [X[:0]], {}, r"data must have elements along axis 0, but its shape is \(0, 4, 5\)"),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "message"), BROKEN)
def test_mistakes_are_named(op_type, inputs, attributes, message):
    with pytest.raises(OnnxError, match=message):
        run(op_type, *inputs, given=range(1, 2), **attributes)


def test_data_must_not_decide_axes():
    arrays = {"x": np.float32(X), "axes": np.int64([1])}
    function = to_jax(model([helper.make_node("ReduceSum", list(arrays), ["y"])], arrays, ["y"]))
    with jax.enable_x64(True):
        with pytest.raises(NotConstantError, match="because it decides axes, but it depends on the data"):
            jax.jit(function)(*arrays.values())
        assert function(*arrays.values()).shape == (3, 1, 5)
