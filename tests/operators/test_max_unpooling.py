"""max_unpooling and MAX_UNPOOLING: zeros, then output.flat[indices[c]] = input[c]."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, assert_same_bits
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, i32, u32
from oracles import coordinates, wrap
from refusals import refuses
from small_arrays import (
    every_small_shape,
    indices_around,
    numbered,
    on_explicit_mesh,
    random_keys,
)

from dml_jax import ConstraintError, DataTypeError, MaxUnpoolingDesc, compile_operator, max_unpooling

pytestmark = pytest.mark.device


def oracle(input, indices, output_sizes):
    """Every element's candidates, {coordinate: what is written there, or a zero}."""
    places = list(coordinates(output_sizes))
    candidates = {at: [] for at in places}
    for c in coordinates(indices.shape):
        index = wrap(indices[c], len(places))
        if 0 <= index < len(places):
            candidates[places[index]].append(input[c])
    return {at: found or [np.zeros((), input.dtype)] for at, found in candidates.items()}


X = numbered((2, 3))
AT = np.int32([[5, 0, -1], [12, 7, -13]])  # of twelve elements
CASE = Call(max_unpooling, {"input": X, "indices": AT}, {"output_sizes": (3, 4)}, indexed=12)
BREAKS = {
    "integer(indices)": {"indices": AT.astype(np.float32)},
    "numbers(input)": {"input": X.astype(ml_dtypes.float8_e8m0fnu)},
    "same_sizes(indices, input)": {"indices": AT.T},
    "each_at_least(output_sizes, 0)": {"output_sizes": (3, -4)},
    "representable": {"output_sizes": (2**31, 2**32)},
}
VARIANTS = {
    "unsigned": {"indices": np.uint8([[5, 0, 11], [12, 7, 255]]), "indexed": None},
    "another rank": {"output_sizes": (2, 1, 2, 3)},
    "nothing": {"output_sizes": (0, 4), "indexed": None},
}


# The struct.


def draw(rng):
    input = dims(rng, 4, 24)
    return {"input": input, "indices": input, "output": dims(rng, 4, 24)}


POOLED = MaxUnpoolingDesc(f32(1, 1, 2, 2), u32(1, 1, 2, 2), f32(1, 1, 4, 4))
STRUCTS = (
    Struct(
        POOLED,
        breaks={"same_sizes(indices, input)": {"indices": u32(1, 1, 4, 1)}},
        # DirectML's page has none; this one is ONNX's.
        examples=(Example(POOLED, [[1, 2, 3, 4], [5, 7, 13, 15]], [[*[0] * 5, 1, 0, 2, *[0] * 5, 3, 0, 4]]),),
        draw=draw,
        expected=lambda desc, x, i: oracle(x, i, desc.output.sizes),
    ),
)


def test_indices_count_elements_and_not_places_in_the_buffer():
    strided = f32(1, 1, 2, 2, strides=(8, 8, 1, 2))
    run = compile_operator(MaxUnpoolingDesc(f32(1, 1, 1, 2), u32(1, 1, 1, 2), strided))
    assert_same_bits(run(np.float32([5, 7]), np.uint32([1, 2])), np.float32([0, 7, 5, 0]))


test_what_the_struct_refuses = refuses(
    POOLED,
    ({"indices": u32(1, 2, 1, 2)}, "IndicesTensor.Sizes must equal InputTensor.Sizes"),
    ({"indices": i32(1, 1, 2, 2)}, "IndicesTensor.DataType must be one of UINT64, UINT32"),
    ({"output": u32(1, 1, 4, 4)}, "OutputTensor.DataType must equal InputTensor.DataType"),
    ({"output": f32(4, 4)}, "OutputTensor.DimensionCount must equal InputTensor.DimensionCount"),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(3)
        for shape in shapes:
            x = numbered(shape)
            for sizes in ((4,), (2, 3), (1, 2, 2), ()):
                indices = indices_around(rng, int(np.prod(sizes, dtype=int)), shape)
                yield partial(max_unpooling, output_sizes=sizes), (x, indices), oracle(x, indices, sizes)

    assert_calls_agree(calls())


def test_a_pooled_picture_is_put_back():
    """The greatest of each block, where it was."""
    picture = np.random.default_rng(0).permutation(2 * 3 * 4 * 6).reshape(2, 3, 4, 6).astype(np.float32)
    blocks = picture.reshape(2, 3, 2, 2, 3, 2).transpose(0, 1, 2, 4, 3, 5)
    greatest = blocks.max((4, 5))
    indices = np.argsort(picture, axis=None)[greatest.astype(int)].astype(np.uint32)
    wanted = np.where(np.isin(picture, greatest), picture, np.float32(0))
    assert_same_bits(max_unpooling(greatest, indices, picture.shape), wanted)


def test_empty_arrays():
    assert_same_bits(max_unpooling(X[:0], AT[:0], (2, 2)), np.zeros((2, 2), np.float32))
    assert max_unpooling(X, AT, (0,)).shape == (0,)
    assert max_unpooling(X.astype(jnp.bfloat16), AT, (2, 0)).shape == (2, 0)


# Transformations.


def test_gradients_are_read_where_they_were_written():
    weights = numbered((3, 4))
    wanted = np.float32([[weights[1, 1], weights[0, 0], weights[2, 3]], [0, weights[1, 3], 0]])
    assert_same_bits(jax.jit(jax.grad(lambda x: (max_unpooling(x, AT, (3, 4)) * weights).sum()))(X), wanted)
    (found,) = jax.vjp(lambda x: max_unpooling(x, AT, (3, 4)), X.astype(jnp.bfloat16))[1](weights.astype(jnp.bfloat16))
    assert_same_bits(found, wanted.astype(jnp.bfloat16))
    assert_same_bits(jax.jit(jax.grad(lambda x: max_unpooling(x, AT, (0, 4)).sum()))(X), np.zeros_like(X))


def test_of_two_that_meet_one_gets_the_gradient():
    found = jax.jit(jax.grad(lambda x: max_unpooling(x, np.int32([1, 1]), (2,)).sum()))(np.float32([5, 7]))
    assert sorted(found.tolist()) == [0, 1]


# Explicit meshes.


def test_what_every_device_has_gives_what_every_device_has():
    made = max_unpooling(on_explicit_mesh(X, None, None), AT, (3, 4))
    assert jax.typeof(made).sharding.spec == P(None, None)
    assert_is(made, oracle(X, AT, (3, 4)), X)


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1, 2]}, DataTypeError, "input must be an array"),
    ({"input": random_keys(2, 3)}, DataTypeError, "that has 0, but it is key"),
    ({"indices": AT > 0}, DataTypeError, "indices.dtype must be an integer type, but it is bool"),
    ({"indices": AT[:1]}, ConstraintError, r"\(1, 3\) and \(2, 3\) differ in dimension 0"),
    ({"indices": AT[0]}, ConstraintError, r"they are \(3,\) and \(2, 3\)"),
    ({"output_sizes": 12}, DataTypeError, "output_sizes must be a sequence of integers, but it is 12"),
    ({"output_sizes": (3, 4.0)}, DataTypeError, r"output_sizes\[1\] must be an integer, but it is 4.0"),
    ({"output_sizes": (3, -4)}, ConstraintError, "every one of output_sizes must be at least 0"),
    ({"output_sizes": (0, 2**63)}, ConstraintError, r"fewer than 2\*\*63 bytes, but the sizes are \(0, 9223"),
)
