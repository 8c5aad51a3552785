"""reduce and REDUCE: sums, products, norms, extremes and other reductions along axes."""

import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_close, assert_same_bits, sampled, spread, together
from draws import dims
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import (
    ALL_TYPES,
    FLOATS,
    INDEX_TYPES,
    UP_TO_32_BITS,
    Call,
    Example,
    Struct,
    f32,
    u32,
)
from oracles import coordinates
from refusals import refuses
from small_arrays import every_narrow_float, on_explicit_mesh, random_keys
from variant_cases import chosen_on

from dml_jax import (
    ConstraintError,
    DataTypeError,
    ReduceDesc,
    ReduceFunction,
    TensorDesc,
    compile_operator,
    reduce,
    use_form,
)

pytestmark = pytest.mark.device


def extreme(numbers, choose):
    """The first one; a NaN before all others."""
    return next((i for i, x in enumerate(numbers) if x != x), numbers.index(choose(numbers)))


MADE = {
    "argmax": lambda numbers: extreme(numbers, max),
    "argmin": lambda numbers: extreme(numbers, min),
    "average": lambda numbers: sum(numbers) / len(numbers) if numbers else math.nan,
    "l1": lambda numbers: sum(map(abs, numbers)),
    "l2": lambda numbers: math.sqrt(sum(x * x for x in numbers)),
    "log_sum": lambda numbers: math.log(sum(numbers)),
    "log_sum_exp": lambda numbers: math.log(sum(map(math.exp, numbers))),
    "max": lambda numbers: numbers[extreme(numbers, max)],
    "min": lambda numbers: numbers[extreme(numbers, min)],
    "multiply": math.prod,
    "sum": sum,
    "sum_square": lambda numbers: sum(x * x for x in numbers),
}


def exact(input, function, axes=None):
    """Of Python's numbers, one output after the other; integers as they would be without a type."""
    axes = [axis % input.ndim for axis in (range(input.ndim) if axes is None else axes)]
    of = int if input.dtype.kind in "biu" or "int" in input.dtype.name else float
    of = complex if input.dtype.kind == "c" else of
    output = np.zeros([1 if d in axes else n for d, n in enumerate(input.shape)], object)
    for at in coordinates(output.shape):
        others = coordinates([n if d in axes else 1 for d, n in enumerate(input.shape)])
        numbers = [of(input[tuple(np.add(at, other))]) for other in others]
        output[at] = MADE[function](numbers)
    return output


def oracle(input, function, axes=None):
    return typed(exact(input, function, axes), np.uint32 if function.startswith("arg") else input.dtype)


def typed(numbers, dtype):
    """Of integers the low bits; of bools whether there are any."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" or "int" in dtype.name:
        return (numbers % 2 ** (8 * dtype.itemsize)).astype(np.uint64).astype(dtype)
    return numbers.astype({"b": bool, "c": complex}.get(dtype.kind, float)).astype(dtype)


X = np.float32([[[1, -2, 3], [3, 0, -4]], [[2, 4, 2], [-1, 4, 0]]])
CASE = Call(reduce, {"input": X}, {"function": "sum", "axes": (1,)})
BREAKS = {
    "one_of(function)": {"function": "total"},
    "reducible(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "axes_of(input)": {"axes": (3,)},
    "distinct(axes)": {"axes": (1, -2)},
    "one_axis(axes)": {"function": "argmax", "axes": (0, 1)},
    "not_empty(input)": {"function": "max", "input": X[:, :0]},
    "representable": {"function": "argmax", "input": np.zeros((2**61, 2, 0), np.int8)},
}
VARIANTS = {
    "all": {"axes": None},
    "none": {"axes": ()},
    "outer": {"axes": (-1, 0)},
    **{
        name: {"function": name, "axes": (2,), "is_linear": False}
        for name in ("argmax", "argmin", "l1", "max", "min", "multiply", "sum_square")
    },
    "average": {"function": "average", "axes": (1, 0), "is_weighted": True},
    "float16": {"input": X.astype(np.float16)},
    "integers": {"input": (X * 100).astype(np.int8), "function": "sum_square"},
    "bools": {"input": X > 2, "axes": None},
}


# The struct.

FUNCTIONS = list(ReduceFunction)
TYPES = {
    **dict.fromkeys(("ARGMAX", "ARGMIN", "MAX", "MIN"), ALL_TYPES - {"FLOAT64"}),
    **dict.fromkeys(("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP"), FLOATS),
    **dict.fromkeys(("L1", "SUM_SQUARE", "MULTIPLY", "SUM"), FLOATS | INDEX_TYPES),
}


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    function = FUNCTIONS[rng.integers(0, len(FUNCTIONS))]
    is_index = function.name.startswith("ARG")
    count = 1 if is_index else int(rng.integers(0, len(sizes) + 1))
    axes = [int(axis) for axis in rng.permutation(len(sizes))[:count]]
    of = str(rng.choice(sorted(TYPES[function.name])))
    return {
        "function": function,
        "input": sizes,
        "output": [1 if d in axes else n for d, n in enumerate(sizes)],
        "axes": axes,
        "data_types": {"input": of} if is_index else {"input": of, "output": of},
    }


def fill(rng, port, tensor, count):
    """Around 1, so that products are in the range of every float; with ties."""
    return rng.choice(np.arange(7, 10) / 8, count).astype(tensor.dtype) if tensor.dtype.kind == "f" else None


def expected(desc, x):
    found, dtype = exact(x, desc.function.name.lower(), desc.axes), desc.output.dtype
    return found.astype(float) if dtype.kind == "f" else typed(found, dtype)


# Of a dimension of one element, which stays the first one when more of these are put before it.
DESC = ReduceDesc("ARGMAX", f32(1, 1, 3, 4), u32(1, 1, 3, 4), (0,))
IMAGE = f32(1, 1, 3, 3)
COLUMNS = ReduceDesc("SUM", IMAGE, f32(1, 1, 1, 3), (2,))
ROWS = ReduceDesc("SUM", IMAGE, f32(1, 1, 3, 1), (3,))
BOTH = ReduceDesc("SUM", IMAGE, f32(1, 1, 1, 1), (2, 3))
TABLE = [1, 2, 3, 3, 0, 4, 2, 4, 2]
STRUCTS = (
    Struct(
        DESC,
        breaks={
            "below_rank(axes)": {"axes": (4,)},
            "distinct(axes)": {"axes": (0, 0)},
            "one_axis(axes)": {"axes": (0, 1)},
            "sizes_follow(output)": {"output": u32(1, 1, 3, 1)},
            "same_type(output)": {"function": ReduceFunction.SUM},
        },
        examples=(
            Example(COLUMNS, [TABLE], [[6, 6, 9]]),
            Example(ROWS, [TABLE], [[6, 7, 8]]),
            Example(BOTH, [TABLE], [[21]]),
            Example(ROWS, [range(1, 10)], [[6, 15, 24]]),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
        units=64,
    ),
)

# Of the other functions: feature level, dimensions, and data types, from the newest level on.
OTHER_LEVELS = {
    ("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP"): [("3_0", 8, FLOATS), ("1_0", 4, FLOATS)],
    ("L1", "SUM_SQUARE"): [("5_0", 8, FLOATS | INDEX_TYPES), ("3_0", 8, FLOATS), ("1_0", 4, FLOATS)],
    ("MAX", "MIN"): [
        ("5_0", 8, ALL_TYPES - {"FLOAT64"}),
        ("3_0", 8, UP_TO_32_BITS),
        ("2_1", 4, FLOATS | {"INT32", "UINT32"}),
        ("1_0", 4, FLOATS),
    ],
    ("MULTIPLY", "SUM"): [
        ("5_0", 8, FLOATS | INDEX_TYPES),
        ("3_0", 8, FLOATS | {"INT32", "UINT32"}),
        ("2_1", 4, FLOATS | {"INT32", "UINT32"}),
        ("1_0", 4, FLOATS),
    ],
}


@pytest.mark.parametrize("functions", OTHER_LEVELS, ids=lambda names: names[0])
def test_levels_of_the_other_functions(functions):
    for since, most, accepted in OTHER_LEVELS[functions]:
        for function in functions:
            for of in ALL_TYPES:
                for sizes in ((1, 1, 3, 4), (1, 1, 1, 3, 4)):
                    tensor = TensorDesc(of, sizes)
                    fields = {"function": ReduceFunction[function], "input": tensor, "output": tensor, "axes": (0,)}
                    errors = [str(error) for error in ReduceDesc.faults(fields, since)]
                    assert all(
                        f"must be one that Function accepts at feature level {since}, but" in one for one in errors
                    )
                    assert (not errors) == (of in accepted and len(sizes) <= most), (function, since, of, sizes)


test_what_the_struct_refuses = refuses(
    ROWS,
    ({"function": "TOTAL"}, ConstraintError, "Function must be one of ARGMAX, ARGMIN, AVERAGE, .*'TOTAL'"),
    ({"function": 12}, ConstraintError, "Function must be one of"),
    ({"axes": (4,)}, ConstraintError, r"Axes must be in \[0, InputTensor.DimensionCount\), but they are \(4,\)"),
    ({"axes": (-1,)}, ConstraintError, r"Axes\[0\] must be in \[0, 2\*\*32 - 1\]"),
    ({"axes": 3}, DataTypeError, "Axes must be a sequence of integers"),
    ({"axes": (2, 2)}, ConstraintError, r"Axes must name no dimension twice, but they are \(2, 2\)"),
    ({"axes": (2,)}, ConstraintError, r"InputTensor.Sizes, but 1 along Axes, but .* is not \(1, 1, 1, 3\)"),
    ({"function": "ARGMIN", "axes": (2, 3)}, ConstraintError, "ARGMAX or ARGMIN, but there are 2"),
    ({"output": u32(1, 1, 3, 1)}, DataTypeError, "unless Function is .* but they are UINT32 and FLOAT32"),
    (
        {"input": TensorDesc("INT8", (1, 1, 3, 3)), "output": TensorDesc("INT8", (1, 1, 3, 1))},
        DataTypeError,
        "it is INT8; of SUM it must be one of FLOAT32, FLOAT16, INT64, INT32, UINT64, UINT32",
    ),
)


def test_names_of_functions():
    for name in ("SUM", "DML_REDUCE_FUNCTION_SUM", 10, ReduceFunction.SUM):
        assert ReduceDesc(**ROWS.operands() | {"function": name}) == ROWS


def test_64_bit_data_and_indices_of_descriptors(x64):
    """While x64 is off buffers hold words."""
    x = np.int64([2**40, -(2**62), 2**41, 2**62])
    for of, function, output in [("INT64", "SUM", "INT64"), ("UINT64", "MAX", "UINT64"), ("INT64", "ARGMAX", "INT64")]:
        desc = ReduceDesc(function, TensorDesc(of, (4,)), TensorDesc(output, (1,)), (0,))
        data = x.view(desc.input.dtype)
        made = np.asarray(compile_operator(desc)(data)).view(desc.output.dtype)
        assert_same_bits(made, typed(exact(data, function.lower()), desc.output.dtype))


# Against the oracle.

PLACES, OF_FLOATS = ("argmax", "argmin"), ("average", "l2", "log_sum", "log_sum_exp")
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int4", "uint4", "bool")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("function", MADE)
def test_axes_of_every_kind(function):
    rng, calls = np.random.default_rng(0), []
    for shape, choices in [((5,), [(0,)]), ((2, 3), [(0,), (-1,), (0, 1)]), ((3, 1, 2, 2), [(1,), (0, -2), (2, 0, 3)])]:
        x = rng.integers(-3, 4, shape).astype(np.float32)
        x = abs(x) + 1 if function == "log_sum" else x
        for axes in choices:
            if len(axes) == 1 or "arg" not in function:
                calls.append((x, axes))
    made = together([(partial(reduce, function=function, axes=axes), x) for x, axes in calls])
    for one, (x, axes) in zip(made, calls, strict=True):
        if function in ("average", "l2", "log_sum", "log_sum_exp"):
            assert_close(one, exact(x, function, axes), units=4)
        else:
            assert_same_bits(one, oracle(x, function, axes))


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


@pytest.mark.parametrize("name", sampled(INTEGERS, ("uint8", "int4", "bool")))
def test_integers_wrap_and_bools_are_or_and_and(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    numbers = np.random.default_rng(1).integers(-300, 300, (3, 7))
    x = (numbers % (2 if name == "bool" else 8 if "4" in name else 200)).astype(dtype)
    functions = ("argmax", "argmin", "l1", "max", "min", "multiply", "sum", "sum_square")
    assert_calls_agree((partial(reduce, function=f, axes=(1,)), (x,), oracle(x, f, (1,))) for f in functions)


def test_the_least_integer_has_no_absolute_value():
    assert_same_bits(reduce(np.int8([-128]), "l1"), np.int8([-128]))


def test_complex_numbers():
    x = np.complex64([1 + 2j, 3 - 1j])
    assert_same_bits(reduce(x, "sum"), np.complex64([4 + 1j]))
    assert_same_bits(reduce(x, "multiply"), np.complex64([5 + 5j]))
    with pytest.raises(DataTypeError, match="it is complex64, and l1 is of real numbers"):
        reduce(x, "l1")


def test_64_bit_data_needs_x64_in_a_function(x64):
    x = np.int64([2**40, 1])
    if x64:
        assert_same_bits(reduce(x, "sum"), np.int64([2**40 + 1]))
        assert_same_bits(reduce(x, "argmax"), np.uint32([0]))
        assert_same_bits(reduce(np.uint32([2**32 - 1, 2]), "sum"), np.uint32([1]))
        assert_same_bits(reduce(np.float64([1, 2**-40]), "average"), np.float64([0.5 + 2**-41]))
    else:
        with pytest.raises(DataTypeError, match="input of type int64 needs 64-bit types"):
            reduce(x, "sum")


def test_nans_and_ties():
    """A NaN is the greatest and the least; of equals the first one counts, 0.0 and -0.0 among them."""
    x = np.float32([[1, np.nan, 3, np.nan], [2, 5, 5, 2], [-0.0, 0.0, 0.0, -0.0]])
    for dtype in (np.float32, np.float16, jnp.bfloat16):
        assert_same_bits(reduce(x.astype(dtype), "argmax", (1,)), np.uint32([[1], [1], [0]]))
        assert_same_bits(reduce(x.astype(dtype), "argmin", (1,)), np.uint32([[1], [0], [0]]))
        for function, wanted in (("max", [np.nan, 5, 0]), ("min", [np.nan, 2, 0])):
            np.testing.assert_array_equal(reduce(x.astype(dtype), function, (1,))[:, 0].astype(np.float32), wanted)


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


def test_what_has_no_logarithm():
    x = np.float32([[0, 0], [-1, -2], [np.inf, 1]])
    np.testing.assert_array_equal(reduce(x, "log_sum", (1,))[:, 0], [-np.inf, np.nan, np.inf])
    x = np.float32([[-np.inf, -np.inf], [np.inf, 0], [1000, 1000], [-1000, -1000]])
    wanted = [-np.inf, np.inf, 1000 + math.log(2), -1000 + math.log(2)]
    np.testing.assert_allclose(reduce(x, "log_sum_exp", (1,))[:, 0], wanted, rtol=1e-6)


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


# Transformations.

SMOOTH = ("average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square")


@pytest.mark.parametrize("function", sampled(SMOOTH, ("l2", "log_sum_exp")))
def test_derivatives_in_both_directions(function):
    """Of numbers that all differ, none of them 0."""
    x = np.float32([[0.5, 1.25, 2], [1.75, 0.25, 0.75]])
    check_grads(jax.jit(partial(reduce, function=function, axes=(1,))), (x,), order=1, atol=0.05, rtol=0.05)


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


@pytest.mark.parametrize("function", ["argmax", "l2"])
def test_vmap_of_any_axis(function):
    x = np.random.default_rng(2).integers(-4, 5, (2, 3, 4)).astype(np.float32)
    mapped = jax.jit(jax.vmap(partial(reduce, function=function, axes=(0,)), in_axes=1, out_axes=2))(x)
    for i in range(3):
        assert_same_bits(mapped[:, :, i], reduce(x[:, i], function, (0,)))


def test_symbolic_sizes_are_exported():
    m, n = jax.export.symbolic_shape("m, n")
    shape = jax.ShapeDtypeStruct((m, n), np.float32)
    for function in ("sum", "average", "argmax", "max", "log_sum_exp"):
        exported = jax.export.export(jax.jit(partial(reduce, function=function, axes=(1,))))(shape)
        assert_same_bits(exported.call(X[0]), reduce(X[0], function, (1,)))


# Explicit meshes.


@pytest.mark.parametrize("function", ["argmax", "sum"])
def test_what_is_not_reduced_keeps_its_sharding(function):
    made = reduce(on_explicit_mesh(X, "d", None, None), function, (2,))
    assert jax.typeof(made).sharding.spec == P("d", None, None)
    assert_same_bits(made, oracle(X, function, (2,)))


def test_what_is_reduced_is_sharded_only_if_the_output_says_how():
    x = on_explicit_mesh(X, None, "d", None)
    made = reduce(x, "sum", (1,))
    assert jax.typeof(made).sharding.spec == P(None, None, None)
    assert_same_bits(made, oracle(X, "sum", (1,)))
    for spec in (P(None, None, None), P("d", None, None)):
        made = reduce(x, "sum", (1,), out_sharding=spec)
        assert jax.typeof(made).sharding.spec == spec
        assert_same_bits(made, oracle(X, "sum", (1,)))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1.5]}, DataTypeError, "input must be an array"),
    ({"input": random_keys(3)}, DataTypeError, "it is key<fry>, whose elements are not numbers"),
    ({"input": X.astype(int).astype(np.int32), "function": "l2"}, DataTypeError, "it is int32, and l2 is of floats"),
    ({"input": X > 0, "function": "average"}, DataTypeError, "it is bool, and average is of floats"),
    ({"input": X.astype(np.complex64), "function": "max"}, DataTypeError, "max is of real numbers"),
    ({"function": "SUM"}, ConstraintError, "function must be one of 'argmax', .*, but it is 'SUM'"),
    ({"function": 10}, DataTypeError, "function must be a string"),
    ({"axes": 1}, DataTypeError, "axes must be a sequence of integers, but it is 1"),
    ({"axes": (1.0,)}, DataTypeError, r"axes\[0\] must be an integer"),
    ({"axes": "12"}, DataTypeError, "axes must be a sequence"),
    ({"axes": (0, 3)}, ConstraintError, r"in \[-input.rank, input.rank\), but they are \(0, 3\) and the rank is 3"),
    ({"axes": (2**63,)}, ConstraintError, "they are .9223372036854775808,. and the rank is 3"),
    ({"axes": (1, 1)}, ConstraintError, r"axes must name no dimension twice, but they are \(1, 1\)"),
    ({"axes": None, "function": "argmin"}, ConstraintError, "axes must be one for argmax and argmin, .* are 3"),
    ({"axes": (), "function": "argmin"}, ConstraintError, "there are 0"),
)


def test_numbers_of_numpy_are_accepted():
    assert_same_bits(reduce(X, "sum", np.int64([1])), CASE(X))


def test_an_extreme_lies_beyond_what_float32_counts():
    x = np.zeros(2**24 + 2, np.uint8)
    x[-1] = 1
    assert reduce(x, "argmax").item() == 2**24 + 1
    assert reduce(x[2:], "argmax").item() == 2**24 - 1
