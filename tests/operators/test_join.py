"""join and JOIN: the inputs behind each other along axis."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import dims
from operator_cases import Call, Example, Struct, f32, i8, i32, u8
from oracles import coordinates
from refusals import refuses
from small_arrays import (
    every_small_shape,
    numbered,
)

from dml_jax import ConstraintError, DataTypeError, JoinDesc, compile_operator, join

pytestmark = pytest.mark.device


def oracle(inputs, axis):
    axis %= inputs[0].ndim
    sizes = [*inputs[0].shape]
    sizes[axis] = sum(one.shape[axis] for one in inputs)
    output, start = np.empty(sizes, inputs[0].dtype), 0
    for one in inputs:
        for c in coordinates(one.shape):
            output[(*c[:axis], start + c[axis], *c[axis + 1 :])] = one[c]
        start += one.shape[axis]
    return output


def parts(shape, axis, sizes, dtype=np.float32):
    """Arrays that differ in their size along an axis, and in every element."""
    made = [numbered((*shape[:axis], n, *shape[axis + 1 :]), dtype) for n in sizes]
    return tuple((one + 100 * i).astype(dtype) for i, one in enumerate(made))


PARTS = parts((4, 6), 1, (2, 1, 3))
CASE = Call(join, {"inputs": PARTS}, {"axis": 1})
BREAKS = {
    "some(inputs)": {"inputs": ()},
    "same_dtype(inputs)": {"inputs": (*PARTS[:2], PARTS[2].astype(np.float16))},
    "axis_of(inputs)": {"axis": 2},
    "same_sizes(inputs)": {"inputs": (*PARTS, PARTS[0][:2])},
}
VARIANTS = {"one": {"inputs": PARTS[:1]}, "first axis": {"inputs": parts((3, 2), 0, (1, 3)), "axis": -2}}


# The struct.


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)), 40)
    axis = int(rng.integers(0, len(sizes)))
    along = [int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4)))]
    return {
        "inputs": [[*sizes[:axis], n, *sizes[axis + 1 :]] for n in along],
        "output": [*sizes[:axis], sum(along), *sizes[axis + 1 :]],
        "axis": axis,
    }


TWO, FOURS = (f32(1, 1, 2, 3), f32(1, 1, 2, 4)), (f32(1, 1, 2, 2),) * 3
DOCUMENTED = JoinDesc(TWO, f32(1, 1, 2, 7), axis=3)
THREE = (range(1, 5), range(5, 9), range(9, 13))
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "below_rank(axis)": {"axis": 4},
            "same_sizes(inputs)": {"axis": 2},
            "sizes_follow(output)": {"output": f32(1, 1, 2, 6)},
        },
        examples=(
            Example(DOCUMENTED, (range(1, 7), range(7, 15)), [[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11, 12, 13, 14]]),
            Example(JoinDesc(FOURS, f32(1, 3, 2, 2), axis=1), THREE, [range(1, 13)]),
            Example(JoinDesc(FOURS, f32(1, 1, 6, 2), axis=2), THREE, [range(1, 13)]),
            Example(JoinDesc(FOURS, f32(1, 1, 2, 6), axis=3), THREE, [[1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12]]),
        ),
        draw=draw,
        expected=lambda desc, inputs: oracle(inputs, desc.axis),
        leading={"axis": 1},
    ),
)


def test_inputs_with_strides_of_their_own():
    desc = JoinDesc((i8(2, 2, strides=(1, 2)), i8(2, 1, strides=(0, 0))), i8(2, 3, strides=(4, 1)), 1)
    assert list(desc.input_ports()) == ["inputs[0]", "inputs[1]"]
    buffers = np.int8([1, 2, 3, 4]), np.int8([9])
    assert_same_bits(compile_operator(desc)(*buffers), np.int8([1, 3, 9, 0, 2, 4, 9]))
    out = jnp.full(7, -1, jnp.int8)
    assert_same_bits(compile_operator(desc)(*buffers, out=out), np.int8([1, 3, 9, -1, 2, 4, 9]))


def test_an_owned_input_among_others():
    owned = u8(2, flags="OWNED_BY_DML")
    desc = JoinDesc((u8(1), owned), u8(3), 0)
    run = compile_operator(desc, inputs=[None, np.uint8([7, 8])])
    assert_same_bits(run(np.uint8([6])), np.uint8([6, 7, 8]))


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    ({"inputs": ()}, ConstraintError, "InputTensors must hold a tensor, but it is empty"),
    ({"inputs": f32(2)}, DataTypeError, "InputTensors must be a sequence of TensorDesc"),
    ({"inputs": (TWO[0], None)}, DataTypeError, r"InputTensors\[1\] must be a TensorDesc"),
    ({"inputs": (TWO[0], f32(1, 2, 4))}, ConstraintError, "all InputTensors must have one DimensionCount"),
    ({"inputs": (TWO[0], i32(1, 1, 2, 4))}, DataTypeError, "have one DataType, but they are INT32"),
    ({"inputs": (TWO[0], f32(1, 1, 3, 4))}, ConstraintError, "except along Axis, but .* differ"),
    ({"axis": -1}, ConstraintError, r"Axis must be in \[0, "),
    ({"output": f32(1, 1, 2, 8)}, ConstraintError, r"added up along Axis, but \(1, 1, 2, 8\) is not \(1, 1, 2, 7\)"),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        for shape in shapes:
            for axis, n in enumerate(shape):
                for at, sizes in [(axis, (n, 2)), (axis - len(shape), (1, n, 3)), (axis, (n,))]:
                    inputs = parts(shape, axis, sizes)
                    yield lambda *x, at=at: join(x, at), inputs, oracle(inputs, at)

    assert_calls_agree(calls())


def test_lists_of_many():
    inputs = [np.int16([[i, -i]]) for i in range(50)]
    assert_same_bits(join(inputs, 0), np.concatenate(inputs))
    assert_same_bits(join(inputs, axis=-1), np.concatenate(inputs, 1))


# Empty arrays.


def test_empty_inputs():
    assert_same_bits(join([PARTS[0], PARTS[0][:, :0]], 1), PARTS[0])
    assert join([np.zeros((0, 2), np.float32)] * 2, 1).shape == (0, 4)
    assert join([np.zeros((2, 0), np.float32)], 1).shape == (2, 0)


# Transformations.


def test_each_input_gets_its_part_of_the_cotangents():
    weights = numbered((4, 6))
    found = jax.jit(jax.grad(lambda x: (join(x, 1) * weights).sum()))(PARTS)
    for one, wanted in zip(found, np.split(weights, [2, 3], 1), strict=True):
        assert_same_bits(one, wanted)
    halves = tuple(x.astype(jnp.bfloat16) for x in PARTS)
    (found,) = jax.vjp(lambda x: join(x, 1), halves)[1](weights.astype(jnp.bfloat16))
    for one, wanted in zip(found, np.split(weights, [2, 3], 1), strict=True):
        assert_same_bits(one, wanted.astype(jnp.bfloat16))


def test_one_array_twice_gets_both_parts():
    weights = numbered(6)
    found = jax.jit(jax.grad(lambda x: (join([x, x], 0) * weights).sum()))(jnp.zeros(3))
    assert_same_bits(found, weights[:3] + weights[3:])


def test_vmap_of_any_axis_of_some_inputs():
    a, b = numbered((2, 5, 3)), 100 + numbered((2, 4))
    mapped = jax.jit(jax.vmap(lambda a, b: join([a, b], 1), in_axes=(2, None), out_axes=1))(a, b)
    for i in range(3):
        assert_same_bits(mapped[:, i], oracle([a[:, :, i], b], 1))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"inputs": PARTS[0][0]}, DataTypeError, "inputs must be a sequence of arrays, but it is ndarray"),
    ({"inputs": "ab"}, DataTypeError, "inputs must be a sequence of arrays, but it is str"),
    ({"inputs": (PARTS[0], [1, 2])}, DataTypeError, r"inputs\[1\] must be an array"),
    ({"inputs": []}, ConstraintError, "inputs must hold an array, but there is none"),
    (
        {"inputs": [PARTS[0], np.int32([[1]] * 4), PARTS[0]]},
        DataTypeError,
        "must have one dtype, but they are float32 and int32",
    ),
    ({"inputs": (np.float32(1),) * 2, "axis": 0}, ConstraintError, "it is 0 and the rank is 0"),
    ({"axis": -3}, ConstraintError, "it is -3 and the rank is 2"),
    ({"axis": 1.0}, DataTypeError, "axis must be an integer"),
    ({"inputs": (PARTS[0], PARTS[0][0])}, ConstraintError, r"\(2,\) and \(4, 2\) differ"),
    ({"inputs": (PARTS[0], PARTS[0][:3])}, ConstraintError, r"\(3, 2\) and \(4, 2\) differ"),
)


def test_the_call_is_like_that_of_a_function_of_python():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'axis'"):
        join(PARTS)
    assert_same_bits(jax.jit(partial(join, axis=1))([*PARTS]), oracle(PARTS, 1))
