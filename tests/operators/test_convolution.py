"""convolution and CONVOLUTION: a filter at every place of an array, or the transpose of that."""

from functools import partial
from math import prod

import jax
import numpy as np
import pytest
from activation_cases import activated
from checks import assert_calls_agree, assert_same_bits, assert_sharded, exported, sampled, together
from draws import dims, normal_numbers
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered, on_explicit_mesh, random_keys

from dml_jax import (
    Activation,
    ConstraintError,
    ConvolutionDesc,
    ConvolutionDirection,
    ConvolutionMode,
    DataTypeError,
    compile_operator,
    convolution,
)
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias

pytestmark = pytest.mark.device

LEAST = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "output_padding": 0}


def given(count, attributes):
    """A number per spatial dimension of everything that has one."""
    return {name: tuple(attributes.get(name) or (least,) * count) for name, least in LEAST.items()}


def possible_sizes(direction, sizes, window, attributes):
    """The spatial sizes that the sums may have, by trying: forward one, backward all that forward makes `sizes` of."""

    def places(size, k, stride, dilation, start, end):
        count = 0
        while count * stride + (k - 1) * dilation < size + start + end:
            count += 1
        return count

    made = []
    for n, k, *numbers in zip(sizes, window, *list(attributes.values())[:4], strict=True):
        if direction == "forward":
            made.append([m for m in [places(n, k, *numbers)] if m])
        else:
            made.append([m for m in range(1, 99) if places(m, k, *numbers) == n])
    return made


def exact(
    input,
    filter,
    bias=None,
    mode="cross_correlation",
    direction="forward",
    output_sizes=None,
    group_count=1,
    activation=None,
    **attributes,
):
    """In float64: every element of the filter at every place, where its element of the larger array exists."""
    input, filter = input.astype(np.float64), filter.astype(np.float64)
    (batch, channels, *sizes), (first, second, *window) = input.shape, filter.shape
    attributes = given(len(sizes), attributes)
    more = attributes["output_padding"]
    made = [found[0] for found in possible_sizes(direction, sizes, window, attributes)]
    if output_sizes is not None:
        made = [n - m for n, m in zip(output_sizes, more, strict=True)]
    out_channels = first if direction == "forward" else second * group_count
    output = np.zeros((batch, out_channels, *(n + m for n, m in zip(made, more, strict=True))))
    small, large = (made, sizes) if direction == "forward" else (sizes, made)
    strides, dilations, starts = (attributes[name] for name in ("strides", "dilations", "start_padding"))
    for p in coordinates(small):
        for k in coordinates(window):
            q = tuple(a * s + b * d - t for a, b, s, d, t in zip(p, k, strides, dilations, starts, strict=True))
            if not all(0 <= i < n for i, n in zip(q, large, strict=True)):
                continue
            at = tuple(n - 1 - i for i, n in zip(k, window, strict=True)) if mode == "convolution" else k
            for group in range(group_count):
                read = slice(group * channels // group_count, (group + 1) * channels // group_count)
                write = slice(group * out_channels // group_count, (group + 1) * out_channels // group_count)
                if direction == "forward":
                    output[:, write, *p] += input[:, read, *q] @ filter[write, :, *at].T
                else:
                    output[:, write, *q] += input[:, read, *p] @ filter[read, :, *at]
    if bias is not None:
        output += bias.astype(np.float64).reshape(-1, *(1,) * len(sizes))
    return output if activation is None else activated(output, activation)


def oracle(input, filter, bias=None, **attributes):
    return exact(input, filter, bias, **attributes).astype(input.dtype)


RELU, LEAKY_RELU = Activation("ACTIVATION_RELU"), Activation("ACTIVATION_LEAKY_RELU", (0.5,))
INPUT, FILTER, BIAS = numbered((2, 2, 3, 4)) - 20, numbered((3, 2, 2, 2)) - 12, numbered((3,))
CASE = Call(
    convolution,
    {"input": INPUT, "filter": FILTER, "bias": BIAS},
    {
        "mode": "cross_correlation",
        "direction": "forward",
        "strides": (1, 2),
        "dilations": (1, 2),
        "start_padding": (1, 0),
        "end_padding": (0, 1),
        "output_padding": (0, 1),
        "output_sizes": None,
        "group_count": 1,
        "activation": LEAKY_RELU,
    },
    is_linear=False,
    has_symbolic_batches=False,  # JAX makes groups of filters that differ, and their number must be known
)
BREAKS = {
    "one_of(mode)": {"mode": "same"},
    "one_of(direction)": {"direction": "both"},
    "minimum_rank(input, 3)": {"input": INPUT[0, 0]},
    "float(input)": {"input": INPUT.astype(np.int32)},
    "same_dtype(filter, input)": {"filter": FILTER.astype(np.float16)},
    "same_dtype(bias, input)": {"bias": BIAS.astype(np.float16)},
    "same_rank(filter, input)": {"filter": FILTER[..., 0]},
    **{f"one_per_spatial_dimension({name})": {name: (1,)} for name in LEAST},
    **{f"each_at_least({name}, {least})": {name: (1, least - 1)} for name, least in LEAST.items()},
    "at_least(group_count, 1)": {"group_count": 0},
    "groups": {"group_count": 2},
    "channels": {"input": INPUT[:, :1]},
    "fits": {"dilations": (1, 5)},
    "indexable": {"end_padding": (0, 2**31)},
    "representable": {
        "input": np.zeros((2**30, 0, 1, 1), np.float32),
        "filter": np.zeros((2**30, 0, 1, 1), np.float32),
        "bias": None,
    },
    "sizes(output)": {"output_sizes": (3, 4)},
    "sizes_follow(bias)": {"bias": BIAS[:2]},
    "axes_within(activation)": {"activation": Activation("ACTIVATION_SOFTMAX1", ((4,),))},
}
VARIANTS = {
    "plain": {
        "bias": None,
        "activation": None,
        **dict.fromkeys(LEAST),
    },
    "reversed filter": {"mode": "convolution"},
    "backward": {"direction": "backward", "input": numbered((2, 3, 3, 2)), "bias": BIAS[:2]},
    "backward, reversed filter, larger": {
        "direction": "backward",
        "mode": "convolution",
        "input": numbered((2, 3, 3, 2)),
        "bias": None,
        "output_padding": None,
        "output_sizes": (3, 5),
    },
    "groups": {"input": numbered((2, 6, 3, 4)), "group_count": 3},
    "backward groups": {"direction": "backward", "input": numbered((2, 3, 3, 2)), "group_count": 3, "bias": None},
    "one dimension": {
        "input": numbered((1, 2, 5)),
        "filter": numbered((2, 2, 3)),
        "bias": None,
        **dict.fromkeys(LEAST, (1,)),
    },
    "float16": {name: CASE.arrays[name].astype(np.float16) for name in CASE.arrays},
}


# By example.


def test_each_window_times_the_filter():
    """CONVOLUTION turns the filter around; backwards each element is spread over its window."""
    x, filter = np.float32([[[1, 2, 3, 4]]]), np.float32([[[1, 10]]])
    assert_same_bits(convolution(x, filter), np.float32([[[21, 32, 43]]]))
    assert_same_bits(convolution(x, filter, mode="convolution"), np.float32([[[12, 23, 34]]]))
    assert_same_bits(convolution(x, filter, direction="backward"), np.float32([[[1, 12, 23, 34, 40]]]))


# Against the oracle.


# Sizes, windows and numbers of one to four spatial dimensions.
SOME = [
    ((4,), (3,), {}),
    ((5,), (2,), {"strides": (2,), "dilations": (2,)}),
    ((2,), (1,), {"strides": (3,), "start_padding": (4,), "end_padding": (5,)}),
    ((7,), (3,), {"strides": (2,), "dilations": (2,), "start_padding": (1,), "end_padding": (3,)}),
    ((3, 4), (2, 3), {"strides": (1, 2), "start_padding": (1, 0), "end_padding": (0, 2)}),
    ((3, 3), (2, 2), {"strides": (2, 3), "dilations": (2, 1), "output_padding": (1, 2)}),
    ((2, 3, 2), (2, 1, 2), {"dilations": (1, 2, 1), "end_padding": (0, 0, 1)}),
    ((2, 1, 1, 2), (2, 1, 1, 1), {"strides": (1, 1, 1, 2)}),
]


@pytest.mark.parametrize("number", sampled([*range(8)], [2, 4]))
def test_directions_modes_and_groups(number):
    def calls():
        for sizes, window, attributes in [SOME[number]]:
            for direction in ("forward", "backward"):
                for mode, groups in (("cross_correlation", 2), ("convolution", 1)):
                    full = given(len(sizes), attributes)
                    if not all(possible_sizes(direction, sizes, window, full)):
                        continue
                    channels = (4, 2) if groups == 2 else (2, 3) if direction == "backward" else (3, 2)
                    read = 4 if groups == 2 else 2
                    x, w = numbered((2, read, *sizes)) - 9, numbered((*channels, *window)) - 5
                    bias = numbered((4 if groups == 2 else 3,))
                    attributes_ = {**attributes, "direction": direction, "mode": mode, "group_count": groups}
                    yield partial(convolution, **attributes_), (x, w, bias), oracle(x, w, bias, **attributes_)

    found = list(calls())
    assert len(found) >= 2
    assert_calls_agree(found)


@pytest.mark.parametrize("sizes", sampled([(6, 5), (7, 6), (8, 5)], [(7, 6)]))
def test_backward_is_the_transpose_of_forward(sizes):
    """Of every size that forward makes the same array of; of small numbers, whose sums float32 holds in any order."""
    numbers = {"strides": (3, 2), "dilations": (1, 2), "start_padding": (1, 2), "end_padding": (2, 0), "group_count": 2}
    filter = numbered((4, 3, 3, 2)) % 5 - 2
    x = numbered((2, 6, *sizes)) % 7 - 3
    forward = partial(convolution, filter=filter, mode="convolution", **numbers)
    y = forward(x)
    (transposed,) = jax.linear_transpose(forward, x)(y)
    back = convolution(y, filter, direction="backward", mode="convolution", output_sizes=sizes, **numbers)
    assert_same_bits(back, transposed)


# The struct.


# Continuous ones, so that what is rounded a little differently is not something else.
FUSED = [
    *(None, None, None, RELU, LEAKY_RELU),
    *(Activation(f"ACTIVATION_{name}") for name in ("ELU", "GELU", "SIGMOID", "SOFTPLUS", "TANH")),
    Activation("ELEMENT_WISE_CLIP", (ScaleAndBias(0.5, 1), -1, 2)),
]


def draw(rng):
    while True:
        count = int(rng.integers(1, 4))
        direction = str(rng.choice(["forward", "backward"]))
        batch, groups, read, made = (int(n) for n in rng.integers(1, 3, 4))
        sizes, window = dims(rng, count, 24), [int(n) for n in rng.integers(1, 4, count)]
        attributes = {
            "strides": rng.integers(1, 4, count),
            "dilations": rng.integers(1, 3, count),
            "start_padding": rng.integers(0, 3, count) * (rng.random(count) < 0.4),
            "end_padding": rng.integers(0, 3, count) * (rng.random(count) < 0.4),
            "output_padding": rng.integers(0, 3, count) * (rng.random(count) < 0.2),
        }
        attributes = {name: [int(n) for n in numbers] for name, numbers in attributes.items()}
        sums = possible_sizes(direction, sizes, window, attributes)
        if not all(sums):
            continue
        output = [int(rng.choice(n)) + more for n, more in zip(sums, attributes["output_padding"], strict=True)]
        if prod(output) <= 100:
            break
    first, second = (groups * made, read) if direction == "forward" else (groups * read, made)
    return {
        "input": (batch, groups * read, *sizes),
        "filter": (first, second, *window),
        "bias": (1, groups * made, *(1,) * count) if rng.random() < 0.6 else None,
        "output": (batch, groups * made, *output),
        "mode": str(rng.choice(["CONVOLUTION", "CROSS_CORRELATION"])),
        "direction": direction.upper(),
        **attributes,
        "group_count": groups,
        "fused_activation": FUSED[rng.integers(0, len(FUSED))],
    }


def expected(desc, input, filter, bias):
    return exact(
        input,
        filter,
        None if bias is None else bias.reshape(-1),
        desc.mode.name.lower(),
        desc.direction.name.lower(),
        desc.output.sizes[2:],
        desc.group_count,
        desc.fused_activation,
        **{name: getattr(desc, name) for name in LEAST},
    )


def plain(input, filter, output, direction="FORWARD"):
    """A struct as DirectML's samples have it."""
    numbers = given(len(input) - 2, {}).values()
    return ConvolutionDesc(f32(*input), f32(*filter), None, f32(*output), "CROSS_CORRELATION", direction, *numbers)


ONES, ZEROS = (1, 1), (0, 0)
TENSORS = f32(1, 2, 3, 3), f32(1, 2, 2, 2), f32(1, 1, 1, 1), f32(1, 1, 2, 2)
DESC = ConvolutionDesc(*TENSORS, 1, 0, ONES, ONES, ZEROS, ZEROS, ZEROS, fused_activation=RELU)
SQUARE = plain((1, 1, 3, 3), (1, 1, 2, 2), (1, 1, 2, 2))
CUBE = plain((1, 1, 3, 3, 3), (1, 1, 2, 2, 2), (1, 1, 2, 2, 2))
GREY = plain((1, 3, 2, 2), (1, 3, 1, 1), (1, 1, 2, 2))
BACKWARD = plain((1, 1, 3, 3), (1, 1, 3, 3), (1, 1, 5, 5), "BACKWARD")
STRUCTS = (
    Struct(
        DESC,
        breaks={
            **{f"one_per_spatial_dimension({name})": {name: (1,)} for name in LEAST},
            **{f"each_at_least({name}, 1)": {name: (1, 0)} for name in ("strides", "dilations")},
            "at_least(group_count, 1)": {"group_count": 0},
            "groups": {"group_count": 2},
            "channels": {"input": f32(1, 3, 3, 3)},
            "fits": {"dilations": (3, 1)},
            "sizes_follow(bias)": {"bias": f32(1, 2, 1, 1)},
            "sizes(output)": {"output": f32(1, 1, 2, 3)},
        },
        examples=(
            Example(SQUARE, [range(1, 10), [0.5] * 4], [[6, 8, 12, 14]]),
            Example(CUBE, [[1] * 27, [0.5] * 8], [[4] * 8]),
            # The weights of the sample that makes a picture grey, whose pixels here have one colour each.
            Example(
                GREY,
                [[255, 0, 0, 1, 0, 255, 0, 1, 0, 0, 255, 1], [0.2989, 0.5870, 0.1140]],
                [[76.2195, 149.685, 29.07, 0.9999]],
            ),
            # That of ONNX's ConvTranspose, which ONNX Runtime hands to DirectML so.
            Example(
                BACKWARD,
                [range(9), [1] * 9],
                [[0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6, 13, 21, 15, 8]],
            ),
        ),
        draw=draw,
        expected=expected,
        leading={"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "output_padding": 0},
        fill=normal_numbers,
        units=32,
    ),
)


def test_channels_last_and_a_broadcast_bias_by_strides():
    input, output = f32(1, 2, 2, 2, strides=(8, 1, 4, 2)), f32(1, 3, 2, 2, strides=(12, 1, 6, 3))
    bias = f32(1, 3, 1, 1, strides=(0, 0, 0, 0))
    desc = ConvolutionDesc(input, f32(3, 2, 1, 1), bias, output, 1, 0, ONES, ONES, ZEROS, ZEROS, ZEROS)
    pixels, weights = numbered((4, 2)), numbered((3, 2))
    made = compile_operator(desc)(pixels.ravel(), weights.ravel(), np.float32([100]))
    assert_same_bits(made.reshape(4, 3), pixels @ weights.T + 100)


test_what_the_struct_refuses = refuses(
    DESC,
    ({"mode": 2}, ConstraintError, "Mode must be one of CONVOLUTION, CROSS_CORRELATION, but it is 2"),
    ({"direction": "UP"}, ConstraintError, "Direction must be one of FORWARD, BACKWARD, but it is 'UP'"),
    ({"strides": 1}, DataTypeError, "Strides must be a sequence of integers"),
    ({"end_padding": (0, -1)}, ConstraintError, r"EndPadding\[1\] must be in"),
    ({"filter": None}, DataTypeError, "FilterTensor must be a TensorDesc"),
    ({"group_count": 2}, ConstraintError, r"GroupCount must divide FilterTensor.Sizes\[0\], .* 2 and 1"),
    ({"input": f32(1, 3, 3, 3)}, ConstraintError, "the channels of InputTensor must be .* they are 3 and 2"),
    ({"output": f32(1, 1, 3, 2)}, ConstraintError, r"\(1, 1, 3, 2\) is not \(1, 1\) by 2 by 2"),
    ({"output_padding": (2, 0)}, ConstraintError, r"\(1, 1, 2, 2\) is not \(1, 1\) by 4 by 2"),
    ({"direction": 1}, ConstraintError, "the channels of InputTensor .* they are 2 and 1"),
    ({"dilations": (1, 3)}, ConstraintError, "must give an output .* spatial dimension 1 has none"),
)


def test_names_of_modes_and_directions():
    names = {
        "mode": ("CROSS_CORRELATION", "DML_CONVOLUTION_MODE_CROSS_CORRELATION", ConvolutionMode.CROSS_CORRELATION),
        "direction": ("FORWARD", "DML_CONVOLUTION_DIRECTION_FORWARD", ConvolutionDirection.FORWARD),
    }
    for field, spellings in names.items():
        for name in spellings:
            assert ConvolutionDesc(**DESC.operands() | {field: name}) == DESC


# Transformations and meshes.


@pytest.mark.parametrize(
    ("direction", "activation", "order"),
    [
        pytest.param("backward", Activation("ACTIVATION_TANH"), 1, id="backward tanh"),
        pytest.param("forward", Activation("ACTIVATION_TANH"), 2, id="forward tanh", marks=pytest.mark.exhaustive),
        pytest.param("backward", None, 2, id="backward", marks=pytest.mark.exhaustive),
    ],
)
def test_derivatives_in_both_directions(direction, activation, order):
    x, w, bias = (numbered(shape) / 32 - 0.4 for shape in ((1, 4, 3), (4, 2, 2), (4,)))
    numbers = {"strides": (2,), "start_padding": (1,), "output_padding": (1,)}
    call = partial(convolution, direction=direction, group_count=2, activation=activation, **numbers)
    check_grads(jax.jit(call), (x, w, bias), order=order, atol=0.05, rtol=0.05)


def test_it_is_transposed_in_each_operand():
    y = numbered((2, 3, 2, 3))
    (back,) = jax.linear_transpose(lambda x: convolution(x, FILTER), INPUT)(y)
    assert_same_bits(back, oracle(y, FILTER, direction="backward"))
    (back,) = jax.linear_transpose(lambda w: convolution(INPUT, w), FILTER)(y)
    wanted = oracle(INPUT.swapaxes(0, 1), y.swapaxes(0, 1)).swapaxes(0, 1)  # batches are added up
    assert_same_bits(back, wanted)
    back = jax.jit(jax.grad(lambda b: (convolution(INPUT, FILTER, b) * y).sum()))(BIAS)
    assert_same_bits(back, y.sum((0, 2, 3)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("direction", "groups"), [("forward", 1), ("backward", 1), ("forward", 2), ("backward", 2)])
def test_vmap_of_any_axis(direction, groups):
    x, w = numbered((2, 2 * groups, 3)), numbered((2 * groups, 2, 2))
    call = partial(convolution, direction=direction, group_count=groups)
    xs, ws = np.stack([x, -x, x + 1], -1), np.stack([w, w - 3, 2 * w], 1)
    mapped = (jax.vmap(call, in_axes=(-1, 1), out_axes=1), xs, ws), (jax.vmap(call, in_axes=(None, 1)), x, ws)
    both, of_filters = together(mapped)
    for i in range(3):
        wanted = oracle(xs[..., i], ws[:, i], direction=direction, group_count=groups)
        assert_same_bits(both[:, i], wanted)
        assert_same_bits(of_filters[i], oracle(x, ws[:, i], direction=direction, group_count=groups))


def test_a_symbolic_batch_is_exported():
    call = exported(partial(convolution, activation=RELU), "n, 2, 3, 4", FILTER, BIAS).call
    assert_same_bits(call(INPUT, FILTER, BIAS), oracle(INPUT, FILTER, BIAS, activation=RELU))
    mapped = exported(jax.vmap(convolution, in_axes=(0, None, None)), "n, 2, 2, 3, 4", FILTER, BIAS)
    assert_same_bits(mapped.call(INPUT[None], FILTER, BIAS)[0], oracle(INPUT, FILTER, BIAS))
    with pytest.raises(ConstraintError, match="whose sizes are known, but spatial dimension 1 is symbolic, n and 2"):
        exported(convolution, "1, 2, 3, n", FILTER, BIAS)


@pytest.mark.parametrize(
    ("specs", "wanted"),
    [
        ((("d",), (), ()), P("d", None, None, None)),
        (((), ("d",), ()), P(None, "d", None, None)),
        (((), (), ("d",)), P(None, "d", None, None)),
    ],
)
def test_batches_and_channels_of_the_output_keep_their_sharding(specs, wanted):
    arrays = INPUT, numbered((4, 2, 2, 2)), numbered((4,))
    placed = [
        on_explicit_mesh(x, *spec, *(None,) * (x.ndim - len(spec))) for x, spec in zip(arrays, specs, strict=True)
    ]
    assert_sharded(convolution(*placed), wanted, oracle(*arrays))


def test_backward_channels_keep_their_sharding_unless_there_are_groups():
    x, w = numbered((1, 2, 3)), numbered((2, 2, 2))
    placed = on_explicit_mesh(w, None, "d", None)
    made = convolution(x, placed, direction="backward")
    assert_sharded(made, P(None, "d", None), oracle(x, w, direction="backward"))
    with pytest.raises(ConstraintError, match="dimension 1 of filter is sharded over 'd', along which"):
        convolution(x, placed, direction="backward", group_count=2)
    made = convolution(x, placed, direction="backward", group_count=2, out_sharding=P(None, "d", None))
    assert_same_bits(made, oracle(x, w, direction="backward", group_count=2))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"filter": None}, DataTypeError, "filter must be an array"),
    ({"input": INPUT > 3}, DataTypeError, "input.dtype must be a floating-point type, but it is bool"),
    ({"input": INPUT.astype(np.complex64)}, DataTypeError, "it is complex64"),
    ({"input": random_keys(2, 2, 3, 4)}, DataTypeError, "it is key<fry>"),
    ({"filter": FILTER.astype(np.float16)}, DataTypeError, "filter.dtype must equal input.dtype"),
    ({"input": INPUT[0]}, ConstraintError, "filter.rank must equal input.rank, but they are 4 and 3"),
    ({"filter": np.float32(3)}, ConstraintError, "filter.rank must equal input.rank, but they are 0 and 4"),
    ({"strides": 2.0}, DataTypeError, "strides must be"),
    ({"strides": (1, "2")}, DataTypeError, "strides"),
    ({"strides": (1, 2.5)}, DataTypeError, "strides"),
    ({"dilations": (1, 2, 3)}, ConstraintError, "one entry per spatial dimension, .* there are 3 for 2"),
    ({"start_padding": (0, -1)}, ConstraintError, "every one of start_padding must be at least 0"),
    ({"output_padding": (0, 2**63)}, ConstraintError, r"must be less than 2\*\*31"),
    ({"strides": (2**63, 2**70)}, ConstraintError, r"must be less than 2\*\*31"),
    ({"dilations": (2**31, 1)}, ConstraintError, "must give an output"),
    ({"group_count": True}, DataTypeError, "group_count"),
    ({"group_count": 2}, ConstraintError, r"group_count must divide filter.sizes\[0\], .* 2 and 3"),
    ({"group_count": 2**63}, ConstraintError, "group_count must divide"),
    ({"input": INPUT[:, :1]}, ConstraintError, "the channels of input must be .* they are 1 and 2"),
    ({"filter": FILTER[..., :0]}, ConstraintError, "spatial dimension 1 has sizes 4 and 0"),
    ({"mode": "same"}, ConstraintError, "mode must be one of 'cross_correlation', 'convolution'"),
    ({"direction": 1}, DataTypeError, "direction must be"),
    ({"output_sizes": (3,)}, ConstraintError, r"output_sizes must be .* they are \(3,\), not 3 by 3"),
    ({"output_sizes": (3, 4)}, ConstraintError, r"they are \(3, 4\), not 3 by 3"),
    ({"bias": BIAS[None]}, ConstraintError, r"bias.sizes must be \(the channels of the output,\), but \(1, 3\)"),
    ({"activation": "RELU"}, DataTypeError, "activation must be an Activation, but it is str"),
)
