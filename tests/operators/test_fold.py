"""fold and FOLD: output[c, b * strides + w * dilations - start_padding] adds up input[c * W + w, b]."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported, refused_without_x64
from operator_cases import Call, Example, Struct, f32, i8, u64
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered, random_keys
from variant_cases import chosen_on
from window_cases import LEADING, attributes_of, counted, draw_windows, filled, places, some_windows, window_breaks

from dml_jax import ConstraintError, DataTypeError, FoldDesc, compile_operator, fold, unfold

pytestmark = pytest.mark.device


def oracle(input, output_sizes, window_sizes, **given):
    attributes = filled(window_sizes, **given)
    rows, lead = prod(window_sizes), (*input.shape[:-2], input.shape[-2] // prod(window_sizes))
    output = np.zeros((*lead, *output_sizes), object)
    for row, column, at in places(output_sizes, attributes):
        for *batch, c in coordinates(lead):
            if at is not None:
                output[(*batch, c, *at)] += _number(input[(*batch, c * rows + row, column)])
    return _typed(output, input.dtype)


def _number(element):
    return element.item() if element.dtype.kind in "biufc" else float(element)


def _typed(numbers, dtype):
    """Of integers the low bits."""
    if dtype.kind in "iu":
        return (numbers % 2 ** (8 * dtype.itemsize)).astype(np.uint64).astype(dtype)
    return numbers.astype(complex if dtype.kind == "c" else float).astype(dtype)


X = numbered((12, 6)) % 7
CASE = Call(fold, {"input": X}, {"output_sizes": (4, 3), "window_sizes": (3, 2), "start_padding": (0, 1)})
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "minimum_rank(input, 2)": {"input": X[0]},
    "spatial(window_sizes)": {"window_sizes": (3, 2, 1)},
    "each_at_least(output_sizes, 0)": {"output_sizes": (4, -3)},
    **window_breaks((5, 2)),
    "representable": {"end_padding": (2**63, 0)},
    "indexable": {"end_padding": (0, 2**31)},
    "rows(input)": {"input": X[:11]},
    "columns(input)": {"input": X[:, :5]},
}
VARIANTS = {
    "one dimension": {"input": X[None], "output_sizes": (8,), "window_sizes": (3,), "start_padding": None},
    "strided": {"output_sizes": (6, 5), "strides": (2, 2), "start_padding": (1, 0)},
    "many steps": {
        "input": X[:10],
        "output_sizes": (32,),
        "window_sizes": (5,),
        "strides": (7,),
        "start_padding": (8,),
    },
    "integers": {"input": (X * 40).astype(np.uint8)},
}


# The struct.


def draw(rng):
    image, columns, attributes = draw_windows(rng)
    return {"input": columns, "output": image, **attributes}


def small(rng, port, tensor, count):
    """Floats whose sums every type holds; any integers."""
    return rng.integers(-4, 5, count).astype(tensor.dtype) if tensor.dtype.kind == "f" else None


WINDOWS = ((3, 3), (1, 1), (1, 1))
PLAIN = FoldDesc(f32(1, 9, 4), f32(1, 1, 4, 4), *WINDOWS, (0, 0), (0, 0))
PADDED = FoldDesc(f32(1, 9, 8), f32(1, 1, 4, 4), *WINDOWS, (1, 0), (1, 0))
CHANNELS = FoldDesc(f32(1, 18, 8), f32(1, 2, 4, 4), *WINDOWS, (1, 0), (1, 0))
FIRST = [26, 70, 102, 60, 78, 183, 231, 129, 84, 195, 243, 135, 82, 182, 214, 116]
SECOND = [170, 358, 390, 204, 294, 615, 663, 345, 300, 627, 675, 351, 226, 470, 502, 260]
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
            "sizes_follow(input)": {"input": f32(1, 9, 5)},
        },
        examples=(
            Example(PLAIN, [range(36)], [[0, 5, 13, 9, 14, 38, 54, 32, 38, 86, 102, 56, 26, 57, 65, 35]]),
            Example(PADDED, [range(72)], [FIRST]),
            Example(CHANNELS, [range(144)], [FIRST + SECOND]),
        ),
        draw=draw,
        expected=lambda desc, x: oracle(x, desc.output.sizes[2:], **attributes_of(desc)),
        leading=LEADING,
        fill=small,
    ),
)


test_what_the_struct_refuses = refuses(
    PLAIN,
    ({"window_sizes": (3, 3, 3)}, "WindowSizes must have .* OutputTensor.DimensionCount - 2, but there are 3"),
    ({"window_sizes": (5, 3)}, "window must fit .* but that of spatial dimension 0 spans 5 of 4"),
    ({"input": f32(1, 1, 9, 4)}, r"InputTensor.Sizes must be .* but \(1, 1, 9, 4\) is not \(1, 9, 4\)"),
    ({"output": f32(2, 1, 4, 4)}, r"InputTensor.Sizes must be .* but \(1, 9, 4\) is not \(2, 9, 4\)"),
    ({"output": i8(1, 1, 4, 4)}, "OutputTensor.DataType must equal InputTensor.DataType"),
)


# Against the oracle.


def test_windows_of_every_kind(exhaustive):
    def calls():
        for sizes, attributes in some_windows(exhaustive):
            columns = prod(counted(sizes, attributes))
            x = numbered((2, 2 * prod(attributes["window_sizes"]), columns)) % 5
            yield partial(fold, output_sizes=sizes, **attributes), (x,), oracle(x, sizes, **attributes)

    assert_calls_agree(calls())


def test_leading_dimensions():
    for lead in ((), (2,), (1, 2), (2, 2, 1)):
        x = numbered((*lead, 8, 6))
        assert_same_bits(fold(x, (3, 4), (2, 2)), oracle(x, (3, 4), (2, 2)))


def test_folding_what_was_unfolded_counts_the_windows():
    """Each element comes back as often as windows have it."""
    x = numbered((1, 5))
    assert_same_bits(fold(unfold(x, (3,)), (5,), (3,)), x * np.float32([1, 2, 3, 2, 1]))
    patches = numbered((2, 6, 10))
    for size in ((2, 5), (6, 2)):
        assert_same_bits(fold(unfold(patches, size, strides=size), (6, 10), size, strides=size), patches)


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32", "float64"])
def test_squares_side_by_side_are_blocks_of_depth_to_space(dtype):
    """Under differentiation and vmap, too. Rows that are left over are another program's."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).integers(0, 0x40, (2, 3 * 14 * 14, 8 * 8)).astype(dtype)
        move = partial(fold, output_sizes=(112, 112), window_sizes=(14, 14), strides=(14, 14))
        expected = x.reshape(2, 3, 14, 14, 8, 8).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 112, 112)
        assert_same_bits(jax.jit(move)(x), expected)
        assert_same_bits(jax.jit(jax.vmap(move))(x), expected)
        if dtype != "uint8":
            there_and_back = lambda x: jax.vjp(move, x)[1](move(x))[0]  # noqa: E731
            assert_same_bits(jax.jit(there_and_back)(x), x)
        left_over = partial(fold, output_sizes=(113, 112), window_sizes=(14, 14), strides=(14, 14))
        assert_same_bits(left_over(x), np.pad(expected, [(0, 0), (0, 0), (0, 1), (0, 0)]))


@pytest.mark.variants
def test_squares_side_by_side_are_a_permutation_with_variants():
    x = jax.ShapeDtypeStruct((2, 3 * 14 * 14, 8 * 8), np.float32)
    move = partial(fold, output_sizes=(112, 112), window_sizes=(14, 14), strides=(14, 14))
    assert chosen_on("cpu", move, x) in ({"halves"}, {"unfused"})


def test_strides_and_dilations_beyond_everything():
    """Of one window, or of one element, they mean nothing."""
    x = numbered((1, 5))
    for huge in (2**31, 2**63, 10**30):
        assert_same_bits(fold(x.reshape(5, 1), (5,), (5,), strides=(huge,)), x)
        assert_same_bits(fold(x, (5,), (1,), dilations=(huge,)), x)


# Types.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_integers_wrap(name):
    x = np.random.default_rng(3).integers(0, 256, (6, 7 * np.dtype(name).itemsize), np.uint8).view(name)
    assert_same_bits(fold(x, (9,), (3,)), oracle(x, (9,), (3,)))


def test_integers_of_four_bits_wrap():
    dtype = np.dtype(ml_dtypes.int4)
    x = np.random.default_rng(4).integers(0, 16, (3, 7))
    assert_same_bits(fold(x.astype(dtype), (9,), (3,)), oracle(x, (9,), (3,)).astype(np.int8).astype(dtype))


@pytest.mark.parametrize("stride", [1, 8])
def test_narrow_floats_are_rounded_once(stride):
    """300 ones in float32: bfloat16 itself gets stuck at 256. By indices, and slices after each other."""
    x, size = np.ones((300, 304 // stride), jnp.bfloat16), 300 + 304 - stride
    made = fold(x, (size,), (300,), strides=(stride,))
    assert_same_bits(made, oracle(x, (size,), (300,), strides=(stride,)))
    for name in ("float16", "float8_e5m2"):
        x = (np.random.default_rng(1).integers(1, 33, (40, 30)) / 16).astype(jnp.dtype(name))
        assert_same_bits(fold(x, (69,), (40,)), oracle(x, (69,), (40,)))


def test_bools_are_any():
    x = np.array([[True, False, False], [True, False, False]])
    assert_same_bits(fold(x, (4,), (2,)), np.array([[True, True, False, False]]))
    assert_same_bits(fold(np.ones((300, 300), bool), (599,), (300,)), np.ones((1, 599), bool))


def test_complex_numbers():
    x = (X + 1j * X[::-1]).astype(np.complex64)
    assert_same_bits(fold(x, (4, 3), (3, 2), start_padding=(0, 1)), oracle(x, (4, 3), (3, 2), start_padding=(0, 1)))


def test_64_bit_data_needs_x64_in_a_function_and_not_in_a_descriptor(x64):
    """There too they are numbers: a carry goes from the low word to the high one."""
    x = np.uint64([[[2**32 - 1, 2**63], [2**32 - 1, 2**63 + 1]]])
    desc = FoldDesc(u64(1, 2, 2), u64(1, 1, 3), (2,), (1,), (1,), (0,), (0,))
    made = np.asarray(compile_operator(desc)(x.ravel())).view(np.uint64)
    wanted = np.uint64([2**32 - 1, 2**63 + 2**32 - 1, 2**63 + 1])
    assert_same_bits(made, wanted)
    with refused_without_x64("input of type uint64"):
        assert_same_bits(fold(x, (3,), (2,)), wanted.reshape(1, 1, 3))


def test_empty_arrays():
    assert fold(np.zeros((0, 4, 2), np.float32), (3,), (2,)).shape == (0, 2, 3)
    assert fold(np.zeros((0, 2), jnp.bfloat16), (3,), (2,)).shape == (0, 3)
    assert fold(np.zeros((2, 2), np.float32), (0,), (2,), start_padding=(3,)).shape == (1, 0)


# Transformations.


def test_the_gradient_unfolds():
    weights = numbered((2, 4, 3))
    back = jax.jit(jax.grad(lambda x: (fold(x, (4, 3), (3, 2), start_padding=(0, 1)) * weights).sum()))(X)
    assert_same_bits(back, unfold(weights, (3, 2), start_padding=(0, 1)))


def test_symbolic_channels_are_exported():
    call = exported(lambda x: fold(x, (4, 3), (3, 2), start_padding=(0, 1)), "n, 6*c, 6").call
    assert_same_bits(call(X[None]), CASE(X)[None])


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1.0]}, DataTypeError, "input must be an array"),
    ({"input": random_keys(2, 3)}, DataTypeError, "whose elements are not numbers"),
    ({"output_sizes": 4}, DataTypeError, "output_sizes must be a sequence of integers, but it is 4"),
    ({"output_sizes": ()}, ConstraintError, "one entry per output size, at least one, but there are 2 for 0 sizes"),
    ({"output_sizes": (4, 2**63)}, ConstraintError, r"must be fewer than 2\*\*63, but one would be"),
    ({"output_sizes": (4, 4)}, ConstraintError, "must have a column per window, but there are 6 for 8 windows"),
    ({"window_sizes": (3, 2.0)}, DataTypeError, r"window_sizes\[1\] must be an integer"),
    ({"window_sizes": (5, 2)}, ConstraintError, "spatial dimension 0 spans 5 of 4"),
    ({"window_sizes": (4, 2)}, ConstraintError, "must be a multiple of .* but there are 12 for windows of 8"),
    ({"strides": (1,)}, ConstraintError, "strides must have one entry per window size, but there are 1 for 2"),
    ({"strides": (1, 0)}, ConstraintError, r"every one of strides must be at least 1, but they are \(1, 0\)"),
)


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    x = numbered((2, 12, 15)) % 9
    peer = torch.nn.functional.fold(torch.from_numpy(x), (7, 6), (3, 2), dilation=(2, 1), padding=(1, 0), stride=(2, 1))
    ours = fold(x, (7, 6), (3, 2), dilations=(2, 1), start_padding=(1, 0), end_padding=(1, 0), strides=(2, 1))
    assert_same_bits(ours, peer.numpy())
