"""slice_grad: gradients of crops and of every second pixel, among zeros."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from jax import lax

from ..case import DTYPES, Case, Form, data

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 256 if size >= 2**22 else 32
    sizes = (max(1, size // itemsize // (16 * side**2)), 16, side, side)
    edge, inner = side // 16, side * 7 // 8
    yield _case("crop", sizes, (0, 0, edge, edge), (*sizes[:2], inner, inner), (1, 1, 1, 1), itemsize)
    yield _case("every second pixel", sizes, (0, 0, 0, 0), sizes, (1, 1, 2, 2), itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    def padded(x: Any) -> Any:
        edges = [
            (start, size - start - (n - 1) * step - 1, step - 1)
            for size, start, n, step in zip(a["sizes"], a["offsets"], x.shape, a["strides"], strict=True)
        ]
        return lax.pad(x, np.zeros((), x.dtype), edges)

    return padded


def of_numpy(a: Attributes) -> Callable[..., Any]:
    window = _window(a)

    def write(out: np.ndarray, x: np.ndarray) -> None:
        out.fill(0)
        out[window] = x

    return write


def _copied(_: Any, a: Attributes) -> Callable[..., Any]:
    window = _window(a)

    def write(out: Any, x: Any) -> None:
        out.zero_()[window].copy_(x)

    return write


TORCH: Mapping[str, Form] = {"copy_": _copied}


def _window(a: Attributes) -> tuple[Any, ...]:
    each = zip(a["offsets"], a["window_sizes"], a["strides"], strict=True)
    return tuple(slice(start, start + size, step) for start, size, step in each)


def _case(
    name: str,
    sizes: tuple[int, ...],
    offsets: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    itemsize: int,
) -> Case:
    shape = tuple(1 + (n - 1) // step for n, step in zip(window, strides, strict=True))
    return Case(
        "slice_grad",
        f"{name} of {'x'.join(map(str, sizes))} {DTYPES[itemsize].name}",
        {"sizes": sizes, "offsets": offsets, "window_sizes": window, "strides": strides},
        lambda: (data(shape, itemsize),),
        (prod(shape) + prod(sizes)) * itemsize,
    )
