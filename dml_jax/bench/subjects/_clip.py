"""clip: numbers kept between bounds."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    yield Case(
        "clip",
        f"{DTYPES[itemsize].name} {mega(size)}",
        {"min": 16, "max": 40} if itemsize == 1 else {"min": -0.5, "max": 1.0},
        lambda: ((data if itemsize == 1 else normal)((size // itemsize,), itemsize),),
        2 * size,
    )


def small(size: int) -> Iterator[Case]:
    yield from cases(size, 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: jnp.clip(x, a["min"], a["max"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out, x: np.clip(x, a["min"], a["max"], out=out)


TORCH: Mapping[str, Form] = {"clamp": lambda torch, a: lambda out, x: torch.clamp(x, a["min"], a["max"], out=out)}


def of_onnx(a: Attributes) -> OnnxNode:
    bounds = (a["min"], a["max"])
    return OnnxNode("Clip", arrays=lambda arrays: (arrays[0], *(np.asarray(b, arrays[0].dtype) for b in bounds)))
