"""Reductions of scatters: types, shapes, exact oracles, and calls of every gather and scatter."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import ORACLES

import dml_jax

REDUCTIONS = ("add", "mul", "min", "max")  # each a scatter of its own; a mean is a sum
EVERY_REDUCTION = (*REDUCTIONS, "mean")
FLOAT8 = [name for name in dir(jnp) if name.startswith("float8_") and name != "float8_e8m0fnu"]
FLOATS = ["float32", "float16", "bfloat16", *FLOAT8]
INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]
WIDE = ["float64", "int64", "uint64", "complex128"]
EVERY_TYPE = [*FLOATS, *INTEGERS, "bool", "complex64", *WIDE]
# Of each way to add: narrow floats as float32, float8 through it, integers that wrap, words, and what needs x64.
SAMPLE = ["float32", "bfloat16", "float8_e5m2", "int8", "uint32", "bool", "complex64", "float64"]
every_reduction = pytest.mark.parametrize("reduction", EVERY_REDUCTION)


def reductions_of(dtype):
    """Those that its numbers have."""
    without = {"c": ("min", "max"), "b": ("mean",)}.get(np.dtype(dtype).kind, ())
    return [name for name in EVERY_REDUCTION if name not in without]


# The oracle, without JAX: those of the operators list the updates that address an element; Python combines them.


def exact(array):
    """The numbers in float64 or complex128, integers and bools as Python's own."""
    return array.astype(object if array.dtype.kind in "biu" else np.complex128 if array.dtype.kind == "c" else float)


def combine(numbers, reduction):
    """A NaN wins, and -0.0 is less than 0.0; of bools "add" is or and "mul" is and."""
    if reduction == "mean":
        return sum(numbers[1:], numbers[0]) / len(numbers)
    if reduction in ("add", "mul") and not isinstance(numbers[0], bool):
        return sum(numbers[1:], numbers[0]) if reduction == "add" else math.prod(numbers[1:], start=numbers[0])
    nans = [number for number in numbers if number != number]
    choose = min if reduction in ("min", "mul") else max
    return nans[0] if nans else choose(numbers, key=lambda number: (number, math.copysign(1, number)))


def oracle(name, x, indices, updates, reduction, include_self=True, **how):
    """Exact, not yet of the type of `x`."""
    output, found = exact(x), ORACLES[name](x, indices, exact(updates), **how)
    for at, numbers in found.items():
        if numbers:
            numbers = [output[at], *numbers] if include_self else numbers
            if reduction == "mean" and x.dtype.kind in "iu":  # of a sum that wraps in 32 bits at least
                total = as_type(np.array(sum(numbers), object), np.int32 if x.itemsize < 4 else x.dtype)
                output[at] = int(total) // len(numbers)
            else:
                output[at] = combine(numbers, reduction)
    return output


def as_type(numbers, dtype):
    """Rounds floats once, to even; integers wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        least, count = int(np.iinfo(dtype).min), 2 ** (8 * dtype.itemsize)
        return np.vectorize(lambda n: (n - least) % count + least, otypes=[object])(numbers).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype(dtype)


def unsigned(numbers):
    """Complex zeros without signs, which depend on the order."""
    return numbers + 0 if numbers.dtype.kind == "c" else numbers


SHAPES = [  # operator, attributes, shapes of input, indices and updates
    ("scatter_elements", {"axis": 0}, (4, 3), (7, 3), (7, 3)),
    ("scatter_elements", {"axis": -1}, (2, 5), (2, 9), (2, 9)),
    ("scatter_nd", {}, (5, 3), (12, 1), (12, 3)),
    ("scatter_nd", {}, (2, 3, 2), (3, 4, 2), (3, 4, 2)),
]


def scatters(rng):
    """(operator, attributes, shape of input, indices, shape of updates); all with duplicates and negative indices."""
    for (name, how, shape, *of, written), mode in itertools.product(SHAPES, ("drop", "clip", "promise_in_bounds")):
        sizes = np.int32([shape[how["axis"]]] if how else shape[: of[0][-1]])
        beyond = 0 if mode == "promise_in_bounds" else 2
        indices = rng.integers(-sizes - beyond, sizes + beyond, *of, dtype=np.int32)
        yield name, {**how, "mode": mode}, shape, indices, written


def small(rng, dtype, shape):
    """Small whole numbers, whose sums and products are exact; of integers any, as these wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        return rng.choice([0, 0, 1, -1, 1j, -1j, 1 + 1j, 1 - 1j], shape).astype(dtype) + 0  # no -0.0
    return rng.integers(0, 2, shape).astype(bool) if dtype.kind == "b" else rng.integers(-2, 3, shape).astype(dtype)


HALF = [("bfloat16", r) for r in REDUCTIONS]
COMPLEX = [("complex64", r) for r in ("add", "mul")]


X = np.arange(6, dtype=np.float32)
READS = {
    "gather": lambda x, i, **how: dml_jax.gather(x, i, 0, **how),
    "gather_elements": lambda x, i, **how: dml_jax.gather_elements(x, i, 0, **how),
    "gather_nd": lambda x, i, **how: dml_jax.gather_nd(x, i[:, None], **how),
}
WRITES = {
    "scatter_elements": lambda x, i, **how: dml_jax.scatter_elements(x, i, 2 * x[: i.size], 0, **how),
    "scatter_nd": lambda x, i, **how: dml_jax.scatter_nd(x, i[:, None], 2 * x[: i.size], **how),
}
FLAGGED = {**READS, **WRITES, "as_strided": lambda x, i, **how: dml_jax.as_strided(x, (3, 3), (1, 1), **how)}
