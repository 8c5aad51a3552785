"""fill_value_sequence: positions, and numbers a fraction apart."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import Case, Form, mega
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield _case(size, "float32", 0.25)


def full(size: int) -> Iterator[Case]:
    yield _case(size, "float32", 0.25)
    yield _case(size, "uint8", 1)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    count = a["sizes"][0]
    return lambda: a["start"] + jnp.arange(count, dtype=a["dtype"]) * jnp.asarray(a["delta"], a["dtype"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray) -> None:
        start, delta = (np.asarray(a[name], out.dtype) for name in ("start", "delta"))
        np.multiply(np.arange(out.size), delta, out=out, casting="unsafe")
        np.add(out, start, out=out)

    return write


def _arange(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    start, delta = a["start"], a["delta"]
    if a["dtype"] == np.uint8:  # it refuses numbers that wrap
        return None
    return lambda out: torch.arange(start, start + delta * out.numel(), delta, out=out)


TORCH: Mapping[str, Form] = {"arange": _arange}


def of_onnx(a: Attributes) -> OnnxNode | None:
    if a["dtype"] == np.uint8:
        return None
    limits = (a["start"], a["start"] + a["delta"] * a["sizes"][0], a["delta"])
    return OnnxNode("Range", arrays=lambda _: tuple(np.asarray(limit, a["dtype"]) for limit in limits))


def _case(size: int, dtype: str, delta: float) -> Case:
    one = jnp.dtype(dtype)
    return Case(
        "fill_value_sequence",
        f"{delta} apart {dtype} {mega(size)}",
        {"sizes": (size // one.itemsize,), "start": 3, "delta": delta, "dtype": one},
        tuple,
        size,
        # Products are rounded, or fused with the sum.
        tolerance=2**-20 if one == np.float32 else 0.0,
    )
