"""local_response_normalization: across five channels, as AlexNet has it."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (4,)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 27 if size >= 2**21 else 9
    shape = (max(1, size // itemsize // (96 * side**2)), 96, side, side)
    yield Case(
        "local_response_normalization",
        f"{'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"local_size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
        lambda: (normal(shape, itemsize),),
        2 * prod(shape) * itemsize,
        tolerance=2**-16,
    )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: x / _denominator(jnp, x, a)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out, x: np.divide(x, _denominator(np, x, a), out=out)


def _denominator(np_or_jnp: Any, x: Any, a: Attributes) -> Any:
    around = a["local_size"] // 2
    squares = np_or_jnp.pad(x * x, ((0, 0), (around, around), (0, 0), (0, 0)))
    total = sum(squares[:, i : i + x.shape[1]] for i in range(a["local_size"]))
    return (a["bias"] + a["alpha"] / a["local_size"] * total) ** a["beta"]


def _normalized(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["local_size"], a["alpha"], a["beta"], a["bias"])
    return lambda out, x: torch.nn.functional.local_response_norm(x, *numbers)


TORCH: Mapping[str, Form] = {"local_response_norm": _normalized}


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("LRN", {"size": a["local_size"], **{name: a[name] for name in ("alpha", "beta", "bias")}})
