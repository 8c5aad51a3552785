"""Kinds of arguments: arrays, indices and attributes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import ORACLES
from checks import assert_indices_agree, assert_same_bits
from small_arrays import INTEGERS, SIX, numbered, telling_indices

import dml_jax

pytestmark = pytest.mark.device


def calls_of(indices):
    """By name: functions of indices among six elements, and their arguments."""
    column, updates = indices[:, None], -numbered(indices.shape)
    read = {"input": SIX, "indices": indices, "axis": 0}
    named = {"indices": column, "values": np.float32([0, 1]), "axis": 1}
    return {
        "gather": (dml_jax.gather, read),
        "gather, fill": (dml_jax.gather, {**read, "mode": "fill", "fill_value": -1}),
        "gather_elements": (dml_jax.gather_elements, read),
        "gather_nd": (dml_jax.gather_nd, {"input": SIX, "indices": column}),
        "max_unpooling": (dml_jax.max_unpooling, {"input": updates, "indices": indices, "output_sizes": (2, 3)}),
        "one_hot": (dml_jax.one_hot, {**named, "size": 6}),
        "one_hot, more than int8 holds": (dml_jax.one_hot, {**named, "size": 200}),
        "scatter_elements": (dml_jax.scatter_elements, {**read, "updates": updates}),
        "scatter_elements, clip": (dml_jax.scatter_elements, {**read, "updates": updates, "mode": "clip"}),
        "scatter_nd": (dml_jax.scatter_nd, {"input": SIX, "indices": column, "updates": updates}),
        "scatter_nd, clip": (
            dml_jax.scatter_nd,
            {"input": SIX, "indices": column, "updates": updates, "mode": "clip"},
        ),
    }


@pytest.mark.thinned(8)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", calls_of(np.int8([0])))
def test_every_type_of_indices_means_the_same(name, dtype, x64):
    """Eager or jitted, x64 on or off, where careless implementations overflow, wrap or truncate."""
    function, arguments = calls_of(telling_indices(dtype))[name]
    expected = ORACLES[function.__name__](**arguments)
    assert_indices_agree(
        lambda indices: function(**arguments | {"indices": indices}), arguments["indices"], expected, SIX
    )


def test_64_bit_arrays_made_under_x64_keep_their_meaning_after_it_is_off():
    with jax.enable_x64(True):
        indices, data = jnp.asarray(np.int64([2**32, -(2**40), 3])), jnp.asarray(np.int64([2**40, 1]))
    assert_same_bits(dml_jax.gather(SIX, indices, 0), np.float32([15, 10, 13]))
    with pytest.raises(dml_jax.DataTypeError, match="needs 64-bit types"):
        dml_jax.gather(data, np.int32([0]), 0)
    with pytest.raises(dml_jax.DataTypeError, match="traced 64-bit indices"):
        jax.jit(lambda i: dml_jax.gather(SIX, i, 0))(indices)


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_an_index_means_the_same_under_jit_unless_jax_narrows_an_argument(dtype, x64):
    """As a NumPy array, as a constant of a program, and as its argument, which without x64 has 32 bits."""
    limits, wanted = np.iinfo(dtype), (0, 5, 6, 100, -1, -6, -7, -100, -(2**40), 2**31, 2**32, 2**40)
    indices = np.array([n for n in (*wanted, limits.min, limits.max) if limits.min <= n <= limits.max], dtype)
    nearest = lambda indices: [SIX[min(max(n + 6 * (n < 0), 0), 5)] for n in indices.tolist()]  # noqa: E731
    read = lambda at: dml_jax.gather(SIX, at, 0)  # noqa: E731
    assert read(indices).tolist() == jax.jit(lambda: read(indices))().tolist() == nearest(indices)
    narrowed = indices if x64 else indices.astype(dtype.replace("64", "32"))
    assert jax.jit(read)(indices).tolist() == nearest(narrowed)


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
            with pytest.raises(dml_jax.DataTypeError, match=r"convert it by \.astype\(np\.\w+\), or enable x64 \("):
                call()
    if x64:
        assert_same_bits(calls[0](), data[index])
    else:
        with pytest.raises(dml_jax.DataTypeError, match="updates of type"):
            dml_jax.scatter_nd(SIX, index[:, None], data[:2])


@pytest.mark.parametrize("indices", [np.float32([0]), np.float64([0]), np.array([True]), np.complex64([0])])
def test_indices_that_are_no_integers_are_refused(indices):
    calls = [
        lambda i: dml_jax.gather(SIX, i, 0),
        lambda i: dml_jax.gather_elements(SIX, i, 0),
        lambda i: dml_jax.gather_nd(SIX, i),
        lambda i: dml_jax.scatter_elements(SIX, i, SIX[:1], 0),
        lambda i: dml_jax.scatter_nd(SIX, i, SIX[0]),
    ]
    for call in calls:
        with pytest.raises(dml_jax.DataTypeError, match=f"it is {indices.dtype}"):
            call(indices)
    if indices.dtype != np.float64:
        with pytest.raises(dml_jax.DataTypeError, match=f"it is {indices.dtype}"):
            jax.jit(calls[0])(indices)


@pytest.mark.parametrize("value", [[0.5], (True,), "0", None, 1.5])
def test_what_is_no_array_is_refused(value):
    with pytest.raises(dml_jax.DataTypeError, match="indices must be an array"):
        dml_jax.gather(SIX, value, 0)
    with pytest.raises(dml_jax.DataTypeError, match="input must be an array"):
        dml_jax.gather(value, np.int32([0]), 0)


def test_big_endian_arrays_and_array_likes_are_accepted():
    class Parameter:
        def __jax_array__(self):
            return jnp.asarray(SIX)

    assert_same_bits(dml_jax.gather(SIX.astype(">f4"), np.array([5, 0], ">i4"), 0), SIX[[5, 0]])
    assert_same_bits(dml_jax.gather(Parameter(), np.int32([5]), 0), SIX[[5]])


@pytest.mark.parametrize("axis", [0.0, "0", None, True, [0], np.float32(0)])
def test_attributes_must_be_static_integers(axis):
    with pytest.raises(dml_jax.DataTypeError, match="axis must be an integer"):
        dml_jax.gather(SIX, np.int32([0]), axis)
    with pytest.raises(dml_jax.DataTypeError, match="it is traced: name it in static_argnums"):
        jax.jit(lambda a: dml_jax.gather(SIX, np.int32([0]), a))(0)
    assert dml_jax.gather(SIX, np.int32([0]), np.int64(0)) == SIX[0]


def test_a_mode_that_is_no_string_is_refused():
    with pytest.raises(dml_jax.DataTypeError, match="mode must be a string"):
        dml_jax.gather(SIX, np.int32([0]), 0, mode=["clip"])


@pytest.mark.parametrize("name", ["longdouble", "clongdouble", "m8[s]", "M8[s]", "U3", "O", "f4,i4"])
def test_types_that_jax_has_not_are_refused(name):
    array = np.zeros(3, name)
    with pytest.raises(dml_jax.DataTypeError, match=r"input.dtype must be a type that JAX has"):
        dml_jax.gather(array, np.int32([0]), 0)
    with pytest.raises(dml_jax.DataTypeError, match=r"indices.dtype must be"):
        dml_jax.gather(SIX, array, 0)


def test_masks_and_plain_numbers_are_no_data():
    with pytest.raises(dml_jax.DataTypeError, match="input must be an array"):
        dml_jax.gather(np.ma.masked_array(SIX, mask=SIX > 12), np.int32([0]), 0)
    with pytest.raises(dml_jax.DataTypeError, match="updates must be an array"):
        dml_jax.scatter_nd(SIX, np.int32([0]), 5)
    with pytest.raises(dml_jax.DataTypeError, match="input must be an array"):
        dml_jax.gather(type("Class", (), {"__jax_array__": lambda self: SIX}), np.int32([0]), 0)


def test_a_list_becomes_the_array_that_the_message_names(x64):
    """jax.numpy.asarray would narrow 2**40 to 0 while x64 is off."""
    x, rows = [10, 11, 12], np.array([0, 2**40])
    with pytest.raises(dml_jax.DataTypeError, match=r"array .*, but it is list; numpy\.asarray\(input, dtype\) makes"):
        dml_jax.gather(x, rows, axis=0)
    assert dml_jax.gather(np.asarray(x, np.int32), rows, axis=0).tolist() == [10, 12]


def test_indices_of_numpy_without_jit():
    with jax.disable_jit():
        assert dml_jax.gather(np.float32([10, 11, 12]), np.array([-1, 7, 2**40]), axis=0).tolist() == [12, 12, 12]
