"""Every data type arrives bit for bit: NaN payloads, signed zeros, subnormals and every integer."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits

import dml_jax

DIRECTML = ["float32", "float16", "uint32", "uint16", "uint8", "int32", "int16", "int8", "float64", "uint64", "int64"]
FLOAT8 = [name for name in dir(ml_dtypes) if name.startswith("float8_")]
OTHERS = ["bool", "complex64", "complex128", "bfloat16", *FLOAT8]
COUNT = 1 << 16


def every_pattern(dtype):
    """All bit patterns of a narrow type; of a wide one random patterns and the special ones."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.resize(np.array([True, False, False]), COUNT)
    if dtype.itemsize <= 2:
        return np.resize(np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}"), COUNT).view(dtype)
    rng = np.random.default_rng(5)
    words = rng.integers(0, 2**32, COUNT * dtype.itemsize // 4, dtype=np.uint32)
    words[:4096] |= 0x7F800000  # float32: infinities and NaNs, quiet and signalling
    words[4096:8192:2], words[4097:8192:2] = words[4096:8192:2], words[4097:8192:2] | 0x7FF00000  # float64
    words[8192:8196] = 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF  # -0.0 and subnormals
    return words.view(dtype)


@pytest.mark.parametrize("name", DIRECTML + OTHERS)
def test_every_operator_moves_bits(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    with jax.enable_x64(dtype.itemsize >= 8 and name != "complex64"):
        x = every_pattern(dtype)
        order = np.random.default_rng(6).permutation(COUNT).astype(np.int32)
        shuffled, square = x[order], x.reshape(256, 256)
        for mode in ("clip", "fill", "promise_in_bounds"):
            how = {"mode": mode, "fill_value": 1 if mode == "fill" else None}
            assert_same_bits(dml_jax.gather(x, order, 0, **how), shuffled)
            assert_same_bits(dml_jax.gather_elements(x, order, 0, **how), shuffled)
            assert_same_bits(dml_jax.gather_nd(x, order[:, None], **how), shuffled)
            rows = order[:256] % 256
            assert_same_bits(dml_jax.gather(square, rows, 0, **how), square[rows])
        blank = np.roll(x, 1)
        for mode in ("drop", "clip", "promise_in_bounds"):
            half, kept = order[: COUNT // 2], blank.copy()
            kept[half] = x[half]
            assert_same_bits(dml_jax.scatter_elements(blank, half, x[half], 0, mode=mode), kept)
            assert_same_bits(dml_jax.scatter_nd(blank, half[:, None], x[half], mode=mode), kept)
        depth = x.reshape(1, 16, 64, 64)
        for order_name in ("DCR", "CRD"):
            space = dml_jax.depth_to_space(depth, 2, order=order_name)
            assert sorted(np.asarray(space).tobytes()) == sorted(depth.tobytes())
            assert_same_bits(dml_jax.space_to_depth(space, 2, order=order_name), depth)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_four_and_two_bit_integers(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.arange(4).astype(dtype)
    back = np.int32([3, 2, 1, 0])
    assert_same_bits(dml_jax.gather(x, back, 0), x[::-1])
    assert_same_bits(dml_jax.gather_elements(x, back, 0, mode="fill"), x[::-1])
    assert_same_bits(dml_jax.scatter_nd(x, back[:, None], x), x[::-1])


def test_random_keys_are_gathered():
    keys = jax.random.split(jax.random.key(0), 4)
    assert jnp.array_equal(jax.random.key_data(dml_jax.gather(keys, np.int32([2]), 0)), jax.random.key_data(keys[2:3]))
