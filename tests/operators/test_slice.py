"""slice, SLICE and SLICE1: output[c] = input[start + c * strides], from the window's end where a stride is negative."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported
from draws import dims
from operator_cases import Call, Example, Struct, f32, u8
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered

from dml_jax import ConstraintError, DataTypeError, Slice1Desc, SliceDesc, compile_operator, slice

pytestmark = pytest.mark.device


def oracle(input, input_window_offsets, input_window_sizes, input_window_strides):
    window = [*zip(input_window_offsets, input_window_sizes, input_window_strides, strict=True)]
    start = [offset + n - 1 if stride < 0 else offset for offset, n, stride in window]
    output = np.empty([1 + (n - 1) // abs(stride) for _, n, stride in window], input.dtype)
    for c in coordinates(output.shape):
        output[c] = input[tuple(s + at * stride for s, at, (_, _, stride) in zip(start, c, window, strict=True))]
    return output


def windows(*per_dimension):
    """Offsets, sizes and strides of (offset, size, stride) per dimension."""
    return tuple(zip(*per_dimension, strict=True)) or ((), (), ())


NAMES = ("input_window_offsets", "input_window_sizes", "input_window_strides")
X = numbered((4, 6))
CASE = Call(slice, {"input": X}, dict(zip(NAMES, windows((0, 4, -2), (1, 5, 2)), strict=True)))
BREAKS = {
    "one_per_dimension(input_window_offsets)": {"input_window_offsets": (0,)},
    "one_per_dimension(input_window_sizes)": {"input_window_sizes": (4, 5, 1)},
    "one_per_dimension(input_window_strides)": {"input_window_strides": ()},
    "inside": {"input_window_sizes": (4, 6)},
    "moves": {"input_window_strides": (-2, 0)},
}
VARIANTS = {
    "cut": {"input_window_offsets": (1, 2), "input_window_sizes": (2, 3), "input_window_strides": (1, 1)},
    "turned": dict(zip(NAMES, windows((0, 4, 1), (0, 6, -1)), strict=True)),
    "one": {"input_window_sizes": (1, 1)},
}


# The structs.


def a_window(rng, size, strides):
    """Offset, size and stride of a window that lies inside."""
    offset = int(rng.integers(0, size))
    return offset, int(rng.integers(1, size - offset + 1)), int(rng.choice(strides))


def draw(rng):
    input = dims(rng, int(rng.integers(1, 9)))
    drawn = [a_window(rng, n, (1, 2, 3)) for n in input]
    sizes = [1 + (n - 1) // stride for _, n, stride in drawn]
    return {
        "input": input,
        "output": sizes,
        "offsets": [offset for offset, _, _ in drawn],
        "sizes": sizes,
        "strides": [stride for _, _, stride in drawn],
    }


def draw1(rng):
    """The output may be smaller than what the strides reach."""
    input = dims(rng, int(rng.integers(1, 9)))
    drawn = [a_window(rng, n, (-3, -2, -1, 1, 2, 3)) for n in input]
    output = [int(rng.integers(1, 2 + (n - 1) // abs(stride))) for _, n, stride in drawn]
    return {"input": input, "output": output, **dict(zip(NAMES, windows(*drawn), strict=True))}


def expected(desc, x):
    """Its sizes are those of the output: a window that just holds the last element."""
    window = [1 + (n - 1) * stride for n, stride in zip(desc.sizes, desc.strides, strict=True)]
    return oracle(x, desc.offsets, window, desc.strides)


def expected1(desc, x):
    whole = oracle(x, desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides)
    output = np.empty(desc.output.sizes, x.dtype)
    for c in coordinates(output.shape):
        output[c] = whole[c]
    return output


FOUR = f32(1, 1, 4, 4)
DOCUMENTED = SliceDesc(FOUR, f32(1, 1, 2, 2), (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3))
DOCUMENTED1 = Slice1Desc(FOUR, f32(1, 1, 2, 2), (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2))
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "one_per_dimension(offsets)": {"offsets": (0, 0, 1)},
            "one_per_dimension(sizes)": {"sizes": (1, 1, 2)},
            "one_per_dimension(strides)": {"strides": (1, 1, 2, 3, 1)},
            "each_at_least(strides, 1)": {"strides": (1, 1, 2, 0)},
            "sizes_follow(output)": {"output": f32(1, 1, 2, 1)},
            "inside": {"offsets": (0, 0, 2, 0)},
        },
        examples=(
            Example(
                SliceDesc(FOUR, f32(1, 1, 3, 2), (0, 0, 1, 2), (1, 1, 3, 2), (1,) * 4),
                [range(1, 17)],
                [[7, 8, 11, 12, 15, 16]],
            ),
            Example(DOCUMENTED, [range(1, 17)], [[5, 8, 13, 16]]),
        ),
        draw=draw,
        expected=expected,
        leading={"offsets": 0, "sizes": 1, "strides": 1},
    ),
    Struct(
        DOCUMENTED1,
        breaks={
            "one_per_dimension(input_window_offsets)": {"input_window_offsets": (0, 0, 0)},
            "one_per_dimension(input_window_sizes)": {"input_window_sizes": (1, 1, 4)},
            "one_per_dimension(input_window_strides)": {"input_window_strides": (1, 1, -2)},
            "inside": {"input_window_offsets": (0, 0, 1, 1)},
            "moves": {"input_window_strides": (1, 1, 0, 2)},
            "reached": {"output": f32(1, 1, 2, 3)},
        },
        examples=(
            Example(
                Slice1Desc(FOUR, f32(1, 1, 2, 2), (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, 2, 2)),
                [range(1, 17)],
                [[2, 4, 10, 12]],
            ),
            Example(DOCUMENTED1, [range(1, 17)], [[14, 16, 6, 8]]),
        ),
        draw=draw1,
        expected=expected1,
        leading={"input_window_offsets": 0, "input_window_sizes": 1, "input_window_strides": 1},
    ),
)


def test_a_smaller_output_leaves_the_rest_of_the_window_out():
    desc = Slice1Desc(u8(7), u8(2), (1,), (6,), (-2,))
    assert_same_bits(compile_operator(desc)(np.arange(7, dtype=np.uint8)), np.uint8([6, 4]))


@pytest.mark.parametrize("stride", [2**31 - 1, -(2**31), -(2**31) + 1])
def test_the_largest_strides(stride):
    """A stride that leaves the window copies one element."""
    desc = Slice1Desc(f32(3), f32(1), (1,), (2,), (stride,))
    wanted = np.float32([3 if stride < 0 else 2])
    assert_same_bits(compile_operator(desc)(numbered(3)), wanted)
    assert_same_bits(slice(numbered(3), (1,), (2,), (stride,)), wanted)


test_windows_that_slice1_refuses = refuses(
    DOCUMENTED1,
    ({"input_window_strides": (1, 1, 2**31, 1)}, r"InputWindowStrides\[2\] must be in \[-2\*\*31"),
    ({"input_window_offsets": (0, 0, -1, 0)}, r"InputWindowOffsets\[2\] must be in \[0, 2\*\*32"),
    ({"input_window_sizes": (1, 1, 0, 3)}, r"every window must have elements, .* dimension 2 is \[0, 0\) of 4"),
    ({"input_window_sizes": (1, 1, 4, 4)}, r"all of them in InputTensor, .* dimension 3 is \[1, 5\) of 4"),
)


def test_a_last_element_that_slice_refuses():
    with pytest.raises(ConstraintError, match="the last one of dimension 2 is 4 of 4"):
        SliceDesc(**DOCUMENTED.operands() | {"strides": (1, 1, 3, 3)})


# Against the oracle.

LINES = [(o, n, s) for o in range(4) for n in range(1, 5 - o) for s in (-3, -2, -1, 1, 2, 3)]


def test_every_window_of_four():
    def calls():
        x = numbered((4, 4))
        for line, other in itertools.product(LINES, ((0, 4, 1), (1, 2, -1))):
            for pair in ((line, other), (other, line)):
                names = dict(zip(NAMES, windows(*pair), strict=True))
                yield partial(slice, **names), (x,), oracle(x, **names)

    assert_calls_agree(list(calls())[::3])


@pytest.mark.exhaustive
def test_many_pairs_of_windows_of_four():
    """Every seventh: each window of one dimension meets most windows of the other."""

    def calls():
        x = numbered((4, 4))
        for pair in itertools.islice(itertools.product(LINES, LINES), 0, None, 7):
            names = dict(zip(NAMES, windows(*pair), strict=True))
            yield partial(slice, **names), (x,), oracle(x, **names)

    assert_calls_agree(calls())


def test_many_dimensions_and_none():
    x = numbered((2,) * 8)
    window = windows(*[(0, 2, s) for s in (1, -1, 2, -2) * 2])
    assert_same_bits(slice(x, *window), oracle(x, *window))
    assert_same_bits(slice(np.float32(3), (), (), ()), np.float32(3))


# Empty arrays.


def test_an_empty_dimension_has_no_window():
    for size in (0, 1):
        with pytest.raises(ConstraintError, match=rf"that of dimension 0 is \[0, {size}\) of 0"):
            slice(np.zeros((0, 2), np.float32), (0, 0), (size, 2), (1, 1))


# Transformations.


def test_gradients_go_back_where_the_elements_came_from():
    window = windows((0, 4, -3), (1, 5, 2))
    weights = numbered((2, 3))
    wanted = np.zeros((4, 6), np.float32)
    wanted[np.ix_([3, 0], [1, 3, 5])] = weights
    assert_same_bits(jax.jit(jax.grad(lambda x: (slice(x, *window) * weights).sum()))(X), wanted)
    narrow = jax.vjp(lambda x: slice(x, *window), X.astype(jnp.bfloat16))[1](weights.astype(jnp.bfloat16))
    assert_same_bits(narrow[0], wanted.astype(jnp.bfloat16))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1, 2]}, DataTypeError, "input must be an array"),
    ({"input_window_offsets": (0.0, 1)}, DataTypeError, r"input_window_offsets\[0\] must be an integer"),
    ({"input_window_sizes": 4}, DataTypeError, "input_window_sizes must be a sequence of integers"),
    ({"input_window_strides": "11"}, DataTypeError, "input_window_strides must be a sequence of integers"),
    (
        {"input_window_strides": (True, 1)},
        DataTypeError,
        r"input_window_strides\[0\] must be an integer, but it is True",
    ),
    ({"input_window_offsets": (-1, 1)}, ConstraintError, r"that of dimension 0 is \[-1, 3\) of 4"),
    ({"input_window_sizes": (4, 2**70)}, ConstraintError, "that of dimension 1 is"),
)


@pytest.mark.parametrize(
    ("args", "kwargs", "match"),
    [
        ((X, (0,), (1,)), {}, "missing 1 required positional argument: 'input_window_strides'"),
        ((X, (0,), (1,), (1,)), {"input": X}, "multiple values for argument 'input'"),
        ((X, (0,), (1,), (1,)), {"axis": 0}, "unexpected keyword argument 'axis'"),
    ],
)
def test_python_says_what_is_wrong_with_a_call(args, kwargs, match):
    with pytest.raises(TypeError, match=match):
        slice(*args, **kwargs)


def test_a_symbolic_dimension_is_copied_whole():
    def middle(x):
        return slice(x, (0, 1), (x.shape[0], 5), (1, 3))

    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(exported(middle, "b, 6").call(x), x[:, 1:6:3])
    with pytest.raises(ConstraintError, match="dimension 0 is symbolic, b, of which only the whole can be copied"):
        exported(lambda x: slice(x, (0, 0), (1, 6), (1, 1)), "b, 6")


def test_a_stride_beyond_the_window_reaches_its_first_element():
    assert slice(np.int32([0, 1, 2, 3, 4]), (1,), (3,), (2**70,)).tolist() == [1]
    assert slice(np.int32([0, 1, 2, 3, 4]), (1,), (3,), (-(2**70),)).tolist() == [3]
