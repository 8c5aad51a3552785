"""select and ELEMENT_WISE_IF: output[c] = a[c] if condition[c] != 0 else b[c]."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, assert_sharded, exported
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, i32, u8
from oracles import coordinates
from refusals import refuses
from small_arrays import (
    INTEGERS,
    every_small_shape,
    numbered,
    on_explicit_mesh,
)

from dml_jax import ConstraintError, DataTypeError, ElementWiseIfDesc, compile_operator, select

pytestmark = pytest.mark.device


def oracle(condition, a, b):
    output = np.empty(a.shape, a.dtype)
    for c in coordinates(a.shape):
        output[c] = a[c] if condition[c] != 0 else b[c]
    return output


A, B = numbered((4, 6)), -numbered((4, 6))
CHOSEN = (np.arange(24).reshape(4, 6) % 5 % 3).astype(np.uint8)
CASE = Call(select, {"condition": CHOSEN, "a": A, "b": B})
BREAKS = {
    "condition_type": {"condition": CHOSEN.astype(np.float32)},
    "same_dtype(b, a)": {"b": B.astype(np.int32)},
    "same_sizes(a, condition)": {"a": A[0]},
    "same_sizes(b, condition)": {"b": B[:1]},
}
VARIANTS = {
    "bool": {"condition": CHOSEN == 1},
    "signed": {"condition": CHOSEN.astype(np.int32) - 1},
    "integers": {"a": A.astype(np.int16), "b": B.astype(np.int16)},
}


# The struct.


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    return dict.fromkeys(("condition", "a", "b", "output"), sizes)


def fill(rng, port, tensor, count):
    """Conditions that are 0 half of the time; random bits for what is chosen from."""
    if port != "condition":
        return None
    return np.where(rng.random(count) < 0.5, 0, rng.integers(0, 256, count)).astype(np.uint8)


FOUR = f32(1, 1, 2, 2)
DOCUMENTED = ElementWiseIfDesc(u8(1, 1, 2, 2), FOUR, FOUR, FOUR)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "same_sizes(a, condition)": {"a": f32(1, 1, 2, 1)},
            "same_sizes(b, condition)": {"b": f32(1, 1, 1, 2)},
            "same_sizes(output, condition)": {"output": f32(1, 2, 2, 2)},
        },
        examples=(Example(DOCUMENTED, [[1, 0, 1, 1], [1, 2, 3, 4], [9, 8, 7, 6]], [[1, 8, 3, 4]]),),
        draw=draw,
        expected=lambda desc, condition, a, b: oracle(condition, a, b),
        fill=fill,
    ),
)


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    ({"condition": FOUR}, DataTypeError, "ConditionTensor.DataType must be one of UINT8 .* but it is FLOAT32"),
    ({"a": i32(1, 1, 2, 2)}, DataTypeError, "BTensor.DataType must equal ATensor.DataType"),
    ({"b": f32(1, 1, 1, 1)}, ConstraintError, "BTensor.Sizes must equal ConditionTensor.Sizes"),
    ({"b": f32(2, 2)}, ConstraintError, "BTensor.DimensionCount must equal ConditionTensor.DimensionCount"),
)


def test_strides_of_0_broadcast_in_a_struct():
    """How DirectML adds a condition per row and one number for all."""
    row = u8(2, 3, strides=(1, 0))
    desc = ElementWiseIfDesc(row, f32(2, 3), f32(2, 3, strides=(0, 0)), f32(2, 3))
    made = compile_operator(desc)(np.uint8([0, 7]), numbered(6), np.float32([-1]))
    assert_same_bits(made, np.float32([-1, -1, -1, 4, 5, 6]))


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(1)
        for shape in shapes:
            condition, a = rng.integers(0, 2, shape).astype(np.uint8), numbered(shape)
            yield select, (condition, a, -a), oracle(condition, a, -a)

    assert_calls_agree(calls())


def test_many_dimensions_and_none():
    a = numbered((2,) * 8)
    condition = (a % 3).astype(np.int8)
    assert_same_bits(select(condition, a, -a), oracle(condition, a, -a))
    assert_same_bits(select(np.bool_(False), np.float32(3), np.float32(4)), np.float32(4))


@pytest.mark.thinned(5)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_number_but_0_is_true(dtype, x64):
    """Also where only the high bits are set, and x64 is off."""
    limits = np.iinfo(dtype)
    condition = np.array([0, 1, limits.min, limits.max, 2 ** (limits.bits - 2), limits.max - limits.max // 2], dtype)
    expected = oracle(condition, A[0], B[0])
    assert_same_bits(select(condition, A[0], B[0]), expected)
    if x64 or np.dtype(dtype).itemsize < 8:
        assert_same_bits(jax.jit(select)(condition, A[0], B[0]), expected)
        assert_same_bits(select(jnp.asarray(condition), A[0], B[0]), expected)


def test_a_condition_of_4_bits():
    condition = np.int8([-8, 0, 7, 1]).astype(ml_dtypes.int4)
    assert_same_bits(select(condition, A[0, :4], B[0, :4]), np.float32([1, -2, 3, 4]))


# Transformations.


def test_gradients_go_to_what_was_chosen():
    """And nothing to the other side, not even a NaN."""
    weights = numbered((4, 6))
    of_a, of_b = jax.jit(jax.grad(lambda a, b: (select(CHOSEN, a, b) * weights).sum(), argnums=(0, 1)))(A, B)
    assert_same_bits(of_a, np.where(CHOSEN, weights, np.float32(0)))
    assert_same_bits(of_b, np.where(CHOSEN, np.float32(0), weights))
    roots = jax.jit(jax.grad(lambda x: select(x > 0, jnp.sqrt(x), x).sum()))(np.float32([4, -3]))
    assert_same_bits(roots[:1], np.float32([0.25]))
    narrow = jax.vjp(partial(select, CHOSEN), A.astype(jnp.bfloat16), B.astype(jnp.bfloat16))[1]
    assert_same_bits(narrow(weights.astype(jnp.bfloat16))[1], np.where(CHOSEN, 0, weights).astype(jnp.bfloat16))


def test_vmap_of_any_axis_of_some_operands():
    a, condition = numbered((2, 5, 3)), (numbered((2, 3)) % 2).astype(np.int8)
    mapped = jax.jit(jax.vmap(select, in_axes=(None, 1, None), out_axes=2))(condition, a, -a[:, 0])
    for i in range(5):
        assert_same_bits(mapped[:, :, i], oracle(condition, a[:, i], -a[:, 0]))


def test_symbolic_sizes():
    call = exported(select, ("m, n", np.uint8), "m, n", "m, n").call
    assert_same_bits(call(CHOSEN, A, B), oracle(CHOSEN, A, B))


# Explicit meshes.


def test_two_shardings_of_one_dimension_need_an_out_sharding():
    a, b = on_explicit_mesh(A, "d", None), on_explicit_mesh(B, None, "d")
    with pytest.raises(ConstraintError, match="'d' would shard two dimensions of the output"):
        select(CHOSEN, a, b)
    selected = select(CHOSEN, a, b, out_sharding=jax.typeof(b).sharding)
    assert_sharded(selected, P(None, "d"), oracle(CHOSEN, A, B))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"condition": True}, DataTypeError, "condition must be an array .* but it is bool"),
    ({"condition": [1, 0]}, DataTypeError, "condition must be an array .* but it is list"),
    ({"condition": A}, DataTypeError, "condition.dtype must be bool or an integer type, but it is float32"),
    ({"condition": A.astype(np.complex64)}, DataTypeError, "an integer type, but it is complex64"),
    ({"condition": np.ma.array([1])}, DataTypeError, "condition must be an array .* but it is MaskedArray"),
    ({"a": 1.0}, DataTypeError, "a must be an array"),
    ({"b": B.astype(np.float16)}, DataTypeError, "b.dtype must equal a.dtype, but they are float16 and float32"),
    ({"a": np.float32(1)}, ConstraintError, r"a.sizes must equal condition.sizes, but they are \(\) and \(4, 6\)"),
    ({"b": B[:, :1]}, ConstraintError, r"b.sizes must .* \(4, 1\) and \(4, 6\) differ in dimension 1"),
    ({"condition": CHOSEN[:, 0]}, ConstraintError, r"they are \(4, 6\) and \(4,\)"),
)
