"""nonzero_coordinates: what masks and sparse activations have, half, a tenth and a hundredth of all elements."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    """All coordinates together have so many bytes."""
    width = 256 if size >= 2**21 else 16
    shape = (max(1, size // (8 * width)), width)
    for part in (0.5, 0.1, 0.01):
        yield Case(
            "nonzero_coordinates",
            f"{part:.0%} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
            {},
            lambda part=part: ((np.random.default_rng(6).random(shape) < part).astype(DTYPES[itemsize]),),
            prod(shape) * (itemsize + 8),
        )


def of_jnp(_: Attributes) -> Callable[..., Any]:
    def found(x: Any) -> Any:
        return jnp.count_nonzero(x).astype(np.uint32), jnp.argwhere(x, size=x.size, fill_value=0).astype(np.uint32)

    return found


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: np.ndarray) -> None:
        found = np.argwhere(x)
        outs[0][...] = len(found)
        outs[1][: len(found)] = found
        outs[1][len(found) :] = 0

    return write


def _found(torch: Any, _: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: Any) -> None:
        found = torch.nonzero(x)
        outs[0].fill_(len(found))
        outs[1][: len(found)].copy_(found)
        outs[1][len(found) :].zero_()

    return write


TORCH: Mapping[str, Form] = {"nonzero": _found}
