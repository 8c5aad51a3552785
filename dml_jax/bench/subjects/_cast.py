"""cast: mixed precision there and back, and pixels that become numbers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import Case, Form, mega
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

# The type that is read, and the one that is written.
_PAIRS = (
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float16"),
    ("float16", "float32"),
    ("uint8", "float32"),
    ("float32", "uint8"),
    ("bool", "uint8"),
)


def quick(size: int) -> Iterator[Case]:
    yield next(full(size))


def full(size: int) -> Iterator[Case]:
    for one, other in _PAIRS:
        sizes = [jnp.dtype(name).itemsize for name in (one, other)]
        count = size // max(sizes)
        yield Case(
            "cast",
            f"{one} to {other} {mega(size)}",
            {"dtype": jnp.dtype(other)},
            lambda one=one, count=count: (_numbers(count, one),),
            count * sum(sizes),
        )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: x.astype(a["dtype"])


def of_numpy(_: Attributes) -> Callable[..., Any]:
    return lambda out, x: np.copyto(out, x, casting="unsafe")


TORCH: Mapping[str, Form] = {"copy_": lambda torch, _: lambda out, x: out.copy_(x)}


def of_onnx(a: Attributes) -> OnnxNode:
    from onnx import helper

    return OnnxNode("Cast", {"to": helper.np_dtype_to_tensor_dtype(a["dtype"])})


def _numbers(count: int, dtype: str) -> np.ndarray:
    """From 0 to 100, with fractions where the type has them."""
    return np.resize((np.arange(2**16 + 1) * 0.37 % 100).astype(jnp.dtype(dtype)), (count,))
