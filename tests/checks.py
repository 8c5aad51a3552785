"""Assertions on bits and rounding errors, samples of parameters, and programs that share a compilation."""

import contextlib

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from dml_jax import DataTypeError


def sampled(values, sample):
    """Parameters of which those in `sample` always run, and the others with --exhaustive only."""
    assert set(sample) <= set(values)
    return [value if value in sample else pytest.param(value, marks=pytest.mark.exhaustive) for value in values]


def spread(values, sample, parts):
    """Parameters (value, which of its cases): by default one part of the cases of each in `sample`, a different one
    of each so that as many values as parts have all cases; with --exhaustive all of all."""
    assert set(sample) <= set(values)
    some = [pytest.param(value, slice(i % parts, None, parts), id=f"{value} part") for i, value in enumerate(sample)]
    return some + [pytest.param(value, slice(None), id=str(value), marks=pytest.mark.exhaustive) for value in values]


def bits(array):
    """The bytes of every element, on a last dimension of their own."""
    array = np.ascontiguousarray(np.asarray(array))
    return array.reshape((*array.shape, 1)).view(np.uint8)


def assert_same_bits(actual, expected):
    """Same dtype, same shape, same bits: NaN payloads, signed zeros and all."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(bits(actual), bits(expected))


def assert_sharded(actual, spec, expected):
    """The same bits, and an output whose type has the sharding."""
    assert jax.typeof(actual).sharding.spec == spec
    assert_same_bits(actual, expected)


def assert_close(actual, expected, units):
    """What float64 says, off by some of float32's last places, of 1 or of what is greater, then rounded to its type."""
    actual, expected = np.asarray(actual), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape
    rounding = abs(expected) * float(jnp.finfo(actual.dtype).eps) / 2
    off = units * 2.0**-23 * np.maximum(1, abs(expected))
    with np.errstate(invalid="ignore"):  # infinities less infinities
        is_close = abs(actual.astype(np.float64) - expected) <= rounding + off
    is_close |= (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    assert is_close.all(), (actual, expected)


def assert_agrees(actual, expected, units):
    """The same bits, or floats that are close where `units` says how far they may be."""
    is_exact = units is None or np.asarray(expected).dtype.kind in "iu"
    assert_same_bits(actual, expected) if is_exact else assert_close(actual, expected, units)


def assert_scattered(actual, input, candidates):
    """Each element is one of the updates that address it, or the input's own if none does."""
    actual = np.asarray(actual)
    assert actual.dtype == input.dtype
    assert {*np.ndindex(actual.shape)} == {*candidates}
    for at, updates in candidates.items():
        accepted = [bits(u).tobytes() for u in updates or [input[at]]]
        assert bits(actual[at]).tobytes() in accepted, f"element {at} is {actual[at]}, candidates {updates}"


def assert_is(actual, expected, input=None):
    """What an oracle says: arrays, a tuple of them for several outputs, or every element's candidates."""
    if isinstance(expected, dict):
        assert_scattered(actual, input, expected)
        return
    assert len(jax.tree.leaves(actual)) == len(jax.tree.leaves(expected))
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert_same_bits(one, other)


def refused_without_x64(what):
    """For a `with` block: while 64-bit types are disabled, its first call must be refused, as `what` needs them."""
    if jax.config.jax_enable_x64:
        return contextlib.nullcontext()
    return pytest.raises(DataTypeError, match=f"{what} needs 64-bit types")


def assert_indices_agree(function, indices, expected, input=None):
    """With NumPy's indices and JAX's, eager and jitted; JAX holds those of 64 bits where x64 is on."""
    assert_is(function(indices), expected, input)
    if jax.config.jax_enable_x64 or indices.dtype.itemsize < 8:
        assert_is(jax.jit(function)(indices), expected, input)
        assert_is(function(jnp.asarray(indices)), expected, input)


def assert_calls_agree(calls):
    """Each is (what to call, its arrays, what an oracle says); they share programs, which compile faster."""
    calls = list(calls)
    results = together([(function, *arrays) for function, arrays, _ in calls])
    for result, (function, arrays, expected) in zip(results, calls, strict=True):
        try:
            assert_is(result, expected, arrays[0])
        except AssertionError as error:
            error.add_note(f"{function} of {arrays}")
            raise


def together(calls, at_once=24):
    """The results of (function, *arrays) calls, some of them in one program each: it compiles several times faster."""
    calls, results = list(calls), []
    for start in range(0, len(calls), at_once):
        part = calls[start : start + at_once]
        functions = [function for function, *_ in part]
        program = jax.jit(lambda arrays, functions=functions: [f(*a) for f, a in zip(functions, arrays, strict=True)])
        results += jax.device_get(program([arrays for _, *arrays in part]))
    return results


def exported(function, *arguments):
    """The function, exported for arrays of symbolic sizes.

    An argument is a shape such as "n, 2*c, 6" of float32 numbers, a tuple of a shape and a type, or an array.
    """
    scope = jax.export.SymbolicScope()

    def spec(argument):
        if isinstance(argument, np.ndarray):
            return argument
        shape, dtype = (argument, np.float32) if isinstance(argument, str) else argument
        return jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype)

    return jax.export.export(jax.jit(function))(*map(spec, arguments))
