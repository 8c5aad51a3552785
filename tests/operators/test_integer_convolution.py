"""Convolutions of integers: Python's integers under each place of a filter, then float32."""

import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import Example, Struct, f32, i8, i32, u8
from oracles import coordinates
from quantization_cases import at, centred, fill, quantized, wrapped
from refusals import refuses
from window_cases import counted, draw_windows, places

from dml_jax import ConstraintError, DataTypeError, TensorDesc, compile_operator
from dml_jax.descs import ConvolutionIntegerDesc, QuantizedLinearConvolutionDesc

pytestmark = pytest.mark.device

NAMES = ("strides", "dilations", "start_padding", "end_padding")


def by_filter(parameter, rank):
    """A scale or a zero point, one for each filter, whose channel is the second of its dimensions."""
    return None if parameter is None else parameter.reshape((1,) * (rank - parameter.ndim) + parameter.shape).ravel()


def filters_less(filter, zero_point):
    """Each filter less its zero point."""
    zero_point = by_filter(zero_point, filter.ndim)
    each = [None if zero_point is None else zero_point[o % zero_point.size, None] for o in range(len(filter))]
    return [centred(one, of_one) for one, of_one in zip(filter, each, strict=True)]


def sums(desc, input, input_zero_point, filter, filter_zero_point):
    """One product after the other; what is outside counts nothing, the sum wraps in 32 bits."""
    sizes, kernel = input.shape[2:], filter.shape[2:]
    attributes = {"window_sizes": kernel, **{name: getattr(desc, name) for name in NAMES}}
    counts = counted(sizes, attributes)
    x, w = centred(input, input_zero_point), filters_less(filter, filter_zero_point)
    output = np.zeros((len(x), len(w), int(np.prod(counts))), object)
    by_row = [*coordinates(kernel)]
    for row, column, place in places(sizes, attributes):
        for n, o, c in coordinates((len(x), len(w), filter.shape[1])) if place is not None else ():
            channel = c + filter.shape[1] * (o * desc.group_count // len(w))
            output[n, o, column] += x[n, channel, *place] * w[o][c, *by_row[row]]
    whole = np.array([wrapped(n) for n in output.ravel()], np.int32)
    return whole.reshape(*output.shape[:2], *counts)


@np.errstate(all="ignore")
def requantized(
    desc, input, input_scale, input_zero_point, filter, filter_scale, filter_zero_point, bias, scale, zero_point
):
    whole = sums(desc, input, input_zero_point, filter, filter_zero_point)
    real = np.empty(whole.shape, np.float32)
    for c, n in np.ndenumerate(whole):
        added = wrapped(int(n) + (0 if bias is None else int(bias[0, c[1]].ravel()[0])))
        real[c] = np.float32(added) * (input_scale.ravel()[0] * np.float32(at(filter_scale, c, whole.shape)))
    return quantized(real, scale, zero_point, desc.output.dtype)


def parameter(rng, rank, filters=None):
    """The sizes of a scale or a zero point, of any rank: of one number, or of one for each filter."""
    if filters is None or rng.random() < 0.5:
        return (1,) * int(rng.integers(1, 5))
    return ((1,) * 4 + (1, filters) + (1,) * (rank - 2))[-int(rng.integers(rank - 1, 5)) :]


def draw(rng, *, scaled):
    while True:
        image, _, attributes = draw_windows(rng, 2)
        groups, of_group = (int(n) for n in rng.integers(1, 3, 2))
        filters, channels, kernel = groups * of_group, image[1], attributes.pop("window_sizes")
        counts = counted(image[2:], {"window_sizes": kernel, **attributes})
        if np.prod(counts) * image[0] * filters <= 120:
            break
    rank = len(image)
    drawn = {
        "input": (image[0], groups * channels, *image[2:]),
        "filter": (filters, channels, *kernel),
        "output": (image[0], filters, *counts),
        "group_count": groups,
        **attributes,
    }
    for tensor in ("input", "filter", "output") if scaled else ("input", "filter"):
        of_filters = filters if tensor == "filter" else None
        drawn[f"{tensor}_zero_point"] = parameter(rng, rank, of_filters) if rng.random() < 0.7 else None
        if scaled:
            drawn[f"{tensor}_scale"] = parameter(rng, rank, of_filters)
    has_bias = scaled and rng.random() < 0.6
    return drawn | ({"bias": (1, filters, *(1,) * (rank - 2))} if has_bias else {})


def fill_sums(rng, port, tensor, count):
    """Scales, and a bias that is not far from the sums."""
    return rng.integers(-3000, 3000, count).astype(np.int32) if port == "bias" else fill(rng, port, tensor, count)


def breaks(*tensors, scaled):
    """Of one filter of 2 by 2 over one channel."""
    found = {
        **{f"one_per_spatial_dimension({name})": {name: (1,)} for name in NAMES},
        **{f"each_at_least({name}, 1)": {name: (1, 0)} for name in ("strides", "dilations")},
        "at_least(group_count, 1)": {"group_count": 0},
        "groups": {"group_count": 2},
        "channels": {"input": u8(1, 3, 3, 3)},
        "fits": {"dilations": (3, 1)},
        "sizes_follow(output)": {"output": u8(1, 1, 2, 3)},
    }
    for tensor in tensors:
        name = f"{tensor}_zero_point"
        found[f"same_dtype({name}, {tensor})"] = {name: TensorDesc("INT16", (1, 1, 1, 1))}
        names = (f"{tensor}_scale", name) if scaled else (name,)
        found |= {f"sizes({one})": {one: u8(1, 1, 1, 2)} for one in names}
        found |= {f"rank_within({one}, 1, 4)": {one: u8(1, 1, 1, 1, 1)} for one in names}
    return found


WINDOWS = ((1, 1), (1, 1), (0, 0), (0, 0))
ONE, U1, I1 = f32(1, 1, 1, 1), u8(1, 1, 1, 1), i8(1, 1, 1, 1)
WHOLE = ConvolutionIntegerDesc(u8(1, 1, 3, 3), U1, u8(1, 1, 2, 2), U1, i32(1, 1, 2, 2), *WINDOWS)
EDGES = replace(WHOLE, output=i32(1, 1, 4, 4), start_padding=(1, 1), end_padding=(1, 1))
LINEAR = QuantizedLinearConvolutionDesc(
    *(u8(1, 1, 3, 3), ONE, U1, u8(1, 1, 2, 2), ONE, U1, i32(1, 1, 1, 1), ONE, U1, u8(1, 1, 2, 2)), *WINDOWS
)
FILTERS = QuantizedLinearConvolutionDesc(
    *(u8(1, 2, 1, 2), ONE, U1, i8(2, 1, 1, 1), f32(1, 2, 1, 1), i8(1, 2, 1, 1), None, ONE, I1, i8(1, 2, 1, 2)),
    *WINDOWS,
    2,
)
LEADING = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
INPUTS, TENSORS = ("input", "filter"), ("input", "filter", "output")
NINE = range(2, 11)
STRUCTS = (
    Struct(
        WHOLE,
        breaks=breaks(*INPUTS, scaled=False),
        # Those of ONNX's ConvInteger, which ONNX Runtime hands to DirectML so.
        examples=(
            Example(WHOLE, [NINE, [1], [1] * 4, [0]], [[12, 16, 24, 28]]),
            Example(EDGES, [NINE, [1], [1] * 4, [0]], [[1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9]]),
        ),
        draw=lambda rng: draw(rng, scaled=False),
        expected=sums,
        leading=LEADING,
        typed=lambda types: {f"{name}_zero_point": types[name] for name in INPUTS},
    ),
    Struct(
        LINEAR,
        breaks=breaks(*TENSORS, scaled=True) | {"sizes_follow(bias)": {"bias": i32(1, 2, 1, 1)}},
        # DirectML's page has none.
        examples=(
            Example(LINEAR, [NINE, [0.5], [1], [1] * 4, [2], [0], [4], [4], [9]], [[13, 14, 16, 17]]),
            Example(FILTERS, [[1, 2, 3, 4], [1], [0], [3, -5], [1, 2], [1, -1], [0.5], [1]], [[5, 9, -47, -63]]),
        ),
        draw=lambda rng: draw(rng, scaled=True),
        expected=requantized,
        leading=LEADING,
        fill=fill_sums,
        typed=lambda types: {f"{name}_zero_point": types[name] for name in TENSORS},
    ),
)


def test_sums_are_exact_beyond_float32():
    """Of 4,608 products of 255 by -255 by turns with others: float32 has 24 bits."""
    rng = np.random.default_rng(1)
    input = rng.integers(250, 256, (1, 512, 4, 4)).astype(np.uint8)
    filter = rng.integers(120, 128, (2, 512, 3, 3)).astype(np.int8)
    windows = ((1, 1), (1, 1), (0, 0), (0, 0))
    desc = ConvolutionIntegerDesc(u8(*input.shape), None, i8(*filter.shape), i8(1), i32(1, 2, 2, 2), *windows)
    under = (
        np.stack([input[0, :, h : h + 3, w : w + 3] for h in (0, 1) for w in (0, 1)]).reshape(4, -1).astype(np.int64)
    )
    wanted = (under @ (filter.reshape(2, -1).astype(np.int64) + 128).T).T.reshape(1, 2, 2, 2)
    assert wanted.min() > 2**24
    assert_same_bits(desc.compute(input, filter, np.int8([-128])), wanted.astype(np.int32))


def test_depthwise_ones_multiply_no_matrices():
    """Their products would be of single rows: two filters for each of 3 channels."""
    rng = np.random.default_rng(2)
    input, filter = rng.integers(0, 256, (2, 3, 4, 5)).astype(np.uint8), rng.integers(-128, 128, (6, 1, 2, 2))
    at = ((1, 2), (2, 1), (1, 0), (0, 1))
    desc = ConvolutionIntegerDesc(u8(*input.shape), u8(1), i8(6, 1, 2, 2), i8(1, 6, 1, 1), i32(2, 6, 3, 3), *at, 3)
    arrays = (input, np.uint8([7]), filter.astype(np.int8), np.arange(6, dtype=np.int8).reshape(1, 6, 1, 1))
    assert_same_bits(desc.compute(*arrays), sums(desc, *arrays))
    assert "dot" not in jax.jit(desc.compute).lower(*arrays).as_text()


@pytest.mark.variants
@pytest.mark.parametrize(
    ("platform", "kernel", "size", "is_apart"),
    [("cpu", 2, 200, True), ("cpu", 1, 200, False), ("cpu", 2, 4, False), ("cuda", 2, 200, False)],
)
def test_cpus_compute_the_input_before_its_windows(platform, kernel, size, is_apart):
    """A barrier keeps what makes the input out of the loops over windows, if these are worth it."""
    filter, output = i8(3, 2, kernel, kernel), i32(1, 3, size + 1 - kernel, size + 1 - kernel)
    desc = ConvolutionIntegerDesc(u8(1, 2, size, size), None, filter, None, output, *WINDOWS)
    arrays = [jax.ShapeDtypeStruct(tensor.sizes, tensor.dtype) for tensor in (desc.input, desc.filter)]
    traced = jax.jit(lambda x, w: desc.compute(x + np.uint8(1), w)).trace(*arrays)
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    made = rf"tensor<1x2x{size}x{size}xui8>"
    apart = re.search(rf"(optimization_barrier [^\n]*|\(tensor<i32>\) -> ){made}", text)  # or a branch
    assert (apart is not None) == is_apart


@pytest.mark.parametrize(("filters", "stride", "multiplies"), [(1, 4, False), (16, 1, False), (8, 2, True)])
def test_many_filters_of_a_channel_are_a_product(filters, stride, multiplies):
    """Each filter would read the slices again, whose elements are apart."""
    rng, made = np.random.default_rng(3), 8 // stride
    input, filter = rng.integers(0, 256, (1, 2, 9, 9)), rng.integers(-128, 128, (2 * filters, 1, 2, 2))
    tensors = u8(1, 2, 9, 9), None, i8(2 * filters, 1, 2, 2), None, i32(1, 2 * filters, made, made)
    desc = ConvolutionIntegerDesc(*tensors, (stride, stride), (1, 1), (0, 0), (0, 0), 2)
    arrays = input.astype(np.uint8), filter.astype(np.int8)
    zeros = np.uint8([0]), arrays[1], np.zeros((1, 2 * filters, 1, 1), np.int8)
    assert_same_bits(desc.compute(*arrays), sums(desc, arrays[0], *zeros))
    assert ("dot" in jax.jit(desc.compute).lower(*arrays).as_text()) == multiplies


def test_channels_last_by_strides():
    input, output = u8(1, 2, 2, 2, strides=(8, 1, 4, 2)), i32(1, 3, 2, 2, strides=(12, 1, 6, 3))
    desc = ConvolutionIntegerDesc(input, None, i8(3, 2, 1, 1), None, output, *WINDOWS)
    pixels, weights = np.arange(8, dtype=np.uint8), np.int8([1, 2, -3, 4, 5, -6])
    wanted = pixels.reshape(4, 2).astype(int) @ weights.reshape(3, 2).T
    assert_same_bits(compile_operator(desc)(pixels, weights), wanted.astype(np.int32).ravel())


def test_older_levels_want_other_ranks():
    flat = replace(LINEAR, filter_scale=f32(1))
    flat.validate("5_2")
    with pytest.raises(
        ConstraintError, match=r"FilterScaleTensor.DimensionCount must be in \[3, 4\] below feature level"
    ):
        flat.validate("5_1")
    with pytest.raises(ConstraintError, match=r"InputZeroPointTensor.DimensionCount must be 4 below feature level 4_0"):
        replace(WHOLE, input_zero_point=u8(1)).validate("3_1")


test_mistakes_are_named = refuses(
    WHOLE,
    ({"filter_zero_point": u8(2, 1, 1, 1)}, ConstraintError, r"along dimension 1 there may be one .* 1 filters"),
    ({"input_zero_point": u8(3)}, ConstraintError, r"InputZeroPointTensor.Sizes must be 1, but they are \(3,\)"),
    ({"group_count": 3}, ConstraintError, r"GroupCount must divide FilterTensor.Sizes\[0\]"),
    ({"input": u8(1, 2, 3, 3)}, ConstraintError, r"the channels of InputTensor must be the second .* are 2 and 1"),
    ({"output": i32(1, 1, 3, 3)}, ConstraintError, r"OutputTensor.Sizes must be \(N, filters, .* \(1, 1, 2, 2\)"),
    ({"output": u8(1, 1, 2, 2)}, DataTypeError, r"OutputTensor.DataType must be one of INT32 at feature level"),
    says="^CONVOLUTION_INTEGER: .*",
)
