"""Numbers that operators take beside arrays: they are sent to a device once, and are the same number bit for bit."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax.core.fill_value import as_number

X = np.float32([[1, 2], [3, 4]])
CALLS = {
    "pad": lambda x: dml_jax.pad(x, (1, 0), (0, 1), value=9),
    "gather": lambda x: dml_jax.gather(x, INDICES, 0, mode="fill", fill_value=np.float32(7)),
    "fill_diagonals": lambda x: dml_jax.fill_diagonals(x, begin=0, end=1, value=5.5),
    "clip": lambda x: dml_jax.clip(x, 2, 3),
}
INDICES = jnp.asarray(np.int32([0, 5]))


@pytest.mark.parametrize("place", [None, 0, 1])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_later_call_sends_nothing(call, place):
    device = None if place is None else jax.devices("cpu")[place]
    x = jax.device_put(X, device)
    first = call(x)
    with jax.transfer_guard("disallow"):
        second = call(x)
    assert_same_bits(first, call(X))  # whose numbers are sent
    assert_same_bits(second, first)
    assert second.committed == (device is not None)


def test_a_number_lies_where_the_array_does():
    """It is not kept on a default device of a while: else every later call would send it from there."""
    first, second = jax.devices("cpu")[:2]
    with jax.default_device(second):
        assert isinstance(as_number("pad", "value", 77, jnp.asarray(X)), np.ndarray)
    assert as_number("pad", "value", 77, jnp.asarray(X)).devices() == {first}
    for device in (second, first, second):
        assert as_number("pad", "value", 77, jax.device_put(X, device)).devices() == {device}


@pytest.mark.parametrize("numbers", [(2**64, 2.0**64), (-(2.0**70), -(2**70))])
def test_integers_beyond_64_bits_are_the_floats_that_they_equal(numbers):
    for number in (*numbers, *numbers):
        padded = dml_jax.pad(jnp.ones(1, jnp.float32), (1,), (0,), value=number)
        assert_same_bits(padded, np.float32([float(number), 1]))
        for dtype in (jnp.int32, jnp.uint8, jnp.float16):
            with pytest.raises(dml_jax.DataTypeError, match="value must be a number"):
                dml_jax.pad(jnp.ones(1, dtype), (1,), (0,), value=number)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int4", "bfloat16", "float8_e5m2", "float32", "complex64"])
def test_numbers_of_all_types_arrive(dtype):
    x = jnp.zeros(3, dtype)
    numbers = (
        [0, 1] if dtype in ("bool", "uint8", "int16", "int4") else [0.0, -0.0, 1, np.inf, np.nan, -np.float32(np.nan)]
    )
    for number in (*numbers, *numbers):
        value = np.asarray(number).astype(x.dtype)
        expected = np.concatenate([value[None], np.asarray(x)])
        assert_same_bits(dml_jax.pad(x, (1,), (0,), value=value), expected)


def test_64_bits_stay():
    for enabled in (True, False, True):
        with jax.enable_x64(enabled):
            dtype = jnp.float64 if enabled else jnp.float32
            padded = dml_jax.pad(jnp.zeros(1, dtype), (1,), (0,), value=1 / 3 if enabled else np.float32(1 / 3))
            assert_same_bits(padded, np.array([1 / 3, 0], dtype))


def test_other_devices_and_meshes():
    """A number on the default device does not move an array to it, nor a mesh to one device."""
    pad, expected = partial(dml_jax.pad, start_padding=(1, 0), end_padding=(0, 0), value=9), np.pad(X, ((1, 0), (0, 0)))
    expected[0] = 9
    first, second = jax.devices("cpu")[:2]
    assert_same_bits(pad(jax.device_put(X)), expected)
    for device in (first, second):
        padded = pad(jax.device_put(X, device))
        assert padded.devices() == {device}
        assert padded.committed
        assert_same_bits(padded, expected)
    with jax.default_device(second):
        assert pad(jnp.asarray(X)).devices() == {second}
    assert pad(jnp.asarray(X)).devices() == {jax.devices()[0]}
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((2,), ("d",), axis_types=(kind,), devices=[first, second])
        sharded = jax.device_put(X, NamedSharding(mesh, P(None, "d")))
        assert_same_bits(pad(sharded), expected)
        with jax.set_mesh(mesh):
            assert_same_bits(pad(sharded), expected)


def test_transformations_after_a_call():
    """What JAX traces keeps no number of a trace, and a trace none of a device."""
    pad, x = partial(dml_jax.pad, start_padding=(1,), end_padding=(0,), value=123.5), jnp.ones(2, jnp.float32)
    expected = np.float32([123.5, 1, 1])
    assert_same_bits(jax.jit(lambda: pad(x))(), expected)  # a constant of a trace comes first
    assert_same_bits(pad(x), expected)
    assert_same_bits(jax.jit(pad)(x), expected)
    assert_same_bits(jax.vmap(pad)(x[None]), expected[None])
    assert_same_bits(jax.grad(lambda x: pad(x).sum())(x), np.ones(2, np.float32))
    with jax.disable_jit():
        assert_same_bits(pad(x), expected)


def test_a_deleted_number_is_sent_again():
    x, pad = jnp.ones(2, jnp.float32), partial(dml_jax.pad, start_padding=(1,), end_padding=(0,), value=321.5)
    pad(x)
    for array in jax.live_arrays():
        if array.ndim == 0 and array.dtype == np.float32 and array == 321.5:
            array.delete()
    assert_same_bits(pad(x), np.float32([321.5, 1, 1]))
