"""value_scale_2d: pictures made ready for a network, a bias for each channel."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, ROUNDED, Case, Form, normal

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 224 if size >= 2**21 else 28
    shape = (max(1, size // itemsize // (3 * side**2)), 3, side, side)
    yield Case(
        "value_scale_2d",
        f"{'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"scale": 0.017, "bias": (-2.1, -2.0, -1.8)},
        lambda: (normal(shape, itemsize),),
        2 * prod(shape) * itemsize,
        tolerance=ROUNDED[itemsize],
    )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: x * jnp.asarray(a["scale"], x.dtype) + jnp.asarray(a["bias"], x.dtype)[None, :, None, None]


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        np.multiply(x, out.dtype.type(a["scale"]), out=out)
        np.add(out, np.asarray(a["bias"], out.dtype)[:, None, None], out=out)

    return write


def _added(torch: Any, a: Attributes) -> Callable[..., Any]:
    bias = torch.tensor(a["bias"])[:, None, None]
    return lambda out, x: torch.add(bias.to(x), x, alpha=a["scale"], out=out)


TORCH: Mapping[str, Form] = {"add": _added}
