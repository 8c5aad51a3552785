"""Reductions, cumulative sums and products, top_k, and nonzero."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Drawn, batch_of, normal
from .operator_benchmark import Attributes, OnnxNode, Operator, by_type


def _reductions(size: int, itemsize: int) -> Iterator[Case]:
    """reduce: sums and extremes of rows and columns, means of pictures, and the class that wins."""
    rows, side = (size // itemsize // 1024, 1024), 56 if size >= 2**21 else 7
    pictures = batch_of((64, side, side), size, itemsize)
    of_rows = [(function, rows, (axis,)) for function in ("sum", "max", "argmax") for axis in (1, 0)]
    for function, shape, axes in (*of_rows[:2], ("average", pictures, (2, 3)), *of_rows[2:]):
        x = normal(shape, itemsize)
        detail = f"{function}, axes {','.join(map(str, axes))} of {x}"
        tolerance = 0.0 if "max" in function else 2**-8 if itemsize == 2 else 2**-16
        yield Case("reduce", detail, {"function": function, "axes": axes}, [x], tolerance=tolerance)


def _reduced_by_jnp(a: Attributes) -> Callable[..., Any]:
    forms = {
        "sum": jnp.sum,
        "average": jnp.mean,
        "max": jnp.max,
        "argmax": lambda x, axes, keepdims: jnp.argmax(x, *axes, keepdims=keepdims).astype(np.uint32),
        "sum_square": lambda x, *how, **keep: jnp.sum(jnp.square(x.astype(np.float32)), *how, **keep).astype(x.dtype),
        "log_sum_exp": jax.nn.logsumexp,
    }
    return lambda x: forms[a["function"]](x, a["axes"], keepdims=True)


def _reduced_by_numpy(a: Attributes) -> Callable[..., Any]:
    """Halves are added as float32."""
    axes = a["axes"]
    if a["function"] == "argmax":
        return lambda out, x: np.copyto(out, np.argmax(x, axes[0], keepdims=True), casting="unsafe")
    if a["function"] == "max":
        return lambda out, x: np.max(x, axes, out=out, keepdims=True)
    function: Any = {"sum": np.sum, "average": np.mean}[a["function"]]
    return lambda out, x: np.copyto(out, function(x, axes, dtype=np.float32, keepdims=True), casting="same_kind")


def _reduced_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    forms = {
        "sum": torch.sum,
        "average": torch.mean,
        "max": torch.amax,
        "argmax": lambda x, axes, *how, **into: torch.argmax(x, *axes, *how, **into),
        "sum_square": lambda x, *how, **into: torch.sum(torch.square(x), *how, **into),
        "log_sum_exp": torch.logsumexp,
    }
    return lambda out, x: forms[a["function"]](x, a["axes"], True, out=out)


def _reduced_by_onnx(a: Attributes) -> OnnxNode:
    nodes = {"sum": "ReduceSum", "average": "ReduceMean", "max": "ReduceMax"}
    if a["function"] == "argmax":
        return OnnxNode("ArgMax", {"axis": a["axes"][0]})
    return OnnxNode(nodes[a["function"]], constants=(np.array(a["axes"], np.int64),))


# top_k: experts of a router, candidates among the words of a language, and the best boxes of a detector. What rows
# are, the numbers in each, how many are wanted, and how many rows there are at most.
_ROWS = (
    ("experts", 64, 2, 4096),
    ("experts", 64, 8, 4096),
    ("logits", 32000, 50, 64),
    ("logits", 32000, 1, 64),
    ("boxes", 8400, 300, 16),
)


def _candidates(size: int, dtype: str) -> Iterator[Case]:
    for name, n, k, most in _ROWS:
        x = _different(max(1, min(most, size // (jnp.dtype(dtype).itemsize * n))), n, dtype)
        yield Case("top_k", f"{k} of {name} {x}", {"axis": 1, "k": k}, [x])


def _different(rows: int, n: int, dtype: str) -> Drawn:
    """Rows of distinct positive numbers, shuffled."""

    def make() -> np.ndarray:
        bits = np.tile(np.arange(n, dtype=np.uint16), (rows, 1))
        np.random.default_rng(5).permuted(bits, axis=1, out=bits)
        return bits.view(jnp.bfloat16).astype(dtype)

    return Drawn((rows, n), jnp.dtype(dtype), make)


def _greatest_by_numpy(a: Attributes, outs: Any, x: np.ndarray) -> None:
    k = a["k"]
    found = np.argpartition(x, x.shape[1] - k, 1)[:, -k:]
    order = np.argsort(np.take_along_axis(x, found, 1), 1)[:, ::-1]
    np.copyto(outs[1], np.take_along_axis(found, order, 1), casting="unsafe")
    np.copyto(outs[0], np.take_along_axis(x, outs[1], 1))


def _masks(size: int, itemsize: int) -> Iterator[Case]:
    """nonzero_coordinates: masks and sparse activations, whose coordinates would have so many bytes if all were set."""
    width = 256 if size >= 2**21 else 16
    shape = batch_of((width,), size, 8)
    for part in (0.5, 0.1, 0.01):
        x = Drawn(shape, DTYPES[itemsize], partial(_set, part, shape, DTYPES[itemsize]))
        yield Case("nonzero_coordinates", f"{part:.0%} of {x}", {}, [x])


def _set(part: float, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros, and a part of ones."""
    return (np.random.default_rng(6).random(shape) < part).astype(dtype)


def _found_by_jnp(_: Attributes) -> Callable[..., Any]:
    def found(x: Any) -> Any:
        return jnp.count_nonzero(x).astype(np.uint32), jnp.argwhere(x, size=x.size, fill_value=0).astype(np.uint32)

    return found


def _found(nonzero: Callable[[Any], Any], outs: Any, x: Any) -> None:
    """nonzero in NumPy or torch, padded with zeros."""
    found = nonzero(x)
    outs[0][...] = len(found)
    outs[1][: len(found)] = found
    outs[1][len(found) :] = 0


def _cumulations(operator: str, size: int, itemsize: int) -> Iterator[Case]:
    """cumulative_summation, cumulative_product: along rows and columns of a matrix, and backwards."""
    side = isqrt(size // itemsize)
    x = normal((side, side), itemsize)
    if operator == "cumulative_product":  # of numbers near 1, so that products stay finite
        x = replace(x, make=lambda: (1 + 0.01 * normal(x.shape, 4).make()).astype(x.dtype))
    tolerance = 2**-9 if itemsize == 2 else 2**-14  # roundings of as many numbers, of which some cancel
    for axis, direction in ((1, "increasing"), (0, "increasing"), (1, "decreasing")):
        attributes = {"axis": axis, "direction": direction}
        yield Case(operator, f"axis {axis}, {direction}, of {x}", attributes, [x], tolerance=tolerance)


def _cumulated_by_jnp(function: Callable[..., Any], a: Attributes) -> Callable[..., Any]:
    """Halves are combined as float32."""
    axis = a["axis"]

    def combined(x: Any) -> Any:
        return function(x, axis, dtype=np.float32).astype(x.dtype)

    if a["direction"] == "increasing":
        return combined
    return lambda x: jnp.flip(combined(jnp.flip(x, axis)), axis)


def _cumulated_by_numpy(function: Callable[..., Any], a: Attributes, out: np.ndarray, x: np.ndarray) -> None:
    """Cumulative sums and products in NumPy: on flipped views if decreasing; float16 accumulates in float32."""
    if a["direction"] == "decreasing":
        out, x = np.flip(out, a["axis"]), np.flip(x, a["axis"])
    if out.dtype == np.float32:
        function(x, a["axis"], out=out)
    else:
        np.copyto(out, function(x, a["axis"], dtype=np.float32), casting="same_kind")


def _cumulated_by_torch(name: str, torch: Any, a: Attributes) -> Callable[..., Any]:
    function, axis = getattr(torch, name), a["axis"]
    if a["direction"] == "increasing":
        return lambda out, x: function(x, axis, out=out)
    return lambda out, x: function(x.flip(axis), axis).flip(axis)


OPERATORS: Mapping[str, Operator] = {
    "reduce": Operator(
        plans=by_type(_reductions, (2, 4)),
        jnp=_reduced_by_jnp,
        numpy=_reduced_by_numpy,
        torch={"out": _reduced_by_torch},
        onnx=_reduced_by_onnx,
    ),
    "top_k": Operator(
        plans={
            "quick": lambda size: islice(_candidates(size, "float32"), 1),
            "full": lambda size: (case for dtype in ("bfloat16", "float32") for case in _candidates(size, dtype)),
        },
        jnp=lambda a: (
            lambda x: [
                jnp.moveaxis(found, -1, a["axis"]) for found in jax.lax.top_k(jnp.moveaxis(x, a["axis"], -1), a["k"])
            ]
        ),
        numpy=lambda a: partial(_greatest_by_numpy, a),
        torch={"topk": lambda torch, a: lambda outs, x: torch.topk(x, a["k"], a["axis"], out=outs)},
        onnx=lambda a: OnnxNode("TopK", {"axis": 1}, (np.array([a["k"]], np.int64),)),
    ),
    "nonzero_coordinates": Operator(
        plans=by_type(_masks, (1, 4)),
        jnp=_found_by_jnp,
        numpy=lambda _: partial(_found, np.argwhere),
        torch={"nonzero": lambda torch, _: partial(_found, torch.nonzero)},
    ),
    "cumulative_summation": Operator(
        plans=by_type(partial(_cumulations, "cumulative_summation"), (2, 4)),
        jnp=partial(_cumulated_by_jnp, jnp.cumsum),
        numpy=lambda a: partial(_cumulated_by_numpy, np.cumsum, a),
        torch={"cumsum": partial(_cumulated_by_torch, "cumsum")},
        onnx=lambda a: OnnxNode(
            "CumSum", {"reverse": int(a["direction"] == "decreasing")}, (np.array(a["axis"], np.int64),)
        ),
    ),
    "cumulative_product": Operator(
        plans=by_type(partial(_cumulations, "cumulative_product"), (2, 4)),
        jnp=partial(_cumulated_by_jnp, jnp.cumprod),
        numpy=lambda a: partial(_cumulated_by_numpy, np.cumprod, a),
        torch={"cumprod": partial(_cumulated_by_torch, "cumprod")},
    ),
}
