"""cumulative_summation: running sums along rows and columns of a matrix, and backwards."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import Case, Form
from . import cumulative

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield next(cumulative.cases("cumulative_summation", size, 4))


def full(size: int) -> Iterator[Case]:
    for itemsize in (2, 4):
        yield from cumulative.cases("cumulative_summation", size, itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return cumulative.of_jnp(jnp.cumsum, a)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return cumulative.of_numpy(np.cumsum, a)


TORCH: Mapping[str, Form] = {"cumsum": partial(cumulative.of_torch, "cumsum")}

of_onnx = cumulative.of_onnx
