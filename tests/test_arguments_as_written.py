"""Shorthand arguments: one number for all dimensions, and lists of integers as indices."""

import jax
import numpy as np
import pytest
from catalogue_cases import CASES
from checks import assert_is

import dml_jax
from dml_jax import ConstraintError, DataTypeError
from dml_jax.catalogue import FUNCTIONS
from dml_jax.core.arguments.indices import as_indices
from dml_jax.core.arguments.static_values import as_dim_or_dims

WINDOWED = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")
# By function: the arguments of which one number stands for several.
ONE_FOR_ALL = {
    **dict.fromkeys(("average_pooling", "fold", "lp_pooling", "max_pooling", "unfold"), WINDOWED),
    "convolution": (*WINDOWED[1:], "output_padding", "output_sizes"),
    "upsample_2d": ("scale_size",),
}
INDEXED = [(name, p) for name, f in FUNCTIONS.items() for p, kind in f.kinds.items() if kind.reader is as_indices]
INTEGERS = [(name, argument) for name, arguments in ONE_FOR_ALL.items() for argument in arguments]


def test_these_are_all_of_the_catalogue():
    several = {
        name: tuple(p for p, kind in f.kinds.items() if kind.reader is as_dim_or_dims) for name, f in FUNCTIONS.items()
    }
    assert {name: found for name, found in several.items() if found} == ONE_FOR_ALL
    assert {name for name, _ in INDEXED} >= {"gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"}


def number_of_dimensions(name, argument, arguments):
    """How many the documentation says that one number stands for."""
    if name == "upsample_2d":
        return 2
    if name == "fold":
        return len(arguments["output_sizes"])
    is_given = argument != "window_sizes" and "window_sizes" in arguments
    return len(arguments["window_sizes"]) if is_given else arguments["input"].ndim - 2


def outcome(call):
    """The result, or the class of error and the first line that it has."""
    try:
        return call(*call.leaves)
    except ConstraintError as error:
        return str(error).splitlines()[0]


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("name", "argument"), [(name, p) for name, p in INTEGERS if p != "window_sizes" or name == "fold"]
)
def test_one_number_stands_for_several(name, argument):
    """One for `window_sizes` must be for two dimensions or more: see below."""
    taken = 0
    for value in (0, 1, 2, 3, np.int8(2)):
        several = (int(value),) * number_of_dimensions(name, argument, CASES[name].arguments)
        one, other = (outcome(CASES[name].changed(**{argument: given})) for given in (value, several))
        if isinstance(other, str):
            assert one == other
            continue
        assert_is(one, jax.tree.map(np.asarray, other))
        taken += 1
    assert taken or name == "fold"


def test_one_size_of_windows_is_that_of_all_dimensions_behind_the_first_two():
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    for pool in (dml_jax.max_pooling, dml_jax.average_pooling, dml_jax.lp_pooling, dml_jax.unfold):
        one, several = pool(x, 2, strides=2, end_padding=1), pool(x, (2, 2), strides=(2, 2), end_padding=(1, 1))
        assert_is(one, jax.tree.map(np.asarray, several))
    columns = np.ones((1, 4, 16), np.float32)
    assert_is(dml_jax.fold(columns, (8, 8), 2, strides=2), np.ones((1, 1, 8, 8), np.float32))


@pytest.mark.parametrize("name", [name for name, p in INTEGERS if p == "window_sizes" and name != "fold"])
@pytest.mark.parametrize("sizes", [(), (8,), (8, 8), (3, 8, 8)], ids=str)
def test_one_size_of_windows_of_fewer_than_four_dimensions_is_refused(name, sizes):
    """A picture [C, H, W] and a row [N, C, W] look alike: the message has both tuples to say."""
    x, function = np.ones(sizes, np.float32), FUNCTIONS[name]
    for call in (function, jax.jit(function, static_argnums=1)):
        with pytest.raises(ConstraintError) as caught:
            call(x, 2)
        told = f"input has {x.ndim} dimensions in all: say window_sizes=(2,) for windows along the last one, as in "
        assert f"{told}[N, C, W], or window_sizes=(2, 2) along the last two" in str(caught.value)
    if sizes == (3, 8, 8):
        with pytest.raises(ConstraintError, match="has 3 dimensions"):
            jax.vmap(lambda x: function(x, 2))(x[None])
        for several in ((2,), (2, 2)):
            assert_is(function(x, several, strides=2), function(x, several, strides=(2,) * len(several)))


@pytest.mark.parametrize(("name", "argument"), INTEGERS)
@pytest.mark.parametrize("value", [True, 2.0, "2", np.int32([[2, 2]])], ids=str)
def test_other_values_are_refused(name, argument, value):
    with pytest.raises(DataTypeError, match="integers, or one of them"):
        CASES[name].changed(**{argument: value})(*CASES[name].leaves)


def test_a_traced_number_is_refused():
    with pytest.raises(DataTypeError, match=r"or one of them, .* it is traced: name it in static_argnums"):
        jax.jit(dml_jax.upsample_2d)(np.ones((2, 2), np.float32), 2)


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "argument"), INDEXED)
def test_lists_of_integers_are_read_as_numpy_reads_them(name, argument, x64):
    case = CASES[name]
    array = np.asarray(case.arrays[argument]).astype(np.int64)
    expected = case.changed(**{argument: array})
    for given in (array.tolist(), tuple(array.tolist())):
        arguments = expected.arguments | {argument: given}
        assert_is(case.function(**arguments), jax.tree.map(np.asarray, expected(*expected.leaves)))


@pytest.mark.parametrize("number", [2**31, 2**32 + 1, 2**63, 2**64 + 1, 2**100], ids=str)
def test_large_integers_stay_out_of_range(number, x64):
    x = np.float32([1, 2, 3])
    assert_is(dml_jax.gather(x, [number, -number, 1], 0), np.float32([3, 1, 2]))
    filled = dml_jax.gather(x, [number, -number], 0, mode="fill", fill_value=9)
    assert_is(filled, np.float32([9, 9]))
    assert_is(dml_jax.scatter_nd(x, [[number], [-number]], np.float32([7, 8])), x)


@pytest.mark.parametrize("number", [2.0, True, "1", None, 1j, np.float32(1), np.True_], ids=repr)
def test_lists_of_anything_else_are_refused(number):
    for indices in ([number], [0, number], [[0], [number]]):
        with pytest.raises(DataTypeError, match="indices must be an array, or integers in lists of one length each"):
            dml_jax.gather(np.float32([1, 2, 3]), indices, 0)


@pytest.mark.parametrize("indices", [[0, [1]], [[0, 1], [2]], [[], [1]]], ids=str)
def test_ragged_lists_are_refused(indices):
    with pytest.raises(DataTypeError, match="in lists of one length each, but the lengths differ"):
        dml_jax.gather(np.float32([1, 2, 3]), indices, 0)


def test_empty_lists_are_integers():
    x = np.float32([1, 2, 3])
    for indices in ([], [[]], [[], []], ()):
        assert dml_jax.gather(x, indices, 0).shape == np.shape(indices)
    assert dml_jax.gather_nd(x, np.zeros((0, 1), np.int32)).shape == (0,)


def test_lists_are_operands_of_one_program():
    """Other numbers of as many elements compile nothing."""
    x = jax.numpy.float32([1, 2, 3])
    dml_jax.gather(x, [0, 1], 0)
    with jax.log_compiles(False), jax.no_tracing():
        assert_is(dml_jax.gather(x, [2, -1], 0), np.float32([3, 3]))
