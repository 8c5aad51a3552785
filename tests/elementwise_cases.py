"""Shared cases of elementwise structs: rows of their tables, an oracle by Python's numbers, edge values.

A formula takes integers of Python, or float64 numbers of NumPy; what it returns is rounded to the type of the output,
or wraps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from draws import dims
from operator_cases import Example, Struct, levels_of
from operator_cases import like as retyped

from dml_jax import DataType, TensorDesc, catalogue

TYPES = {of.name: of.dtype for of in DataType}


@dataclass(frozen=True)
class Row:
    """Facts of one operator.

    Args:
      formula: takes a number per input, and the fields behind the tensors but ScaleBias by name; returns a number.
      inputs: the fields of what is read.
      output: that of what is written.
      scales: pairs that ScaleBias may be; none if the struct has no such field.
      fields: values of its other fields, one set at least; the first is that of the example.
      in_place: the inputs whose buffer the output may have.
      example: an array of numbers per input.
      breaks: changes that break rules of its own.
      floats: takes a generator and a count; returns float64 numbers where the formula has a slope of a few units.
      integers: the same, as integers of any size.
      units: float32's last places by which results may be off; None if they are rounded from the exact ones.
      on_bits: whether the formula takes the bits of elements, as unsigned integers.
      typed: whether it takes the data type of the first input too, as `dtype`.
      signed_zeros: whether the sign of a 0 is always the formula's.
      most: the greatest absolute value of floats at which the formula is compared.
      levels_of: the struct that has its feature levels, where DirectML lacks it.
    """

    formula: Callable[..., Any]
    inputs: tuple[str, ...]
    output: str = "output"
    scales: Sequence[tuple[float, float]] = ()
    fields: Sequence[Mapping[str, Any]] = ({},)
    in_place: tuple[str, ...] = ()
    example: Sequence[Sequence[float]] = ()
    breaks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    floats: Callable[..., Any] | None = None
    integers: Callable[..., Any] | None = None
    units: float | None = None
    on_bits: bool = False
    typed: bool = False
    signed_zeros: bool = True
    most: float = np.inf
    levels_of: str | None = None


def class_of(name):
    return catalogue.STRUCTS[name]


def descriptor(name, row, types, sizes, fields, pair=None):
    """A descriptor of tensors of these sizes, with data types by field."""
    tensors = {one: TensorDesc(types[one], sizes) for one in (*row.inputs, row.output)}
    cls, scale = class_of(name), {"scale_bias": pair} if row.scales else {}
    named = {"min_max_data_type": types[row.output]} if "min_max_data_type" in cls.field_names() else {}
    return cls(**tensors, **scale, **named, **fields)


# The oracle.


def wrap(number, dtype):
    """An integer by its low bits."""
    limits = np.iinfo(dtype)
    return (int(number) - int(limits.min)) % 2 ** int(limits.bits) + int(limits.min)


def cut(number, dtype):
    """A float as an integer: without its fraction, at the limits of the type, 0 for NaN."""
    limits = np.iinfo(dtype)
    return 0 if np.isnan(number) else int(min(max(number, int(limits.min)), int(limits.max)))


def nearly_whole(number):
    """A float32 number that is within four last places of an integer is that integer, before it is cut off."""
    nearest = np.rint(number)
    return nearest if abs(number - nearest) <= 4 * 2.0**-23 * abs(number) else number


def number(element):
    return int(element) if element.dtype.kind in "iu" else np.float64(element)


def unsigned(array):
    return array.view(f"u{array.dtype.itemsize}")


def numbers_of(row, desc, *arrays):
    """Applies the formula to every element: integers of the output's type, or float64 numbers."""
    arrays = [unsigned(np.ascontiguousarray(a)) if row.on_bits else a for a in arrays]
    dtype, pair = getattr(desc, row.output).dtype, getattr(desc, "scale_bias", None)
    names = [name for name in desc.field_names() if name not in (*desc.tensor_names(), "scale_bias")]
    fields = {name: getattr(desc, name) for name in names} | ({"dtype": arrays[0].dtype} if row.typed else {})
    is_float = dtype.kind == "f" and not row.on_bits
    image = np.dtype(f"u{dtype.itemsize}") if row.on_bits else dtype
    output = np.empty(arrays[0].shape, np.float64 if is_float else image)
    with np.errstate(all="ignore"):
        for at in np.ndindex(output.shape):
            first, *others = (number(a[at]) for a in arrays)
            if pair and isinstance(first, int):
                first = wrap(first * int(pair.scale) + int(pair.bias), arrays[0].dtype)
            elif pair:
                first = first * pair.scale + pair.bias
            made = row.formula(first, *others, **fields)
            output[at] = made if is_float else (cut if isinstance(made, float) else wrap)(made, image)
    return output


def rounded(row, desc, numbers):
    """The same in the type of the output."""
    dtype = getattr(desc, row.output).dtype
    with np.errstate(all="ignore"):
        return numbers.view(dtype) if row.on_bits and dtype.itemsize == numbers.itemsize else numbers.astype(dtype)


def expected(row, desc, *arrays):
    """The expected result as `Struct` takes it: the output's type where bits are compared, else float64."""
    numbers = numbers_of(row, desc, *arrays)
    is_close = row.units is not None and numbers.dtype == np.float64
    return numbers if is_close else rounded(row, desc, numbers)


# The structs.


def on_a_grid(rng, count):
    """Odd eighths up to 4: sums, and products of two, are exact, and none is 0, whose sign devices decide."""
    return (2 * rng.integers(-16, 16, count) + 1) / 8


def near_and_far(rng, count):
    """Small integers, and any."""
    return np.where(rng.random(count) < 0.6, rng.integers(-4, 5, count), rng.integers(-(2**63), 2**63, count))


def fill(row, rng, port, tensor, count):
    if row.on_bits:
        return None
    draw = (row.floats or on_a_grid) if tensor.dtype.kind == "f" else (row.integers or near_and_far)
    return draw(rng, count).astype(tensor.dtype)


def draw(row, rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    drawn = dict.fromkeys((*row.inputs, row.output), sizes) | dict(row.fields[rng.integers(len(row.fields))])
    pairs = [None, *row.scales]
    return drawn | ({"scale_bias": pairs[rng.integers(len(pairs))]} if row.scales else {})


def struct_of(name, row):
    """All that the shared tests want to know: of tensors of rank 4, in a type of the oldest level."""
    levels = levels_of(row.levels_of or name, "give `levels_of` in its row")
    oldest = levels[-1]
    own = {of: next(t for t in ("FLOAT32", "UINT32", "UINT8") if t in types) for of, types in oldest.types.items()}
    types = {one: own.get(one, own[row.inputs[0]]) for one in (*row.inputs, row.output)}
    arrays = [np.array(numbers, TYPES[types[one]]) for one, numbers in zip(row.inputs, row.example, strict=True)]
    sizes = (1, 1, 1, len(arrays[0]))
    desc = descriptor(name, row, types, sizes, row.fields[0])
    scaled = descriptor(name, row, types, sizes, row.fields[0], next(iter(row.scales), None))
    outputs = rounded(row, desc, numbers_of(row, desc, *arrays))
    first, *others = row.inputs
    longer = {one: retyped(getattr(desc, one), sizes=(1, 1, 2, len(arrays[0]))) for one in (*others, row.output)}
    return Struct(
        scaled,
        breaks={f"same_sizes({one}, {first})": {one: tensor} for one, tensor in longer.items()} | dict(row.breaks),
        levels=levels,
        examples=(Example(desc, [a.tolist() for a in arrays], [outputs.tolist()]),),
        draw=partial(draw, row),
        expected=partial(expected, row),
        fill=partial(fill, row),
        units=row.units,
    )


# Edges.

SPECIAL = (0.0, 1, 0.5, 1.5, 2.5, 3, 7, np.inf)


def edges(dtype):
    """Zeros of both signs, halves, infinities, NaN, and the least and greatest numbers; of integers the limits."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        subnormal = [info.smallest_subnormal] if dtype == np.float16 else []  # others are 0 on some devices
        positive = [*SPECIAL, float(info.max), float(info.tiny), *map(float, subnormal)]
        return np.array([*positive, *(-x for x in positive), np.nan], dtype)
    limits = np.iinfo(dtype)
    least, most = int(limits.min), int(limits.max)
    some = {least, least + 1, most, most - 1, most // 2 + 1, *range(-4, 5), 7, 31, 32, 64, 100}
    return np.array(sorted(n for n in some if least <= n <= most), dtype)


def pairs(count, *dtypes):
    """All edges of one type, or all combinations of those of two."""
    one, other = (edges(dtype) for dtype in (*dtypes, *dtypes)[:2])
    if count == 1:
        return (one,)
    return tuple(np.ascontiguousarray(side.ravel()) for side in np.meshgrid(one, other, indexing="ij"))


def assert_numbers(actual, expected, units, signed_zeros=True):
    """Numbers within so many last places of float32, in relation to them, then rounded; zeros have their sign."""
    actual = np.asarray(actual)
    if expected.dtype.kind != "f" or actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    with np.errstate(all="ignore"):
        nearest = expected.astype(actual.dtype)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    signs = (expected == 0) & signed_zeros
    np.testing.assert_array_equal(np.signbit(actual)[signs], np.signbit(expected)[signs])
    is_special = ~np.isfinite(nearest) | (expected == 0) | (units is None and actual.dtype == np.float16)
    np.testing.assert_array_equal(actual[is_special], nearest[is_special])
    info, exact = np.finfo(actual.dtype), expected[~is_special]
    rounding = np.maximum(abs(exact) * float(info.eps), float(info.smallest_subnormal)) / 2
    off = (units or 0) * 2.0**-23 * abs(exact) + float(np.finfo(np.float32).tiny)  # for subnormals that become 0
    is_wrong = ~(abs(actual[~is_special].astype(np.float64) - exact) <= rounding + off)
    assert not is_wrong.any(), (actual[~is_special][is_wrong], exact[is_wrong])
