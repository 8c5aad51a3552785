"""ONNX's GridSample and Compress: against ONNX Runtime and NumPy."""

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import assert_same_values, helper, model, runtime

from dml_jax import DataTypeError
from dml_jax.onnx import Backend, NotConstantError, OnnxError, run_node, to_jax

SHAPES = [((2, 3, 4, 5), (2, 6, 7, 2)), ((1, 2, 1, 3), (1, 4, 5, 2)), ((2, 1, 4, 5, 3), (2, 4, 3, 5, 3))]
MODES = ["linear", "nearest", "cubic"]
PADDINGS = ["zeros", "border", "reflection"]


def numbers(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * 1.5).astype(dtype)


CASES = [*itertools.product(SHAPES[:2], MODES), *itertools.product(SHAPES[2:], MODES[:2])]


@pytest.mark.parametrize("which", sampled(range(len(CASES)), [1]))
def test_grid_sample_is_that_of_onnx_runtime(which):
    """Which has no cubic one of more than two dimensions."""
    (shape, points), mode = CASES[which]
    nodes, x, grid = [], numbers(*shape), numbers(*points, seed=1)
    for padding, aligns in itertools.product(PADDINGS, (0, 1)):
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": aligns}
        nodes.append(helper.make_node("GridSample", ["x", "grid"], [f"y{len(nodes)}"], **attributes))
    inputs = {"x": x, "grid": grid}
    proto = model(nodes, inputs, [node.output[0] for node in nodes], opset=20)
    for node, y, wanted in zip(nodes, Backend.run_model(proto, [x, grid]), runtime(proto, inputs), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5, err_msg=str(node.attribute))


@pytest.mark.exhaustive
def test_grid_sample_at_the_elements():
    """Aligned corners make -1 and 1 the outermost elements; names of modes of opset 16 too, and far positions."""
    x = numbers(1, 2, 3, 4)
    y, z = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3))
    grid = np.stack([y, z], -1)[None].astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        node = helper.make_node("GridSample", ["x", "grid"], ["y"], align_corners=1, mode=mode)
        np.testing.assert_allclose(run_node(node, [x, grid], opset=16)[0], x, rtol=1e-5, atol=1e-6)
        far = run_node(node, [x, np.full_like(grid, 1e30)], opset=16)[0]
        np.testing.assert_array_equal(far, np.zeros_like(x))


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_grid_sample_is_rounded_once(dtype):
    """Of positions in float32."""
    x, grid = numbers(2, 3, 4, 5, dtype=dtype), numbers(2, 6, 7, 2, seed=1)
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode="border")
    with jax.enable_x64(True):
        (y,) = run_node(node, [x, grid])
        (exact,) = run_node(node, [x.astype(np.float64), grid.astype(np.float64)])
    assert y.dtype == dtype
    np.testing.assert_allclose(y, exact, rtol=0.51 * float(ml_dtypes.finfo(dtype).eps), atol=1e-5)


@pytest.mark.exhaustive
def test_grid_sample_moves_other_types_to_the_nearest():
    x = np.arange(12, dtype=np.int8).reshape(1, 1, 3, 4)
    grid = np.float32([[[[-1, -1], [1, 1]]]])
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest", align_corners=1)
    assert_same_values(run_node(node, [x, grid])[0], np.int8([[[[0, 11]]]]))


def test_numbers_between_integers_are_refused():
    x, grid = np.zeros((1, 1, 3, 4), np.int8), np.zeros((1, 1, 1, 2), np.float32)
    with pytest.raises(
        DataTypeError, match=r'input.dtype must be a floating-point type unless mode is "nearest", but it is int8'
    ):
        run_node(helper.make_node("GridSample", ["x", "grid"], ["y"]), [x, grid])


@pytest.mark.exhaustive
@pytest.mark.parametrize("padding", PADDINGS)
def test_derivatives_are_those_of_differences(padding):
    x, grid = numbers(1, 2, 4, 5), numbers(1, 2, 3, 2, seed=1)
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode=padding)
    function = jax.jit(to_jax(model([node], {"x": x, "grid": grid}, ["y"])))
    check_grads(function, (x, grid), 1, modes=["rev"], eps=1e-3, atol=5e-2, rtol=5e-2)


@pytest.mark.parametrize(
    ("attributes", "shapes", "message"),
    [
        ({"mode": "area"}, [(1, 1, 2, 2), (1, 2, 2, 2)], "mode must be one of bilinear"),
        (
            {"padding_mode": "wrap"},
            [(1, 1, 2, 2), (1, 2, 2, 2)],
            "padding_mode must be one of 'zeros', 'border', 'reflection'",
        ),
        ({}, [(1, 1, 2, 2), (1, 2, 2, 3)], "one per spatial dimension of input, but there are 3 for 2"),
        ({}, [(1, 1, 2, 2), (2, 2, 2, 2)], "grid.sizes[0] must equal input.sizes[0], but they are 1 and 2"),
        ({}, [(1, 1, 0, 2), (1, 2, 2, 2)], "a channel of input must have from 1 to 2**30 - 1 elements"),
    ],
)
def test_what_does_not_fit(attributes, shapes, message):
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(OnnxError) as caught:
        run_node(helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes), inputs)
    assert message in str(caught.value)


# Compress.


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("length", [2, 3])
def test_compress_is_that_of_onnx_runtime(axis, length):
    x, holds = numbers(3, 4), np.array([False, True, True][:length])
    node = helper.make_node("Compress", ["x", "c"], ["y"], **({} if axis is None else {"axis": axis}))
    (wanted,) = runtime(model([node], {"x": x, "c": holds}, ["y"], opset=11), {"x": x, "c": holds})
    assert_same_values(run_node(node, [x, holds], opset=11)[0], wanted)


def test_a_condition_decides_a_size():
    x, holds = numbers(3, 4), np.array([False, True])
    node = helper.make_node("Compress", ["x", "c"], ["y"])
    function = to_jax(model([node], {"x": x}, ["y"], {"c": holds}))
    assert_same_values(jax.jit(function)(x), x.ravel()[1:2])
    with pytest.raises(NotConstantError, match="condition must be known under"):
        jax.jit(to_jax(model([node], {"x": x, "c": holds}, ["y"])))(x, holds)
    with pytest.raises(OnnxError, match=r"condition must be 1-D, of at most 12 elements, but its shape is \(13,\)"):
        run_node(node, [x, np.ones(13, bool)])
