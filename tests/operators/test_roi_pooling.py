"""roi_pooling and ROI_POOLING: regions of pictures, cell by cell."""

import math
from fractions import Fraction
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, together
from operator_cases import Call, Example, Struct, f32
from refusals import refuses
from small_arrays import numbered

from dml_jax import ConstraintError, DataTypeError, roi_pooling
from dml_jax.descs import RoiPoolingDesc

pytestmark = pytest.mark.device


def rounded(x):
    """Halves away from 0."""
    return math.floor(x + Fraction(1, 2)) if x >= 0 else -rounded(-x)


def oracle(input, rois, output_sizes, spatial_scale=1):
    """In exact numbers, cell by cell, of all channels at once."""
    output = np.zeros((len(rois), input.shape[1], *output_sizes), input.dtype)
    for r, (picture, *corners) in enumerate(rois):
        cells = []
        for d, (grid, size) in enumerate(zip(output_sizes, input.shape[2:], strict=True)):
            first, last = (
                rounded(Fraction(float(corners[one])) * Fraction(float(spatial_scale))) for one in (1 - d, 3 - d)
            )
            n = max(last - first + 1, 1)
            edges = [(first + k * n // grid, first + -(-(k + 1) * n // grid)) for k in range(grid)]
            cells.append([slice(max(start, 0), min(max(end, 0), size)) for start, end in edges])
        for (i, rows), (j, columns) in product(*map(enumerate, cells)):
            numbers = input[int(picture), :, rows, columns]
            output[r, :, i, j] = numbers.max(axis=(1, 2)) if numbers.size else 0
    return output


X = numbered((3, 2, 4, 4)) - 40
REGIONS = np.float32([[0, 0, 0, 2, 2], [1, 1, 0, 3, 4], [1, 2, 1, 1, 0]])
CASE = Call(roi_pooling, {"input": X, "rois": REGIONS}, {"output_sizes": (2, 2)}, is_linear=False)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu), "rois": REGIONS.astype(jnp.float8_e8m0fnu)},
    "float(input)": {"input": X.astype(np.int32), "rois": REGIONS.astype(np.int32)},
    "same_dtype(rois, input)": {"rois": REGIONS.astype(np.float16)},
    "pictures(input)": {"input": X[0]},
    "corners(rois)": {"rois": REGIONS[:, :4]},
    "height_and_width(output_sizes)": {"output_sizes": (2,)},
    "each_at_least(output_sizes, 1)": {"output_sizes": (2, 0)},
    "at_most_32768(output_sizes)": {"output_sizes": (2**40, 1)},
}
VARIANTS = {
    "scaled": {"spatial_scale": 0.5, "output_sizes": (3, 1)},
    "float16": {"input": X.astype(np.float16), "rois": REGIONS.astype(np.float16)},
}


# The struct.


def draw(rng):
    n, c, height, width, regions, *grid = (int(k) for k in rng.integers(1, 5, 7))
    return {
        "input": (n, c, height, width),
        "roi": (1, 1, regions, 5),
        "output": (regions, c, *grid),
        "spatial_scale": float(rng.choice([1, 0.5, 1.5])),
        "pooled_size": (grid[1], grid[0]),
    }


def fill(rng, port, tensor, count):
    """Regions of the only picture that all batches have lie anywhere, with corners exchanged and halves."""
    return (rng.integers(-9, 10, count) if port == "input" else rng.integers(0, 2, count) / 2).astype(tensor.dtype)


def expected(desc, input, roi):
    size = desc.pooled_size
    return oracle(input, roi.reshape(-1, 5), (size.height, size.width), desc.spatial_scale)


# ONNX Runtime's numbers.
DESC = RoiPoolingDesc(f32(1, 1, 6, 6), f32(1, 1, 2, 5), f32(2, 1, 2, 2), 1, (2, 2))
STRUCTS = (
    Struct(
        DESC,
        breaks={"regions(roi)": {"roi": f32(1, 2, 1, 5)}, "sizes_follow(output)": {"output": f32(2, 1, 2, 3)}},
        examples=(
            Example(DESC, [range(1, 37), [0, 1, 1, 3, 4, 0, 0.5, 0, 4.5, 9]], [[15, 16, 27, 28, 28, 30, 34, 36]]),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
    ),
)


# Against the oracle.


def test_regions_of_every_kind():
    """Within the picture, beyond its edges, far away, of halves, and those whose corners are exchanged."""
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, (2, 2, 5, 7)).astype(np.float32)
    rois = np.zeros((24, 5), np.float32)
    rois[:, 0] = rng.integers(0, 2, 24)
    rois[:, 1:] = rng.integers(-8, 24, (24, 4)) / 2
    rois[0, 1:], rois[1, 1:] = [-1e30, -1e30, 1e30, 1e30], [0.49999997, 2.5, 100, 3.5]
    attributes = [{"output_sizes": (2, 3)}, {"output_sizes": (1, 7)}, {"output_sizes": (4, 1), "spatial_scale": 0.25}]
    made = together([(partial(roi_pooling, **one), x, rois) for one in attributes])
    near = np.clip(rois, -(2.0**24), 2.0**24)  # as far as an oracle that counts pixels needs
    for found, one in zip(made, attributes, strict=True):
        assert_same_bits(found[1:], oracle(x, near[1:], **one))
    assert_same_bits(made[0][0, :, 0, 0], np.float32([0, 0]))


def test_nan_is_the_greatest():
    x = np.float32([1, np.nan, 3, 4]).reshape(1, 1, 1, 4)
    made = roi_pooling(x, np.float32([[0, 0, 0, 3, 0]]), (1, 2))
    np.testing.assert_array_equal(made.ravel(), np.float32([np.nan, 4]))


def test_onnx_runtime_agrees():
    ort = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    rng = np.random.default_rng(3)
    x = rng.integers(0, 99, (2, 3, 9, 8)).astype(np.float32)
    rois = np.float32([[0, 0.5, 0, 7.5, 6], [1, 2, 3, 5, 8], [1, 1, 2, 3, 8]])
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[3, 2], spatial_scale=0.5)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("r", rois))]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": x, "r": rois})
    assert_same_bits(roi_pooling(x, rois, (3, 2), spatial_scale=0.5), theirs)


# Transformations and meshes.


def test_the_gradient_goes_to_the_maxima_and_to_no_corner():
    x = np.float32([1, 4, 3, 2]).reshape(1, 1, 1, 4)
    rois = np.float32([[0, 0, 0, 3, 0], [0, 1, 0, 1, 0]])
    weights = np.float32([[5, 6], [7, 8]]).reshape(2, 1, 1, 2)
    of_pixels, of_corners = jax.jit(
        jax.grad(lambda x, rois: (roi_pooling(x, rois, (1, 2)) * weights).sum(), argnums=(0, 1))
    )(x, rois)
    assert_same_bits(of_pixels.ravel(), np.float32([0, 5 + 7 + 8, 6, 0]))
    assert_same_bits(of_corners, np.zeros_like(rois))


test_mistakes_are_named = refuses(
    CASE,
    ({"output_sizes": 2}, DataTypeError, "output_sizes must be a sequence"),
    ({"rois": X}, ConstraintError, r"rois.sizes must be \(R, 5\)"),
    ({"spatial_scale": "1"}, DataTypeError, "spatial_scale must be a real number"),
)
