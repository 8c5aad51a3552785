"""Corners of reduce: narrow types, overflow, NaNs and ties, empty arrays, and what large arrays do on CPUs."""

import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_close, assert_same_bits, refused_without_x64, sampled, spread, together
from small_arrays import every_narrow_float
from variant_cases import chosen_on

from dml_jax import ConstraintError, DataTypeError, ReduceDesc, TensorDesc, compile_operator, reduce, use_form
from operators.test_reduce import MADE, X, exact, oracle, typed

pytestmark = pytest.mark.device


# Types.


@pytest.mark.thinned(2)
@every_narrow_float
def test_narrow_floats_are_computed_in_float32(dtype):
    if dtype.name == "float8_e8m0fnu":
        with pytest.raises(DataTypeError, match="it is float8_e8m0fnu, which has no 0"):
            reduce(np.ones(3, dtype), "sum")
        return
    x = np.array([0.5, 1.5, 2, 0.25, 1], dtype)
    functions = ("average", "l1", "l2", "max", "min", "multiply", "sum", "sum_square")
    assert_calls_agree((partial(reduce, function=name), (x,), oracle(x, name)) for name in functions)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=str)
def test_many_narrow_floats_do_not_stop_growing(dtype):
    """One after the other, ones add up to 2048 or 256 at most."""
    ones = np.ones((2, 5000), dtype)
    assert_same_bits(reduce(ones, "sum", (1,)), np.full((2, 1), 5000, dtype))
    assert_same_bits(reduce(ones * dtype(300), "average", (1,)), np.full((2, 1), 300, dtype))
    assert_same_bits(reduce(np.array([300, 400], np.float16), "l2"), np.array([500], np.float16))
    back = jax.jit(jax.grad(lambda x: (reduce(x, "sum", (1,)) * x).astype(np.float32).sum()))(jnp.ones((1, 512), dtype))
    assert_same_bits(back, np.full((1, 512), 1024, dtype))


INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int4", "uint4", "bool")


@pytest.mark.parametrize("name", sampled(INTEGERS, ("uint8", "int4", "bool")))
def test_integers_wrap_and_bools_are_or_and_and(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    numbers = np.random.default_rng(1).integers(-300, 300, (3, 7))
    x = (numbers % (2 if name == "bool" else 8 if "4" in name else 200)).astype(dtype)
    functions = ("argmax", "argmin", "l1", "max", "min", "multiply", "sum", "sum_square")
    assert_calls_agree((partial(reduce, function=f, axes=(1,)), (x,), oracle(x, f, (1,))) for f in functions)


def test_the_least_integer_has_no_absolute_value():
    assert_same_bits(reduce(np.int8([-128]), "l1"), np.int8([-128]))


def test_64_bit_data_and_indices_of_descriptors(x64):
    """While x64 is off buffers hold words."""
    x = np.int64([2**40, -(2**62), 2**41, 2**62])
    for of, function, output in [("INT64", "SUM", "INT64"), ("UINT64", "MAX", "UINT64"), ("INT64", "ARGMAX", "INT64")]:
        desc = ReduceDesc(function, TensorDesc(of, (4,)), TensorDesc(output, (1,)), (0,))
        data = x.view(desc.input.dtype)
        made = np.asarray(compile_operator(desc)(data)).view(desc.output.dtype)
        assert_same_bits(made, typed(exact(data, function.lower()), desc.output.dtype))


def test_64_bit_data_needs_x64_in_a_function(x64):
    x = np.int64([2**40, 1])
    with refused_without_x64("input of type int64"):
        assert_same_bits(reduce(x, "sum"), np.int64([2**40 + 1]))
        assert_same_bits(reduce(x, "argmax"), np.uint32([0]))
        assert_same_bits(reduce(np.uint32([2**32 - 1, 2]), "sum"), np.uint32([1]))
        assert_same_bits(reduce(np.float64([1, 2**-40]), "average"), np.float64([0.5 + 2**-41]))


# Numbers.


def test_nans_and_ties():
    """A NaN is the greatest and the least; of equals the first one counts, 0.0 and -0.0 among them."""
    x = np.float32([[1, np.nan, 3, np.nan], [2, 5, 5, 2], [-0.0, 0.0, 0.0, -0.0]])
    for dtype in (np.float32, np.float16, jnp.bfloat16):
        assert_same_bits(reduce(x.astype(dtype), "argmax", (1,)), np.uint32([[1], [1], [0]]))
        assert_same_bits(reduce(x.astype(dtype), "argmin", (1,)), np.uint32([[1], [0], [0]]))
        for function, wanted in (("max", [np.nan, 5, 0]), ("min", [np.nan, 2, 0])):
            np.testing.assert_array_equal(reduce(x.astype(dtype), function, (1,))[:, 0].astype(np.float32), wanted)


def test_what_has_no_logarithm():
    x = np.float32([[0, 0], [-1, -2], [np.inf, 1]])
    np.testing.assert_array_equal(reduce(x, "log_sum", (1,))[:, 0], [-np.inf, np.nan, np.inf])
    x = np.float32([[-np.inf, -np.inf], [np.inf, 0], [1000, 1000], [-1000, -1000]])
    wanted = [-np.inf, np.inf, 1000 + math.log(2), -1000 + math.log(2)]
    np.testing.assert_allclose(reduce(x, "log_sum_exp", (1,))[:, 0], wanted, rtol=1e-6)


def test_derivatives_at_the_corners():
    """Ties share; where everything is 0 a norm has the derivative 0; products need no division."""
    cases = [
        ("max", [1, 3, 3], [0, 0.5, 0.5]),
        ("min", [1, 1, 3], [0.5, 0.5, 0]),
        ("l1", [-2, 0, 3], [-1, 0, 1]),
        ("l2", [0, 0], [0, 0]),
        ("l2", [3, 4], [0.6, 0.8]),
        ("multiply", [0, 2, 3], [6, 0, 0]),
        ("multiply", [0, 2, 0], [0, 0, 0]),
        ("log_sum_exp", [1000, 1000], [0.5, 0.5]),
    ]

    def back(function):
        return jax.grad(lambda x: reduce(x, function).sum())

    made = together([(back(function), np.float32(x)) for function, x, _ in cases])
    for one, (function, x, wanted) in zip(made, cases, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-6, err_msg=f"{function} {x}")


# Sizes.


def test_empty_arrays():
    """Nothing adds up to 0, and has neither a mean nor an extreme."""
    x = X[:, :0]
    wanted = {"sum": 0, "l1": 0, "l2": 0, "sum_square": 0, "multiply": 1, "average": np.nan}
    wanted |= {"log_sum": -np.inf, "log_sum_exp": -np.inf}
    for function, number in wanted.items():
        np.testing.assert_array_equal(reduce(x, function, (1,)), np.full((2, 1, 3), number, np.float32))
    for function in ("max", "min", "argmax", "argmin"):
        assert reduce(x, function, (0,)).shape == (1, 0, 3)
        with pytest.raises(ConstraintError, match=r"must have elements along axes where .* dimension 1 has size 0"):
            reduce(x, function, (1,))
    assert_same_bits(reduce(np.zeros((0, 2), bool), "sum", (0,)), np.zeros((1, 2), bool))


def test_scalars():
    assert_same_bits(reduce(np.float32(-3), "l1"), np.float32(3))
    with pytest.raises(ConstraintError, match="axes must be one for argmax and argmin, but there are 0"):
        reduce(np.float32(3), "argmax")


def test_an_extreme_lies_beyond_what_float32_counts():
    x = np.zeros(2**24 + 2, np.uint8)
    x[-1] = 1
    assert reduce(x, "argmax").item() == 2**24 + 1
    assert reduce(x[2:], "argmax").item() == 2**24 - 1


# Large arrays on CPUs.


PLACES, OF_FLOATS = ("argmax", "argmin"), ("average", "l2", "log_sum", "log_sum_exp")


def in_small_chunks(monkeypatch, size):
    """Also of arrays that would be a chunk as a whole."""
    monkeypatch.setattr("dml_jax.lowering.cpu.cache_chunks.CHUNK", size)
    monkeypatch.setattr("dml_jax.lowering.cpu.cache_chunks.FRESH", 0)


NANS = list(itertools.product(["float32", "float16", "bfloat16", "float8_e5m2"], ["plain", "cache_chunks"]))
NANS_SAMPLE = [("float32", "plain"), ("float16", "cache_chunks")]
WITH_NANS = {"max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}


@pytest.mark.variants
@pytest.mark.parametrize("case", sampled(NANS, NANS_SAMPLE), ids=str)
def test_nans_among_many(case, monkeypatch, exhaustive):
    """XLA:CPU loses them where it reduces with vectors; some rows have none, one or several, and infinities."""
    in_small_chunks(monkeypatch, 2**14)
    (dtype, form), rng, calls = case, np.random.default_rng(4), []
    for shape in ((40, 300), (5, 70, 40)):
        x = rng.normal(size=shape).astype(np.float32)
        x[rng.random(shape) < 1 / shape[-1]] = np.nan
        x[rng.random(shape) < 1 / shape[-1]] = -np.inf
        x = x.astype(dtype)
        for axis, (name, wanted) in itertools.product(range(x.ndim), WITH_NANS.items()):
            found = wanted(x.astype(np.float32), axis, keepdims=True)
            assert {True, False} == {*np.isnan(np.max(x.astype(np.float32), axis)).flat}
            calls.append((name, axis, x, found.astype(np.uint32 if name in PLACES else dtype)))
    calls = calls[:: 1 if exhaustive else 5]
    with use_form(form):
        made = together([(partial(reduce, function=name, axes=(axis,)), x) for name, axis, x, _ in calls])
    for one, (*_, wanted) in zip(made, calls, strict=True):
        assert one.dtype == wanted.dtype
        np.testing.assert_array_equal(one.astype(np.float32), wanted.astype(np.float32))


CHUNKED = ["float32", "float16", "bfloat16", "float8_e5m2", "int8", "uint16", "int32"]
# Several slices in a chunk, a part of one, and along a later dimension; the last chunk is a shorter one.
CHOICES = [((37, 29), (0,)), ((37, 29), (1,)), ((37, 29), (0, 1)), ((1, 7, 61), (1,)), ((1, 7, 61), (0, 2))]
CHOICES += [((3, 5, 700), (2,)), ((3, 5, 700), (0, 1)), ((999,), (0,))]


@pytest.mark.variants
@pytest.mark.parametrize(("dtype", "which"), spread(CHUNKED, ["float16", "bfloat16", "float16", "int32"], 26))
def test_chunks_make_what_the_whole_makes(dtype, which, monkeypatch):
    in_small_chunks(monkeypatch, 2**10)
    dtype, rng = jnp.dtype(dtype), np.random.default_rng(5)
    is_integer = jnp.issubdtype(dtype, jnp.integer)
    cases = list(itertools.product([name for name in MADE if not is_integer or name not in OF_FLOATS], CHOICES))
    cases = [(name, *choice) for name, choice in cases if len(choice[1]) == 1 or name not in PLACES][which]
    arrays = [rng.integers(1, 4, shape) if is_integer else rng.uniform(0.5, 1.5, shape) for _, shape, _ in cases]
    arrays = [x.astype(dtype) for x in arrays]
    with use_form("cache_chunks"):
        functions = [partial(reduce, function=name, axes=axes) for name, _, axes in cases]
        made = together(zip(functions, arrays, strict=True))
    for one, x, (name, _, axes) in zip(made, arrays, cases, strict=True):
        if name in PLACES or is_integer:
            assert_same_bits(one, oracle(x, name, axes))
        else:
            assert_close(one, exact(x, name, axes).astype(float), units=2**7)


@pytest.mark.variants
@pytest.mark.parametrize("dtype", sampled(["float32", "float16", "bfloat16"], ["bfloat16"]))
def test_rows_one_by_one(dtype):
    """Along an axis of one element, of several, and of an inner one; extremes beside NaNs."""
    rng, calls = np.random.default_rng(6), []
    names = [name for name in MADE if name not in (*PLACES, "log_sum_exp")]
    for (shape, axis), name in itertools.product([((1, 9), 0), ((5, 3, 4), 0), ((2, 7, 3), 1)], names):
        x = rng.uniform(0.5, 1.5, shape)
        if name in ("max", "min"):
            x[rng.random(shape) < 0.1] = np.nan
        calls.append((partial(reduce, function=name, axes=(axis,)), x.astype(dtype)))
    with use_form("row_by_row"):
        made = together(calls)
    for one, (function, x) in zip(made, calls, strict=True):
        expected = exact(x, **function.keywords).astype(float)
        np.testing.assert_array_equal(np.isnan(one), np.isnan(expected))
        assert_close(np.where(np.isnan(one), one.dtype.type(0), one), np.nan_to_num(expected), units=2**4)


@pytest.mark.variants
def test_long_rows_are_reduced_one_by_one_on_cpus_alone():
    """Where XLA would write them widened, or read them twice for an extreme."""
    chosen = set()
    for platform, name, dtype, columns in itertools.product(
        ("cpu", "cuda"), ("sum", "max", "multiply"), ("float32", "float16", "bfloat16"), (2**9, 2**14)
    ):
        x = jax.ShapeDtypeStruct((2**18 // columns, columns), dtype)
        if "row_by_row" in chosen_on(platform, partial(reduce, function=name, axes=(0,)), x):
            chosen.add((platform, name, dtype, columns))
    names = [(name, "float16") for name in ("sum", "max", "multiply")] + [("max", "float32")]
    assert chosen == {("cpu", *name, 2**14) for name in names}


@pytest.mark.variants
@pytest.mark.parametrize(
    ("function", "dtype", "is_chosen"),
    [("sum", "float16", True), ("sum", "float32", False), ("max", "float16", True), ("multiply", "bfloat16", True)],
)
def test_large_arrays_are_reduced_in_chunks_on_cpus_alone(function, dtype, is_chosen):
    reduced = partial(reduce, function=function, axes=(1,))
    small, large = (jax.ShapeDtypeStruct((rows, 1024), dtype) for rows in (1024, 8192))
    assert chosen_on("cpu", reduced, large) == ({"cache_chunks"} if is_chosen else set())
    assert chosen_on("cpu", reduced, small) == chosen_on("cuda", reduced, large) == set()


@pytest.mark.variants
def test_places_of_extremes_are_numbered_on_cpus_alone():
    """Chunk by chunk where there are many; rows of fewer than 32,768 numbers."""
    for shape, axis, is_chosen in [((1024, 64), 1, True), ((64, 2**14), 0, True), ((64, 2**16), 0, False)]:
        place, x = partial(reduce, function="argmax", axes=(axis,)), jax.ShapeDtypeStruct(shape, np.float32)
        assert chosen_on("cpu", place, x) == ({"cache_chunks"} if is_chosen else set())
        assert chosen_on("cuda", place, x) == set()
