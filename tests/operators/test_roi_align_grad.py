"""ROI_ALIGN_GRAD: gradients by pixels and by the corners of regions, sample by sample."""

import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import Example, Struct, f32, u32
from region_cases import draw as draw_forward
from region_cases import exact_gradients, fill

from dml_jax import DataTypeError, InterpolationMode, ReduceFunction, TensorDesc
from dml_jax.descs import RoiAlignGradDesc

pytestmark = pytest.mark.device


def attributes(desc):
    """As the forward loop names them."""
    return {
        "function": desc.reduction_function.name.lower(),
        "mode": "linear" if desc.interpolation_mode == InterpolationMode.LINEAR else "nearest",
        "spatial_scales": (desc.spatial_scale_y, desc.spatial_scale_x),
        "input_pixel_offset": desc.input_pixel_offset,
        "output_pixel_offset": desc.output_pixel_offset,
        "minimum_samples": desc.minimum_samples_per_output,
        "maximum_samples": desc.maximum_samples_per_output,
        "align_corners": desc.align_regions_to_corners,
    }


def expected(desc, input, gradient, roi, batch_indices):
    pictures = np.zeros(desc.output_gradient.sizes) if input is None else input
    rois, batches = roi.reshape(-1, 4), batch_indices.ravel()
    of_pictures, of_corners = exact_gradients(pictures, rois, batches, gradient, **attributes(desc))
    found = ((desc.output_gradient, of_pictures), (desc.output_roi_gradient, of_corners.reshape(roi.shape)))
    return tuple(numbers for tensor, numbers in found if tensor is not None)


def draw(rng):
    fields = draw_forward(rng, offsets=True)
    del fields["out_of_bounds_input_value"]
    is_max = fields["reduction_function"] == ReduceFunction.MAX
    pictures, (regions, channels, *sizes) = fields["input"], fields.pop("output")
    if is_max:  # one or two elements and samples, whose places are exact, as which of equal ones is the first
        sizes = [min(n, 2) for n in sizes]
        fields |= {"maximum_samples_per_output": 2, "align_regions_to_corners": False}
    which = int(rng.integers(0, 3)) if fields["interpolation_mode"] == InterpolationMode.LINEAR else 0
    fields |= {
        "input_gradient": (regions, channels, *sizes),
        "output_gradient": None if which == 1 else pictures,
        "output_roi_gradient": None if which == 0 else fields["roi"],
    }
    return fields | {"input": pictures if which > 0 or is_max or rng.integers(0, 2) else None}


# DirectML's four regions of 1 x 3 elements; halves down, which its numbers show.
REGIONS = [0, 0, 2, 2, 2, 0, 4, 2, 0, 2, 2, 4, 2, 2, 4, 4]
SPREAD = [3, 3, 9, 6, 0, 0, 0, 0, 15, 9, 21, 12, 0, 0, 0, 0]
TENSORS = (f32(4, 1, 1, 3), f32(1, 1, 4, 4), u32(1, 1, 1, 4))
NEAREST = (ReduceFunction.AVERAGE, InterpolationMode.NEAREST_NEIGHBOR, 1, 1, 0.5, -0.5, 1, 1, False)
LINEAR = (ReduceFunction.AVERAGE, InterpolationMode.LINEAR, 1, 1, 0.5, -0.5, 1, 1, False)
DOCUMENTED = RoiAlignGradDesc(None, *TENSORS, f32(1, 1, 4, 4), None, *NEAREST)
PICTURE = f32(1, 1, 2, 2)
BOTH = RoiAlignGradDesc(PICTURE, f32(1, 1, 1, 1), f32(1, 1, 1, 4), u32(1, 1, 1, 1), PICTURE, f32(1, 1, 1, 4), *LINEAR)
STRUCTS = (
    Struct(
        BOTH,
        breaks={
            "same_dtype(roi, input_gradient)": {"roi": TensorDesc("FLOAT16", (1, 1, 1, 4))},
            "same_dtype(output_gradient, input_gradient)": {"output_gradient": TensorDesc("FLOAT16", (1, 1, 2, 2))},
            "same_dtype(output_roi_gradient, input_gradient)": {
                "output_roi_gradient": TensorDesc("FLOAT16", (1, 1, 1, 4))
            },
            "an_output": {"output_gradient": None, "output_roi_gradient": None},
            "needed(input)": {"input": None},
            "sizes_follow(output_gradient)": {"output_gradient": f32(1, 1, 2, 3)},
            "same_sizes(output_roi_gradient, roi)": {"output_roi_gradient": f32(1, 1, 4, 1)},
            "channels(input_gradient)": {"input_gradient": f32(1, 2, 1, 1)},
            "regions(roi)": {"roi": f32(1, 1, 2, 4)},
            "regions(batch_indices)": {"batch_indices": u32(1, 1, 1, 2)},
            "one_of(reduction_function)": {"reduction_function": ReduceFunction.SUM},
            "at_least(minimum_samples_per_output, 1)": {"minimum_samples_per_output": 0},
            "at_least(maximum_samples_per_output)": {"minimum_samples_per_output": 2},
        },
        examples=(
            Example(DOCUMENTED, [range(1, 13), REGIONS, [0] * 4], [SPREAD]),
            # In the middle, of 1, 2, 3, 5: the corners move the sample by a half of what they move.
            Example(BOTH, [[1, 2, 3, 5], [4], [0, 0, 2, 2], [0]], [[1, 1, 1, 1], [3, 5, 3, 5]]),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
        units=64,
    ),
)


def test_pictures_that_need_not_be_given_change_nothing():
    gradient, rois, batches = np.float32([[[[4]]]]), np.float32([[[[0, 0.5, 2, 1.5]]]]), np.uint32([[[[0]]]])
    fields = BOTH.operands() | {"output_roi_gradient": None}
    given = RoiAlignGradDesc(**fields).compute(np.float32([[[[1, 2], [3, 5]]]]), gradient, rois, batches)
    assert_same_bits(RoiAlignGradDesc(**fields | {"input": None}).compute(gradient, rois, batches), given)


def test_gradients_of_float16_are_added_in_float32():
    """2048 and 300 times 1, which FLOAT16 would lose one by one."""
    f16 = [TensorDesc("FLOAT16", sizes) for sizes in ((301, 1, 1, 1), (1, 1, 301, 4), (1, 1, 1, 1))]
    desc = RoiAlignGradDesc(None, f16[0], f16[1], u32(1, 1, 1, 301), f16[2], None, *LINEAR)
    gradient = np.ones((301, 1, 1, 1), np.float16)
    gradient[0] = 2048
    rois = np.tile(np.float16([0, 0, 1, 1]), (1, 1, 301, 1))
    assert desc.compute(gradient, rois, np.zeros((1, 1, 1, 301), np.uint32)).item() == 2348


def test_nearest_pixels_do_not_move_with_the_corners():
    fields = BOTH.operands() | {"interpolation_mode": InterpolationMode.NEAREST_NEIGHBOR, "output_gradient": None}
    arrays = np.float32([[[[1, 2], [3, 5]]]]), np.float32([[[[4]]]]), np.float32([[[[0, 0, 2, 2]]]])
    made = RoiAlignGradDesc(**fields).compute(*arrays, np.uint32([[[[0]]]]))
    assert_same_bits(made, np.zeros((1, 1, 1, 4), np.float32))


def test_one_type_of_floats():
    with pytest.raises(DataTypeError, match=r"ROITensor\.DataType must equal InputGradientTensor\.DataType"):
        RoiAlignGradDesc(**DOCUMENTED.operands() | {"roi": TensorDesc("FLOAT16", (1, 1, 4, 4))})
