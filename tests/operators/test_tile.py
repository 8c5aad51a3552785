"""tile and TILE: output[c] = input[c % input.shape]."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import dims
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import (
    every_small_shape,
    numbered,
)

from dml_jax import ConstraintError, DataTypeError, TileDesc, tile, use_form

pytestmark = pytest.mark.device


def oracle(input, repeats):
    output = np.empty([n * r for n, r in zip(input.shape, repeats, strict=True)], input.dtype)
    for c in coordinates(output.shape):
        output[c] = input[tuple(at % n for at, n in zip(c, input.shape, strict=True))]
    return output


X = numbered((4, 6))
CASE = Call(tile, {"input": X}, {"repeats": (2, 3)})
BREAKS = {
    "one_per_dimension(repeats)": {"repeats": (2,)},
    "each_at_least(repeats, 0)": {"repeats": (2, -1)},
    "representable": {"repeats": (0, 2**62)},
}
VARIANTS = {
    "copied": {"repeats": (1, 1)},
    "rows": {"repeats": (3, 1)},
    "broadcast": {"input": X[:1, :, None], "repeats": (3, 1, 2)},
}


# The struct.


def draw(rng):
    input = dims(rng, int(rng.integers(1, 9)), 20)
    repeats = [int(n) for n in np.where(rng.random(len(input)) < 0.4, rng.integers(2, 4, len(input)), 1)]
    while np.prod(repeats) > 12:
        repeats[repeats.index(max(repeats))] = 1
    return {"input": input, "output": [n * r for n, r in zip(input, repeats, strict=True)], "repeats": repeats}


DOCUMENTED = TileDesc(f32(1, 1, 2, 3), f32(1, 1, 6, 9), repeats=(1, 1, 3, 3))
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "one_per_dimension(repeats)": {"repeats": (1, 3, 3)},
            "each_at_least(repeats, 1)": {"repeats": (1, 1, 0, 3)},
            "sizes_follow(output)": {"output": f32(1, 1, 6, 8)},
        },
        examples=(Example(DOCUMENTED, [range(1, 7)], [([1, 2, 3] * 3 + [4, 5, 6] * 3) * 3]),),
        draw=draw,
        expected=lambda desc, x: oracle(x, desc.repeats),
        leading={"repeats": 1},
    ),
)


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    ({"repeats": (1, 1, 3, 0)}, r"every one of Repeats must be at least 1, but they are \(1, 1, 3, 0\)"),
    ({"repeats": (1, 1, 3, -1)}, r"Repeats\[3\] must be in \[0, 2\*\*32 - 1\]"),
    ({"repeats": (3, 3)}, "Repeats must have one entry per dimension of InputTensor, but there are 2 for 4"),
    ({"output": f32(1, 1, 3, 9)}, r"Sizes must be .*, but \(1, 1, 3, 9\) is not \(1, 1, 6, 9\)"),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        for shape in shapes:
            x, rank = numbered(shape), len(shape)
            for repeats in ((2,) * rank, (1, 3, 2)[:rank], (3, 1, 1)[-rank:], (0, 2, 1)[:rank]):
                yield partial(tile, repeats=repeats), (x,), oracle(x, repeats)

    assert_calls_agree(calls())


def test_many_dimensions_and_none():
    x = numbered((1, 2) * 4)
    repeats = (2, 1, 1, 3, 1, 1, 2, 1)
    assert_same_bits(tile(x, repeats), oracle(x, repeats))


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.float16, jnp.bfloat16, np.float32, np.complex64], ids=lambda d: d.__name__
)
def test_scalars(dtype):
    x = np.ones((), dtype)
    assert_same_bits(tile(x, ()), x)
    assert_same_bits(jax.vmap(lambda x: tile(x, ()))(x[None]), x[None])


# Forms.


@pytest.mark.variants
@pytest.mark.thinned
@pytest.mark.parametrize("form", ["halves", "fan_out", "words", "assembled_words"])
def test_forms_give_the_same_bits(form):
    """Of every itemsize, with more copies than one concatenation takes."""
    for dtype, shape, repeats in (
        ("uint8", (5, 8), (2, 3)),
        ("uint8", (3, 5), (1, 70)),
        ("float16", (2, 3, 4), (4, 1, 33)),
        ("bfloat16", (4, 6), (96, 2)),
        ("bool", (2, 4), (2, 2)),
        ("float8_e4m3fn", (4, 8), (1, 2)),
        ("complex64", (2, 2), (2, 3)),
    ):
        x = numbered(shape).astype(jnp.dtype(dtype))
        with use_form(form):
            found = jax.jit(lambda x, repeats=repeats: tile(x, repeats))(x)
        assert_same_bits(found, oracle(x, repeats))


def test_a_large_array_of_bytes():
    x = np.random.default_rng(0).integers(0, 256, (256, 260), np.uint8)
    assert_same_bits(tile(x, (2, 5)), np.tile(x, (2, 5)))
    x = x.view(jnp.bfloat16)
    assert_same_bits(tile(x, (1, 5)), np.tile(x, (1, 5)))


# Empty arrays.


def test_empty_arrays():
    assert tile(X, (0, 2)).shape == (0, 12)
    assert tile(X[:0], (3, 2)).shape == (0, 12)
    assert tile(X[:0].astype(jnp.bfloat16), (0, 1)).shape == (0, 6)


# Transformations.


def test_gradients_of_all_copies_are_added():
    weights = numbered((8, 18))
    wanted = weights.reshape(2, 4, 3, 6).sum((0, 2))
    assert_same_bits(jax.jit(jax.grad(lambda x: (tile(x, (2, 3)) * weights).sum()))(X), wanted)
    (found,) = jax.vjp(lambda x: tile(x, (2, 1)), X.astype(jnp.bfloat16))[1](weights[:, :6].astype(jnp.bfloat16))
    assert_same_bits(found, (weights[:4, :6] + weights[4:, :6]).astype(jnp.bfloat16))
    assert_same_bits(jax.jit(jax.grad(lambda x: tile(x, (0, 1)).sum()))(X), np.zeros_like(X))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"repeats": 2}, DataTypeError, "repeats must be a sequence of integers, but it is 2"),
    ({"repeats": (2, 1.5)}, DataTypeError, r"repeats\[1\] must be an integer, but it is 1.5"),
    ({"repeats": (2, True)}, DataTypeError, r"repeats\[1\] must be an integer, but it is True"),
    ({"repeats": (2, 1, 1)}, ConstraintError, "one entry per dimension of input, but there are 3 for 2"),
    ({"repeats": (2, -1)}, ConstraintError, r"every one of repeats must be at least 0, but they are \(2, -1\)"),
)
