"""top_k: experts of a router, candidates among the words of a language, and the best boxes of a detector."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..case import Case, Form
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

# What rows are, the numbers in each, how many are wanted, and how many rows there are at most.
_ROWS = (
    ("experts", 64, 2, 4096),
    ("experts", 64, 8, 4096),
    ("logits", 32000, 50, 64),
    ("logits", 32000, 1, 64),
    ("boxes", 8400, 300, 16),
)


def quick(size: int) -> Iterator[Case]:
    yield next(_cases(size, "float32"))


def full(size: int) -> Iterator[Case]:
    for dtype in ("bfloat16", "float32"):
        yield from _cases(size, dtype)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: jax.lax.top_k(x, a["k"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    k = a["k"]

    def write(outs: Any, x: np.ndarray) -> None:
        found = np.argpartition(x, x.shape[1] - k, 1)[:, -k:]
        order = np.argsort(np.take_along_axis(x, found, 1), 1)[:, ::-1]
        np.copyto(outs[1], np.take_along_axis(found, order, 1), casting="unsafe")
        np.copyto(outs[0], np.take_along_axis(x, outs[1], 1))

    return write


TORCH: Mapping[str, Form] = {"topk": lambda torch, a: lambda outs, x: torch.topk(x, a["k"], 1, out=outs)}


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("TopK", {"axis": 1}, (np.array([a["k"]], np.int64),))


def _cases(size: int, dtype: str) -> Iterator[Case]:
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
