"""ONNX's RoiAlign and MaxRoiPool, beside ONNX Runtime."""

import jax
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import one_node, runtime
from onnx_one_node import assert_as_runtime, assert_refused, computed, shape

from dml_jax.onnx import to_jax

SEEDS = sampled(range(30), [2, 21])


def drawn(seed, dtype=np.float32):
    """Pictures, and regions which lie in them in part, some of which have no length; no larger than the pictures."""
    rng = np.random.default_rng(seed)
    n, channels, *_ = shape(rng, 4, 4)
    height, width = rng.integers(3, 12, 2)
    x = rng.standard_normal((n, channels, height, width)).astype(dtype)
    starts = rng.uniform(-0.5, 0.7, (6, 2)) * [width, height]
    ends = starts + rng.uniform(0, 0.9, (6, 2)) * [width, height] * (rng.random((6, 1)) < 0.8)
    scale = float(rng.choice([1, 0.5, 2, 0.3]))
    rois = (np.concatenate([starts, ends], 1) / scale).astype(dtype)
    return rng, x, rois, rng.integers(0, n, 6), scale


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("opset", sampled([10, 16], [16]))
def test_roi_align_is_that_of_onnx_runtime(opset, seed):
    rng, x, rois, pictures, scale = drawn(seed)
    attributes = {"output_height": int(rng.integers(1, 5)), "output_width": int(rng.integers(1, 5))}
    attributes |= {"sampling_ratio": int(rng.integers(1, 4))} if seed % 3 else {}
    attributes |= {"spatial_scale": scale, "mode": ("avg", "max")[seed % 2]}
    if opset >= 16 and seed % 5:
        attributes["coordinate_transformation_mode"] = ("half_pixel", "output_half_pixel")[seed // 2 % 2]
    assert_as_runtime("RoiAlign", [x, rois, pictures], opset=opset, units=64, **attributes)


@pytest.mark.parametrize("seed", sampled(range(30), [1]))
def test_max_roi_pool_is_that_of_onnx_runtime(seed):
    rng, x, rois, pictures, scale = drawn(seed)
    rois = np.concatenate([pictures[:, None].astype(np.float32), rois], 1)
    sizes = rng.integers(1, 5, 2).tolist()
    assert_as_runtime("MaxRoiPool", [x, rois], opset=16, pooled_shape=sizes, spatial_scale=scale)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_narrow_floats_are_rounded_once(mode):
    _, x, rois, pictures, _ = drawn(3, np.float16)
    (y,) = computed("RoiAlign", [x, rois, pictures], opset=22, output_height=3, output_width=2, mode=mode)
    given = [x.astype(np.float64), rois.astype(np.float64), pictures]
    (wanted,) = computed("RoiAlign", given, opset=22, output_height=3, output_width=2, mode=mode)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, wanted, rtol=0.51 * 2**-10, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_derivatives_are_those_of_differences(mode):
    _, x, rois, pictures, _ = drawn(7)
    model, named = one_node("RoiAlign", [x, rois, pictures], opset=16, output_height=2, output_width=2, mode=mode)
    with jax.enable_x64(True):
        function = to_jax(model, static={"x1": rois, "x2": pictures})
        check_grads(jax.jit(function), (named["x0"],), 1, modes=["rev"], atol=1e-2, rtol=1e-2)


def test_pictures_of_regions_may_be_data_of_32_bits():
    """While x64 is off."""
    _, x, rois, pictures, _ = drawn(2)
    model, named = one_node("RoiAlign", [x, rois, pictures], opset=16, sampling_ratio=1)
    y = jax.jit(to_jax(model, int32=["x2"]))(x, rois, pictures.astype(np.int32))
    np.testing.assert_allclose(y, *runtime(model, named), rtol=1e-5, atol=1e-5)


X, ROIS, PICTURES = np.zeros((1, 2, 5, 5), np.float32), np.zeros((3, 4), np.float32), np.zeros(3, np.int64)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, ROIS, PICTURES], {"mode": "min"}, "mode must be avg or max"),
        ([X, ROIS, PICTURES], {"sampling_ratio": -1}, "sampling_ratio >= 0, but they are 'avg', 'half_pixel', -1"),
        ([X[0], ROIS, PICTURES], {}, "x must be (N, C, H, W) and rois (R, 4), but they are (2, 5, 5) and (3, 4)"),
        ([X, ROIS[:, :3], PICTURES], {}, "rois.sizes must be (R, 4), but it is (3, 3)"),
        ([X, ROIS, PICTURES[:2]], {}, "batch_indices.sizes must be (R,), as of rois, but they are (2,) and (3,)"),
    ],
)
def test_what_does_not_fit(inputs, attributes, message):
    assert_refused(message, "RoiAlign", inputs, by_runtime=True, opset=16, **attributes)


def test_an_unknown_transformation_is_refused():
    """ONNX Runtime takes every name but half_pixel for the other one."""
    message = "coordinate_transformation_mode half_pixel or output_half_pixel"
    assert_refused(message, "RoiAlign", [X, ROIS, PICTURES], opset=16, coordinate_transformation_mode="aligned")
