"""reduce, top_k and nonzero_coordinates: sums, extremes and means, the greatest of rows, and where masks are set."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, normal, shown
from .subject import Attributes, OnnxNode, Subject, by_type

__all__ = ["SUBJECTS"]


# reduce: sums and extremes of rows and columns, means of pictures, and the class that wins.


def _reductions(size: int, itemsize: int) -> Iterator[Case]:
    rows, side = (size // itemsize // 1024, 1024), 56 if size >= 2**21 else 7
    pictures = (max(1, size // itemsize // (64 * side**2)), 64, side, side)
    for function, shape, axes in (
        ("sum", rows, (1,)),
        ("sum", rows, (0,)),
        ("average", pictures, (2, 3)),
        ("max", rows, (1,)),
        ("max", rows, (0,)),
        ("argmax", rows, (1,)),
        ("argmax", rows, (0,)),
    ):
        made = prod(n for d, n in enumerate(shape) if d not in axes)
        yield Case(
            "reduce",
            f"{function}, axes {','.join(map(str, axes))} of {shown(shape)} {DTYPES[itemsize]}",
            {"function": function, "axes": axes},
            lambda shape=shape: (normal(shape, itemsize),),
            prod(shape) * itemsize + made * (4 if function == "argmax" else itemsize),
            tolerance=0.0 if "max" in function else 2**-8 if itemsize == 2 else 2**-16,
        )


def _reduced_by_jnp(a: Attributes) -> Callable[..., Any]:
    forms = {"sum": jnp.sum, "average": jnp.mean, "max": jnp.max}
    if a["function"] == "argmax":
        return lambda x: jnp.argmax(x, a["axes"][0], keepdims=True).astype(np.uint32)
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
    function = {"sum": torch.sum, "average": torch.mean, "max": torch.amax, "argmax": torch.argmax}[a["function"]]
    axes = a["axes"][0] if a["function"] == "argmax" else a["axes"]
    return lambda out, x: function(x, axes, True, out=out)


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
    itemsize = jnp.dtype(dtype).itemsize
    for name, n, k, most in _ROWS:
        rows = max(1, min(most, size // (itemsize * n)))
        yield Case(
            "top_k",
            f"{k} of {name} {rows}x{n} {dtype}",
            {"axis": 1, "k": k},
            lambda rows=rows, n=n: (_different(rows, n, dtype),),
            rows * (n * itemsize + k * (itemsize + 4)),
        )


def _different(rows: int, n: int, dtype: str) -> np.ndarray:
    """Rows of positive numbers, no two of which are equal, in any order."""
    bits = np.tile(np.arange(n, dtype=np.uint16), (rows, 1))
    np.random.default_rng(5).permuted(bits, axis=1, out=bits)
    return bits.view(jnp.bfloat16).astype(dtype)


def _greatest_by_numpy(a: Attributes) -> Callable[..., Any]:
    k = a["k"]

    def write(outs: Any, x: np.ndarray) -> None:
        found = np.argpartition(x, x.shape[1] - k, 1)[:, -k:]
        order = np.argsort(np.take_along_axis(x, found, 1), 1)[:, ::-1]
        np.copyto(outs[1], np.take_along_axis(found, order, 1), casting="unsafe")
        np.copyto(outs[0], np.take_along_axis(x, outs[1], 1))

    return write


# nonzero_coordinates: of masks and sparse activations.


def _masks(size: int, itemsize: int) -> Iterator[Case]:
    """Half, a tenth and a hundredth of all elements; all coordinates together have so many bytes."""
    width = 256 if size >= 2**21 else 16
    shape = (max(1, size // (8 * width)), width)
    for part in (0.5, 0.1, 0.01):
        yield Case(
            "nonzero_coordinates",
            f"{part:.0%} of {shown(shape)} {DTYPES[itemsize]}",
            {},
            lambda part=part: ((np.random.default_rng(6).random(shape) < part).astype(DTYPES[itemsize]),),
            prod(shape) * (itemsize + 8),
        )


def _found_by_jnp(_: Attributes) -> Callable[..., Any]:
    def found(x: Any) -> Any:
        return jnp.count_nonzero(x).astype(np.uint32), jnp.argwhere(x, size=x.size, fill_value=0).astype(np.uint32)

    return found


def _found_by_numpy(_: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: np.ndarray) -> None:
        found = np.argwhere(x)
        outs[0][...] = len(found)
        outs[1][: len(found)] = found
        outs[1][len(found) :] = 0

    return write


def _found_by_torch(torch: Any, _: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: Any) -> None:
        found = torch.nonzero(x)
        outs[0].fill_(len(found))
        outs[1][: len(found)].copy_(found)
        outs[1][len(found) :].zero_()

    return write


SUBJECTS: Mapping[str, Subject] = {
    "reduce": Subject(
        plans=by_type(_reductions, (2, 4)),
        jnp=_reduced_by_jnp,
        numpy=_reduced_by_numpy,
        torch={"out": _reduced_by_torch},
        onnx=_reduced_by_onnx,
    ),
    "top_k": Subject(
        plans={
            "quick": lambda size: islice(_candidates(size, "float32"), 1),
            "full": lambda size: (case for dtype in ("bfloat16", "float32") for case in _candidates(size, dtype)),
        },
        jnp=lambda a: lambda x: jax.lax.top_k(x, a["k"]),
        numpy=_greatest_by_numpy,
        torch={"topk": lambda torch, a: lambda outs, x: torch.topk(x, a["k"], 1, out=outs)},
        onnx=lambda a: OnnxNode("TopK", {"axis": 1}, (np.array([a["k"]], np.int64),)),
    ),
    "nonzero_coordinates": Subject(
        plans=by_type(_masks, (1, 4)),
        jnp=_found_by_jnp,
        numpy=_found_by_numpy,
        torch={"nonzero": _found_by_torch},
    ),
}
