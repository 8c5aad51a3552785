"""unfold and UNFOLD: output[c * W + w, b] = input[c, b * strides + w * dilations - start_padding]."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from numpy.lib.stride_tricks import sliding_window_view
from operator_cases import Call, Example, Struct, f32, i8
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered, random_keys
from variant_cases import chosen_on
from window_cases import LEADING, attributes_of, counted, draw_windows, filled, places, some_windows, window_breaks

from dml_jax import ConstraintError, DataTypeError, UnfoldDesc, fold, unfold

pytestmark = pytest.mark.device


def oracle(input, window_sizes, **given):
    attributes = filled(window_sizes, **given)
    split = input.ndim - len(window_sizes)
    lead, sizes = input.shape[:split], input.shape[split:]
    rows, columns = prod(window_sizes), prod(counted(sizes, attributes))
    output = np.zeros((*lead[:-1], lead[-1] * rows, columns), input.dtype)
    for row, column, at in places(sizes, attributes):
        for *batch, c in coordinates(lead):
            if at is not None:
                output[(*batch, c * rows + row, column)] = input[(*batch, c, *at)]
    return output


X = numbered((2, 4, 6))
CASE = Call(unfold, {"input": X}, {"window_sizes": (2, 3)})
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "spatial(window_sizes)": {"window_sizes": (2, 2, 2)},
    **window_breaks((2, 7)),
}
VARIANTS = {
    "padded": {"start_padding": (1, 0), "end_padding": (2, 1)},
    "strided": {"strides": (2, 3), "dilations": (2, 1)},
    "one dimension": {"input": X[None], "window_sizes": (3,)},
    "many steps": {"window_sizes": (2, 5), "strides": (1, 7), "start_padding": (0, 3), "end_padding": (0, 4)},
}


# The struct.


def draw(rng):
    image, columns, attributes = draw_windows(rng)
    return {"input": image, "output": columns, **attributes}


PLAIN = UnfoldDesc(f32(1, 1, 5, 5), f32(1, 9, 9), (3, 3), (1, 1), (1, 1), (0, 0), (0, 0))
PADDED = UnfoldDesc(f32(1, 1, 5, 5), f32(1, 9, 15), (3, 3), (1, 1), (1, 1), (1, 0), (1, 0))


def windows_of(image):
    """The 3x3 windows of an image, as NumPy has them, flat."""
    return sliding_window_view(image, (3, 3)).transpose(2, 3, 0, 1).ravel().tolist()


IMAGE = np.arange(25).reshape(5, 5)
STRUCTS = (
    Struct(
        PLAIN,
        breaks={
            "one_per_spatial_dimension(window_sizes)": {"window_sizes": (3,)},
            "one_per_window(strides)": {"strides": (1,)},
            "one_per_window(dilations)": {"dilations": (1, 1, 1)},
            "one_per_window(start_padding)": {"start_padding": ()},
            "one_per_window(end_padding)": {"end_padding": (0,)},
            "each_at_least(window_sizes, 1)": {"window_sizes": (0, 3)},
            "each_at_least(strides, 1)": {"strides": (1, 0)},
            "each_at_least(dilations, 1)": {"dilations": (0, 1)},
            "fits": {"dilations": (1, 3)},
            "sizes_follow(output)": {"output": f32(1, 9, 8)},
        },
        examples=(
            Example(PLAIN, [range(25)], [windows_of(IMAGE)]),
            Example(PADDED, [range(25)], [windows_of(np.pad(IMAGE, ((1, 1), (0, 0))))]),
        ),
        draw=draw,
        expected=lambda desc, x: oracle(x, **attributes_of(desc)),
        leading=LEADING,
    ),
)


def test_the_rows_that_directml_prints():
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    assert unfold(x, (3, 3))[0, 0].tolist() == [0, 1, 2, 5, 6, 7, 10, 11, 12]
    padded = unfold(x, (3, 3), start_padding=(1, 0), end_padding=(1, 0))
    assert padded[0, 0].tolist() == [0, 0, 0, 0, 1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17]
    assert padded[0, 6].tolist() == [5, 6, 7, 10, 11, 12, 15, 16, 17, 20, 21, 22, 0, 0, 0]


test_what_the_struct_refuses = refuses(
    PLAIN,
    ({"window_sizes": (3, 3, 3)}, "WindowSizes must have .* InputTensor.DimensionCount - 2, but there are 3"),
    ({"window_sizes": (6, 3)}, "window must fit .* but that of spatial dimension 0 spans 6 of 5"),
    ({"strides": (2, 0)}, r"every one of Strides must be at least 1, but they are \(2, 0\)"),
    ({"start_padding": (-1, 0)}, r"StartPadding\[0\] must be in \[0, 2\*\*32 - 1\]"),
    ({"output": f32(1, 1, 9, 9)}, r"OutputTensor.Sizes must be .* but \(1, 1, 9, 9\) is not \(1, 9, 9\)"),
    ({"output": i8(1, 9, 9)}, "OutputTensor.DataType must equal InputTensor.DataType"),
)


def test_it_exists_from_feature_level_6_4_on():
    PLAIN.validate("6_4")
    with pytest.raises(ConstraintError, match="must exist at feature level 6_3"):
        PLAIN.validate("6_3")


# Against the oracle.


def test_windows_of_every_kind(exhaustive):
    def calls():
        for sizes, attributes in some_windows(exhaustive):
            x = numbered((2, 2, *sizes))
            yield partial(unfold, **attributes), (x,), oracle(x, **attributes)

    assert_calls_agree(calls())


def test_leading_dimensions():
    for lead in ((3,), (1, 2), (2, 1, 3), (2, 2, 1, 2)):
        x = numbered((*lead, 3, 4))
        assert_same_bits(unfold(x, (2, 2)), oracle(x, (2, 2)))


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32", "float64"])
def test_squares_side_by_side_are_blocks_of_space_to_depth(dtype):
    """Under differentiation and vmap, too."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).integers(0, 0x40, (2, 3, 112, 112)).astype(dtype)
        move = partial(unfold, window_sizes=(14, 14), strides=(14, 14))
        expected = x.reshape(2, 3, 8, 14, 8, 14).transpose(0, 1, 3, 5, 2, 4).reshape(2, 3 * 14 * 14, 64)
        assert_same_bits(jax.jit(move)(x), expected)
        assert_same_bits(jax.jit(jax.vmap(move))(x), expected)
        if dtype != "uint8":
            there_and_back = lambda x: jax.vjp(move, x)[1](move(x))[0]  # noqa: E731
            assert_same_bits(jax.jit(there_and_back)(x), x)
        left_over = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)])
        assert_same_bits(move(left_over), expected)


@pytest.mark.variants
def test_squares_side_by_side_move_in_halves_on_cpus():
    x = jax.ShapeDtypeStruct((2, 3, 112, 112), np.float32)
    assert chosen_on("cpu", partial(unfold, window_sizes=(14, 14), strides=(14, 14)), x) == {"halves"}


def test_strides_and_dilations_beyond_everything():
    """Of one window, or of one element, they mean nothing."""
    x = numbered((1, 5))
    for huge in (2**31, 2**63, 10**30):
        assert_same_bits(unfold(x, (5,), strides=(huge,)), x.reshape(5, 1))
        assert_same_bits(unfold(x, (1,), dilations=(huge,)), x)
    far = 2**40  # windows in the padding alone
    assert_same_bits(unfold(x, (1,), strides=(far,), start_padding=(far,), end_padding=(far,)), np.float32([[0, 1, 0]]))


# Types.


def test_empty_arrays():
    assert unfold(X[:0], (2, 3)).shape == (0, 12)
    assert unfold(np.zeros((0, 2, 4), jnp.bfloat16), (2,)).shape == (0, 4, 3)
    assert_same_bits(unfold(np.zeros((1, 0), np.int8), (2,), start_padding=(3,)), np.zeros((2, 2), np.int8))
    far = {"strides": (7,), "start_padding": (20,)}  # read by indices
    assert_same_bits(unfold(np.zeros((1, 0), np.int8), (5,), **far), np.zeros((5, 3), np.int8))
    assert jax.grad(lambda x: unfold(x, (5,), **far).sum())(np.zeros((1, 0), np.float32)).shape == (1, 0)


# Transformations.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("strides", [(1, 1), (2, 3), (1, 5)])
def test_the_gradient_folds(strides):
    attributes = {"strides": strides, "start_padding": (2, 4), "end_padding": (3, 2)}
    weights = numbered(oracle(X, (2, 5), **attributes).shape)
    back = jax.jit(jax.grad(lambda x: (unfold(x, (2, 5), **attributes) * weights).sum()))(X)
    assert_same_bits(back, fold(weights, (4, 6), (2, 5), **attributes))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": random_keys(1, 2, 3)}, DataTypeError, "whose elements are not numbers"),
    (
        {"window_sizes": "2"},
        DataTypeError,
        "window_sizes must be a sequence of integers, or one of them, but it is '2'",
    ),
    ({"window_sizes": ()}, ConstraintError, "at least one, .* but there are 0 and the rank is 3"),
    ({"window_sizes": (2, 1.5)}, DataTypeError, r"window_sizes\[1\] must be an integer, but it is 1.5"),
    ({"window_sizes": (2, 2**63)}, ConstraintError, "spatial dimension 1 spans 9223372036854775808 of 6"),
    ({"strides": 2.0}, DataTypeError, "strides must be a sequence of integers, or one of them"),
    ({"strides": (1, 1, 1)}, ConstraintError, "strides must have one entry per window size, but there are 3 for 2"),
    ({"dilations": "12"}, DataTypeError, "dilations must be a sequence of integers, or one of them, but it is '12'"),
    ({"start_padding": (True, 0)}, DataTypeError, r"start_padding\[0\] must be an integer, but it is True"),
    ({"end_padding": (2**63, 0)}, ConstraintError, r"must be fewer than 2\*\*63, but one would be"),
    ({"end_padding": (0, -1)}, ConstraintError, r"every one of end_padding must be at least 0, but they are \(0"),
)


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    x = numbered((2, 3, 7, 6))
    peer = torch.nn.functional.unfold(torch.from_numpy(x), (3, 2), dilation=(2, 1), padding=(2, 1), stride=(1, 2))
    ours = unfold(x, (3, 2), dilations=(2, 1), start_padding=(2, 1), end_padding=(2, 1), strides=(1, 2))
    assert_same_bits(ours, peer.numpy())


SIDE_BY_SIDE = [
    (2, (8, 6), (0, 0), (0, 0)),
    (3, (8, 7), (0, 0), (0, 0)),
    (3, (7, 5), (1, 2), (1, 2)),
    (14, (28, 30), (0, 1), (0, 0)),
]


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["uint8", "bfloat16", "float32"])
@pytest.mark.parametrize(("window", "sizes", "start", "end"), SIDE_BY_SIDE)
def test_windows_side_by_side_are_moved_bit_for_bit_and_put_back(window, sizes, start, end, name):
    """Those that reach into the padding, and sizes that no number of windows fills."""
    bits = np.random.default_rng(8).integers(0, 256, (2, 3, *sizes, jnp.dtype(name).itemsize), np.uint8)
    x = bits.view(jnp.dtype(name))[..., 0]
    given = {"strides": (window,) * 2, "start_padding": start, "end_padding": end}
    apart = sliding_window_view(np.pad(x, [(0, 0)] * 2 + list(zip(start, end, strict=True))), (window,) * 2, (2, 3))
    apart = apart[:, :, ::window, ::window].transpose(0, 1, 4, 5, 2, 3)
    expected = apart.reshape(2, 3 * window**2, -1)
    columns = unfold(x, (window,) * 2, **given)
    assert_same_bits(columns, np.ascontiguousarray(expected))
    numbers = np.random.default_rng(9).integers(-9, 9, expected.shape).astype(x.dtype)
    found = fold(numbers, sizes, (window,) * 2, **given)
    assert found.shape == x.shape
    ones = np.pad(np.ones(x.shape, np.uint8), [(0, 0)] * 2 + list(zip(start, end, strict=True)))
    inside = sliding_window_view(ones, (window,) * 2, (2, 3))[:, :, ::window, ::window].transpose(0, 1, 4, 5, 2, 3)
    kept = np.where(inside.reshape(expected.shape), numbers, np.zeros((), x.dtype))
    assert_same_bits(unfold(np.asarray(found), (window,) * 2, **given), kept)
