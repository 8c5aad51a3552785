"""Every index type means the same: eager or jitted, x64 on or off, on every operator."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from checks import assert_same_bits, assert_scattered

import dml_jax

pytestmark = pytest.mark.device

SIGNED, UNSIGNED = (np.int8, np.int16, np.int32, np.int64), (np.uint8, np.uint16, np.uint32, np.uint64)
SIZE = 6


def telling_values(dtype):
    """In range, just out of range, and the values that overflow, wrap or truncate in a careless implementation."""
    limits = np.iinfo(dtype)
    values = {0, 1, 5, 6, 7, -1, -6, -7, limits.min, limits.max, limits.max - 1}
    values |= {2**7, 2**8, 2**15, 2**16, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32, 2**32 + 1, 2**63, -(2**32) + 1}
    return np.array(sorted(v for v in values if limits.min <= v <= limits.max), dtype)


X = np.arange(10, 10 + SIZE, dtype=np.float32)
READS = {
    "gather": (lambda i: dml_jax.gather(X, i, 0), lambda i: oracles.gather(X, i, 0)),
    "gather_fill": (
        lambda i: dml_jax.gather(X, i, 0, mode="fill", fill_value=-1),
        lambda i: oracles.gather(X, i, 0, "fill", -1),
    ),
    "gather_elements": (lambda i: dml_jax.gather_elements(X, i, 0), lambda i: oracles.gather_elements(X, i, 0)),
    "gather_nd": (
        lambda i: dml_jax.gather_nd(X[None], jnp.stack([i * 0, i], -1) if isinstance(i, jax.Array) else pairs(i)),
        lambda i: oracles.gather_nd(X[None], pairs(i)),
    ),
}


def pairs(i):
    return np.stack([np.zeros_like(i), i], axis=-1)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("operator", READS)
def test_reads_agree_with_exact_arithmetic(operator, dtype, x64):
    read, oracle = READS[operator]
    values = telling_values(dtype)
    assert_same_bits(read(values), oracle(values))
    if x64 or np.dtype(dtype).itemsize < 8:
        assert_same_bits(jax.jit(read)(values), oracle(values))
        assert_same_bits(read(jnp.asarray(values)), oracle(values))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_writes_agree_with_exact_arithmetic(mode, dtype, x64):
    values = telling_values(dtype)
    updates = -np.arange(1, 1 + values.size, dtype=np.float32)
    candidates = oracles.scatter_elements(X, values, updates, 0, mode)
    assert_scattered(dml_jax.scatter_elements(X, values, updates, 0, mode=mode), X, candidates)
    assert_scattered(dml_jax.scatter_nd(X, values[:, None], updates, mode=mode), X, candidates)
    if x64 or np.dtype(dtype).itemsize < 8:
        jitted = jax.jit(lambda i: dml_jax.scatter_elements(X, i, updates, 0, mode=mode))
        assert_scattered(jitted(values), X, candidates)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_narrow_indices_address_long_axes(dtype):
    """Index arithmetic in the index type would overflow: the axis is longer than the type can count."""
    x = np.arange(1000, dtype=np.int32)
    indices = np.array([0, 1, 127, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    assert_same_bits(dml_jax.gather(x, indices, 0), oracles.gather(x, indices, 0))


def test_narrow_data_with_a_long_axis():
    x = np.arange(1000).astype(np.uint8)
    indices = np.int32([0, 300, 999, -1])
    assert_same_bits(dml_jax.gather_elements(x, indices, 0), x[indices])


def test_promise_in_bounds_wraps_negative_indices():
    indices = np.int32([-1, 0, -6, 5])
    for read in (dml_jax.gather, dml_jax.gather_elements):
        assert_same_bits(read(X, indices, 0, mode="promise_in_bounds"), X[indices])
    assert_same_bits(dml_jax.gather_nd(X, indices[:, None], mode="promise_in_bounds"), X[indices])
    expected = X.copy()
    expected[[0, 5]] *= -1
    assert_same_bits(dml_jax.scatter_elements(X, indices, -X[indices], 0, mode="promise_in_bounds"), expected)


def test_a_python_integer_is_an_index():
    assert dml_jax.gather(X, -1, 0) == 15
    for far in (2**40, 2**63, 2**64, 10**50):
        assert dml_jax.gather(X, far, 0) == 15
        assert dml_jax.gather(X, -far, 0) == 10


def test_64_bit_arrays_made_under_x64_keep_their_meaning_after_it_is_off():
    with jax.enable_x64(True):
        indices, data = jnp.asarray(np.int64([2**32, -(2**40), 3])), jnp.asarray(np.int64([2**40, 1]))
    assert_same_bits(dml_jax.gather(X, indices, 0), np.float32([15, 10, 13]))
    with pytest.raises(dml_jax.DataTypeError, match="needs 64-bit types"):
        dml_jax.gather(data, np.int32([0]), 0)
    with pytest.raises(dml_jax.DataTypeError, match="traced 64-bit indices"):
        jax.jit(lambda i: dml_jax.gather(X, i, 0))(indices)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64, np.complex128])
def test_64_bit_numpy_data_is_refused_while_x64_is_off_and_moved_while_it_is_on(dtype, x64):
    data = np.arange(4).astype(dtype) + dtype(2**40)
    index = np.int32([3, 0])
    calls = [
        lambda: dml_jax.gather(data, index, 0),
        lambda: dml_jax.scatter_elements(data, index, data[:2], 0),
        lambda: dml_jax.depth_to_space(data.reshape(4, 1, 1), 2),
    ]
    for call in calls:
        if x64:
            assert call().dtype == dtype
        else:
            with pytest.raises(dml_jax.DataTypeError, match=r"enable them \(jax.config.update"):
                call()
    if x64:
        assert_same_bits(calls[0](), data[index])
    else:
        with pytest.raises(dml_jax.DataTypeError, match="updates of type"):
            dml_jax.scatter_nd(X, index[:, None], data[:2])


@pytest.mark.parametrize("indices", [np.float32([0]), np.float64([0]), np.array([True]), np.complex64([0])])
def test_indices_that_are_no_integers_are_refused(indices):
    calls = [
        lambda i: dml_jax.gather(X, i, 0),
        lambda i: dml_jax.gather_elements(X, i, 0),
        lambda i: dml_jax.gather_nd(X, i),
        lambda i: dml_jax.scatter_elements(X, i, X[:1], 0),
        lambda i: dml_jax.scatter_nd(X, i, X[0]),
    ]
    for call in calls:
        with pytest.raises(dml_jax.DataTypeError, match=f"it is {indices.dtype}"):
            call(indices)
    if indices.dtype != np.float64:
        with pytest.raises(dml_jax.DataTypeError, match=f"it is {indices.dtype}"):
            jax.jit(calls[0])(indices)


@pytest.mark.parametrize("value", [[0], (0,), "0", None, 1.5])
def test_what_is_no_array_is_refused(value):
    with pytest.raises(dml_jax.DataTypeError, match="indices must be an array"):
        dml_jax.gather(X, value, 0)
    with pytest.raises(dml_jax.DataTypeError, match="input must be an array"):
        dml_jax.gather(value, np.int32([0]), 0)


def test_big_endian_arrays_and_array_likes_are_accepted():
    class Parameter:
        def __jax_array__(self):
            return jnp.asarray(X)

    assert_same_bits(dml_jax.gather(X.astype(">f4"), np.array([5, 0], ">i4"), 0), X[[5, 0]])
    assert_same_bits(dml_jax.gather(Parameter(), np.int32([5]), 0), X[[5]])


@pytest.mark.parametrize("axis", [0.0, "0", None, True, [0], np.float32(0)])
def test_attributes_must_be_static_integers(axis):
    with pytest.raises(dml_jax.DataTypeError, match="axis must be a Python integer"):
        dml_jax.gather(X, np.int32([0]), axis)
    with pytest.raises(dml_jax.DataTypeError, match="known while tracing"):
        jax.jit(lambda a: dml_jax.gather(X, np.int32([0]), a))(0)
    assert dml_jax.gather(X, np.int32([0]), np.int64(0)) == X[0]


def test_a_mode_that_is_no_string_is_refused():
    with pytest.raises(dml_jax.DataTypeError, match="mode must be a string"):
        dml_jax.gather(X, np.int32([0]), 0, mode=["clip"])


def test_an_axis_beyond_32_bits_asks_for_64_bit_indices(x64):
    """Traced on shapes alone: nothing of this size is allocated."""
    long = jax.ShapeDtypeStruct((2**31 + 8,), np.int8)
    indices = jax.ShapeDtypeStruct((3,), np.int32)
    call = lambda: jax.eval_shape(lambda x, i: dml_jax.gather(x, i, 0), long, indices)  # noqa: E731
    if x64:
        assert call().shape == (3,)
    else:
        with pytest.raises(dml_jax.ConstraintError, match="enable jax_enable_x64"):
            call()


@pytest.mark.parametrize("name", ["longdouble", "clongdouble", "m8[s]", "M8[s]", "U3", "O", "f4,i4"])
def test_types_that_jax_has_not_are_refused(name):
    array = np.zeros(3, name)
    with pytest.raises(dml_jax.DataTypeError, match=r"input.dtype must be a type that JAX has"):
        dml_jax.gather(array, np.int32([0]), 0)
    with pytest.raises(dml_jax.DataTypeError, match=r"indices.dtype must be"):
        dml_jax.gather(X, array, 0)


def test_masks_and_plain_numbers_are_no_data():
    with pytest.raises(dml_jax.DataTypeError, match="input must be an array"):
        dml_jax.gather(np.ma.masked_array(X, mask=X > 12), np.int32([0]), 0)
    with pytest.raises(dml_jax.DataTypeError, match="updates must be an array"):
        dml_jax.scatter_nd(X, np.int32([0]), 5)
    with pytest.raises(dml_jax.DataTypeError, match="input must be an array"):
        dml_jax.gather(type("Class", (), {"__jax_array__": lambda self: X}), np.int32([0]), 0)
