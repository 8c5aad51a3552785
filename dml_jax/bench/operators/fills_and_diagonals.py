"""Fills, sequences, random bits, diagonal matrices and triangles."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isqrt
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Drawn, batch_of, data, mib
from .operator_benchmark import Attributes, OnnxNode, Operator, by_type


def _constants(size: int, itemsize: int) -> Iterator[Case]:
    dtype = DTYPES[itemsize]
    attributes = {"sizes": (size // itemsize,), "value": 7, "dtype": dtype}
    yield Case("fill_value_constant", f"{dtype} {mib(size)}", attributes)


def _constant_by_onnx(a: Attributes) -> OnnxNode:
    from onnx import numpy_helper

    value = numpy_helper.from_array(np.full((1,), a["value"], a["dtype"]))
    return OnnxNode("ConstantOfShape", {"value": value}, arrays=lambda _: (np.array(a["sizes"], np.int64),))


def _sequences(size: int, itemsize: int) -> Iterator[Case]:
    """fill_value_sequence: positions, and numbers a fraction apart. They wrap in uint8, which torch and ONNX refuse."""
    dtype, delta, tolerance = DTYPES[itemsize], 1, 0.0
    if itemsize == 4:
        delta, tolerance = 0.25, 2**-20  # products are rounded, or fused with the sum
    attributes = {"sizes": (size // itemsize,), "start": 3, "delta": delta, "dtype": dtype}
    yield Case("fill_value_sequence", f"{delta} apart {dtype} {mib(size)}", attributes, tolerance=tolerance)


def _sequence_by_numpy(a: Attributes) -> Callable[..., Any]:
    start, delta = (np.asarray(a[name], a["dtype"]) for name in ("start", "delta"))
    return lambda out: np.add(np.multiply(np.arange(out.size), delta, out=out, casting="unsafe"), start, out=out)


def _limits(a: Attributes) -> tuple[float, float, float] | None:
    start, delta = a["start"], a["delta"]
    return None if a["dtype"] == np.uint8 else (start, start + delta * a["sizes"][0], delta)


def _sequence_by_torch(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    limits = _limits(a)
    return (lambda out: torch.arange(*limits, out=out)) if limits else None


def _sequence_by_onnx(a: Attributes) -> OnnxNode | None:
    limits = _limits(a)
    made = limits and tuple(np.asarray(limit, a["dtype"]) for limit in limits)
    return OnnxNode("Range", arrays=lambda _: made) if made else None


def _bits(size: int) -> Iterator[Case]:
    """random_bits; no other library has this generator."""
    state = Drawn((6,), np.dtype(np.uint32), lambda: np.zeros(6, np.uint32))
    yield Case("random_bits", f"uint32 {mib(size)}", {"sizes": (size // 4,)}, [state])


def _units(size: int, itemsize: int) -> Iterator[Case]:
    """diagonal_matrix: the unit matrix."""
    side, dtype = isqrt(size // itemsize), DTYPES[itemsize]
    attributes = {"sizes": (side, side), "dtype": dtype, "offset": 0}
    yield Case("diagonal_matrix", f"{side}x{side} {dtype}", attributes)


def _unit_by_torch(a: Attributes, out: Any) -> None:
    out.zero_().diagonal(a["offset"]).fill_(1)


def _triangles(size: int, itemsize: int) -> Iterator[Case]:
    """fill_diagonals: what lies above the diagonal of matrices of attention, made 0."""
    side = 512 if size >= 2**21 else 64
    x = data(batch_of((side, side), size, itemsize), itemsize)
    attributes = {"begin": 1, "end": side, "value": 0}
    yield Case("fill_diagonals", f"above the main one, {x}", attributes, [x], needed=x.nbytes * 3 // 2)


OPERATORS: Mapping[str, Operator] = {
    "fill_value_constant": Operator(
        plans=by_type(_constants, (1, 2, 4)),
        jnp=lambda a: lambda: jnp.full(a["sizes"], a["value"], a["dtype"]),
        numpy=lambda a: lambda out: out.fill(a["value"]),
        torch={"fill_": lambda _, a: lambda out: out.fill_(a["value"])},
        onnx=_constant_by_onnx,
    ),
    "fill_value_sequence": Operator(
        plans=by_type(_sequences, (4, 1)),
        jnp=lambda a: (
            lambda: a["start"] + jnp.arange(*a["sizes"], dtype=a["dtype"]) * jnp.asarray(a["delta"], a["dtype"])
        ),
        numpy=_sequence_by_numpy,
        torch={"arange": _sequence_by_torch},
        onnx=_sequence_by_onnx,
    ),
    "random_bits": Operator(plans={"quick": _bits, "full": _bits}),
    "diagonal_matrix": Operator(
        plans=by_type(_units, (1, 2, 4)),
        jnp=lambda a: lambda: jnp.eye(*a["sizes"], k=a["offset"], dtype=a["dtype"]),
        numpy=lambda a: lambda out: (out.fill(0), out.reshape(-1)[a["offset"] :: len(out) + 1].fill(1)),
        torch={"fill_": lambda _, a: partial(_unit_by_torch, a)},
        onnx=lambda a: OnnxNode("EyeLike", {"k": a["offset"]}, arrays=lambda _: (np.zeros(a["sizes"], a["dtype"]),)),
    ),
    "fill_diagonals": Operator(
        plans=by_type(_triangles, (1, 2, 4)),
        jnp=lambda _: jnp.tril,
        numpy=lambda _: lambda out, x: (out.fill(0), np.copyto(out, x, where=np.tri(*x.shape[-2:], dtype=bool))),
        torch={"tril": lambda torch, _: lambda out, x: torch.tril(x, out=out)},
        onnx=lambda _: OnnxNode("Trilu", {"upper": 0}),
    ),
}
