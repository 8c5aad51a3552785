"""as_strided: transposed, with gaps, and repeated rows."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield from _views(size, 4)


def full(size: int) -> Iterator[Case]:
    for itemsize in DTYPES:
        yield from _views(size, itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: x[_offsets(a)]


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        np.copyto(out, np.lib.stride_tricks.as_strided(x, a["sizes"], [s * x.itemsize for s in a["strides"]]))

    return write


TORCH: Mapping[str, Form] = {
    "copy_": lambda torch, a: lambda out, x: out.copy_(x.as_strided(a["sizes"], a["strides"])),
}


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any) -> None:
        strides = [s * x.itemsize for s in a["strides"]]
        cupy.copyto(out, cupy.lib.stride_tricks.as_strided(x, a["sizes"], strides))

    return write


def _offsets(attributes: Attributes) -> Any:
    """A flat index per coordinate, as without as_strided."""
    sizes, strides = attributes["sizes"], attributes["strides"]
    return sum(
        (jnp.arange(n, dtype=jnp.int32) * s).reshape((1,) * d + (n,) + (1,) * (len(sizes) - 1 - d))
        for d, (n, s) in enumerate(zip(sizes, strides, strict=True))
    )


def _views(size: int, itemsize: int) -> Iterator[Case]:
    n, h, w, c = 8, 128, 128, max(1, size // itemsize // (8 * 128 * 128))
    buffer = n * h * w * c
    layouts = {
        "transposed": ((h * w, n * c), (1, h * w), buffer),
        "NHWC as NCHW": ((n, c, h, w), (h * w * c, 1, w * c, c), buffer),
        "padded rows": ((n * h, w * c), (w * c + 32, 1), n * h * (w * c + 32)),
    }
    for name, (sizes, strides, length) in layouts.items():
        yield Case(
            "as_strided",
            f"{name} {DTYPES[itemsize].name} {mega(size)}",
            {"sizes": sizes, "strides": strides},
            lambda length=length: (data((length,), itemsize),),
            2 * prod(sizes) * itemsize,
        )
    yield Case(
        "as_strided",
        f"broadcast rows {DTYPES[itemsize].name} {mega(size)}",
        {"sizes": (h * w, n * c), "strides": (0, 1)},
        lambda: (data((n * c,), itemsize),),
        buffer * itemsize,
    )
