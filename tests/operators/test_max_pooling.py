"""max_pooling and MAX_POOLING to MAX_POOLING2: the greatest element of each window, and where it lies."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, assert_same_bits
from operator_cases import Call, Example, Struct, f32, i8, u32
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
    ConstraintError,
    DataTypeError,
    MaxPooling1Desc,
    MaxPooling2Desc,
    MaxPoolingDesc,
    max_pooling,
    max_unpooling,
)

pytestmark = pytest.mark.device


def oracle(input, window_sizes, **given):
    attributes = filled(window_sizes, **given)
    split = input.ndim - len(window_sizes)
    lead, sizes = input.shape[:split], input.shape[split:]
    counts = counted(sizes, attributes)
    values = np.full((*lead, prod(counts)), least(input.dtype))
    indices = np.full(values.shape, 2**32 - 1, np.uint32)
    for _, column, at in places(sizes, attributes):
        for batch in coordinates(lead):
            if at is None:
                continue
            here = (*batch, *at)
            if indices[*batch, column] == 2**32 - 1 or rank(input[here]) > rank(values[*batch, column]):
                values[*batch, column] = input[here]
                indices[*batch, column] = np.ravel_multi_index(here, input.shape)
    return values.reshape(*lead, *counts), indices.reshape(*lead, *counts)


def rank(x):
    """A NaN is greater than every number."""
    if np.asarray(x).dtype.kind in "biu":
        return False, int(x)
    return (True, 0.0) if x != x else (False, float(x))


def least(dtype):
    if dtype.kind in "iu" or "int" in dtype.name:
        return np.array(ml_dtypes.iinfo(dtype).min, dtype)
    return np.array(0 if dtype.kind == "b" else -np.inf, dtype)


X = np.float32([[[3, 5, 7, 1], [9, 4, 2, 8], [-1, 8, 8, -3]], [[2, 2, -5, 0], [-0.0, 0.0, 1, 1], [6, -2, 4, 6]]])
CASE = Call(max_pooling, {"input": X}, {"window_sizes": (2, 3)}, is_linear=False)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "ordered(input)": {"input": X.astype(np.complex64)},
    "numbered(input)": {"input": np.lib.stride_tricks.as_strided(np.int8([0]), (2**16, 2**16), (0, 0))},
    "spatial(window_sizes)": {"window_sizes": ()},
    **window_breaks((2, 5)),
}
VARIANTS = {
    "padded": {"start_padding": (1, 0), "end_padding": (2, 1), "strides": (2, 2)},
    "dilated": {"dilations": (2, 1), "strides": (1, 2), "end_padding": (0, 1)},
    "in the padding alone": {"window_sizes": (1, 1), "start_padding": (0, 2)},
    "all dimensions": {"window_sizes": (2, 2, 2)},
    "all elements": {"window_sizes": (3, 4)},
    "integers": {"input": (X * 20).astype(np.uint8), "start_padding": (0, 2)},
    "bfloat16": {"input": X.astype(jnp.bfloat16), "window_sizes": (2,)},
}


# By example.


def test_the_greatest_of_each_window_and_where_it_is():
    x = np.float32([3, 5, 7, 1])
    assert_is(max_pooling(x, (2,)), (np.float32([5, 7, 7]), np.uint32([1, 2, 2])))
    assert_is(max_pooling(x, (2,), strides=(2,)), (np.float32([5, 7]), np.uint32([1, 2])))


# Against the oracle.


def test_windows_of_every_kind(exhaustive):
    rng = np.random.default_rng(0)

    def calls():
        for sizes, attributes in some_windows(exhaustive):
            x = rng.choice(np.float32([0, -0.0, 1, -1, np.nan, -np.inf]), (2, *sizes))
            yield partial(max_pooling, **attributes), (x,), oracle(x, **attributes)

    assert_calls_agree(calls())


def test_leading_dimensions():
    for lead in ((), (3,), (2, 1, 3), (2, 2, 1, 2)):
        x = -numbered((*lead, 3, 4))
        assert_is(max_pooling(x, (2, 2)), oracle(x, (2, 2)))


def test_unpooling_puts_back_what_was_found():
    x = np.random.default_rng(2).permutation(32).astype(np.float32).reshape(2, 1, 4, 4)
    values, indices = max_pooling(x, (2, 2), strides=(2, 2))
    back = np.asarray(max_unpooling(values, indices, x.shape))
    assert_same_bits(back[back != 0], x[back != 0])
    assert (back != 0).sum() == 8


# The structs.


def fill(rng, port, tensor, count):
    """Ties, NaNs and zeros of both signs; of half of the buffers random bits."""
    if rng.random() < 0.5:
        return None
    few = [-2, 0, 1, 1] if tensor.dtype.kind != "f" else [-2, 0, -0.0, 1, np.nan, -np.nan, -np.inf]
    return rng.choice(np.array(few).astype(tensor.dtype), count)


def draw_with_indices(rng, *, dilated):
    fields = draw_pooled(rng, dilated=dilated)
    return {**fields, "output_indices": fields["output"] if rng.random() < 0.8 else None}


def expected(desc, x):
    values, indices = oracle(x, **pooling_of(desc))
    tensor = desc.operands().get("output_indices")
    return values if tensor is None else (values, indices.astype(tensor.dtype))


# DirectML's example: windows of 3 along rows.
IMAGE, POOLED, WINDOWS = f32(1, 1, 2, 4), f32(1, 1, 2, 2), ((1, 1), (1, 3), (0, 0), (0, 0))
TABLE, VALUES, INDICES = [3, 5, 7, 1, 9, 4, 2, 8], [7, 7, 9, 8], [2, 2, 4, 7]
PLAIN = MaxPoolingDesc(IMAGE, POOLED, *WINDOWS)
INDEXED = MaxPooling1Desc(IMAGE, POOLED, u32(1, 1, 2, 2), *WINDOWS)
DILATED = MaxPooling2Desc(IMAGE, POOLED, u32(1, 1, 2, 2), *WINDOWS, (1, 1))
SAME = {"same_sizes(output_indices, output)": {"output_indices": u32(1, 1, 2, 1)}}
STRUCTS = (
    Struct(
        PLAIN,
        breaks=POOLING_BREAKS,
        examples=[Example(PLAIN, [TABLE], [VALUES])],
        draw=partial(draw_pooled, dilated=False),
        expected=expected,
        leading=POOLING_LEADING,
        fill=fill,
    ),
    Struct(
        INDEXED,
        breaks=POOLING_BREAKS | SAME,
        examples=[Example(INDEXED, [TABLE], [VALUES, INDICES])],
        draw=partial(draw_with_indices, dilated=False),
        expected=expected,
        leading=POOLING_LEADING,
        fill=fill,
    ),
    Struct(
        DILATED,
        breaks=POOLING_BREAKS | DILATED_BREAKS | SAME,
        examples=[Example(DILATED, [TABLE], [VALUES, INDICES])],
        draw=partial(draw_with_indices, dilated=True),
        expected=expected,
        leading=DILATED_LEADING,
        fill=fill,
    ),
)


test_what_the_struct_refuses = refuses(
    DILATED,
    ({"window_size": (3,)}, "WindowSize must have .* InputTensor.DimensionCount - 2, but there are 1"),
    ({"dilations": (1, 2)}, "window must fit .* but that of spatial dimension 1 spans 5 of 4"),
    ({"strides": (1, 0)}, r"every one of Strides must be at least 1, but they are \(1, 0\)"),
    ({"start_padding": (-1, 0)}, r"StartPadding\[0\] must be in \[0, 2\*\*32 - 1\]"),
    ({"output": f32(1, 1, 2, 3)}, r"OutputTensor.Sizes must be \(N, C, .* \(1, 1, 2, 3\) is not \(1, 1, 2, 2\)"),
    ({"output_indices": u32(1, 1, 2, 3)}, "OutputIndicesTensor.Sizes must equal OutputTensor.Sizes"),
    ({"output_indices": f32(1, 1, 2, 2)}, "OutputIndicesTensor.DataType must be one of UINT64, UINT32"),
    ({"output": i8(1, 1, 2, 2)}, "OutputTensor.DataType must equal InputTensor.DataType"),
)


# Transformations.


def test_the_gradient_goes_back_to_the_first_of_equals():
    weights, wanted = numbered((2, 2, 2)), np.zeros(X.size, np.float32)
    np.add.at(wanted, oracle(X, (2, 3))[1].ravel(), weights.ravel())
    back = jax.jit(jax.grad(lambda x: (max_pooling(x, (2, 3))[0] * weights).sum()))(X)
    assert_same_bits(back, wanted.reshape(X.shape))


def test_what_is_in_the_padding_alone_has_no_gradient():
    back = jax.jit(jax.grad(lambda x: max_pooling(x, (1,), start_padding=(2,))[0][2:].sum()))(np.float32([1, 2]))
    assert_same_bits(back, np.float32([1, 1]))


def test_tangents_are_those_of_the_elements_that_were_found():
    tangents = numbered(X.shape)
    attributes = {"window_sizes": (2, 2), "start_padding": (1, 0)}
    (_, indices), (moved, _) = jax.jvp(partial(max_pooling, **attributes), (X,), (tangents,))
    assert_same_bits(moved, tangents.ravel()[np.asarray(indices)])


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": X.astype(np.complex64)}, DataTypeError, "it is complex64, whose numbers have no order"),
    (
        {"window_sizes": 2.0},
        DataTypeError,
        "window_sizes must be a sequence of integers, or one of them, but it is 2.0",
    ),
    ({"window_sizes": (1, 1, 1, 1)}, ConstraintError, "at least one, but there are 4 and the rank is 3"),
    ({"window_sizes": (2, 1.5)}, DataTypeError, r"window_sizes\[1\] must be an integer"),
    ({"window_sizes": (2, 2**63)}, ConstraintError, "spatial dimension 1 spans 9223372036854775808 of 4"),
    ({"strides": (1, 1, 1)}, ConstraintError, "strides must have one entry per window size, but there are 3 for 2"),
    ({"end_padding": (2**63, 0)}, ConstraintError, r"must be fewer than 2\*\*63, but one would be"),
    ({"start_padding": (0, -1)}, ConstraintError, r"every one of start_padding must be at least 0"),
)


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(4).normal(size=(2, 3, 7, 6)).astype(np.float32)
    pool = partial(torch.nn.functional.max_pool2d, stride=(1, 2), padding=(1, 1), dilation=(2, 1))
    values = max_pooling(x, (3, 2), strides=(1, 2), dilations=(2, 1), start_padding=(1, 1), end_padding=(1, 1))[0]
    assert_same_bits(values, pool(torch.from_numpy(x), (3, 2)).numpy())
