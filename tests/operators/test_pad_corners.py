"""Corners of pad: borders of every length, narrow and wide types, NaN payloads, empty arrays, symbolic sizes."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported, refused_without_x64
from small_arrays import NARROW, OTHER_TYPES, numbered, random_keys, telling_bits

from dml_jax import ConstraintError, DataTypeError, Padding1Desc, PaddingDesc, TensorDesc, compile_operator, pad
from operators.test_pad import COPIES, MODES, X, oracle

pytestmark = pytest.mark.device


# Numbers of the border.


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("data_type", "value", "wanted"),
    [
        ("UINT8", 2.9, np.uint8(2)),
        ("UINT8", -1, np.uint8(0)),
        ("INT8", -2.9, np.int8(-2)),
        ("INT32", 2**31 - 1, np.int32(2**31 - 1)),
        ("UINT64", 1e30, np.uint64(2**64 - 1)),
        ("INT16", "nan", np.int16(0)),
        ("FLOAT16", 1e6, np.float16(np.inf)),
        ("FLOAT32", -0.0, np.float32(-0.0)),
        ("FLOAT64", 0.1, np.float64(np.float32(0.1))),
    ],
)
def test_the_float_of_padding_is_truncated(data_type, value, wanted):
    one, three = TensorDesc(data_type, (1,)), TensorDesc(data_type, (3,))
    run = compile_operator(PaddingDesc(one, three, "CONSTANT", float(value), (2,), (0,)))
    assert_same_bits(np.asarray(run(np.ones(1, wanted.dtype))).view(wanted.dtype)[:2], np.array([wanted] * 2))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("data_type", "value", "wanted"),
    [
        ("INT32", 2**31 - 1, np.int32(2**31 - 1)),
        ("UINT64", 2**64 - 1, np.uint64(2**64 - 1)),
        ("FLOAT16", np.uint16(0x7D01), np.uint16(0x7D01).view(np.float16)),  # a signaling NaN
        ("FLOAT32", np.uint32(0x7F800001), np.uint32(0x7F800001).view(np.float32)),
        ("FLOAT64", np.int64(-1), np.int64(-1).view(np.float64)),
        ("FLOAT64", -0.0, np.float64(-0.0)),
    ],
)
def test_the_number_of_padding1_is_one_of_the_type_or_bits(data_type, value, wanted):
    one, three = TensorDesc(data_type, (1,)), TensorDesc(data_type, (3,))
    run = compile_operator(Padding1Desc(one, three, "CONSTANT", data_type, value, (0,), (2,)))
    assert_same_bits(np.asarray(run(np.ones(1, wanted.dtype))).view(wanted.dtype)[1:], np.array([wanted] * 2))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("value", [-0.0, np.nan, np.inf, 1.5])
def test_the_number_of_a_narrow_border(value):
    for dtype in (np.float16, jnp.bfloat16, ml_dtypes.float8_e5m2):
        x = np.ones((2, 3), dtype)
        assert_same_bits(pad(x, (1, 0), (0, 2), value=value), oracle(x, (1, 0), (0, 2), value=value))


def test_a_value_of_0_is_no_value():
    assert_same_bits(pad(X, (1, 0), (0, 0), mode="edge", value=0.0), pad(X, (1, 0), (0, 0), mode="edge"))


@pytest.mark.parametrize(("given", "operands"), [({}, 1), ({"value": 0}, 1), ({"value": 0.0}, 2), ({"value": 3}, 2)])
def test_the_integer_0_is_no_operand_of_the_program(given, operands):
    """So the default costs nothing; another number is one, so that it compiles nothing new."""
    (call,) = jax.make_jaxpr(lambda x: pad(x, (1, 0), (0, 1), **given))(X).eqns
    assert len(call.invars) == operands


def test_zeros_keep_their_sign():
    """Numbers that were given before are kept, and -0.0 equals 0.0."""
    for value, is_negative in ((0.0, False), (-0.0, True), (0, False), (-0.0, True)):
        assert np.signbit(pad(X[0], (1,), (0,), value=value))[0] == is_negative
    for sign in (0.0, -0.0):
        value = np.complex64(complex(1, sign))
        made = np.asarray(pad(np.zeros(1, np.complex64), (1,), (0,), value=value))
        assert np.signbit(made[0].imag) == np.signbit(sign)


# Sizes.


@pytest.mark.thinned(10)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_border_of_a_row(mode, size):
    """Through several periods, and through so many that they are tiled."""
    borders = [(0, 1), (2, 0), (1, 3), (3, 2), (4, 4), (5, 11), (16, 9), (300, 1), (130, 131)]
    if mode == "reflection" and size == 1:
        borders = [(0, 0)]
    x = numbered(size)
    assert_calls_agree(
        (partial(pad, start_padding=(s,), end_padding=(e,), mode=mode), (x,), oracle(x, (s,), (e,), mode))
        for s, e in borders
    )


def test_many_dimensions_and_none():
    x = numbered((2,) * 8)
    ends = (1, 0, 0, 2, 0, 0, 0, 1), (0, 0, 1, 0, 0, 0, 0, 3)
    for mode in MODES:
        assert_same_bits(pad(x, *ends, mode=mode), oracle(x, *ends, mode))
        assert_same_bits(pad(np.float32(3), (), (), mode=mode), np.float32(3))


def test_empty_arrays():
    assert_same_bits(pad(X[:0], (1, 0), (2, 0), value=7), np.full((3, 6), 7, np.float32))
    assert_same_bits(pad(X[:0].astype(jnp.bfloat16), (1, 0), (2, 0)), np.zeros((3, 6), jnp.bfloat16))
    for mode in COPIES:
        assert pad(X[:0], (0, 1), (0, 20), mode=mode).shape == (0, 27)
        with pytest.raises(ConstraintError, match="dimension 0 has 0"):
            pad(X[:0], (0, 1), (1, 0), mode=mode)


def test_symbolic_dimensions():
    """One that has a border can be exported where its edge or a number is all that there is to know."""
    for mode in MODES:
        beside, around = (partial(pad, start_padding=s, end_padding=(0, 7), mode=mode) for s in ((0, 2), (1, 2)))
        assert_same_bits(exported(beside, "b, 6").call(X), oracle(X, (0, 2), (0, 7), mode))
        if mode in ("constant", "edge"):
            assert_same_bits(exported(around, "b, 6").call(X), oracle(X, (1, 2), (0, 7), mode))
        else:
            with pytest.raises(ConstraintError, match="dimension 0 is symbolic, b, which can be padded with"):
                exported(around, "b, 6")


@pytest.mark.parametrize("is_mapped", [False, True])
def test_bfloat16_of_a_symbolic_batch_keeps_its_bits(is_mapped):
    """jax.export refines no cast to pairs of bytes."""
    bits = np.uint16([[0x7F81, 0xFF81, 0x8000], [0x7FC0, 1, 0x3F80]])
    one = partial(pad, start_padding=[0] * (2 - is_mapped), end_padding=[0, 1][is_mapped:], value=-0.0)
    call = exported(jax.vmap(one) if is_mapped else one, ("n, 3", jnp.bfloat16)).call
    padded = call(bits.view(jnp.bfloat16))
    assert (
        np.asarray(padded).view(np.uint16).tolist() == np.pad(bits, [(0, 0), (0, 1)], constant_values=0x8000).tolist()
    )


def test_more_elements_than_32_bits_count():
    for dtype in ("bfloat16", "float16"):
        x = jax.ShapeDtypeStruct((2**31 - 1,), dtype)
        assert jax.eval_shape(lambda x: pad(x, (1,), (1,), mode="edge"), x).shape == (2**31 + 1,)


# Types.


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", [*NARROW, *OTHER_TYPES])
def test_a_number_of_every_type(name):
    x = telling_bits(name)
    assert_same_bits(pad(x, (2, 1), (0, 5), value=1), oracle(x, (2, 1), (0, 5), value=1))


@pytest.mark.thinned
@pytest.mark.parametrize("mode", MODES)
def test_64_bit_data_needs_x64_in_a_function_and_not_in_a_descriptor(mode, x64):
    x = np.uint64([[1, 2**40, 2**64 - 1], [5, 2**63, 7]]).view(np.float64)
    desc = Padding1Desc(
        TensorDesc("FLOAT64", (2, 3)),
        TensorDesc("FLOAT64", (3, 5), (1, 3)),
        mode.upper(),
        "FLOAT64",
        1 + 2**-50,
        (1, 0),
        (0, 2),
    )
    made = np.asarray(compile_operator(desc)(x.ravel())).view(np.float64)
    wanted = oracle(x, (1, 0), (0, 2), mode, 1 + 2**-50)
    assert_same_bits(made.reshape(5, 3).T, wanted)
    number = {"value": 1 + 2**-50} if mode == "constant" else {}
    with refused_without_x64("input of type float64"):
        assert_same_bits(pad(x, (1, 0), (0, 2), mode=mode, **number), wanted)


def test_no_number_is_a_key():
    with pytest.raises(DataTypeError, match=r"value must be a number .* that key<fry> holds"):
        pad(random_keys(3), (2,), (1,))
