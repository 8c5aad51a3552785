"""Calls of every operator that moves or adds up: small ones, of real arrays, and large ones, of shapes alone.

Tests force every variant in small calls and look for large ones that choose it. A call does not say of which operation
it is: `operations_of` watches what is chosen in it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import cycle, product
from math import prod
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax
from dml_jax.lowering import select
from dml_jax.lowering.forced import forcing

RNG = np.random.default_rng(11)
BYTES = ("uint8", "bool", "float8_e5m2")
DTYPES = (*BYTES, "int16", "bfloat16", "float16", "float32", "complex64", "float64")
NUMBERS = tuple(name for name in DTYPES if name != "bool")
FLOATS = ("bfloat16", "float16", "float32")
SIZES = ("uint8", "float16", "float32")  # of large calls: one type of each size that words are made of
# On an accelerator arrays are large enough for vectorised loops; a compiler was seen to get words of bytes wrong there.
MANY = 1 if jax.default_backend() == "cpu" else 48


def random_bits(shape, dtype):
    """Every bit pattern of the type, NaN payloads and subnormals included."""
    dtype = jnp.dtype(dtype)
    if dtype == np.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    return RNG.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def small_integers(shape, dtype):
    """Whose sums are exact in any order."""
    return RNG.integers(0, 3, shape).astype(jnp.dtype(dtype))


def signs(shape, dtype):
    """Whose products are exact in any order."""
    return RNG.choice([1, -1], shape).astype(jnp.dtype(dtype))


# What is made of an operator: of the function of all arrays, and of the numbers of those that are data.


def forward(function, _):
    return function


def gradient(function, data):
    """What flows back to all data from the result itself."""

    def pulled_back(*arrays):
        def of_data(*some):
            every = list(arrays)
            for number, array in zip(data, some, strict=True):
                every[number] = array
            return function(*every)

        result, pull_back = jax.vjp(of_data, *(arrays[number] for number in data))
        return pull_back(result)

    return pulled_back


def mapped(function, _):
    return jax.vmap(function)


@dataclass(frozen=True)
class Call:
    """A function of arrays.

    Args:
      name: for people.
      function: of the arrays.
      arrays: real ones, or their shapes and types.
      data: the numbers of those that are no indices.
      units: how far results may be apart, in last places of float32; None for no bit.
      is_wide: whether they need 64-bit types.
    """

    name: str
    function: Callable[..., Any]
    arrays: Sequence[Any]
    data: Sequence[int]
    units: int | None
    is_wide: bool

    def with_data(self, draw):
        """The same call of other data: `draw` takes an array."""
        arrays = [draw(array) if i in self.data else array for i, array in enumerate(self.arrays)]
        return replace(self, arrays=arrays)


@dataclass(frozen=True)
class Program:
    """A call but for the type of its data.

    Args:
      operator: a public function.
      arrays: the shapes of data, and the other arrays themselves, or their shapes and types.
      attributes: of the function.
      way: what is made of the operator.
      draw: takes a shape and a type; makes data.
      dtypes: of the data.
      units: of a call.
    """

    operator: str
    arrays: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    way: Callable[..., Any] = forward
    draw: Callable[..., Any] = random_bits
    dtypes: Sequence[str] = DTYPES
    units: int | None = None

    def call(self, dtype, *, is_large=False):
        draw = (lambda shape, dtype: jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))) if is_large else self.draw
        data = [number for number, array in enumerate(self.arrays) if isinstance(array, tuple)]
        arrays = [draw(array, dtype) if isinstance(array, tuple) else array for array in self.arrays]
        function = partial(getattr(dml_jax, self.operator), **self.attributes)
        taken = (lambda *inputs: function(inputs)) if self.operator == "join" else function
        shapes = " ".join("x".join(map(str, array.shape)) for array in arrays)
        name = f"{self.way.__name__} {self.operator} {dict(self.attributes)} of {shapes} {dtype}"
        return Call(
            name,
            self.way(lambda *arrays: taken(*arrays), data),
            arrays,
            data,
            self.units,
            dtype in ("float64", "int64"),
        )


def below(n, *shape):
    """Indices in range, negative, and out of range."""
    return RNG.integers(-n - 2, n + 2, shape).astype(np.int32)


def distinct(n, *shape, axis=0):
    """Indices in range, or negative, or far away, which are all different along an axis."""
    whole = [n - 1 if d == axis else size for d, size in enumerate(shape)]  # none is the last, which one far away is
    found = np.argsort(RNG.random(whole), axis).take(range(shape[axis]), axis).astype(np.int32)
    found.reshape(-1)[::5] -= n
    found.reshape(-1)[0] = 99 * n
    return found


def ids(*shape):
    return jax.ShapeDtypeStruct(shape, np.int32)


# Small calls.


def blocks(sizes, every):
    """Depth and space, in both directions, orders and data formats."""
    for block, order, data_format, to in product(every, ("DCR", "CRD"), ("NCHW", "NHWC"), ("space", "depth")):
        n, c, h, w = sizes(block)
        dims = (c * block * block, h, w) if to == "space" else (c, h * block, w * block)
        shape = (n, *dims) if data_format == "NCHW" else (n, *dims[1:], dims[0])
        operator = "depth_to_space" if to == "space" else "space_to_depth"
        yield Program(operator, [shape], {"block_size": block, "order": order, "data_format": data_format})


def small_blocks():
    yield from blocks(lambda b: (2 * MANY, 8 if b < 9 else 3, 3, 4), (1, 2, 3, 4, 5, 6, 7, 8, 10, 14))
    yield from blocks(lambda b: (MANY, 3, 5, 7), (1, 2, 3, 4, 5, 6, 7, 8))


def view(sizes, strides, offset=0, size=None, **more):
    reach = 1 + offset + sum(n * stride - stride for n, stride in zip(sizes, strides, strict=True))
    attributes = {"sizes": sizes, "strides": strides, "offset": offset}
    return Program("as_strided", [(size or reach,)], attributes, **more)


def permuted(shape, order, **more):
    """The view of a dense array that shows its dimensions in another order."""
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    return view([shape[d] for d in order], [strides[d] for d in order], **more)


LAYOUTS = [
    *[((3, 8), (12, 1), 4), ((3, 8), (12, 1), 3), ((3, 8), (0, 1), 0), ((2, 3, 4), (40, 12, 1), 8)],  # rows with gaps
    *[((3, 8), (13, 1), 4), ((3, 6), (12, 1), 4), ((3, 8), (4, 1), 0), ((8, 3), (1, 12), 4), ((2, 2), (0, 3), 2)],
    *[((2, 12, 3), (36, 1, 12), 5), ((2, 3, 12), (36, 1, 3), 0), ((4, 8), (1, 4), 2), ((3, 2), (1, 3), 0)],  # dense
    *[((8, 3), (1, 8), 2), ((2, 4, 1, 9), (36, 1, 7, 4), 2), ((5, 2, 3), (1, 15, 5), 2), ((16, 64), (0, 1), 0)],
]
PERMUTED = [
    *[((2 * MANY, 36, 53, 3), (0, 3, 1, 2)), ((2, 5, 64, 64), (0, 2, 3, 1)), ((2, 9, 28, 28), (0, 2, 3, 1))],
    *[((2 * MANY, 14, 14, 96), (0, 3, 1, 2)), ((2, 40, 8, 8), (0, 2, 3, 1)), ((2, 197, 256), (0, 2, 1))],
    *[((8, 300), (1, 0)), ((40, 12, 20), (1, 0, 2)), ((8, 7, 8, 7, 12), (0, 2, 1, 3, 4)), ((256, 128), (1, 0))],
    *[((3, 7, 16, 7, 16), (1, 3, 0, 2, 4)), ((3, 224, 5), (0, 2, 1)), ((3, 7, 299), (0, 2, 1)), ((256, 5), (1, 0))],
    *[((3, 12, 400), (0, 2, 1)), ((16, 240), (1, 0)), ((2, 5, 3, 7), (3, 2, 1, 0)), ((2, 5, 3, 8), (2, 0, 3, 1))],
    *[((6, 4, 8), (1, 0, 2)), ((3, 6, 4, 8), (0, 2, 1, 3)), ((3, 12, 4, 2), (0, 2, 1, 3)), ((6, 5, 7), (1, 0, 2))],
]


def small_views():
    for layout in LAYOUTS:
        yield view(*layout, size=99)
    for shape, order in PERMUTED:
        yield permuted(shape, order)
    for rows, is_back in product((2, 15, 16, 17, 31, 40), (False, True)):
        yield permuted((3, 70, rows) if is_back else (3, rows, 70), (0, 2, 1))
    for channels, side, is_back in product((1, 2, 3, 4, 5, 6, 7, 8, 12), (5, 6), (False, True)):
        pixels = (side * MANY, 2 * side)
        yield permuted(*(((2, channels, *pixels), (0, 2, 3, 1)) if is_back else ((2, *pixels, channels), (0, 3, 1, 2))))
    for layout in LAYOUTS[:9]:
        yield view(*layout, size=99, way=gradient, draw=small_integers, dtypes=FLOATS)


def small_reads():
    at, tuples = below(9, 2, 5), below(9, 2, 5, 1)
    for row, mode in product([(32,), (3, 8), (16,), (2, 6), (7,), (1,)], ("clip", "fill")):
        yield Program("gather", [(9, *row), at], {"axis": 0, "mode": mode})
        yield Program("gather", [(9, 2, *row), at], {"axis": 0, "mode": mode})
        yield Program("gather_nd", [(9, *row), tuples], {"mode": mode})
        yield Program("gather_nd", [(2, 9, *row), tuples], {"mode": mode, "batch_dims": 1})
    for width in (12, 16, 31, 32, 48, 64, 76, 77):
        yield Program("gather", [(50, width), below(50, 40)], {"axis": 0}, dtypes=DTYPES * 2)
    yield Program("gather_nd", [(8, 4096), below(4096, 8, 1)], {"batch_dims": 1})
    for shape, mode in product([(6, 16), (5, 7), (3, 4, 8)], ("clip", "fill")):
        for size in ((1,), (8,), (2, 4), (3,)):
            yield Program("gather", [shape, below(shape[-1], *size)], {"axis": -1, "mode": mode})
        for axis, size in product(range(len(shape)), (1, 8)):
            at = below(shape[axis], *shape[:axis], size, *shape[axis + 1 :])
            yield Program("gather_elements", [shape, at], {"axis": axis, "mode": mode})
    yield Program("gather_nd", [(6, 8), np.int32([[[1, 0], [5, 7], [0, 3], [2, -1]]])])


def small_writes():
    for (width, mode), at in product([(32, "drop"), (32, "clip"), (7, "drop")], ([3, -2, 20, 0], [3])):
        yield Program("scatter_nd", [(9, width), np.int32(at)[:, None], (len(at), width)], {"mode": mode})
    for axis, mode in product(range(3), ("drop", "clip")):
        at = distinct((4, 5, 6)[axis], *(2 if d == axis else n for d, n in enumerate((4, 5, 6))), axis=axis)
        yield Program("scatter_elements", [(4, 5, 6), at, at.shape], {"axis": axis, "mode": mode})
    yield Program("scatter_nd", [(4, 5, 6), np.int32([[3, 4, 0], [0, -1, 2], [3, 9, 5]]), (3,)])
    for size in (2**16 - 1, 2**16):  # the greatest index of 16 bits means out of range
        far = np.int32([[1, size - 1, size, -size - 1, 2**16 + 3, -(2**16) - 9]])
        yield Program("scatter_elements", [(1, size), far, far.shape], {"axis": 1}, dtypes=BYTES)
    tables = 2**16 + 9  # a coordinate of the mapped dimension is not one of 16 bits
    at = RNG.integers(0, 4, (tables, 1), dtype=np.int32)
    yield Program("scatter_elements", [(tables, 4), at, (tables, 1)], {"axis": 0}, mapped, dtypes=BYTES)
    for strides, offset in product([(12, 1), (1, 9), (24, 2)], (0, 3)):
        yield Program("as_strided_scatter", [(99,), (3, 8)], {"strides": strides, "offset": offset})


BORDERS = [
    *[((8, 5, 4, 80), (0, 0, 3, 3), (0, 0, 1, 2)), ((200, 20), (0, 20), (0, 13)), ((40, 2, 70), (0, 0, 0), (0, 0, 9))],
    *[((40, 2, 3, 60), (0, 2, 1, 3), (0, 1, 4, 2)), ((6, 8), (1, 9), (3, 2)), ((6, 8), (1, 1), (0, 1))],
    *[((5, 9), (0, 3), (0, 3)), ((6, 12), (0, 50), (0, 43)), ((200, 20), (0, 50), (0, 43)), ((6, 12), (1, 4), (0, 8))],
]


def small_moves():
    for mode, (shape, start, end) in product(("constant", "edge", "reflection", "symmetric", "wrap"), BORDERS):
        attributes = {"mode": mode, "start_padding": start, "end_padding": end}
        yield Program("pad", [shape], attributes, dtypes=NUMBERS)
    for shape, *window in (
        *(((5, 9), (0, 1), (5, 7), (1, 1)), ((5, 9), (0, 0), (5, 9), (2, -4)), ((6, 8), (1, 2), (5, 4), (2, 1))),
        *(
            ((6, 8), (0, 1), (6, 6), (2, -1)),
            ((6, 24), (1, 4), (4, 16), (1, 1)),
            ((4, 6, 8), (1, 1, 0), (3, 2, 8), 3 * (1,)),
        ),
    ):
        names = ("input_window_offsets", "input_window_sizes", "input_window_strides")
        yield Program("slice", [shape], dict(zip(names, window, strict=True)))
        offsets, sizes, strides = window
        result = tuple((n - 1) // abs(step) + 1 for n, step in zip(sizes, strides, strict=True))
        attributes = {"sizes": shape, "offsets": offsets, "window_sizes": sizes, "strides": strides}
        yield Program("slice_grad", [result], attributes, dtypes=NUMBERS)
    for shape, sizes, axis in (
        ((6, 9, 4, 10), (2, 3, 4), 1),
        ((6, 8), (2, 6), 1),
        ((40, 3, 60), (10, 30), 0),
        ((6, 9), (4, 5), 1),
    ):
        yield Program("split", [shape], {"sizes": sizes, "axis": axis})
        parts = [tuple(part if d == axis else n for d, n in enumerate(shape)) for part in sizes]
        yield Program("join", parts, {"axis": axis})
    yield Program("join", [(1, 3, 5), (1, 4, 5), (1, 0, 5)], {"axis": -2})
    yield Program("join", [(3, 8), (3, 3), (3, 1)], {"axis": 1})
    for shape, repeats in (
        *(
            ((6, 8), (2, 3)),
            ((6, 5), (8, 3)),
            ((3, 8), (8, 1)),
            ((3, 5), (6, 2)),
            ((1, 8), (2, 3)),
            ((1, 3, 8), (1, 9, 1)),
        ),
        *(((8,), (5,)), ((6, 9, 4, 10), (1, 2, 1, 3)), ((6, 9, 4, 10), (2, 1, 1, 1)), ((4, 120), (1, 2))),
    ):
        yield Program("tile", [shape], {"repeats": repeats})
    for sizes, dtype in zip(product([(64,), (4, 48), (3, 4), (5, 7), (), (0, 64)], (0, 1)), cycle((*DTYPES, "int4"))):
        attributes = {"sizes": sizes[0], "value": np.ones((), jnp.dtype(dtype)), "dtype": jnp.dtype(dtype)}
        yield Program("fill_value_constant", [], attributes, dtypes=(dtype,))
    yield Program("one_hot", [RNG.integers(-1, 9, (8, 1, 12), dtype=np.int32), (2,)], {"size": 8, "axis": 1})
    yield Program("one_hot", [RNG.integers(-1, 9, (3, 1, 7), dtype=np.int32), (2,)], {"size": 5, "axis": 1})
    yield Program("fill_diagonals", [(5, 9)], {"begin": 0, "end": 1, "value": 0})
    for scale in ((3, 2), (1, 3), (2, 2)):
        yield Program("upsample_2d", [(1, 6, 8)], {"scale_size": scale}, dtypes=NUMBERS)
    yield Program("reverse_subsequences", [(6, 32), np.int32([[4], [32], [0], [31], [1], [7]])], {"axis": 1})


def small_gradients():
    """Rows and elements that are read once, or several times, or beyond the ends."""
    added = {"way": gradient, "draw": small_integers, "dtypes": (*FLOATS, "complex64")}
    once, again = np.int32([3, 1, -6, 5, 2, 4]), np.int32([[5, 0, 5, -1, 2, 5, 5, 3, 0]])
    many = np.where(RNG.integers(0, 3, (6, 64)) > 0, RNG.integers(0, 3, (6, 1)), RNG.integers(0, 8, (6, 64)))
    for width, mode in product((1, 3, 4, 8, 64), ("clip", "fill")):
        yield Program("gather", [(6, width), again], {"axis": 0, "mode": mode}, **added)
        yield Program("gather_nd", [(6, width), again.T], {"mode": mode}, **added)
    for at, width in product((once, once[:3]), (8, 7, 64)):
        yield Program("gather", [(6, width), at], {"axis": 0, "unique_indices": True}, **added)
    yield Program("gather", [(6, 8), again], {"axis": 0, "deterministic": True}, **added)
    yield Program("gather", [(40, 64), below(40, 600)], {"axis": 0}, **added)
    for mode in ("clip", "fill"):
        one_each = np.int32([[3], [9], [-1], [0], [2], [7]])
        yield Program("gather_elements", [(6, 8), below(6, 4, 8) // 2], {"axis": 0, "mode": mode}, **added)
        yield Program("gather_elements", [(6, 8), many.astype(np.int32)], {"axis": 1, "mode": mode}, **added)
        yield Program("gather_elements", [(6, 8), one_each], {"axis": 1, "mode": mode}, **added)
        yield Program("gather_nd", [(6, 8), one_each], {"batch_dims": 1, "mode": mode}, **added)
    for reduction, dtypes in product(("add", "min", "max", "mul"), (("int8", "uint16"), (*FLOATS, "complex64"))):
        draw = signs if reduction == "mul" and dtypes[0] != "int8" else small_integers
        at, dtypes = np.int32([[1], [-1], [1]]), dtypes[:3] if reduction in ("min", "max") else dtypes
        for updates, width in product((at, below(6, 70, 1)), (8, 3)):
            arrays = [(6, width), updates, (len(updates), width)]
            yield Program("scatter_nd", arrays, {"reduction": reduction}, draw=draw, dtypes=dtypes)
        arrays = [(6, 8), below(6, 4, 8) // 2, (4, 8)]
        yield Program("scatter_elements", arrays, {"reduction": reduction, "axis": 0}, draw=draw, dtypes=dtypes)
    added.pop("way")
    yield Program(
        "scatter_nd", [(9, 32), np.int32([[3], [0], [7]]), (3, 32)], way=gradient, draw=small_integers, dtypes=FLOATS
    )


SUMMED = (*FLOATS, "float8_e5m2")
REDUCTIONS = {
    **dict.fromkeys(("sum", "min", "max", "sum_square", "l1"), (small_integers, None, (*SUMMED, "int32", "int8"))),
    **dict.fromkeys(("argmax", "argmin"), (small_integers, None, (*FLOATS, "int32"))),
    **dict.fromkeys(("average", "l2", "log_sum_exp"), (small_integers, 2**16, FLOATS)),
    "multiply": (signs, None, SUMMED),
}


def small_sums():
    for function, (shape, axes) in product(REDUCTIONS, [((6, 40), (1,)), ((16, 33), (0,)), ((4, 3, 50), (0, 2))]):
        draw, units, dtypes = REDUCTIONS[function]
        axes = axes[:1] if function.startswith("arg") else axes
        yield Program("reduce", [shape], {"function": function, "axes": axes}, forward, draw, dtypes, units)
    for name, (shape, axis), direction, exclusive in product(
        *(
            ("summation", "product"),
            [((6, 40), 1), ((16, 33), 0), ((3, 300), 1)],
            ("increasing", "decreasing"),
            (False, True),
        )
    ):
        attributes = {"axis": axis, "direction": direction, "exclusive": exclusive}
        draw = signs if name == "product" else small_integers
        yield Program(f"cumulative_{name}", [shape], attributes, draw=draw, dtypes=FLOATS)
    softmax, of_rows = dml_jax.Activation("ACTIVATION_SOFTMAX"), dml_jax.Activation("ACTIVATION_SOFTMAX1", ((0,),))
    for activation, shape, way in product((softmax, of_rows), [(6, 40), (3, 700)], (forward, gradient)):
        yield Program("activate", [shape], {"activation": activation}, way, small_integers, FLOATS, 2**16)
    for (shape, axis), k, direction in product(
        [((6, 40), 1), ((64, 5), 0), ((3, 700), 1)], (1, 3), ("increasing", "decreasing")
    ):
        yield Program(
            "top_k",
            [shape],
            {"axis": axis, "k": k, "direction": direction},
            dtypes=("int32", *FLOATS),
            draw=small_integers,
        )
    for shape in ((6, 8), (70, 33), (200,)):
        yield Program("nonzero_coordinates", [shape], draw=small_integers)


WINDOWS = [({"window_sizes": (2, 2)}, (2, 4, 8, 8)), ({"window_sizes": (3, 3), "strides": (2, 2)}, (2, 3, 9, 11))]
WINDOWS += [({"window_sizes": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1), "strides": (1, 1)}, (1, 4, 7, 8))]


def small_windows():
    added = {"draw": small_integers, "dtypes": FLOATS}
    for (window, shape), way in product(WINDOWS, (forward, gradient)):
        for operator in ("max_pooling", "average_pooling", "unfold"):
            yield Program(operator, [shape], {"strides": window["window_sizes"]} | window, way, units=2**16, **added)
    for b, way in product((2, 14), (forward, gradient)):
        attributes = {"window_sizes": (b, b), "strides": (b, b)}
        yield Program("unfold", [(2, 3, 4 * b, 4 * b)], attributes, way, **added)
        yield Program("fold", [(2, 3 * b * b, 16)], attributes | {"output_sizes": (4 * b, 4 * b)}, way, **added)
    yield Program("fold", [(2, 3 * 9, 36)], {"output_sizes": (8, 8), "window_sizes": (3, 3)}, **added)
    for (attributes, c), way in product(
        *(
            [({}, 3), ({"strides": (2, 2)}, 3), ({"group_count": 4}, 1), ({"direction": "backward"}, 4)],
            (forward, gradient),
        )
    ):
        yield Program("convolution", [(2, 3 if c == 3 else 4, 9, 9), (4, c, 3, 3)], attributes, way, **added)
    for operator, attributes in {
        "local_response_normalization": {"local_size": 3},
        "resample": {"sizes": (2, 3, 10, 9), "scales": (1, 1, 2, 1.5), "mode": "linear"},
        "max_unpooling": {"output_sizes": (2, 3, 9, 9)},
    }.items():
        at = [RNG.permutation(81)[:30].reshape(1, 1, 5, 6).repeat(2, 0).repeat(3, 1).astype(np.uint32)]
        arrays = [(2, 3, 5, 6), *(at if operator == "max_unpooling" else [])]
        yield Program(operator, arrays, attributes, units=2**16, **added)


# Large calls, of shapes alone.


def large_blocks():
    for c in (3, 1, 2, 16, 64):
        yield from blocks(lambda b, c=c: (4, c, 32, 64), (2, 3, 4, 5, 7, 8, 14))


LARGE_PERMUTED = [
    *[((8192, 32, 128), (1, 0, 2)), ((4096, 1024), (1, 0)), ((64, 196, 768), (0, 2, 1)), ((32000, 512), (1, 0))],
    *[((4096, 12, 20), (1, 0, 2)), ((64, 64, 1024), (2, 1, 0)), ((8, 224, 224, 3), (0, 3, 1, 2)), ((5, 2**16), (1, 0))],
    *[((8, 3, 224, 224), (0, 2, 3, 1)), ((64, 56, 56, 64), (0, 3, 1, 2)), ((2**16, 5), (1, 0)), ((4000, 4001), (1, 0))],
    *[((64, 28, 28, 9), (0, 3, 1, 2)), ((64, 64, 28, 28), (0, 2, 3, 1)), ((8, 56, 56, 12), (0, 3, 1, 2))],
    *[((20, 30, 50, 64), (3, 2, 1, 0)), ((20, 30, 50, 64), (1, 2, 0, 3)), ((64, 8, 7, 8, 7, 48), (0, 1, 3, 2, 4, 5))],
    *[((2**20, 12), (1, 0)), ((12, 2**20), (1, 0)), ((4096, 32), (1, 0)), ((512, 1024, 7), (1, 0, 2))],
]


def large_views():
    for shape, order in LARGE_PERMUTED:
        yield permuted(shape, order)
    for rows, row, gap in product((2000, 4096), (64, 256), (0, 1, 4)):
        yield view((rows, row), (row + gap, 1), size=rows * (row + gap))
        yield view((rows, row), (row + gap, 1), size=rows * (row + gap), way=gradient)
    for size in (64, 65, 2**16 + 1):
        yield view((4096, 64), (0, 1), size=size)
    yield view((4096, 64, 9), (64, 1, 64), size=2**19, way=gradient)


def large_reads():
    for width, rows, count in product((3, 8, 12, 16, 24, 32, 48, 64, 128, 1024), (2**10, 2**21), (2**12, 2**21)):
        yield Program("gather", [(rows, width), ids(count)], {"axis": 0})
    for mode, columns in product(("clip", "fill"), (16, 64, 512, 8192)):
        yield Program("gather", [(4096, columns), ids(columns)], {"axis": 1, "mode": mode})
    for length, rest, axis in product((8, 512, 1024, 8192, 32768), (3, 64, 8192), (0, 1)):
        shape = (length, rest) if axis == 0 else (rest, length)
        yield Program("gather_elements", [shape, ids(*shape)], {"axis": axis})
    yield Program("gather_nd", [(512, 512, 64), ids(4096, 2)])
    yield Program("gather_nd", [(64, 512, 64), ids(64, 256, 1)], {"batch_dims": 1})
    yield Program("reverse_subsequences", [(512, 4096), ids(512, 1)], {"axis": 1})


def large_writes():
    for width, count in product((7, 64, 256), (1, 512, 4096)):
        for mode, unique in (("drop", False), ("clip", True)):
            attributes = {"mode": mode, "unique_indices": unique}
            yield Program("scatter_nd", [(4096, width), ids(count, 1), (count, width)], attributes)
        yield Program("scatter_elements", [(4096, width), ids(count, width), (count, width)], {"axis": 0})
    for strides in ((64, 1), (1, 512)):
        yield Program("as_strided_scatter", [(2**18,), (512, 64)], {"strides": strides})


def large_moves():
    pictures = [(8, 3, 224, 224), (64, 64, 60), (8, 64, 112, 101), (147, 1, 224, 255), (2000, 120)]
    for shape, mode, (start, end) in product(pictures, ("constant", "edge", "reflection"), ((3, 3), (4, 4), (1, 0))):
        here = {"start_padding": (*[0] * (len(shape) - 1), start), "end_padding": (*[0] * (len(shape) - 1), end)}
        yield Program("pad", [shape], {"mode": mode, **here})
        both = {"start_padding": (*[0] * (len(shape) - 2), start, 1), "end_padding": (*[0] * (len(shape) - 2), end, 1)}
        yield Program("pad", [shape], {"mode": mode, **both})
    for shape in pictures:
        rank, names = len(shape), ("input_window_offsets", "input_window_sizes", "input_window_strides")
        for cut, step in product((1, 3), (1, 2, -1)):
            window = (cut,) * rank if shape[1] > 4 else (0, 0, cut, cut), shape, (*[1] * (rank - 1), step)
            sizes = tuple(n - 2 * at for n, at in zip(shape, window[0], strict=True))
            yield Program("slice", [shape], dict(zip(names, (window[0], sizes, window[2]), strict=True)))
        for axis in range(rank):
            repeats = tuple(2 if d == axis else 1 for d in range(rank))
            yield Program("tile", [shape], {"repeats": repeats})
            yield Program("join", [shape, shape], {"axis": axis})
            part = tuple(max(1, n // 8) if d == axis else n for d, n in enumerate(shape))
            yield Program("join", [shape, part], {"axis": axis})
            if shape[axis] > 8:
                sizes = (4, shape[axis] - 4)
                yield Program("split", [shape], {"axis": axis, "sizes": sizes})
    for shape, repeats in product([(2**14, 128), (64, 120), (1, 2**16)], [(8, 1), (7, 1), (1, 8), (2, 2)]):
        yield Program("tile", [shape], {"repeats": repeats})
    for sizes, dtype in product([(2**20,), (64, 4096), (1001, 1001)], SIZES):
        attributes = {"sizes": sizes, "value": 1, "dtype": jnp.dtype(dtype)}
        yield Program("fill_value_constant", [], attributes, dtypes=(dtype,))
    for shape, size in product([(4096, 1), (8, 1, 4096), (1, 2**16)], (8, 1000)):
        yield Program(
            "one_hot",
            [ids(*shape), (2,)],
            {"size": size, "axis": 1 if len(shape) > 2 else len(shape) - 1 and shape.index(1)},
        )
    for scale in ((3, 2), (2, 2)):
        yield Program("upsample_2d", [(8, 3, 112, 101)], {"scale_size": scale})
    yield Program("fill_diagonals", [(1001, 1001)], {"begin": 0, "end": 1, "value": 0})


def large_gradients():
    """Rows, their width, and the number of indices; elements; labels."""
    flown = {"way": gradient, "dtypes": FLOATS}
    tables = [
        (128256, 1024, 65536),
        (1000000, 64, 1000000),
        (64, 1024, 65536),
        (10000, 1, 4000000),
        (1000, 128, 125000),
    ]
    tables += [(16384, 2048, 16384), (16384, 2048, 8192), (8192, 4096, 8192), (2048, 2048, 2048), (32000, 1024, 4096)]
    tables += [(1000000, 16, 1000000), (67109, 100, 671089), (1000, 1024, 20000), (8192, 16, 2**20)]
    for (rows, width, count), promise in product(tables, ({}, {"unique_indices": True})):
        yield Program("gather", [(rows, width), ids(count)], {"axis": 0, **promise}, **flown)
    for shape, axis in product([(2048, 8192), (8192, 2048), (64, 131072), (256, 128256)], (0, 1)):
        yield Program("gather_elements", [shape, ids(*shape)], {"axis": axis}, **flown)
    yield Program("gather_elements", [(4096, 50257), ids(4096, 1)], {"axis": 1}, **flown)
    yield Program("gather_nd", [(64, 512, 64), ids(64, 256, 1)], {"batch_dims": 1}, **flown)
    for reduction, count, dtypes in product(
        ("add", "min", "max", "mul"), (8, 4096, 2**18), (("int8", "uint16"), FLOATS)
    ):
        arrays = [(4096, 64), ids(count, 1), (count, 64)]
        yield Program("scatter_nd", arrays, {"reduction": reduction}, dtypes=dtypes)
    for count in (64, 4096):
        yield Program("scatter_nd", [(4096, 256), ids(count, 1), (count, 256)], dtypes=FLOATS, way=gradient)


def large_sums():
    shapes = [((4096, 1024), 1), ((16, 2**18), 0), ((2**16, 64), 1), ((2048, 1000), 1), ((2**18, 16), 0)]
    for (shape, axis), (function, (_, _, dtypes)) in product(shapes, REDUCTIONS.items()):
        yield Program("reduce", [shape], {"function": function, "axes": (axis,)}, dtypes=dtypes)
    for (shape, axis), name, direction in product(shapes, ("summation", "product"), ("increasing", "decreasing")):
        yield Program(f"cumulative_{name}", [shape], {"axis": axis, "direction": direction}, dtypes=FLOATS)
    for (shape, axis), way in product(shapes, (forward, gradient)):
        activation = dml_jax.Activation("ACTIVATION_SOFTMAX1", ((axis,),))
        yield Program("activate", [shape], {"activation": activation}, way, dtypes=SUMMED)
        yield Program("activate", [shape], {"activation": dml_jax.Activation("ACTIVATION_SOFTMAX")}, way, dtypes=SUMMED)
    for (shape, axis), k in product([*shapes, ((64, 2**17), 1)], (1, 8, 16)):
        yield Program("top_k", [shape], {"axis": axis, "k": k}, dtypes=("int32", *FLOATS))
    for shape in ((2**20,), (1000, 1001), (64, 64, 512)):
        yield Program("nonzero_coordinates", [shape])


def large_windows():
    pictures = [(8, 64, 56, 56), (8, 3, 224, 224), (1, 16, 512, 500)]
    for operator, shape, b, stride, way in product(
        *(("max_pooling", "average_pooling", "unfold"), pictures, (2, 3, 14), (1, 2, 14), (forward, gradient))
    ):
        yield Program(operator, [shape], {"window_sizes": (b, b), "strides": (stride, stride)}, way, dtypes=FLOATS)
    for b, side, way in product((2, 3, 14), (28, 32), (forward, gradient)):
        attributes = {"window_sizes": (b, b), "strides": (b, b), "output_sizes": (b * side, b * side)}
        yield Program("fold", [(4, 3 * b * b, side * side)], attributes, way, dtypes=FLOATS)
    for c, filters, b, more, way in product(
        (3, 64), (16, 64), (1, 3, 7), ({}, {"strides": (2, 2)}), (forward, gradient)
    ):
        yield Program("convolution", [(8, c, 56, 56), (filters, c, b, b)], more, way, dtypes=FLOATS)
    for way in (forward, gradient):
        yield Program("convolution", [(8, 64, 56, 56), (64, 1, 3, 3)], {"group_count": 64}, way, dtypes=FLOATS)
        yield Program("convolution", [(8, 64, 28, 28), (64, 16, 3, 3)], {"direction": "backward"}, way, dtypes=FLOATS)
        yield Program("local_response_normalization", [(8, 64, 56, 56)], {"local_size": 5}, way, dtypes=FLOATS)
        attributes = {"sizes": (8, 3, 300, 300), "scales": (1, 1, 1.5, 1.5), "mode": "linear"}
        yield Program("resample", [(8, 3, 200, 200)], attributes, way, dtypes=FLOATS)


# What every test asks for.


KINDS = ("blocks", "views", "reads", "writes", "moves", "gradients", "sums", "windows")


def calls_of(size, *, every_dtype=False):
    """The "small" or the "large" calls, in an order that mixes them.

    Args:
      size: of which functions here are called.
      every_dtype: whether each program has all its types, or one of them.
    """
    calls, programs = [], [program for kind in KINDS for program in globals()[f"{size}_{kind}"]()]
    for number, program in enumerate(programs):
        dtypes = program.dtypes if every_dtype else [program.dtypes[number % len(program.dtypes)]]
        calls += [program.call(dtype, is_large=size == "large") for dtype in dtypes]
    random.Random(0).shuffle(calls)
    return calls


def lowered(call, platform=None):
    """The program of a call, for a platform or for that at hand."""
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in call.arrays]
    with jax.enable_x64(call.is_wide):
        traced = jax.jit(lambda *arrays: call.function(*arrays)).trace(*shapes)
        return traced.lower(lowering_platforms=(platform,)) if platform else traced.lower()


def choices_in(call, platform=None):
    """What is chosen while a call is lowered."""
    with select.watch_choices() as seen:
        lowered(call, platform)
    return seen


PROBE = "probe"


@cache
def calls_by_operation():
    """The small calls of each operation, by what chooses in them if every operation had a variant."""
    found = {}
    probe = lambda operation: [select.Variant(PROBE, operation, "any", lambda case: case.plain, lambda case: True)]  # noqa: E731
    with patch.multiple(select, _variants=probe, _platforms=lambda operation: ["any"]), forcing(PROBE):
        for call in calls_of("small"):
            for operation in {choice.operation for choice in choices_in(call)}:
                found.setdefault(operation, []).append(call)
    return found


def running(operation, name, most=None):
    """Small calls that run a variant where it is forced, `most` of them at most."""
    found = []
    for call in calls_by_operation().get(operation, ()):
        with select.use_form(name):
            if any(choice[0] == operation and choice[2] == name for choice in choices_in(call)):
                found.append(call)
        if len(found) == most:
            break
    return found
