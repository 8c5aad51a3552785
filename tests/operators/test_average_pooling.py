"""average_pooling, AVERAGE_POOLING and AVERAGE_POOLING1: the mean of each window."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, together
from draws import normal_numbers
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f16, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered
from window_cases import (
    DILATED_BREAKS,
    DILATED_LEADING,
    POOLING_BREAKS,
    POOLING_LEADING,
    counted,
    draw_pooled,
    filled,
    places,
    pooling_of,
    some_windows,
    window_breaks,
)

from dml_jax import (
    AveragePooling1Desc,
    AveragePoolingDesc,
    ConstraintError,
    DataTypeError,
    average_pooling,
    fold,
)

pytestmark = pytest.mark.device


def exact(input, window_sizes, include_padding=False, **given):
    """In float64, one element after the other."""
    attributes = filled(window_sizes, **given)
    split = input.ndim - len(window_sizes)
    lead, sizes = input.shape[:split], input.shape[split:]
    counts = counted(sizes, attributes)
    totals, inside = np.zeros((*lead, prod(counts))), np.zeros(prod(counts))
    for _, column, at in places(sizes, attributes):
        inside[column] += include_padding or at is not None
        for batch in coordinates(lead) if at is not None else ():
            totals[*batch, column] += float(input[*batch, *at])
    return (totals / np.maximum(inside, 1)).reshape(*lead, *counts)


def oracle(input, window_sizes, **given):
    return exact(input, window_sizes, **given).astype(input.dtype)


X = numbered((2, 3, 4))
CASE = Call(average_pooling, {"input": X}, {"window_sizes": (2, 2)}, is_weighted=True)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "float(input)": {"input": X.astype(np.int32)},
    "spatial(window_sizes)": {"window_sizes": (1, 1, 1, 1)},
    **window_breaks((2, 5)),
}
# Windows of powers of two, whose means are exact.
VARIANTS = {
    "padded": {"start_padding": (1, 0), "end_padding": (1, 0), "strides": (2, 2)},
    "with padding": {"start_padding": (1, 1), "end_padding": (2, 0), "include_padding": True},
    "dilated": {"dilations": (2, 1), "strides": (1, 2), "end_padding": (0, 2)},
    "all dimensions": {"window_sizes": (2, 2, 2)},
    "float16": {"input": X.astype(np.float16)},
}


# The structs.


def draw(rng, *, dilated):
    return {**draw_pooled(rng, dilated=dilated), "include_padding": bool(rng.integers(0, 2))}


def expected(desc, x):
    return exact(x, include_padding=desc.include_padding, **pooling_of(desc))


# DirectML prints no numbers: the mean of a window and of what it has in the picture.
IMAGE, WINDOWS = f32(1, 1, 2, 4), ((2, 2), (2, 2), (0, 1), (0, 1))
TABLE, MEANS, WITH_PADDING = [3, 5, 7, 1, 9, 4, 2, 8], [6, 4.5, 4.5], [3, 4.5, 2.25]
PLAIN = AveragePoolingDesc(IMAGE, f32(1, 1, 1, 3), *WINDOWS, False)
DILATED = AveragePooling1Desc(IMAGE, f32(1, 1, 1, 3), *WINDOWS, (1, 1), False)
BREAKS_OF_STRUCTS = POOLING_BREAKS | {"fits": {"window_size": (3, 2)}}
STRUCTS = (
    Struct(
        PLAIN,
        breaks=BREAKS_OF_STRUCTS,
        examples=(
            Example(PLAIN, [TABLE], [MEANS]),
            Example(AveragePoolingDesc(**PLAIN.operands() | {"include_padding": True}), [TABLE], [WITH_PADDING]),
        ),
        draw=partial(draw, dilated=False),
        expected=expected,
        leading=POOLING_LEADING,
        fill=normal_numbers,
        units=16,
    ),
    Struct(
        DILATED,
        breaks=BREAKS_OF_STRUCTS | DILATED_BREAKS,
        examples=[Example(DILATED, [TABLE], [MEANS])],
        draw=partial(draw, dilated=True),
        expected=expected,
        leading=DILATED_LEADING,
        fill=normal_numbers,
        units=16,
    ),
)


test_what_the_struct_refuses = refuses(
    DILATED,
    ({"window_size": (3,)}, "WindowSize must have .* InputTensor.DimensionCount - 2, but there are 1"),
    ({"dilations": (2, 1)}, "window must fit .* but that of spatial dimension 0 spans 3 of 2"),
    ({"dilations": (1, 0)}, r"every one of Dilations must be at least 1, but they are \(1, 0\)"),
    ({"output": f32(1, 1, 1, 2)}, r"OutputTensor.Sizes must be \(N, C, .* \(1, 1, 1, 2\) is not \(1, 1, 1, 3\)"),
    ({"include_padding": 2}, "IncludePadding must be True or False, but it is 2"),
    ({"output": f16(1, 1, 1, 3)}, "OutputTensor.DataType must equal InputTensor.DataType"),
)


# Against the oracle.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("include_padding", [False, True])
def test_windows_of_every_kind(include_padding, exhaustive):
    rng = np.random.default_rng(0)
    cases = [
        (rng.normal(size=(2, *sizes)).astype(np.float32), {**attributes, "include_padding": include_padding})
        for sizes, attributes in some_windows(exhaustive)
    ]
    made = together([(partial(average_pooling, **attributes), x) for x, attributes in cases])
    for one, (x, attributes) in zip(made, cases, strict=True):
        assert_close(one, exact(x, **attributes), units=8)


def test_what_lies_in_no_window_is_not_read():
    x = np.float32([1, np.nan, 3, np.inf, 5])
    assert_same_bits(average_pooling(x, (2,), dilations=(2,))[::2], np.float32([2, 4]))


def test_a_window_in_the_padding_alone_has_the_mean_0():
    for include_padding in (False, True):
        made = average_pooling(np.float32([4]), (1,), start_padding=(2,), include_padding=include_padding)
        assert_same_bits(made, np.float32([0, 0, 4]))


# Transformations.


def test_the_gradient_spreads_the_cotangent_over_the_window():
    attributes = {"strides": (2, 1), "start_padding": (1, 0), "end_padding": (0, 1)}
    weights = numbered(oracle(X, (2, 2), **attributes).shape)
    back = jax.jit(
        jax.grad(lambda x: (average_pooling(x, (2, 2), include_padding=True, **attributes) * weights).sum())
    )(X)
    columns = np.repeat(weights.reshape(2, 1, -1), 4, 1) / 4
    assert_same_bits(back, fold(columns.reshape(8, -1), (3, 4), (2, 2), **attributes))


def test_derivatives_in_both_directions():
    pool = partial(average_pooling, window_sizes=(2, 3), strides=(1, 2), start_padding=(1, 1), dilations=(2, 1))
    check_grads(jax.jit(pool), (X / 24,), order=1, atol=0.05, rtol=0.05)


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": X > 3}, DataTypeError, "input.dtype must be a floating-point type, but it is bool"),
    (
        {"window_sizes": 2.0},
        DataTypeError,
        "window_sizes must be a sequence of integers, or one of them, but it is 2.0",
    ),
    ({"window_sizes": (2, 2**63)}, ConstraintError, "spatial dimension 1 spans 9223372036854775808 of 4"),
    ({"strides": (1,)}, ConstraintError, "strides must have one entry per window size, but there are 1 for 2"),
    ({"start_padding": (True, 0)}, DataTypeError, r"start_padding\[0\] must be an integer, but it is True"),
    ({"include_padding": 1}, DataTypeError, "include_padding must be True or False"),
)


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(4).normal(size=(2, 3, 7, 6)).astype(np.float32)
    for include_padding in (False, True):
        pool = partial(torch.nn.functional.avg_pool2d, stride=(1, 2), padding=1, count_include_pad=include_padding)
        ours = average_pooling(
            x, (3, 2), strides=(1, 2), start_padding=(1, 1), end_padding=(1, 1), include_padding=include_padding
        )
        assert_close(ours, pool(torch.from_numpy(x), (3, 2)).numpy(), units=4)
