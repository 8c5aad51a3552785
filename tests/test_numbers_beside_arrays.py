"""Scalar arguments: the first few values are compiled into programs as constants; all arrive bit for bit."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax.core.arguments import exact_scalars

X = np.float32([[1, 2], [3, 4]])
CALLS = {
    "pad": lambda x: dml_jax.pad(x, (1, 0), (0, 1), value=9),
    "gather": lambda x: dml_jax.gather(x, INDICES, 0, mode="fill", fill_value=np.float32(7)),
    "fill_diagonals": lambda x: dml_jax.fill_diagonals(x, begin=0, end=1, value=5.5),
    "clip": lambda x: dml_jax.clip(x, 2, 3),
}
INDICES = jnp.asarray(np.int32([0, 5]))


@pytest.fixture
def nothing_known(monkeypatch):
    """Forgets the numbers that other tests have given."""
    monkeypatch.setattr(exact_scalars, "_KNOWN", {})


@pytest.mark.parametrize("place", [None, 0, 1])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_later_call_sends_nothing(call, place, nothing_known):
    device = None if place is None else jax.devices("cpu")[place]
    x = jax.device_put(X, device)
    first = call(x)
    with jax.transfer_guard("disallow"):
        second = call(x)
    assert_same_bits(first, call(X))  # an operand of the program: its array is NumPy's
    assert_same_bits(second, first)
    assert second.committed == (device is not None)


def test_the_first_few_numbers_compile_a_program_and_others_do_not(nothing_known, caplog):
    compiled, x = [], jnp.asarray(X)
    for value in range(1, exact_scalars.FEW + 4):
        caplog.clear()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            padded = dml_jax.pad(x, (0, 2), (0, 0), value=value)
        assert_same_bits(padded, np.pad(X, ((0, 0), (2, 0)), constant_values=value))
        compiled.append(any("Compiling" in record.getMessage() for record in caplog.records))
    assert compiled == [True] * (exact_scalars.FEW + 1) + [False] * 2  # one program takes any number
    kept = set(exact_scalars._KNOWN)
    dml_jax.clip(x, 1, 2)
    assert {name for _, name, *_ in set(exact_scalars._KNOWN) - kept} == {"min", "max"}  # each argument has a few


@pytest.mark.parametrize("number", [float("nan"), 1j, np.array(2)])
def test_other_numbers_are_operands(number, nothing_known):
    """NaN equals nothing, and a table cannot find arrays or the zeros of complex numbers."""
    dml_jax.pad(jnp.ones(1, jnp.complex64), (1,), (0,), value=number)
    assert not exact_scalars._KNOWN


def test_equal_numbers_of_two_types_run_one_program(nothing_known, compilations):
    numbers, x = (3, 3.0, np.int8(3), np.float16(3)), jnp.ones(1, jnp.float32)
    dml_jax.pad(x, (1,), (0,), value=3)
    with compilations() as compiled:
        for number in numbers:
            assert_same_bits(dml_jax.pad(x, (1,), (0,), value=number), np.float32([3, 1]))
    assert not compiled


def test_zeros_keep_their_sign(nothing_known):
    """-0.0 equals 0.0, and 0."""
    for number in (0, -0.0, 0.0, np.float32(-0.0), np.float32(0), -0.0):
        padded = dml_jax.clip(jnp.ones(2, jnp.float32), 0, number)
        assert_same_bits(padded, np.float32([number] * 2))


@pytest.mark.parametrize("numbers", [(2**64, 2.0**64), (-(2.0**70), -(2**70))])
def test_integers_beyond_64_bits_are_the_floats_that_they_equal(numbers):
    for number in (*numbers, *numbers):
        padded = dml_jax.pad(jnp.ones(1, jnp.float32), (1,), (0,), value=number)
        assert_same_bits(padded, np.float32([float(number), 1]))
        for dtype in (jnp.int32, jnp.uint8, jnp.float16):
            with pytest.raises(dml_jax.DataTypeError, match="value must be a number"):
                dml_jax.pad(jnp.ones(1, dtype), (1,), (0,), value=number)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int4", "bfloat16", "float8_e5m2", "float32", "complex64"])
def test_numbers_of_all_types_arrive(dtype, nothing_known):
    x = jnp.zeros(3, dtype)
    floats = [0.0, -0.0, 1, np.inf, np.nan, -np.float32(np.nan), 1e-40, 1e-7, -1 / 3]  # subnormal in some of the types
    for number in [0, 1] if dtype in ("bool", "uint8", "int16", "int4") else floats:
        value = np.asarray(number).astype(x.dtype)
        expected = np.concatenate([value[None], np.asarray(x)])
        for given in (number, value, number):
            assert_same_bits(dml_jax.pad(x, (1,), (0,), value=given), expected)


def test_numbers_too_great_for_a_type_without_infinity():
    """NumPy makes 6 of them, the greatest number."""
    x = jnp.zeros(1, "float4_e2m1fn")
    assert_same_bits(dml_jax.pad(x, (1,), (1,), value=-6), np.float32([-6, 0, -6]).astype(x.dtype))
    for number in (6.5, -10, 2**70, np.inf, np.nan):
        with pytest.raises(dml_jax.DataTypeError, match=r"value must be a number .* that float4_e2m1fn holds"):
            dml_jax.pad(x, (1,), (0,), value=number)


def test_64_bits_stay():
    for enabled in (True, False, True):
        with jax.enable_x64(enabled):
            dtype = jnp.float64 if enabled else jnp.float32
            padded = dml_jax.pad(jnp.zeros(1, dtype), (1,), (0,), value=1 / 3 if enabled else np.float32(1 / 3))
            assert_same_bits(padded, np.array([1 / 3, 0], dtype))


def test_other_devices_and_meshes():
    """A number moves no array to the default device, and no mesh to one device."""
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
    """What JAX traces takes the same number, before and after a call that knows it."""
    pad, x = partial(dml_jax.pad, start_padding=(1,), end_padding=(0,), value=123.5), jnp.ones(2, jnp.float32)
    expected = np.float32([123.5, 1, 1])
    assert_same_bits(jax.jit(lambda: pad(x))(), expected)  # a constant of a trace comes first
    assert_same_bits(pad(x), expected)
    assert_same_bits(jax.jit(pad)(x), expected)
    assert_same_bits(jax.vmap(pad)(x[None]), expected[None])
    assert_same_bits(jax.grad(lambda x: pad(x).sum())(x), np.ones(2, np.float32))
    with jax.disable_jit():
        assert_same_bits(pad(x), expected)
