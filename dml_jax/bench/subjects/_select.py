"""select: of two arrays by a mask, random or that of causal attention."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 512 if size >= 2**21 else 64
    shape = (max(1, size // itemsize // side**2), side, side)
    for name, mask in _MASKS.items():
        yield Case(
            "select",
            f"{name} mask of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
            {},
            lambda mask=mask: (mask(shape), data(shape, itemsize), data(shape, itemsize)[::-1]),
            prod(shape) * (1 + 3 * itemsize),
        )


def of_jnp(_: Attributes) -> Callable[..., Any]:
    return jnp.where


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        np.copyto(out, b)
        np.copyto(out, a, where=condition)

    return write


TORCH: Mapping[str, Form] = {
    "where": lambda torch, _: lambda out, condition, a, b: torch.where(condition, a, b, out=out)
}


def of_onnx(_: Attributes) -> OnnxNode:
    return OnnxNode("Where")


def _random(shape: tuple[int, ...]) -> np.ndarray:
    return np.resize(np.random.default_rng(3).integers(0, 2, 2**16 + 1).astype(bool), shape)


def _causal(shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.tri(*shape[-2:], dtype=bool), shape).copy()


_MASKS: Mapping[str, Callable[[tuple[int, ...]], np.ndarray]] = {"random": _random, "causal": _causal}
