"""Corners of max_pooling: long windows, huge strides, narrow and wide types, NaN payloads."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_is, assert_same_bits, refused_without_x64
from small_arrays import narrow_floats, numbered

from dml_jax import MaxPooling1Desc, TensorDesc, compile_operator, max_pooling
from dml_jax.operations import max_pool_with_indices
from dml_jax.operations.sliding_windows import Windows
from dml_jax.operations.values.float_comparisons import by_value
from operators.test_max_pooling import oracle

pytestmark = pytest.mark.device


# Windows.


LONG = [  # compared dimension by dimension; derivatives of those of more than 64 elements are read by index
    ((9, 8), {"window_sizes": (6, 6), "strides": (2, 1), "start_padding": (3, 2), "end_padding": (2, 4)}),
    ((13, 5), {"window_sizes": (7, 3), "dilations": (2, 2), "start_padding": (1, 0)}),
    ((5, 4, 6), {"window_sizes": (3, 4, 3), "start_padding": (0, 2, 1), "end_padding": (1, 2, 0)}),
    ((3, 20), {"window_sizes": (2, 20), "start_padding": (3, 1)}),
    ((10, 11), {"window_sizes": (9, 8), "start_padding": (4, 0), "end_padding": (4, 3)}),
]


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("sizes", "attributes"), LONG)
def test_long_windows_and_their_derivatives(sizes, attributes):
    rng = np.random.default_rng(5)
    x = rng.choice(np.float32([0, -0.0, 1, -1, np.nan, -np.inf]), (2, *sizes), p=[0.04, 0.04, 0.02, 0.04, 0.01, 0.85])
    values, indices = oracle(x, **attributes)
    assert_is(max_pooling(x, **attributes), (values, indices))
    tangents, weights = numbered(x.shape), numbered(values.shape)
    wanted, inside = np.zeros(x.size, np.float32), indices != 2**32 - 1
    np.add.at(wanted, indices[inside], weights[inside])
    pool = partial(max_pooling, **attributes)
    moved = jax.jit(lambda x, t: jax.jvp(pool, (x,), (t,))[1][0])(x, tangents)
    back = jax.jit(lambda x, w: jax.vjp(lambda x: pool(x)[0], x)[1](w)[0])(x, weights)
    assert_same_bits(moved, np.append(tangents, np.float32(0))[np.where(inside, indices.astype(int), -1)])
    assert_same_bits(back, wanted.reshape(x.shape))


def test_strides_and_dilations_beyond_everything():
    """Of one window, or of one element, they mean nothing."""
    x = numbered((1, 5))
    for huge in (2**31, 2**63, 10**30):
        assert_same_bits(max_pooling(x, (5,), strides=(huge,))[0], np.float32([[5]]))
        assert_same_bits(max_pooling(x, (1,), dilations=(huge,))[0], x)


# Types.


def test_64_bit_data_and_indices_of_descriptors(x64):
    x = np.int64([[[[5, -(2**63), 2**40, 2**40 + 1]]]])
    sizes = (1, 1, 1, 3)
    desc = MaxPooling1Desc(
        TensorDesc("INT64", x.shape),
        TensorDesc("INT64", sizes),
        TensorDesc("UINT64", sizes),
        *((1, 1), (1, 2), (0, 0), (0, 0)),
    )
    values, indices = map(np.asarray, compile_operator(desc)(x.ravel()))
    assert_same_bits(values.view(np.int64), np.int64([5, 2**40, 2**40 + 1]))
    assert_same_bits(indices.view(np.uint64), np.uint64([0, 2, 3]))
    if x64:
        assert_same_bits(desc.compute(x)[0], values.view(np.int64).reshape(sizes))
    with refused_without_x64("input of type int64"):
        max_pooling(x, (2,))


NARROW = narrow_floats("float8_e8m0fnu")


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_bits_of_narrow_floats(dtype):
    """NaN payloads, subnormals and zeros of both signs, each beside each of some."""
    every = np.arange(256).astype(np.uint8) if dtype.itemsize == 1 else np.arange(0, 2**16, 127).astype(np.uint16)
    x = np.random.default_rng(0).permutation(every).view(dtype)
    assert_is(max_pooling(x, (3,), strides=(2,)), oracle(x, (3,), strides=(2,)))


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *NARROW], ids=str)
def test_floats_compared_by_value(dtype):
    """As on GPUs; a CPU takes subnormal float32 for equal, and bfloat16 with them."""
    every = np.arange(256) if dtype.itemsize == 1 else np.arange(0, 2**16, 127)
    x = np.random.default_rng(0).permutation(every.astype(np.uint16)).astype(f"uint{8 * dtype.itemsize}").view(dtype)
    if dtype == np.float32:
        x = x.view(np.uint32) << np.uint32(16)
        x = x.view(np.float32)
    is_subnormal = (x != 0) & (np.abs(x.astype(np.float64)) < float(np.finfo(np.float32).tiny))
    x = np.where(is_subnormal, np.zeros((), dtype), x)
    windows = [Windows(x.size, 3, 2, 1, 1, 1)]
    values, numbers = jax.jit(lambda x: max_pool_with_indices.find(x, windows, by_value(dtype)))(x)
    wanted, indices = oracle(x, (3,), strides=(2,), start_padding=(1,), end_padding=(1,))
    assert_same_bits(values, wanted)
    assert_same_bits(np.asarray(numbers, np.int64) + 2 * np.arange(numbers.size) - 1, indices.astype(np.int64))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["bool", "float4_e2m1fn", "float16", "int4", "uint4", "int8", "uint32"])
def test_other_types(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = np.random.default_rng(1).integers(0, 2 if name == "bool" else 8, (2, 9)).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize > 1:
        x[0, :2] = np.iinfo(dtype).max, np.iinfo(dtype).min
    assert_is(max_pooling(x, (3,), strides=(2,)), oracle(x, (3,), strides=(2,)))


def test_the_least_number_of_a_type_without_infinity():
    least = {jnp.float4_e2m1fn: -6, jnp.float8_e4m3fn: -448, jnp.float8_e5m2: -np.inf, np.int8: -128, np.uint8: 0}
    for dtype, wanted in least.items():
        values, indices = max_pooling(np.ones(1, dtype), (1,), start_padding=(1,))
        assert_same_bits(values, np.array([wanted, 1], dtype))
        assert_same_bits(indices, np.uint32([2**32 - 1, 0]))


def test_the_gradient_of_four_bits():
    x = np.float32([1, -6, 6, 0.5, 3, 0]).astype(ml_dtypes.float4_e2m1fn)
    (values, _), back = jax.vjp(lambda x: max_pooling(x, (2,), strides=(2,)), x)
    (gradient,) = back((values, np.zeros(3, jax.dtypes.float0)))
    assert_same_bits(values, np.float32([1, 6, 3]).astype(x.dtype))
    assert_same_bits(gradient, np.float32([1, 0, 6, 0, 3, 0]).astype(x.dtype))
