"""Random programs of the operators, for `benchmarks.variants`: shapes, types and indices that nobody tuned for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax import Activation
from dml_jax.bench.case import data

__all__ = ["GROUPS", "Draws", "Program"]


@dataclass(frozen=True)
class Program:
    """A call of one operator, or of its gradient.

    Args:
      name: for people.
      call: of a package that has the operators, and the arrays.
      arrays: real data.
      read: bytes that it needs of the arrays.
      tolerance: how far results may be apart, as a part of the greatest; 0 for no bit.
    """

    name: str
    call: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    read: int
    tolerance: float = 0.0


class Draws:
    """Random choices, of a seed, and arrays of about `size` bytes."""

    def __init__(self, seed: int, size: int):
        self.random, self.size = np.random.default_rng(seed), size

    def pick(self, *values: Any) -> Any:
        return values[self.random.integers(len(values))]

    def between(self, least: int, most: int) -> int:
        """An integer, of each order of magnitude as often; half of those from 16 on are multiples of 4."""
        drawn = round(least * (most / least) ** self.random.random())
        return drawn // 4 * 4 if drawn >= 16 and self.pick(False, True) else drawn

    def dtype(self) -> Any:
        kinds = {1: ("uint8", "int8"), 2: ("bfloat16", "float16", "int16"), 4: ("float32", "int32")}
        return jnp.dtype(self.pick(*kinds[self.pick(1, 2, 2, 4)]))

    def float(self) -> Any:
        return jnp.dtype(self.pick("float32", "bfloat16", "bfloat16", "float16"))

    def many(self, count: int, least: int, most: int) -> list[int]:
        return [self.between(least, most) for _ in range(count)]

    def fitted(self, dtype: Any, *sizes: int, parts: int = 1) -> tuple[int, ...]:
        """These sizes, behind a first one that fills the memory; the largest is halved until they do not overfill it.

        Args:
          dtype: of the elements.
          sizes: of dimensions.
          parts: how many elements each has of those that are counted.
        """
        smaller, limit = list(sizes), self.size // (dtype.itemsize * parts)
        while prod(smaller) > max(1, limit):
            smaller[int(np.argmax(smaller))] //= 2
        return max(1, limit // prod(smaller)), *smaller

    def matrix(self, dtype: Any) -> tuple[int, int]:
        """Few long rows, many short ones, or as many columns."""
        rows, columns = self.fitted(dtype, self.between(8, 32768))
        return (columns, rows) if self.pick(False, False, True) else (rows, columns)

    def few_signs(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """Zeros, and few ones of both signs: every type holds their sums, which are exact in any order."""
        drawn = self.random.integers(0, 256, shape, np.uint8)
        return ((drawn == 0).astype(np.int8) - (drawn == 1)).astype(dtype)

    def indices(self, count: int, shape: tuple[int, ...], axis: int = 0) -> np.ndarray:
        """Below `count`: uniform, as words of a language, sorted, or a permutation."""
        kind = self.pick("uniform", "Zipf", "sorted", "permutation")
        if kind == "permutation":
            return np.resize(self.random.permutation(count), shape).astype(np.int32)
        drawn = self.random.zipf(1.2, shape) - 1 if kind == "Zipf" else self.random.integers(0, count, shape)
        found = np.minimum(drawn, count - 1).astype(np.int32)
        return np.sort(found, axis) if kind == "sorted" else found


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _program(
    operator: str,
    attributes: Mapping[str, Any],
    arrays: Sequence[np.ndarray],
    way: Callable[..., Any] = _forward,
    read: int | None = None,
    tolerance: float = 0.0,
) -> Program:
    """`way` takes the function of all arrays, and makes what is called of it."""

    def call(package: Any, *arrays: Any) -> Any:
        function = partial(getattr(package, operator), **attributes)
        return way((lambda *arrays: function(arrays)) if operator == "join" else function)(*arrays)

    given = " ".join(f"{name}={value}" for name, value in attributes.items())
    shapes = " ".join(f"{array.dtype}{[*array.shape]}" for array in arrays)
    of = "" if way is _forward else "gradient of "
    return Program(f"{of}{operator} {given}: {shapes}", call, arrays, read or _bytes(arrays), tolerance)


def _bytes(arrays: Sequence[np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays)


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """What flows back to all arrays from the result itself."""

    def pulled_back(*arrays: Any) -> Any:
        result, pull_back = jax.vjp(function, *arrays)
        return pull_back(result)

    return pulled_back


def _read_gradient(shape: Sequence[int]) -> Callable[..., Any]:
    """Of a read of a table of this shape: what flows back to it from updates."""

    def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
        def pulled_back(updates: jax.Array, indices: jax.Array) -> jax.Array:
            table = jnp.zeros(shape, updates.dtype)
            return jax.vjp(lambda table: function(table, indices), table)[1](updates)[0]

        return pulled_back

    return gradient


# Groups.


def _blocks(draws: Draws) -> Program:
    b, dtype = draws.pick(2, 2, 2, 3, 4, 4, 5, 6, 7, 8, 10, 12, 14, 16), draws.dtype()
    order, layout, to = draws.pick("DCR", "CRD"), draws.pick("NCHW", "NHWC"), draws.pick("space", "depth")
    sizes = draws.between(1, 128), draws.between(14, 180), draws.between(14, 480)
    n, c, h, w = draws.fitted(dtype, *sizes, parts=b * b)
    dims = (c * b * b, h, w) if to == "space" else (c, h * b, w * b)
    shape = (n, *dims) if layout == "NCHW" else (n, *dims[1:], dims[0])
    operator = "depth_to_space" if to == "space" else "space_to_depth"
    return _program(operator, {"block_size": b, "order": order, "data_format": layout}, [data(shape, dtype)])


def _views(draws: Draws) -> Program:
    """Permuted dimensions, or of each row all but a few elements."""
    dtype, rank = draws.dtype(), draws.pick(2, 2, 3, 3, 4, 5)
    shape = [int(n) for n in draws.random.permutation(draws.fitted(dtype, *draws.many(rank - 1, 2, 1024)))]
    order, left_out = draws.random.permutation(rank).tolist(), 0
    if draws.pick(*[False] * 4, True):
        order, left_out = range(rank), draws.pick(1, 2, 4)
    sizes = [max(1, shape[d] - left_out * (d == rank - 1)) for d in order]
    attributes = {"sizes": sizes, "strides": [prod(shape[d + 1 :]) for d in order]}
    return _program("as_strided", attributes, [data((prod(shape),), dtype)], read=prod(sizes) * dtype.itemsize)


def _rows(draws: Draws) -> Program:
    dtype, width = draws.dtype(), draws.between(1, 8192)
    count = min(2**24, max(16, draws.size // (width * dtype.itemsize)))
    table = max(16, int(count * draws.pick(0.02, 0.25, 1, 2)))
    at = draws.indices(table, (count,))
    read = count * width * dtype.itemsize + at.nbytes
    return _program("gather", {"axis": 0}, [data((table, width), dtype), at], read=read)


def _elements(draws: Draws) -> Program:
    dtype = draws.dtype()
    shape, axis = draws.matrix(dtype), draws.pick(0, 1, 1)
    at = draws.indices(shape[axis], shape, axis)
    return _program("gather_elements", {"axis": axis}, [data(shape, dtype), at])


def _gradients(draws: Draws) -> Program:
    dtype = draws.float()
    if draws.pick(True, True, False):
        width = draws.between(4, 4096)
        count = max(16, draws.size // (width * dtype.itemsize))
        table = max(16, int(count * draws.pick(0.01, 0.1, 1, 2, 4)))
        arrays = draws.few_signs((count, width), dtype), draws.indices(table, (count,))
        return _program("gather", {"axis": 0}, arrays, _read_gradient((table, width)))
    shape, axis = draws.matrix(dtype), draws.pick(0, 1)
    arrays = draws.few_signs(shape, dtype), draws.indices(shape[axis], shape, axis)
    return _program("gather_elements", {"axis": axis}, arrays, _read_gradient(shape))


def _narrow(draws: Draws) -> Program:
    dtype = draws.dtype()
    shape = draws.fitted(dtype, draws.between(1, 64), draws.between(30, 224), draws.between(17, 1000))
    _, _, h, w = shape
    array, axis = data(shape, dtype), draws.pick(0, 1, 2, 3)
    operator = draws.pick("pad", "slice", "tile", "join", "split")
    if operator == "join":
        return _program("join", {"axis": axis}, [array, array])
    if operator == "split":
        axis, size = draws.pick((2, h), (3, w))
        return _program("split", {"axis": axis, "sizes": (size // 3, size - size // 3)}, [array])
    if operator == "tile":
        repeats = [1 + (d == axis) * draws.pick(1, 1, 3) for d in range(4)]
        return _program("tile", {"repeats": repeats}, [array])
    if operator == "pad":
        borders = {
            side: (0, 0, draws.pick(0, 1, 3), draws.pick(1, 2, 3, 4)) for side in ("start_padding", "end_padding")
        }
        return _program("pad", {**borders, "mode": draws.pick("constant", "edge", "reflection")}, [array])
    starts, step = (0, 0, draws.pick(0, 1, 4), draws.pick(0, 1, 3, 4)), draws.pick(1, 1, 2, -1)
    sizes = (*shape[:2], h - 2 * starts[2], w - 2 * starts[3])
    window = {"input_window_offsets": starts, "input_window_sizes": sizes, "input_window_strides": (1, 1, 1, step)}
    return _program("slice", window, [array], read=array.nbytes // abs(step))


def _reductions(draws: Draws) -> Program:
    dtype = draws.float()
    shape, axis = draws.matrix(dtype), draws.pick(0, 1, 1)
    array, operator = draws.few_signs(shape, dtype), draws.pick("reduce", "cumulative_summation", "activate", "top_k")
    if operator == "reduce":
        function = draws.pick("sum", "average", "max", "argmax", "sum_square", "log_sum_exp")
        tolerance = 2**-6 if function in ("average", "log_sum_exp") else 0.0
        return _program("reduce", {"function": function, "axes": (axis,)}, [array], tolerance=tolerance)
    if operator == "activate":
        way = draws.pick(_forward, _gradient)
        attributes = {"activation": Activation("ACTIVATION_SOFTMAX1", ((axis,),))}
        return _program("activate", attributes, [array], way, tolerance=2**-6)
    if operator == "top_k":
        return _program("top_k", {"axis": axis, "k": min(shape[axis], draws.pick(1, 5, 50))}, [array])
    return _program(operator, {"axis": axis, "direction": draws.pick("increasing", "decreasing")}, [array])


def _windows(draws: Draws) -> Program:
    dtype, side, way = draws.float(), draws.pick(1, 2, 3, 3, 5, 7), draws.pick(_forward, _gradient)
    shape = draws.fitted(dtype, draws.between(1, 128), draws.between(14, 224), draws.between(14, 224))
    attributes = {"window_sizes": (side, side), "strides": (draws.pick(1, 2, side),) * 2}
    operator = draws.pick("max_pooling", "average_pooling", "unfold", "convolution")
    arrays = [draws.few_signs(shape, dtype)]
    if operator == "convolution":  # of a sixteenth, as every element is multiplied many times
        arrays = [arrays[0][: -(-shape[0] // 16)], draws.few_signs((draws.between(1, 64), shape[1], side, side), dtype)]
        attributes = {"strides": attributes["strides"]}
    return _program(operator, attributes, arrays, way, tolerance=2**-6)


GROUPS: Mapping[str, Callable[[Draws], Program]] = {
    "blocks": _blocks,
    "views": _views,
    "rows": _rows,
    "elements": _elements,
    "gradients": _gradients,
    "narrow": _narrow,
    "reductions": _reductions,
    "windows": _windows,
}
