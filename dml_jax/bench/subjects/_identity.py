"""identity: numbers that are scaled and shifted."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..case import DTYPES, ROUNDED, Case, Form, mega, normal

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    yield Case(
        "identity",
        f"scaled and shifted {DTYPES[itemsize].name} {mega(size)}",
        {"scale": 0.017, "bias": -2.1},
        lambda: (normal((size // itemsize,), itemsize),),
        2 * size,
        tolerance=ROUNDED[itemsize],
    )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: x * a["scale"] + a["bias"]


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        np.multiply(x, out.dtype.type(a["scale"]), out=out)
        np.add(out, out.dtype.type(a["bias"]), out=out)

    return write


TORCH: Mapping[str, Form] = {
    "add": lambda torch, a: lambda out, x: torch.add(torch.tensor(a["bias"]).to(x), x, alpha=a["scale"], out=out),
    "mul": lambda torch, a: lambda out, x: torch.mul(x, a["scale"], out=out).add_(a["bias"]),
}
