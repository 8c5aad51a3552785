"""cumulative_product: running products along rows and columns of a matrix, and backwards."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import Case, Form
from . import cumulative

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield next(cumulative.cases("cumulative_product", size, 4))


def full(size: int) -> Iterator[Case]:
    for itemsize in (2, 4):
        yield from cumulative.cases("cumulative_product", size, itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return cumulative.of_jnp(jnp.cumprod, a)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return cumulative.of_numpy(np.cumprod, a)


TORCH: Mapping[str, Form] = {"cumprod": partial(cumulative.of_torch, "cumprod")}
