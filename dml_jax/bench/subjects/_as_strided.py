"""as_strided: transposed, with gaps, and repeated rows."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega

Attributes = Mapping[str, Any]

# What is seen in another order, behind the batch: the order, the sizes, and types.
_NARROW = ("uint8", "bfloat16")
REAL = (
    ("pictures, NHWC as NCHW", (3, 1, 2), (224, 224, 3), _NARROW),
    ("pictures, NCHW as NHWC", (2, 3, 1), (3, 224, 224), _NARROW),
    ("features, NHWC as NCHW", (3, 1, 2), (56, 56, 256), _NARROW),
    ("weights, transposed", (2, 1), (11008, 4096), _NARROW),
    ("heads of attention", (2, 1, 3), (2048, 32, 128), _NARROW),
    ("tubelets of 2x16x16", (2, 4, 1, 3, 5, 6), (2, 14, 16, 14, 16, 3), _NARROW),
)

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
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


def real(size: int) -> Iterator[Case]:
    for what, order, sizes, dtypes in REAL:
        for dtype in dtypes:
            n = max(1, round(size / (prod(sizes) * jnp.dtype(dtype).itemsize)))
            yield _permuted(f"real {what}", (n, *sizes), (0, *order), dtype)


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


def _permuted(what: str, shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> Case:
    strides = [prod(shape[d + 1 :]) for d in order]
    return Case(
        "as_strided",
        f"{what}, {'x'.join(map(str, shape))} {dtype}",
        {"sizes": tuple(shape[d] for d in order), "strides": tuple(strides)},
        lambda: (data((prod(shape),), dtype),),
        2 * prod(shape) * jnp.dtype(dtype).itemsize,
    )
