"""as_strided_scatter: some columns of a table, written anew."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from jax import lax

from ..case import DTYPES, Case, Form, data

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    for name, width, columns, offset in (("half of each row", 1024, 512, 0), ("odd columns", 1022, 511, 3)):
        rows = size // itemsize // width
        yield Case(
            "as_strided_scatter",
            f"{name} of {rows}x{width} {DTYPES[itemsize].name}",
            {"strides": (width, 1), "offset": offset},
            lambda rows=rows, width=width, columns=columns: (
                data((rows * width,), itemsize),
                data((rows, columns), itemsize)[::-1],
            ),
            2 * rows * width * itemsize,
        )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    def written(x: Any, u: Any) -> Any:
        return lax.dynamic_update_slice(x.reshape(-1, a["strides"][0]), u, (0, a["offset"])).reshape(-1)

    return written


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray, u: np.ndarray) -> None:
        np.copyto(out, x)
        out.reshape(-1, a["strides"][0])[:, a["offset"] : a["offset"] + u.shape[1]] = u

    return write


def _copied(_: Any, a: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any, u: Any) -> None:
        out.copy_(x).as_strided(u.shape, a["strides"], a["offset"]).copy_(u)

    return write


TORCH: Mapping[str, Form] = {
    "copy_": _copied,
    "as_strided_scatter": lambda torch, a: (
        lambda out, x, u: torch.as_strided_scatter(x, u, u.shape, a["strides"], a["offset"])
    ),
}
