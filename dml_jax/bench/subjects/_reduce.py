"""reduce: sums and extremes of rows and columns, means of pictures, and the class that wins."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    rows, side = (size // itemsize // 1024, 1024), 56 if size >= 2**21 else 7
    pictures = (max(1, size // itemsize // (64 * side**2)), 64, side, side)
    yield _case("sum", rows, (1,), itemsize)
    yield _case("sum", rows, (0,), itemsize)
    yield _case("average", pictures, (2, 3), itemsize)
    yield _case("max", rows, (1,), itemsize)
    yield _case("max", rows, (0,), itemsize)
    yield _case("argmax", rows, (1,), itemsize)
    yield _case("argmax", rows, (0,), itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    forms = {"sum": jnp.sum, "average": jnp.mean, "max": jnp.max}
    if a["function"] == "argmax":
        return lambda x: jnp.argmax(x, a["axes"][0], keepdims=True).astype(np.uint32)
    return lambda x: forms[a["function"]](x, a["axes"], keepdims=True)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    """Halves are added as float32."""
    axes = a["axes"]
    if a["function"] == "argmax":
        return lambda out, x: np.copyto(out, np.argmax(x, axes[0], keepdims=True), casting="unsafe")
    if a["function"] == "max":
        return lambda out, x: np.max(x, axes, out=out, keepdims=True)
    function: Any = {"sum": np.sum, "average": np.mean}[a["function"]]

    def write(out: np.ndarray, x: np.ndarray) -> None:
        np.copyto(out, function(x, axes, dtype=np.float32, keepdims=True), casting="same_kind")

    return write


def _reduced(torch: Any, a: Attributes) -> Callable[..., Any]:
    function = {"sum": torch.sum, "average": torch.mean, "max": torch.amax, "argmax": torch.argmax}[a["function"]]
    axes = a["axes"][0] if a["function"] == "argmax" else a["axes"]
    return lambda out, x: function(x, axes, True, out=out)


TORCH: Mapping[str, Form] = {"out": _reduced}


def of_onnx(a: Attributes) -> OnnxNode:
    nodes = {"sum": "ReduceSum", "average": "ReduceMean", "max": "ReduceMax"}
    if a["function"] == "argmax":
        return OnnxNode("ArgMax", {"axis": a["axes"][0]})
    return OnnxNode(nodes[a["function"]], constants=(np.array(a["axes"], np.int64),))


def _case(function: str, shape: tuple[int, ...], axes: tuple[int, ...], itemsize: int) -> Case:
    made = prod(n for d, n in enumerate(shape) if d not in axes)
    return Case(
        "reduce",
        f"{function}, axes {','.join(map(str, axes))} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"function": function, "axes": axes},
        lambda: (normal(shape, itemsize),),
        prod(shape) * itemsize + made * (4 if function == "argmax" else itemsize),
        tolerance=0.0 if "max" in function else 2**-8 if itemsize == 2 else 2**-16,
    )
