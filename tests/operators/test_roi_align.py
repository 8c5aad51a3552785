"""roi_align, ROI_ALIGN and ROI_ALIGN1: regions of pictures, sample by sample."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, exported, sampled, spread, together
from operator_cases import Call, Example, Struct, f32, u32
from refusals import refuses
from region_cases import draw, exact, exact_gradients, fill
from small_arrays import every_narrow_float, numbered

from dml_jax import ConstraintError, DataTypeError, InterpolationMode, ReduceFunction, roi_align
from dml_jax.descs import RoiAlign1Desc, RoiAlignDesc

pytestmark = pytest.mark.device


def oracle(input, *args, **given):
    return exact(input, *args, **given).astype(input.dtype)


X = numbered((2, 3, 4, 4))
REGIONS = np.float32([[0, 0, 2, 2], [1, 0, 3, 4], [2, 1, 4, 3]])
CASE = Call(
    roi_align,
    {"input": X, "rois": REGIONS, "batch_indices": np.int32([0, 1, 0])},
    {"output_sizes": (2, 2)},
    is_linear=False,
)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu), "rois": REGIONS.astype(jnp.float8_e8m0fnu)},
    "float(input)": {"input": X.astype(np.int32), "rois": REGIONS.astype(np.int32)},
    "same_dtype(rois, input)": {"rois": REGIONS.astype(np.float16)},
    "pictures(input)": {"input": X[0]},
    "corners(rois)": {"rois": REGIONS[:, :3]},
    "one_per_region(batch_indices)": {"batch_indices": np.int32([0, 1])},
    "height_and_width(output_sizes)": {"output_sizes": (2,)},
    "each_at_least(output_sizes, 1)": {"output_sizes": (2, 0)},
    "at_most_32768(output_sizes)": {"output_sizes": (2**40, 1)},
    "height_and_width(spatial_scales)": {"spatial_scales": (1,)},
    "one_of(function)": {"function": "sum"},
    "one_of(mode)": {"mode": "cubic"},
    "at_least(minimum_samples, 1)": {"minimum_samples": 0},
    "at_most_32768(minimum_samples)": {"minimum_samples": 2**40},
    "at_least(maximum_samples)": {"minimum_samples": 2, "maximum_samples": 1},
}
VARIANTS = {
    "maximum": {"function": "max"},
    "nearest": {"mode": "nearest"},
    "corners": {
        "align_corners": True,
        "output_pixel_offset": 0,
        "input_pixel_offset": 0,
        "output_sizes": (3, 3),
        "maximum_samples": 1,
    },
    "float16": {"input": X.astype(np.float16), "rois": REGIONS.astype(np.float16)},
}


# The structs.


def given(desc):
    """The attributes as the function names them."""
    others = {
        "input_pixel_offset": "input_pixel_offset",
        "output_pixel_offset": "output_pixel_offset",
        "align_regions_to_corners": "align_corners",
    }
    return {
        "output_sizes": desc.output.sizes[2:],
        "function": desc.reduction_function.name.lower(),
        "mode": "linear" if desc.interpolation_mode == InterpolationMode.LINEAR else "nearest",
        "spatial_scales": (desc.spatial_scale_y, desc.spatial_scale_x),
        "out_of_bounds_value": desc.out_of_bounds_input_value,
        "minimum_samples": desc.minimum_samples_per_output,
        "maximum_samples": desc.maximum_samples_per_output,
        **{name: getattr(desc, field) for field, name in others.items() if hasattr(desc, field)},
    }


def expected(desc, input, roi, batch_indices):
    return exact(input, roi.reshape(-1, 4), batch_indices.ravel(), **given(desc))


# ONNX Runtime's numbers of a picture of 1 to 36; of the maximum DirectML's formula.
TENSORS = (f32(1, 1, 6, 6), f32(1, 1, 1, 4), u32(1, 1, 1, 1), f32(1, 1, 2, 2))
PICTURE, REGION = range(1, 37), [1, 1, 4, 5]
MEANS, MAXIMA = [11.25, 12.75, 23.25, 24.75], [14.625, 16.125, 26.625, 28.125]
PLAIN = RoiAlignDesc(*TENSORS, ReduceFunction.AVERAGE, InterpolationMode.LINEAR, 1, 1, 0, 2, 2)
WITH_OFFSETS = RoiAlign1Desc(
    *TENSORS, ReduceFunction.MAX, InterpolationMode.LINEAR, 1, 1, 0.5, -0.5, 0, 2, 2, align_regions_to_corners=False
)
BREAKS_OF_STRUCTS = {
    "channels(output)": {"output": f32(1, 2, 2, 2)},
    "regions(roi)": {"roi": f32(1, 1, 2, 4)},
    "regions(batch_indices)": {"batch_indices": u32(1, 1, 1, 2)},
    "one_of(reduction_function)": {"reduction_function": ReduceFunction.SUM},
    "at_least(minimum_samples_per_output, 1)": {"minimum_samples_per_output": 0},
    "at_least(maximum_samples_per_output)": {"maximum_samples_per_output": 1},
}
STRUCTS = tuple(
    Struct(
        desc,
        breaks=BREAKS_OF_STRUCTS,
        examples=(Example(desc, [PICTURE, REGION, [0]], [output]),),
        draw=partial(draw, offsets=desc is WITH_OFFSETS),
        expected=expected,
        fill=fill,
        units=64,
    )
    for desc, since, output in ((PLAIN, "3_0", MEANS), (WITH_OFFSETS, "4_0", MAXIMA))
)


# Against the oracle.


WAYS = [*product(("average", "max"), ("linear", "nearest"))]


@pytest.mark.parametrize(("way", "part"), spread(WAYS, WAYS, 4))
def test_regions_of_every_kind(way, part):
    """Within the picture, beyond its edges, empty ones, and those whose corners are exchanged."""
    x = np.random.default_rng(1).integers(-9, 9, (2, 2, 5, 7)).astype(np.float32)
    rois = np.float32(
        [[1.3, 0.7, 4.1, 3.9], [-3.2, -2.1, 9.4, 8.3], [2.2, 2.2, 2.2, 2.2], [5.3, 4.1, 1.2, 0.4], [20.1, 20.1, 30, 31]]
    )
    function, mode = way
    attributes = [
        {"output_sizes": (2, 3)},
        {"output_sizes": (1, 2), "minimum_samples": 3, "out_of_bounds_value": 7.0},
        {"output_sizes": (3, 1), "maximum_samples": 1, "input_pixel_offset": 0.0, "spatial_scales": (0.5, 2.0)},
        {"output_sizes": (2, 2), "align_corners": True, "output_pixel_offset": 0.0, "input_pixel_offset": 0.0},
    ][part]
    arrays = x, rois, np.int32([0, 1, 1, 0, 1])
    made = together([(partial(roi_align, function=function, mode=mode, **one), *arrays) for one in attributes])
    for found, one in zip(made, attributes, strict=True):
        assert_close(found, exact(*arrays, function=function, mode=mode, **one), units=64)


def test_a_sample_between_two_pixels_is_the_one_before():
    x = np.float32([10, 20, 30, 40]).reshape(1, 1, 1, 4)
    made = roi_align(x, np.float32([[1, 0, 3, 1]]), np.int32([0]), (1, 1), mode="nearest", maximum_samples=1)
    assert made.item() == 20


@every_narrow_float
@pytest.mark.thinned
def test_narrow_floats_are_rounded_once(dtype):
    if dtype.name == "float8_e8m0fnu":
        return
    x, regions = np.arange(4).reshape(1, 1, 2, 2).astype(dtype), np.float32([[0, 0, 2, 2]]).astype(dtype)
    made = roi_align(x, regions, np.int32([0]), (1, 1))
    assert_same_bits(made, exact(x, regions, [0], (1, 1)).astype(np.float32).astype(dtype))


def test_onnx_runtime_agrees(exhaustive):
    ort = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    rng, (n, c, h, w) = np.random.default_rng(3), (2, 3, 9, 8)
    x, batches = rng.normal(size=(n, c, h, w)).astype(np.float32), np.int64([0, 1, 1])
    rois = np.float32([[0.3, 0.2, 7.5, 6.4], [2.1, 3.3, 5.2, 8.1], [1.1, 0.7, 3.3, 8.6]])
    for ratio in (0, 2):
        node = helper.make_node(
            "RoiAlign", ["x", "r", "b"], ["y"], output_height=3, output_width=2, sampling_ratio=ratio, spatial_scale=1.0
        )
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("r", TensorProto.FLOAT, rois.shape),
            helper.make_tensor_value_info("b", TensorProto.INT64, batches.shape),
        ]
        graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (theirs,) = session.run(None, {"x": x, "r": rois, "b": batches})
        samples = {"minimum_samples": ratio, "maximum_samples": ratio} if ratio else {}
        assert_close(roi_align(x, rois, batches.astype(np.int32), (3, 2), **samples), theirs, units=64)


# Transformations and meshes.


@pytest.mark.parametrize("function", sampled(["average", "max"], ["max"]))
def test_derivatives_of_pictures_and_of_regions(function):
    """Within the picture, beyond its edges, and with exchanged corners, of pixels that differ."""
    rng = np.random.default_rng(2)
    x, weights = (rng.normal(size=sizes).astype(np.float32) for sizes in ((2, 2, 4, 5), (3, 2, 2, 3)))
    rois = np.float32([[0.63, 0.57, 3.22, 3.71], [-3.13, 1.27, 7.31, 5.41], [3.91, 3.17, 0.83, 0.29]])
    given = {"function": function, "minimum_samples": 2, "maximum_samples": 3, "spatial_scales": (1.25, 0.75)}
    batches, sizes = np.int32([0, 1, 1]), weights.shape[2:]

    @jax.jit
    def computed(x, rois):
        output, back = jax.vjp(partial(roi_align, batch_indices=batches, output_sizes=sizes, **given), x, rois)
        return output, *back(weights)

    wanted = exact(x, rois, batches, sizes, **given), *exact_gradients(x, rois, batches, weights, **given)
    for found, numbers in zip(computed(x, rois), wanted, strict=True):
        assert_close(found, numbers, units=64)


def test_sizes_of_pictures_are_known():
    with pytest.raises(ConstraintError, match="with H and W known"):
        exported(lambda x: roi_align(x, REGIONS, np.int32([0, 0, 0]), (2, 2)), "1, 1, h, 4")


test_mistakes_are_named = refuses(
    CASE,
    ({"batch_indices": np.float32([0, 0, 0])}, DataTypeError, "batch_indices.dtype must be an integer type"),
    ({"output_sizes": 2}, DataTypeError, "output_sizes must be a sequence"),
    ({"function": "sum"}, ConstraintError, "function must be one of 'average', 'max', but it is 'sum'"),
    ({"rois": X}, ConstraintError, r"rois.sizes must be \(R, 4\)"),
)
