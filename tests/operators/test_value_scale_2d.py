"""value_scale_2d and VALUE_SCALE_2D: output[n, c, h, w] = input[n, c, h, w] * scale + bias[c]."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import dims
from operator_cases import Call, Example, Struct, f16, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered, random_keys

from dml_jax import ConstraintError, DataTypeError, ValueScale2DDesc, compile_operator, value_scale_2d

pytestmark = pytest.mark.device


def oracle(input, scale, bias):
    wide = np.dtype(np.float32) if input.dtype.itemsize < 4 else input.dtype
    output = np.empty_like(input)
    for c in coordinates(input.shape):
        with np.errstate(over="ignore", invalid="ignore"):
            output[c] = (input[c].astype(wide) * wide.type(scale) + wide.type(bias[c[-3]])).astype(input.dtype)
    return output


X = numbered((2, 3, 2, 2))
# Exact, but its derivatives are not 0 and 1.
CASE = Call(value_scale_2d, {"input": X}, {"scale": 2, "bias": (10, 20, -30)}, is_linear=False)
BREAKS = {
    "minimum_rank(input, 3)": {"input": X[0, 0]},
    "float(input)": {"input": X.astype(np.int32)},
    "one_per_channel(bias)": {"bias": (10,)},
}
VARIANTS = {
    "one picture": {"input": X[0], "scale": -0.5},
    "many dimensions": {"input": X[:, None, :, :1], "bias": (0, 0.25, 0)},
    "float16": {"input": X.astype(np.float16), "scale": 1.5},
    "five channels": {"input": numbered((5, 1, 1)), "bias": range(5)},
}


# The struct.


def fill(rng, port, tensor, count):
    """Multiplied and added up without an error."""
    return (rng.integers(-200, 200, count) / 8).astype(tensor.dtype)


def draw(rng):
    n, h, w = dims(rng, 3, 20)
    channels = int(rng.choice([1, 3]))
    sizes, bias = (n, channels, h, w), tuple(rng.integers(-40, 40, channels) / 4)
    return {"input": sizes, "output": sizes, "scale": float(rng.choice([-1, 2, 0.5, 3])), "bias": bias}


# DirectML's page has no numbers: these follow from its formula.
COLOUR = ValueScale2DDesc(f32(1, 3, 1, 2), f32(1, 3, 1, 2), scale=2, bias=(10, 20, 30))
GREY = ValueScale2DDesc(f32(2, 1, 1, 2), f32(2, 1, 1, 2), scale=0.5, bias=(-1,))
STRUCTS = (
    Struct(
        COLOUR,
        breaks={
            "one_per_channel(bias)": {"bias": (10,)},
            "grey_or_colour": {"bias": (1, 2)},
            "same_sizes(output, input)": {"output": f32(1, 3, 2, 1)},
        },
        examples=(
            Example(COLOUR, [[1, 2, 3, 4, 5, 6]], [[12, 14, 26, 28, 40, 42]]),
            Example(GREY, [[1, 2, 3, 4]], [[-0.5, 0, 0.5, 1]]),
        ),
        draw=draw,
        expected=lambda desc, x: oracle(x, desc.scale, desc.bias),
        fill=fill,
    ),
)


test_what_the_struct_refuses = refuses(
    COLOUR,
    ({"scale": None}, DataTypeError, "Scale must be a real number, but it is None"),
    ({"scale": "2"}, DataTypeError, "Scale must be a real number, but it is '2'"),
    ({"bias": 3}, DataTypeError, "Bias must be a sequence of real numbers"),
    ({"bias": (1, 2)}, ConstraintError, "Bias must have one number per channel of InputTensor, but there are 2 for"),
    (
        {"input": f32(1, 2, 1, 2), "output": f32(1, 2, 1, 2), "bias": (1, 2)},
        ConstraintError,
        "Bias must have 1 or 3 entries, but there are 2",
    ),
    ({"output": f32(1, 3, 2, 1)}, ConstraintError, r"differ in dimension 2"),
)


def test_a_zero_keeps_its_sign_in_a_struct():
    """Programs are kept by descriptor, and -0.0 == 0.0."""
    tensor = f32(1, 1, 1, 1)
    made = [compile_operator(ValueScale2DDesc(tensor, tensor, s, (-0.0,)))(np.float32([1])) for s in (0.0, -0.0)]
    assert [bool(np.signbit(one)[0]) for one in made] == [False, True]


# Against the oracle.


def test_shapes_and_numbers():
    def calls():
        for shape in [(1, 1, 1), (3, 2, 2), (2, 1, 3), (1, 3, 1, 2), (2, 2, 1, 3), (1, 2, 1, 2, 2), (0, 2, 1, 1)]:
            bias = [0.5 * c - 1 for c in range(shape[-3])]
            for scale in (0, 1, -2, 0.25):
                yield (
                    partial(value_scale_2d, scale=scale, bias=bias),
                    (numbered(shape),),
                    oracle(numbered(shape), scale, bias),
                )

    assert_calls_agree(calls())


def test_sixteen_bit_floats_are_rounded_once():
    """2049 is no float16; 2048 + 1 - 1 is 2048 if the sum is rounded in between, and 300 * 300 is out of its range."""
    assert_same_bits(
        value_scale_2d(np.full((1, 1, 1), 1025, np.float16), 2, (-1,)), np.full((1, 1, 1), 2048, np.float16)
    )
    assert_same_bits(value_scale_2d(np.full((1, 1, 1), 683, np.float16), 3, (1,)), np.full((1, 1, 1), 2050, np.float16))
    big = value_scale_2d(np.full((1, 1, 1), 300, np.float16), 300, (-80000,))
    assert_same_bits(big, np.full((1, 1, 1), 10000, np.float16))


def test_infinite_and_missing_numbers():
    x = np.float32([np.inf, -np.inf, np.nan, 0]).reshape(1, 2, 2)
    wanted = np.float32([-np.inf, np.inf, np.nan, 1]).reshape(1, 2, 2)
    np.testing.assert_array_equal(value_scale_2d(x, -1, (1,)), wanted)  # of which sign a NaN is the device decides
    # What float32 does not hold becomes infinite, as where C takes a FLOAT.
    assert np.isinf(value_scale_2d(np.ones((1, 1, 1), np.float32), 1e300, (0,))).all()


# Transformations and meshes.


def test_the_gradient_is_scaled():
    for dtype in (np.float32, jnp.bfloat16):
        back = jax.jit(jax.grad(lambda x: value_scale_2d(x, 3, (1, 2, 3)).astype(np.float32).sum()))(X.astype(dtype))
        assert_same_bits(back, np.full(X.shape, 3, dtype))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": X > 3}, DataTypeError, "input.dtype must be a floating-point type, but it is bool"),
    ({"input": X.astype(np.complex64)}, DataTypeError, "it is complex64"),
    ({"input": random_keys(3, 1, 1)}, DataTypeError, "it is key<fry>"),
    ({"input": X[0, 0]}, ConstraintError, "input.rank must be at least 3, but it is 2"),
    ({"scale": True}, DataTypeError, "scale must be a real number"),
    ({"scale": np.float32([2])}, DataTypeError, "scale must be a real number"),
    ({"scale": 10**400}, DataTypeError, "scale must be a real number"),
    ({"bias": 2}, DataTypeError, "bias must be a sequence of real numbers"),
    ({"bias": (1, 2, "3")}, DataTypeError, r"bias\[2\] must be a real number"),
    ({"bias": (1, 2)}, ConstraintError, "bias must have one number per channel of input, but there are 2 for 3"),
)


def test_a_traced_scale_is_refused():
    with pytest.raises(DataTypeError, match=r"scale must be a real number, but it is traced"):
        jax.jit(lambda s: value_scale_2d(X, s, (1, 2, 3)))(2.0)


def test_a_compiled_operator_with_strides():
    input, output = f16(1, 3, 1, 2, strides=(6, 1, 6, 3)), f16(1, 3, 1, 2)
    run = compile_operator(ValueScale2DDesc(input, output, 2, (10, 20, 30)))
    assert_same_bits(run(np.float16([1, 3, 5, 2, 4, 6])), np.float16([12, 14, 26, 28, 40, 42]))
