"""reduce and REDUCE: sums, products, norms, extremes and other reductions along axes."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, assert_sharded, exported, sampled, together
from draws import dims
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import ALL_TYPES, FLOATS, INDEX_TYPES, UP_TO_32_BITS, Call, Example, Struct, f32, i8, u32
from oracles import coordinates
from refusals import refuses
from small_arrays import on_explicit_mesh, random_keys

from dml_jax import ConstraintError, DataTypeError, ReduceDesc, ReduceFunction, TensorDesc, reduce

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


# By example.


def test_sums_and_extremes_along_axes():
    x = np.float32([[1, 2, 3], [3, 0, -4]])
    assert_same_bits(reduce(x, "sum", (1,)), np.float32([[6], [-1]]))
    assert_same_bits(reduce(x, "sum", (0,)), np.float32([[4, 2, -1]]))
    assert_same_bits(reduce(x, "argmax", (1,)), np.uint32([[2], [0]]))
    assert_same_bits(reduce(x, "max"), np.float32([[3]]))


# Against the oracle.


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


def test_complex_numbers():
    x = np.complex64([1 + 2j, 3 - 1j])
    assert_same_bits(reduce(x, "sum"), np.complex64([4 + 1j]))
    assert_same_bits(reduce(x, "multiply"), np.complex64([5 + 5j]))
    with pytest.raises(DataTypeError, match="it is complex64, and l1 is of real numbers"):
        reduce(x, "l1")


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
        {"input": i8(1, 1, 3, 3), "output": i8(1, 1, 3, 1)},
        DataTypeError,
        "it is INT8; of SUM it must be one of FLOAT32, FLOAT16, INT64, INT32, UINT64, UINT32",
    ),
)


def test_names_of_functions():
    for name in ("SUM", "DML_REDUCE_FUNCTION_SUM", 10, ReduceFunction.SUM):
        assert ReduceDesc(**ROWS.operands() | {"function": name}) == ROWS


# Transformations.

SMOOTH = ("average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square")


@pytest.mark.parametrize("function", sampled(SMOOTH, ("l2", "log_sum_exp")))
def test_derivatives_in_both_directions(function):
    """Of numbers that all differ, none of them 0."""
    x = np.float32([[0.5, 1.25, 2], [1.75, 0.25, 0.75]])
    check_grads(jax.jit(partial(reduce, function=function, axes=(1,))), (x,), order=1, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("function", ["argmax", "l2"])
def test_vmap_of_any_axis(function):
    x = np.random.default_rng(2).integers(-4, 5, (2, 3, 4)).astype(np.float32)
    mapped = jax.jit(jax.vmap(partial(reduce, function=function, axes=(0,)), in_axes=1, out_axes=2))(x)
    for i in range(3):
        assert_same_bits(mapped[:, :, i], reduce(x[:, i], function, (0,)))


def test_symbolic_sizes_are_exported():
    for function in ("sum", "average", "argmax", "max", "log_sum_exp"):
        call = exported(partial(reduce, function=function, axes=(1,)), "m, n").call
        assert_same_bits(call(X[0]), reduce(X[0], function, (1,)))


# Explicit meshes.


def test_what_is_reduced_is_sharded_only_if_the_output_says_how():
    x = on_explicit_mesh(X, None, "d", None)
    made = reduce(x, "sum", (1,))
    assert_sharded(made, P(None, None, None), oracle(X, "sum", (1,)))
    for spec in (P(None, None, None), P("d", None, None)):
        assert_sharded(reduce(x, "sum", (1,), out_sharding=spec), spec, oracle(X, "sum", (1,)))


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
