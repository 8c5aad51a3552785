"""Folding of quantised networks: operators between DequantizeLinear and QuantizeLinear compute in integers.

DequantizeLinear makes a `Quantized`. Products multiply its integers, what moves data moves them, and QuantizeLinear by
the same scale returns them. To any other operator it is the array of floats that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.structs.struct_rules import right_aligned
from ..operations.convolution_sums import sum_convolution
from ..operations.values.accumulation_types import narrow_apart
from ..operators._integer_convolution import are_few_slices, convolve_integers
from ..operators._quantization import multiply_integers
from .byte_functions import BYTES, ELEMENTWISE, ByteFunction, as_byte_function
from .convolution import check_bias, filter_windows
from .deferred import Row, Rows, plain
from .dequantized import Dequantized
from .matmul import broadcast_term
from .packed_weights import BlockQuantized, multiply_block_quantized
from .quantize_linear import aligned, blocks_of, floats_of, quantization_of, target_of
from .values import Array, on_device

Keywords = Mapping[str, Any]
# Products of bytes that differ from their zero points by 255 at most, and fit int32 when they are summed.
_MOST_PRODUCTS = 2**31 // 255**2
# Scales by which q * scale / scale is q again, and that keep order.
_ORDINARY = (1e-30, 1e30)


class Quantized(Dequantized):
    """Dequantised floats, whose scale broadcasts to the integers."""

    def compute(self) -> Array:
        return floats_of(self.q, self.scale, self.zero_point, self.kind)

    @property
    def is_uniform(self) -> bool:
        """Whether the scale is one number, which is known and ordinary."""
        low, high = _ORDINARY
        return isinstance(self.scale, np.ndarray) and self.scale.ndim == 0 and bool(low < self.scale < high)

    def is_constant_along(self, axis: int) -> bool:
        """Whether the scale and the zero point are the same along an axis."""
        return self.scale.ndim == 0 or self.scale.shape[axis] == 1

    @property
    def by_bytes(self) -> ByteFunction | None:
        """The floats as a function of the bytes behind them; None if these, the scale or the zero point vary."""
        q, scale, zero_point = as_byte_function(self.integers), self.scale, self.zero_point
        if q is None or not _are_numbers(scale, zero_point):
            return None
        return q.after(lambda x: floats_of(q.function(x), scale, zero_point, self.kind), self.kind)

    def has(self, scale: Array, zero_point: Array | None, dtype: Any) -> bool:
        """Whether it has exactly this scale and zero point, known at compile time."""
        return self.integers.dtype == dtype and _is_same(self.scale, scale) and _is_same(self.zero_point, zero_point)


def _are_numbers(*parameters: Array | None) -> bool:
    """Whether a scale and a zero point are known, and the same for all elements."""
    return all(x is None or (isinstance(x, np.ndarray) and x.ndim == 0) for x in parameters)


def _is_same(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape and bool((a == b).all())


def _dequantize(_: Callable[..., Any], keywords: Keywords) -> Any:
    x, is_blocked = keywords["x"], keywords["x"].ndim == 2 and keywords.get("block_size", 0) > 0
    x = x if isinstance(x, ByteFunction) and not is_blocked else plain(x)
    given: dict[str, Any] = {name: plain(value) for name, value in keywords.items() if name != "x"} | {"x": x}
    if is_blocked:
        scale, zero_point, axis, kind = blocks_of(**given)
        block_size = x.shape[axis] if scale.shape[axis] == 1 else given["block_size"]  # which may be far more
        return BlockQuantized(x, scale, zero_point, kind, axis, block_size)
    return Quantized(x, *quantization_of(**given))


def _quantize(function: Callable[..., Any], keywords: Keywords) -> Any:
    """QuantizeLinear; by the input's own scale it returns the integers unchanged."""
    given = {name: plain(value) for name, value in keywords.items() if name != "x"}
    x, scale, zero_point = keywords["x"], given["y_scale"], given.get("y_zero_point")
    made = as_byte_function(x)
    if made is None:
        return None
    target = target_of(zero_point, given.get("output_dtype", 0))
    parameters = aligned(made.source, scale, zero_point, given.get("axis", 1), given.get("block_size", 0))
    if isinstance(x, Quantized) and x.is_uniform and x.has(*parameters, target):
        return x.integers
    if target not in BYTES or not _are_numbers(*parameters):
        return None
    return made.after(lambda q: function(**given, x=made.function(q)), target, steps=1)


def _on_integers(data: str) -> Row:
    """Returns the rule of an operator that moves elements or takes maxima: it works on the integers."""

    def row(function: Callable[..., Any], keywords: Keywords) -> Any:
        given = keywords[data]
        several = given if isinstance(given, tuple) else (given,)
        first = several[0]
        for operand in several:
            if not isinstance(operand, Quantized) or not operand.is_uniform or operand.q.dtype not in BYTES:
                return None
            if not operand.has(first.scale, first.zero_point, first.q.dtype) or operand.kind != first.kind:
                return None
        integers = tuple(operand.q for operand in several) if isinstance(given, tuple) else first.q
        rest = {name: plain(value) for name, value in keywords.items() if name != data}
        results = function(**rest, **{data: integers})
        if isinstance(results, tuple):
            return tuple(replace(first, integers=y) if y.dtype == first.q.dtype else y for y in results)
        return replace(first, integers=results)

    return row


def _are_bytes(a: Any, b: Any) -> bool:
    """Whether the integers of both can be multiplied in place of the floats."""
    return all(isinstance(operand, Quantized) and operand.q.dtype in BYTES for operand in (a, b)) and a.kind == b.kind


def _product(a: Quantized, b: Quantized) -> jax.Array | None:
    """Returns a matrix product in float32, exact but for the scales; None if operands are not bytes."""
    is_product = min(a.ndim, b.ndim) >= 2 and a.shape[-1] == b.shape[-2] <= _MOST_PRODUCTS
    if not is_product or not a.is_constant_along(-1) or not b.is_constant_along(-2):
        return None
    operands: list[Any] = [a.q, a.zero_point, b.q, b.zero_point]
    sums = multiply_integers(*operands)
    scales = (scale.reshape(right_aligned(scale.shape, sums.ndim)) for scale in (a.scale, b.scale))
    return _scale_sums(sums, *scales)


def _scale_sums(sums: jax.Array, *scales: Any) -> jax.Array:
    a, b = (scale.astype(np.float32) for scale in scales)
    return sums.astype(jnp.float32) * (a * b)


def _matmul(_: Callable[..., Any], keywords: Keywords) -> Any:
    a, b = keywords["a"], keywords["b"]
    if isinstance(b, BlockQuantized):
        product = multiply_block_quantized(plain(a), b)
    else:
        product = _product(a, b) if _are_bytes(a, b) else None
    return None if product is None else narrow_apart(product, b.kind)


def _gemm(_: Callable[..., Any], keywords: Keywords) -> Any:
    a, b, c = keywords["a"], keywords["b"], plain(keywords.get("c"))
    if a.ndim != 2 or b.ndim != 2:
        return None
    if isinstance(b, BlockQuantized):
        a = plain(a).T if keywords["transA"] else plain(a)
        product = multiply_block_quantized(a, b.transposed if keywords["transB"] else b)
    elif _are_bytes(a, b):
        product = _product(*(x.transposed if keywords[f"trans{n}"] else x for n, x in (("A", a), ("B", b))))
    else:
        return None
    if product is None:
        return None
    total = product * np.float32(keywords["alpha"])
    if c is not None:
        added = broadcast_term(c, (product.shape[0], product.shape[1]), keywords.get("broadcast", 1))
        total = total + on_device(added).astype(jnp.float32) * np.float32(keywords["beta"])
    return narrow_apart(total, b.kind)


def _transpose(function: Callable[..., Any], keywords: Keywords) -> Any:
    data = keywords["data"]
    if not isinstance(data, BlockQuantized):
        return _on_integers("data")(function, keywords)
    return data.transposed if list(keywords.get("perm", (1, 0))) == [1, 0] else data


def _conv(_: Callable[..., Any], keywords: Keywords) -> Any:
    given = {"group": 1, **keywords}
    x, w, b, group = given.pop("x"), given.pop("w"), plain(given.pop("b", None)), given["group"]
    if not _are_bytes(x, w) or x.scale.ndim or prod(w.shape[1:]) > _MOST_PRODUCTS:
        return None
    if not all(map(w.is_constant_along, range(1, w.ndim))):
        return None
    windows = filter_windows(x.q, w.q, **given)
    is_depthwise = group > 1 and w.shape[1] == 1
    if is_depthwise and not are_few_slices(windows, w.shape[0] // group):
        return None  # products of vectors, which are faster in floats
    check_bias(b, w.shape[0])
    in_integers = partial(_convolve, windows=windows, group=group)
    sums = sum_convolution(in_integers, x.q, x.zero_point, w.q, w.zero_point, windows, group)
    total = _scale_sums(sums, x.scale, _by_channel(w.scale))
    if b is not None:
        total = total + on_device(b).astype(jnp.float32).reshape((1, -1, *(1,) * len(windows)))
    return narrow_apart(total, x.kind)


def _convolve(x: Any, zero_of_x: Any, w: Any, zero_of_w: Any, *, windows: Any, group: int) -> jax.Array:
    return convolve_integers(x, zero_of_x, w, _by_channel(zero_of_w), windows, group)


def _by_channel(of_filters: Any) -> Any:
    """A scale or zero point of each filter, as those of the channels of the output."""
    return of_filters if of_filters is None or not of_filters.ndim else of_filters.swapaxes(0, 1)


_MOVED = {
    **dict.fromkeys(("Flatten", "Identity", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Split"), "input"),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Slice"), "data"),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), "data"),
    **dict.fromkeys(("MaxPool", "GlobalMaxPool"), "x"),
    "Concat": "inputs",
}
FOLDED: Rows = {
    **ELEMENTWISE,
    "DequantizeLinear": _dequantize,
    "com.microsoft::DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
    "com.microsoft::QuantizeLinear": _quantize,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    **{name: _on_integers(data) for name, data in _MOVED.items()},
    "Transpose": _transpose,
}
