"""slice_grad and SLICE_GRAD: output[start + c * strides] = input_gradient[c], and 0 elsewhere."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported
from draws import dims
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered, random_keys

from dml_jax import ConstraintError, DataTypeError, SliceGradDesc, compile_operator, slice, slice_grad

pytestmark = pytest.mark.device


def oracle(input_gradient, sizes, offsets, window_sizes, strides):
    window = [*zip(offsets, window_sizes, strides, strict=True)]
    start = [offset + n - 1 if stride < 0 else offset for offset, n, stride in window]
    output = np.zeros(sizes, input_gradient.dtype)
    for c in coordinates(input_gradient.shape):
        output[tuple(s + at * stride for s, at, stride in zip(start, c, strides, strict=True))] = input_gradient[c]
    return output


NAMES = ("sizes", "offsets", "window_sizes", "strides")


def windows(*per_dimension):
    """Sizes, offsets, window sizes and strides of a tuple of them per dimension."""
    return dict(zip(NAMES, zip(*per_dimension, strict=True), strict=True))


def reach(sizes, offsets, window_sizes, strides):
    """The sizes of what the strides reach."""
    return tuple(1 + (n - 1) // abs(stride) for n, stride in zip(window_sizes, strides, strict=True))


X = numbered((2, 3))
CASE = Call(slice_grad, {"input_gradient": X}, windows((4, 0, 4, -2), (7, 1, 5, 2)))
BREAKS = {
    "numbers(input_gradient)": {"input_gradient": random_keys(2, 3)},
    "one_per_dimension(sizes)": {"sizes": (4,)},
    "one_per_dimension(offsets)": {"offsets": (0, 1, 0)},
    "one_per_dimension(window_sizes)": {"window_sizes": ()},
    "one_per_dimension(strides)": {"strides": (-2,)},
    "representable": {"sizes": (4, 2**59)},
    "inside": {"window_sizes": (4, 7)},
    "moves": {"strides": (-2, 0)},
    "reached": {"window_sizes": (4, 4)},
}
VARIANTS = {
    "put": {"sizes": (4, 6), "offsets": (1, 2), "window_sizes": (2, 3), "strides": (1, 1)},
    "turned": windows((2, 0, 2, 1), (3, 0, 3, -1)),
    "less": {"window_sizes": (4, 6), "offsets": (0, 0)},
    "one": {"input_gradient": X[:1], "strides": (-(2**40), 2)},
}


# The struct.


def draw(rng):
    """The gradient may be smaller than what the strides reach."""
    sizes = dims(rng, int(rng.integers(1, 9)))
    drawn = []
    for n in sizes:
        offset = int(rng.integers(0, n))
        drawn.append((offset, int(rng.integers(1, n - offset + 1)), int(rng.choice((-3, -2, -1, 1, 2, 3)))))
    offsets, window, strides = zip(*drawn, strict=True)
    return {
        "input_gradient": [int(rng.integers(1, n + 1)) for n in reach(sizes, offsets, window, strides)],
        "output_gradient": sizes,
        "input_window_offsets": offsets,
        "input_window_sizes": window,
        "input_window_strides": strides,
    }


DOCUMENTED = SliceGradDesc(f32(1, 1, 2, 2), f32(1, 1, 4, 4), (0,) * 4, (1, 1, 4, 4), (1, 1, 2, 2))
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "one_per_dimension(input_window_offsets)": {"input_window_offsets": (0, 0, 0)},
            "one_per_dimension(input_window_sizes)": {"input_window_sizes": (1, 1, 4)},
            "one_per_dimension(input_window_strides)": {"input_window_strides": (1, 1, 2, 2, 1)},
            "inside": {"input_window_offsets": (0, 0, 1, 0)},
            "moves": {"input_window_strides": (1, 1, 0, 2)},
            "reached": {"input_gradient": f32(1, 1, 3, 2)},
        },
        examples=(Example(DOCUMENTED, [[1, 3, 9, 11]], [[1, 0, 3, 0] + [0] * 4 + [9, 0, 11, 0] + [0] * 4]),),
        draw=draw,
        expected=lambda desc, x: oracle(
            x, desc.output_gradient.sizes, desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
        ),
        leading={"input_window_offsets": 0, "input_window_sizes": 1, "input_window_strides": 1},
    ),
)


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    ({"input_window_strides": (1, 1, 2**31, 1)}, r"InputWindowStrides\[2\] must be in \[-2\*\*31"),
    ({"input_window_offsets": (0, 0, -1, 0)}, r"InputWindowOffsets\[2\] must be in \[0, 2\*\*32"),
    ({"input_window_sizes": (1, 1, 5, 4)}, r"in OutputGradientTensor, .* dimension 2 is \[0, 5\) of 4"),
    (
        {"input_gradient": f32(1, 1, 2, 3)},
        r"InputGradientTensor.Sizes must be at most .* but \(1, 1, 2, 3\) is more than \(1, 1, 2, 2\)",
    ),
)


@pytest.mark.parametrize("stride", [2**31 - 1, -(2**31)])
def test_the_largest_strides(stride):
    """A stride that leaves the window writes one element."""
    desc = SliceGradDesc(f32(1), f32(3), (1,), (2,), (stride,))
    wanted = np.float32([0, 0, 7] if stride < 0 else [0, 7, 0])
    assert_same_bits(compile_operator(desc)(np.float32([7])), wanted)


# Against the oracle.

LINES = [(4, o, n, s) for o in range(4) for n in range(1, 5 - o) for s in (-3, -2, -1, 1, 2, 3)]


def calls(pairs):
    for pair in pairs:
        window = windows(*pair)
        x = numbered(reach(**window))
        yield partial(slice_grad, **window), (x,), oracle(x, **window)


def test_every_window_of_four():
    others = ((4, 0, 4, 1), (5, 1, 3, -2))
    assert_calls_agree([*calls(pair for line in LINES for o in others for pair in ((line, o), (o, line)))][::3])


@pytest.mark.exhaustive
def test_many_pairs_of_windows_of_four():
    """Every seventh: each window of one dimension meets most windows of the other."""
    assert_calls_agree(calls(itertools.islice(itertools.product(LINES, LINES), 0, None, 7)))


def test_fewer_elements_than_the_strides_reach():
    for n in range(5):
        for stride in (-1, 1, -2, 2):
            window = windows((9, 1, 8, stride))
            assert_same_bits(slice_grad(numbered(n), **window), oracle(numbered(n), **window))


def test_many_dimensions_and_none():
    window = windows(*[(3, 0, 3, s) for s in (1, -1, 2, -2) * 2])
    x = numbered(reach(**window))
    assert_same_bits(slice_grad(x, **window), oracle(x, **window))
    assert_same_bits(slice_grad(np.float32(3), (), (), (), ()), np.float32(3))


# Transformations.


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_it_is_the_gradient_of_slice_and_slice_is_its_own(dtype):
    window = CASE.static
    of_slice = [window[name] for name in NAMES[1:]]
    y, x = numbered((4, 7)).astype(dtype), X.astype(dtype)
    assert_same_bits(jax.vjp(lambda y: slice(y, *of_slice), y)[1](x)[0], slice_grad(x, **window))
    assert_same_bits(jax.vjp(lambda x: slice_grad(x, **window), x)[1](y)[0], slice(y, *of_slice))


def test_a_symbolic_dimension_stays_whole():
    def put(x):
        return slice_grad(x, **windows((x.shape[0], 0, x.shape[0], 1), (7, 1, 5, -2)))

    assert_same_bits(exported(put, "b, 3").call(X), oracle(X, **windows((2, 0, 2, 1), (7, 1, 5, -2))))
    with pytest.raises(ConstraintError, match=r"\(b, 3\) is more than \(4, 3\)"):
        exported(partial(slice_grad, **windows((4, 0, 4, 1), (3, 0, 3, 1))), "b, 3")


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input_gradient": [1, 2]}, DataTypeError, "input_gradient must be an array"),
    ({"sizes": 4}, DataTypeError, "sizes must be a sequence of integers"),
    ({"sizes": (4, 7.0)}, DataTypeError, r"sizes\[1\] must be an integer"),
    ({"strides": (True, 1)}, DataTypeError, r"strides\[0\] must be an integer, but it is True"),
    ({"sizes": (4, 0)}, ConstraintError, r"that of dimension 1 is \[1, 6\) of 0"),
    ({"sizes": (-4, 7)}, ConstraintError, r"that of dimension 0 is \[0, 4\) of -4"),
    (
        {"sizes": (2**63, 7)},
        ConstraintError,
        r"sizes must give an array of fewer than 2\*\*63 bytes, but the sizes are",
    ),
    ({"offsets": (-1, 1)}, ConstraintError, r"in sizes, but that of dimension 0 is \[-1, 3\) of 4"),
    ({"window_sizes": (4, 0)}, ConstraintError, r"every window must have elements, .* \[1, 1\) of 7"),
    ({"window_sizes": (4, 2**70)}, ConstraintError, "that of dimension 1 is"),
    ({"input_gradient": numbered((3, 3))}, ConstraintError, r"\(3, 3\) is more than \(2, 3\)"),
    ({"input_gradient": X[0]}, ConstraintError, "one entry per dimension of input_gradient, but there are 2 for 1"),
)
