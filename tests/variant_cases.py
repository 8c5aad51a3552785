"""Calls of every operator that moves or adds up: small ones, of real arrays, and large ones, of shapes alone.

Tests force every variant in small calls, and look for large ones that choose it. No call says of which operation it is:
`calls_by_operation` watches what chooses in it.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count, product
from math import prod
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax
from dml_jax.operations import byte_map, convolution_sums, integer_product, packed_product
from dml_jax.operations.max_pool import max_pool_windows
from dml_jax.operations.programs import variant_selection
from dml_jax.operations.programs.forced_form import forcing
from dml_jax.operations.scatter import copy_table
from dml_jax.operations.sliding_windows import Windows
from dml_jax.operations.values.bit_exact import hide_constant
from dml_jax.operators._integer_convolution import convolve_integers

NUMBERS = ("uint8", "float8_e5m2", "int16", "bfloat16", "float16", "float32", "complex64", "float64", "int8")
DTYPES = ("bool", *NUMBERS)
FLOATS = ("bfloat16", "float16", "float32")
WIDE = ("float64", "int64")
SOME = 8  # programs of an operator, by default
# On an accelerator arrays are large enough for vectorised loops; a compiler was seen to get words of bytes wrong there.
MANY = 1 if jax.default_backend() == "cpu" else 48


# Data.


def random_bits(rng, shape, dtype):
    """Every bit pattern of the type, NaN payloads and subnormals included."""
    dtype = jnp.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def small_integers(rng, shape, dtype):
    """Whose sums are exact in any order."""
    return rng.integers(0, 3, shape).astype(jnp.dtype(dtype))


def signs(rng, shape, dtype):
    """Whose products are exact in any order."""
    return rng.choice([1, -1], shape).astype(jnp.dtype(dtype))


class Indices(NamedTuple):
    """Indices around `n` elements: in range, negative, and out of range; or ones of which no two are equal."""

    n: int
    shape: tuple[int, ...]
    distinct_along: int | None = None

    def draw(self, rng):
        if (axis := self.distinct_along) is None:
            return rng.integers(-self.n - 2, self.n + 2, self.shape).astype(np.int32)
        whole = [self.n - 1 if d == axis else size for d, size in enumerate(self.shape)]
        indices = np.argsort(rng.random(whole), axis).take(range(self.shape[axis]), axis).astype(np.int32)
        indices.reshape(-1)[::5] -= self.n
        indices.reshape(-1)[0] = 99 * self.n  # the last one, if it is clipped, which no other is
        return indices


# What is made of an operator: of a function of all arrays, and the numbers of those that are data.


def forward(function, _):
    return function


def gradient(function, data):
    """Gradients of all data, with the result as cotangent."""

    def pulled_back(*arrays):
        def of_data(*some):
            every = dict(enumerate(arrays)) | dict(zip(data, some, strict=True))
            return function(*every.values())

        result, pull_back = jax.vjp(of_data, *(arrays[number] for number in data))
        return pull_back(result)

    return pulled_back


def mapped(function, _):
    return jax.vmap(function)


@dataclass(frozen=True, eq=False)
class Call:
    """A function of arrays.

    Args:
      operator: its name.
      way: the name of what is made of it.
      name: for people.
      function: of the arrays.
      arrays: real ones, or their shapes and types.
      data: the numbers of those that are no indices.
      units: how far results may be apart, in last places of float32; None for no bit.
      is_wide: whether they need 64-bit types.
    """

    operator: str
    way: str
    name: str
    function: Callable[..., Any]
    arrays: Sequence[Any]
    data: Sequence[int]
    units: int | None
    is_wide: bool

    def with_data(self, draw):
        """The same call of other data: `draw` takes an array."""
        arrays = [draw(array) if number in self.data else array for number, array in enumerate(self.arrays)]
        return replace(self, arrays=arrays, is_wide=any(str(arrays[number].dtype) in WIDE for number in self.data))


@dataclass(frozen=True)
class Program:
    """A call but for the type of its data.

    Args:
      operator: a function.
      arrays: the shapes of data, `Indices`, or indices themselves.
      attributes: of the function.
      way: what is made of the operator.
      draw: takes a generator, a shape and a type; makes data.
      dtypes: of the data.
      units: of a call.
      is_slow: whether it takes seconds to compile; only `every` program is.
    """

    operator: Callable[..., Any]
    arrays: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    way: Callable[..., Any] = forward
    draw: Callable[..., Any] = random_bits
    dtypes: Sequence[str] = DTYPES
    units: int | None = None
    is_slow: bool = False

    def call(self, dtype, *, is_large):
        data = [number for number, array in enumerate(self.arrays) if type(array) is tuple]
        rng = np.random.default_rng(11)
        arrays = [self._array(rng, array, dtype, is_large) for array in self.arrays]
        function = partial(self.operator, **self.attributes)
        taken = (lambda *inputs: function(inputs)) if self.operator is dml_jax.join else function
        shapes = " ".join("x".join(map(str, array.shape)) for array in arrays)
        operator, way = self.operator.__name__, self.way.__name__
        name = f"{way} {operator} {dict(self.attributes)} of {shapes} {dtype}"
        made = self.way(lambda *x: taken(*x), data)
        return Call(operator, way, name, made, arrays, data, self.units, dtype in WIDE)

    def _array(self, rng, array, dtype, is_large):
        is_data = type(array) is tuple
        if is_large:
            return jax.ShapeDtypeStruct(*((array, jnp.dtype(dtype)) if is_data else (array.shape, np.int32)))
        return self.draw(rng, array, dtype) if is_data else array.draw(rng) if isinstance(array, Indices) else array


# Programs, by sizes.


def blocks(c, h, w, every):
    """Depth and space, in both directions, orders and data formats."""
    for block, order, layout, to in product(every, ("DCR", "CRD"), ("NCHW", "NHWC"), ("space", "depth")):
        dims = (c * block * block, h, w) if to == "space" else (c, h * block, w * block)
        shape = (2 * MANY, *dims) if layout == "NCHW" else (2 * MANY, *dims[1:], dims[0])
        operator = dml_jax.depth_to_space if to == "space" else dml_jax.space_to_depth
        yield Program(operator, [shape], {"block_size": block, "order": order, "data_format": layout})


def permuted(shape, order):
    """The view of a dense array that shows its dimensions in another order."""
    sizes, strides = [shape[d] for d in order], [prod(shape[d + 1 :]) for d in order]
    yield Program(dml_jax.as_strided, [(prod(shape),)], {"sizes": sizes, "strides": strides})


def views(rows, width):
    """Rows with gaps, rows that overlap or are the same, from an offset on; and columns."""
    strides = [(width + 4, 1), (width + 5, 1), (width - 1, 1), (width // 2, 1), (0, 1), (1, rows + 1)]
    for (stride, inner), offset in product(strides, (0, 3, 4)):
        attributes = {"sizes": (rows, width), "strides": (stride, inner), "offset": offset}
        whole = -(-(offset + (rows - 1) * stride + (width - 1) * inner + 1) // 8) * 8
        for size in (whole, whole + 1):  # the last word may be torn
            yield Program(dml_jax.as_strided, [(size,)], attributes)
        yield Program(dml_jax.as_strided, [(whole,)], attributes, gradient, small_integers, FLOATS)
    for stride in (width + 4, width):
        attributes = {"strides": (stride, 1), "offset": 3}
        yield Program(dml_jax.as_strided_scatter, [(rows * (width + 5),), (rows, width)], attributes)


def reads(rows, width, count):
    """Rows of one and of two dimensions, by one index and by tuples, of one table and of two."""
    at, whole = Indices(rows, (count,)), (width // 2, 2) if width % 2 == 0 else (width,)
    for mode in ("clip", "fill"):
        yield Program(dml_jax.gather, [(rows, width), at], {"axis": 0, "mode": mode})
        yield Program(dml_jax.gather, [(rows, 2, *whole), at], {"axis": 0, "mode": mode})
        yield Program(dml_jax.gather_nd, [(rows, *whole), Indices(rows, (count, 1))], {"mode": mode})
        batched = [(2, rows, width), Indices(rows, (2, count, 1))]
        yield Program(dml_jax.gather_nd, batched, {"mode": mode, "batch_dims": 1})


def elements(shape, count):
    """Elements along each axis, or of tuples of indices, and slices across the last axis."""
    for axis, mode, size in product(range(len(shape)), ("clip", "fill"), (count, 1)):
        at = Indices(shape[axis], (*shape[:axis], size, *shape[axis + 1 :]))
        yield Program(dml_jax.gather_elements, [shape, at], {"axis": axis, "mode": mode})
    for mode, size in product(("clip", "fill"), ((count,), (2, count // 2), (3,))):
        yield Program(dml_jax.gather, [shape, Indices(shape[-1], size)], {"axis": -1, "mode": mode})
    yield Program(dml_jax.gather_nd, [shape[:2], Indices(min(shape[:2]), (count, 2))])
    yield Program(dml_jax.gather_nd, [shape[:2], Indices(shape[1], (shape[0], 1))], {"batch_dims": 1})
    lengths = np.arange(shape[0], dtype=np.int32)[:, None] % shape[1]
    yield Program(dml_jax.reverse_subsequences, [shape[:2], lengths], {"axis": 1})


def writes(rows, width, count):
    """Rows, elements along each axis and single elements, of which none is written twice."""
    ways = (("drop", forward, random_bits, DTYPES), ("clip", forward, random_bits, DTYPES))
    for mode, *more in (*ways, ("drop", gradient, small_integers, FLOATS)):
        by_tuples, along = partial(Program, dml_jax.scatter_nd), partial(Program, dml_jax.scatter_elements)
        yield by_tuples([(rows, width), Indices(rows, (count, 1), 0), (count, width)], {"mode": mode}, *more)
        yield by_tuples([(rows * width,), Indices(rows * width, (count, 1), 0), (count,)], {"mode": mode}, *more)
        for axis, shape in enumerate(((count, width), (rows, 1))):
            at = Indices((rows, width)[axis], shape, axis)
            yield along([(rows, width), at, shape], {"axis": axis, "mode": mode}, *more)
    yield Program(copy_table, [(rows * width,), (rows, width), (count, width)])


def short_indices():
    """XLA's indices have 16 bits where these suffice; the greatest of them means out of range."""
    for size in (2**16 - 1, 2**16):
        far = np.int32([[1, size - 1, size, -size - 1, 2**16 + 3, -(2**16) - 9]])
        yield Program(dml_jax.scatter_elements, [(1, size), far, far.shape], {"axis": 1}, dtypes=("uint8", "bool"))
    tables = (2**16 + 9, 4), Indices(4, (2**16 + 9, 1), 1), (2**16 + 9, 1)  # of which no coordinate has 16 bits
    yield Program(dml_jax.scatter_elements, tables, {"axis": 0}, mapped, dtypes=("uint8",))


def moves(shape):
    """Borders, slices, parts, copies, fills."""
    rank = len(shape)

    def along(axis, value, others):
        return tuple(value if d == axis % rank else others for d in range(rank))

    modes = ("constant", "edge", "reflection", "symmetric", "wrap")
    for mode, (last, outer) in product(modes, [((3, 3), (0, 0)), ((1, 0), (1, 4)), ((0, 0), (2, 1)), ((9, 5), (0, 0))]):
        start, end = ((*[0] * (rank - 2), outer[side], last[side]) for side in (0, 1))
        borders = {"mode": mode, "start_padding": start, "end_padding": end}
        yield Program(dml_jax.pad, [shape], borders, dtypes=NUMBERS)
    for offsets, step in product((along(0, 0, 0), along(-1, 1, 0), along(0, 1, 1)), (1, 2, -4)):
        sizes, steps = tuple(n - 2 * at for n, at in zip(shape, offsets, strict=True)), along(-1, step, 1)
        window = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": steps}
        yield Program(dml_jax.slice, [shape], window)
        result = tuple((n - 1) // abs(by) + 1 for n, by in zip(sizes, steps, strict=True))
        whole = {"sizes": shape, "offsets": offsets, "window_sizes": sizes, "strides": steps}
        yield Program(dml_jax.slice_grad, [result], whole, dtypes=NUMBERS)
    for axis, part in product(range(rank), (1, 4)):
        sizes = (part, shape[axis]) if shape[axis] <= part else (part, shape[axis] - part)
        parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in (*sizes, part)]
        yield Program(dml_jax.join, parts, {"axis": axis})
        yield Program(dml_jax.split, [(*shape[:axis], sum(sizes), *shape[axis + 1 :])], {"sizes": sizes, "axis": axis})
        for others in (1, 3):
            yield Program(dml_jax.tile, [shape], {"repeats": along(axis, 2 * part, others)})
    for dtype, value in product(("uint8", "bfloat16", "complex64", "bool", "int4"), (0, 1)):
        yield Program(
            dml_jax.fill_value_constant, [], {"sizes": shape, "value": value, "dtype": dtype}, dtypes=(dtype,)
        )
    for axis, size in product(range(rank), (5, 8)):
        index = Indices(size, (*shape[:axis], 1, *shape[axis + 1 :]))
        yield Program(dml_jax.one_hot, [index, (2,)], {"size": size, "axis": axis})
    yield Program(dml_jax.fill_diagonals, [shape[-2:]], {"begin": 0, "end": 1, "value": 0})
    for scale in ((3, 2), (1, 3), (2, 2)):
        yield Program(dml_jax.upsample_2d, [(1, 1, *shape[-2:])], {"scale_size": scale}, dtypes=NUMBERS)


def gradients(rows, width, count):
    """Of rows that are read once, or several times, or not at all; and scatters that add up."""
    added = {"way": gradient, "draw": small_integers, "dtypes": (*FLOATS, "complex64")}
    every, permutation = Indices(rows, (count,)), Indices(rows, (rows - 1,), 0)
    for attributes in ({}, {"mode": "fill"}, {"deterministic": True}):
        yield Program(dml_jax.gather, [(rows, width), every], {"axis": 0, **attributes}, **added)
        yield Program(dml_jax.gather_nd, [(rows, width), Indices(rows, (count, 1))], attributes, **added)
        batched = [(rows, width), Indices(width, (rows, 1))]
        yield Program(dml_jax.gather_nd, batched, {"batch_dims": 1, **attributes}, **added)
    for at in (permutation, np.arange(rows, dtype=np.int32)[::-1], np.arange(0, rows, 2, np.int32)):
        yield Program(dml_jax.gather, [(rows, width), at], {"axis": 0, "unique_indices": True}, **added)
    for reduction, dtypes in product(("add", "mul", "min", "max"), (("int8", "uint16"), FLOATS)):
        more = {"draw": signs if reduction == "mul" and dtypes is FLOATS else small_integers, "dtypes": dtypes}
        by_tuples = [(rows, width), Indices(rows, (count, 1)), (count, width)]
        yield Program(dml_jax.scatter_nd, by_tuples, {"reduction": reduction}, **more)
        along = [(rows, width), Indices(width, (rows, count)), (rows, count)]
        yield Program(dml_jax.scatter_elements, along, {"reduction": reduction, "axis": 1}, **more)


def element_gradients(shape, count):
    """Of elements along each axis, many of which are the same one; and of one element of each row."""
    added = {"way": gradient, "draw": small_integers, "dtypes": (*FLOATS, "complex64")}
    for axis, mode, size in product((0, 1), ("clip", "fill"), (count, 1)):
        at = Indices(shape[axis] // 2, (size, shape[1]) if axis == 0 else (shape[0], size))
        yield Program(dml_jax.gather_elements, [shape, at], {"axis": axis, "mode": mode}, **added)


SUMMED = (*FLOATS, "float8_e5m2")
REDUCTIONS = {
    **dict.fromkeys(("sum", "min", "max", "sum_square", "l1"), (small_integers, (*SUMMED, "int32", "int8"), None)),
    **dict.fromkeys(("argmax", "argmin"), (small_integers, (*FLOATS, "int32"), None)),
    **dict.fromkeys(("average", "l2", "log_sum_exp"), (small_integers, FLOATS, 2**16)),
    "multiply": (signs, SUMMED, None),
}


def sums(shape):
    """Reductions, running sums and products, softmax, the greatest, and numbers of what is not zero."""
    for axis, (function, more) in product(range(len(shape)), REDUCTIONS.items()):
        yield Program(dml_jax.reduce, [shape], {"function": function, "axes": (axis,)}, forward, *more)
    for axis, direction, exclusive in product(range(len(shape)), ("increasing", "decreasing"), (False, True)):
        attributes = {"axis": axis, "direction": direction, "exclusive": exclusive}
        yield Program(dml_jax.cumulative_summation, [shape], attributes, forward, small_integers, FLOATS)
        yield Program(dml_jax.cumulative_product, [shape], attributes, forward, signs, FLOATS)
    for axis, way in product(range(len(shape)), (forward, gradient)):
        attributes = {"activation": dml_jax.Activation("ACTIVATION_SOFTMAX1", ((axis,),))}
        yield Program(dml_jax.activate, [shape], attributes, way, small_integers, SUMMED, 2**16)
    for axis, k, direction in product(range(len(shape)), (1, 5), ("increasing", "decreasing")):
        attributes = {"axis": axis, "k": k, "direction": direction}
        yield Program(dml_jax.top_k, [shape], attributes, forward, small_integers, ("int32", *FLOATS))
    yield Program(dml_jax.nonzero_coordinates, [shape], draw=small_integers)


def windows(shape, block, filters):
    """Pooling, columns of windows and back, convolutions, and what else looks at neighbours; and their gradients."""
    n, c, h, w = shape
    for way in (forward, gradient):
        more, side = (way, small_integers, FLOATS, 2**16), {"window_sizes": (block, block)}
        for stride, pool in product((1, block), (dml_jax.max_pooling, dml_jax.average_pooling)):
            yield Program(pool, [shape], {**side, "strides": (stride, stride)}, *more)
        for stride in (1, block):
            yield Program(max_pool, [shape], {"window": block, "stride": stride}, *more)
            size = [(length - block) // stride + 1 for length in (h, w)]
            attributes, is_slow = {**side, "strides": (stride, stride)}, stride == 1 and block > 8
            yield Program(dml_jax.unfold, [shape], attributes, *more, is_slow)
            columns = [(n, c * block * block, prod(size))]
            yield Program(dml_jax.fold, columns, {**attributes, "output_sizes": (h, w)}, *more, is_slow)
        for attributes in ({}, {"strides": (2, 2)}, {"strides": (block, block)}):
            yield Program(dml_jax.convolution, [shape, (filters, c, block, block)], attributes, *more)
        yield Program(dml_jax.convolution, [shape, (c, 1, 3, 3)], {"group_count": c}, *more)
        for attributes in ({}, {"strides": (2, 2), "group_count": c}):
            attributes = {"direction": "backward", **attributes}
            yield Program(dml_jax.convolution, [shape, (c, filters, 3, 3)], attributes, *more)
        yield Program(dml_jax.local_response_normalization, [shape], {"local_size": 3}, *more)
        attributes = {"sizes": (n, c, 2 * h, w + w // 2), "scales": (1, 1, 2, 1.5), "mode": "linear"}
        yield Program(dml_jax.resample, [shape], attributes, *more)
        at = np.arange(prod(shape), dtype=np.uint32).reshape(shape)  # of two that meet, either may be written
        yield Program(dml_jax.max_unpooling, [shape, at], {"output_sizes": (n, c, h, w + 1)}, *more)


def max_pool(x, *, window, stride):
    """Max pooling without indices."""
    return max_pool_windows(x, [Windows(size, window, stride, 1, 0, 0) for size in x.shape[2:]])


def multiply_packed(rows, *, columns, bits, block, is_known):
    """Rows by constant weights of few bits, or by weights that XLA does not know."""
    rng, blocks = np.random.default_rng(0), -(-rows.shape[1] // block)
    packed = rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    scales, zeros = (rng.integers(1, 3, (columns, blocks)).astype(np.float32) for _ in range(2))
    arrays = packed, scales, zeros if is_known else np.float32(2)
    if not is_known:
        arrays = map(hide_constant, arrays)
    return packed_product.multiply_packed(rows, *arrays, bits=bits)


def packed(count, depth, columns, bits, block):
    """Products with packed weights, of sums that are exact."""
    for is_known in (True, False):
        attributes = {"columns": columns, "bits": bits, "block": block, "is_known": is_known}
        more = (forward, small_integers, ("float32",))
        yield Program(multiply_packed, [(count, depth)], attributes, *more, is_slow=block > 64)


def multiply_int8(a, b=None, *, columns, zero_point):
    """A product with a matrix that is data, or else a constant; small integers may come as floats."""
    p = None if zero_point is None else jnp.int32([[zero_point]])
    known = np.random.default_rng(0).integers(-128, 128, (a.shape[1], columns), np.int8)
    return integer_product.multiply_int8(a.astype(np.int8), p, known if b is None else b.astype(np.int8))


def int8(count, depth, columns):
    """Products of int8, with zero points and without."""
    for zero_point in (None, -7):
        attributes = {"columns": columns, "zero_point": zero_point}
        for arrays in ([(count, depth), (depth, columns)], [(count, depth)]):
            yield Program(multiply_int8, arrays, attributes, dtypes=("int8",))


def sum_convolution(x, filters=None, *, windows, zero_points, groups=1):
    """A convolution of int8 with filters that are data, or else a constant; small integers may come as floats."""
    x, filters = (None if array is None else array.astype(np.int8) for array in (x, filters))
    known = np.random.default_rng(0).integers(-128, 128, (6, x.shape[1] // groups, 3, 3), np.int8)
    p, q = (jnp.int8(3), jnp.arange(6, dtype=np.int8).reshape(-1, 1, 1, 1)) if zero_points else (None, None)

    def in_integers(x, p, filters, q):
        return convolve_integers(x, p, filters, None if q is None else q.swapaxes(0, 1), windows, groups)

    filters = known if filters is None else filters
    return convolution_sums.sum_convolution(in_integers, x, p, filters, q, windows, groups)


def byte_convolutions(shape):
    """Sums of a convolution, with zero points and without."""
    windows = tuple(Windows(size, 3, stride, 1, 1, 0) for size, stride in zip(shape[2:], (1, 2), strict=True))
    for zero_points in (False, True):
        attributes = {"windows": windows, "zero_points": zero_points}
        for arrays in ([shape, (6, shape[1], 3, 3)], [shape]):
            yield Program(sum_convolution, arrays, attributes, dtypes=("int8",))
        if 6 % shape[1] == 0:  # depthwise
            yield Program(sum_convolution, [shape], attributes | {"groups": shape[1]}, dtypes=("int8",))


def map_bytes(x):
    """A sigmoid in steps of 1 / 127; small integers may come as floats."""

    def of_bytes(q):
        return jnp.round(127 * jax.nn.sigmoid(q.astype(np.float32) / 2)).astype(np.int8)

    return byte_map.map_bytes(of_bytes, x.astype(np.int8), np.int8, is_long=True)


def bytes_of(*shape):
    """A function of bytes."""
    yield Program(map_bytes, [shape], dtypes=("int8",))


TRANSPOSED = [(16, 70), (70, 17), (40, 70), (8, 300), (256, 5), (5, 256), (12, 400), (7, 299), (224, 5)]
PERMUTED = [
    *[((36, 53, 3), (2, 0, 1)), ((5, 64, 64), (1, 2, 0)), ((14, 14, 96), (2, 0, 1)), ((40, 12, 20), (1, 0, 2))],
    *[((8, 7, 8, 7, 12), (0, 2, 1, 3, 4)), ((3, 7, 16, 7, 16), (1, 3, 0, 2, 4)), ((5, 3, 7, 2), (3, 2, 1, 0))],
    *[((2, 5, 3, 8), (2, 0, 3, 1)), ((6, 4, 8), (1, 0, 2)), ((3, 12, 4, 2), (0, 2, 1, 3)), ((9, 28, 28), (1, 2, 0))],
    ((2, 37, 3, 20), (3, 2, 0, 1)),
]
CHANNELS = [((MANY * side, 2 * side, c), (2, 0, 1)) for c, side in product((2, 3, 4, 6, 8, 12), (5, 6))]
CHANNELS += [((c, MANY * side, 2 * side), (1, 2, 0)) for c, side in product((2, 3, 5, 7), (5, 6))]
LARGE_PERMUTED = [
    *[((8192, 32, 128), (1, 0, 2)), ((4096, 1024), (1, 0)), ((64, 196, 768), (0, 2, 1)), ((4096, 12, 20), (1, 0, 2))],
    *[((64, 64, 1024), (2, 1, 0)), ((8, 224, 224, 3), (0, 3, 1, 2)), ((8, 3, 224, 224), (0, 2, 3, 1))],
    *[((64, 28, 28, 9), (0, 3, 1, 2)), ((64, 64, 28, 28), (0, 2, 3, 1)), ((5, 2**16), (1, 0)), ((2**16, 5), (1, 0))],
    *[
        ((2, 2048, 4096), (0, 2, 1)),
        ((20, 30, 50, 64), (3, 2, 1, 0)),
        ((64, 8, 7, 8, 7, 48), (0, 1, 3, 2, 4, 5)),
        ((12, 2**20), (1, 0)),
    ],
]
# By family, what small calls are made of, and large ones.
SIZES = {
    blocks: (
        [(8, 3, 4, (1, 2, 3, 4, 5, 6, 7, 8)), (3, 5, 7, (2, 3, 4, 5, 7, 8, 10, 14))],
        [(c, 32, 64, (2, 3, 4, 5, 7, 8, 14)) for c in (3, 1, 2, 16, 64)],
    ),
    permuted: ([*((shape, (1, 0)) for shape in TRANSPOSED), *PERMUTED, *CHANNELS], LARGE_PERMUTED),
    views: ([(3, 8), (5, 12), (4, 7)], [(2000, 64), (4096, 256)]),
    reads: (
        [*((9, width, 10) for width in (32, 24, 7, 1)), *((50, width, 40) for width in (12, 16, 31, 48, 64, 76, 77))],
        [*product((2**10, 2**21), (3, 8, 12, 16, 24, 32, 48, 64, 128), (2**12, 2**20))],
    ),
    elements: (
        [((6, 16), 8), ((5, 7), 4), ((3, 4, 8), 8)],
        [((8192, 8192), 8192), ((512, 64, 1024), 64), ((4096, 64), 64), ((32768, 512), 512)],
    ),
    writes: ([(9, 32, 4), (9, 7, 2), (6, 12, 5)], [*product((4096,), (7, 64, 256), (8, 2048))]),
    short_indices: ([()], []),
    moves: (
        [((6, 8),), ((5, 9),), ((200, 20),), ((40, 3, 70),), ((8, 5, 4, 80),)],
        [((8, 3, 224, 224),), ((64, 64, 60),), ((8, 64, 112, 101),), ((2**14, 128),), ((3, 2**20),)],
    ),
    gradients: (
        [*((6, width, 9) for width in (1, 3, 4, 8, 64)), (40, 64, 600), (70, 5, 90)],
        [
            *[(128256, 1024, 65536), (2**20, 64, 2**20), (64, 1024, 65536), (10000, 1, 4000000), (1000, 128, 125000)],
            *[(16384, 2048, 16384), (2**20, 16, 2**20), (67109, 100, 671089), (2**17, 64, 16), (8192, 16, 2**20)],
        ],
    ),
    element_gradients: (
        [((6, 8), 4), ((6, 30), 70), ((40, 64), 64)],
        [((2048, 8192), 8192), ((8192, 2048), 8192), ((64, 131072), 64), ((4096, 50257), 64), ((131072, 64), 64)],
    ),
    sums: (
        [((6, 40),), ((16, 33),), ((5, 700),), ((5, 5, 50),)],
        [((4096, 1024),), ((16, 2**18),), ((2**16, 64),), ((64, 2**17),), ((2048, 1000),)],
    ),
    packed: (
        [(count, 70, 21, bits, block) for count, bits, block in ((1, 4, 32), (3, 2, 16), (2, 8, 64), (1, 4, 128))],
        [(1, 512, 512, 4, 32), *((count, 2048, 1024, 4, 32) for count in (1, 8, 64))],
    ),
    int8: ([(1, 9, 70), (2, 3, 64), (3, 30, 21)], [(count, 1024, 512) for count in (1, 8)]),
    bytes_of: ([(5,), (3, 7), (2, 3, 4, 5)], [(8, 64, 56, 56)]),
    byte_convolutions: ([((1, 3, 9, 8),), ((2, 2, 5, 6),)], [((32, 64, 64, 64),), ((8, 6, 128, 128),)]),
    windows: (
        [((2, 4, 8, 8), 2, 3), ((1, 3, 9, 11), 3, 2), ((1, 2, 28, 28), 14, 1)],
        [((8, 64, 56, 56), 3, 64), ((8, 3, 224, 224), 14, 16), ((1, 16, 512, 500), 2, 16), ((8, 64, 28, 28), 1, 64)],
    ),
}


@cache
def calls_of(size, *, every=False, every_dtype=False):
    """The "small" calls or the "large" ones, in an order that mixes them.

    Args:
      size: which.
      every: of every program, or of some of each operator.
      every_dtype: of all the types of a program, or of one.
    """
    is_large = size == "large"
    programs = [program for family, of in SIZES.items() for sizes in of[is_large] for program in family(*sizes)]
    # New programs of one operator leave the sample of the others as it is.
    turns = defaultdict(count)
    numbered = [(next(turns[program.operator]), program) for program in programs]
    numbered.sort(key=lambda pair: random.Random(f"{pair[1].operator.__name__} {pair[0]}").random())
    seen, calls = Counter(), []
    for number, program in numbered:
        seen[program.operator, program.way] += 1
        if not every and (program.is_slow or seen[program.operator, program.way] > SOME):
            continue
        dtypes = program.dtypes if every_dtype else [program.dtypes[number % len(program.dtypes)]]
        calls += [program.call(dtype, is_large=is_large) for dtype in dtypes]
    return calls


# What chooses in them.


def choices_in(call, platform=None):
    """The operations of a call, each with the names of what was chosen on a platform, or on that at hand."""
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in call.arrays]
    with jax.enable_x64(call.is_wide), variant_selection.watch_choices() as seen:
        traced = jax.jit(lambda *arrays: call.function(*arrays)).trace(*shapes)
        traced.lower(lowering_platforms=(platform,)) if platform else traced.lower()
    return {(choice.operation, choice.name) for choice in seen if choice.platform == platform or not platform}


@cache
def calls_by_operation(*, every):
    """The small calls of each operation, by what chooses in them when every operation has a variant."""
    calls, probe = {}, "probe"
    variants = lambda operation: [variant_selection.Variant(probe, operation, probe, lambda case: case.plain, bool)]  # noqa: E731
    with patch.multiple(variant_selection, _variants=variants, _platforms=lambda _: [probe]), forcing(probe):
        for call in calls_of("small", every=every):
            for operation in {operation for operation, _ in choices_in(call)}:
                calls.setdefault(operation, []).append(call)
    return calls


# The operators whose large calls choose the rarest variant of an operation: every other call tried is one of theirs.
RAREST = {"move": "tile", "gather": "gather_elements", "permute": "as_strided", "scatter_reduce": "scatter_nd"}


def calls_that_choose(operation, *, every):
    """Large calls of operators of which some small call is of the operation, and of that with its rarest variant."""
    operators = {RAREST.get(operation)} | {call.operator for call in calls_by_operation(every=every).get(operation, ())}
    calls = [call for call in calls_of("large", every=True, every_dtype=every) if call.operator in operators]
    turns = Counter()

    def turn(call):
        is_rare = call.operator == RAREST.get(operation)
        turns[is_rare] += 1
        return turns[is_rare]

    return sorted(calls, key=turn)


@cache
def choices_on(platform, call):
    """The variants that a call chooses on a platform; operations share calls."""
    return choices_in(call, platform)


@cache
def choices_where_forced(call, name):
    """What is chosen in a call where the variants of a name are forced."""
    with dml_jax.use_form(name):
        return choices_in(call)


def calls_that_run(operation, name, *, every, key=None):
    """Small calls that run a variant where it is forced, one after the other, sorted by a key if there is one."""
    calls = calls_by_operation(every=every).get(operation, ())
    for call in sorted(calls, key=key) if key else calls:
        if (operation, name) in choices_where_forced(call, name):
            yield call


def chosen_on(platform, function, *arrays):
    """The names of the variants that are chosen for a platform, which need not be there."""
    with variant_selection.watch_choices() as seen:
        jax.jit(function).trace(*arrays).lower(lowering_platforms=(platform,))
    return {choice.name for choice in seen if choice.platform == platform} - {"plain"}
