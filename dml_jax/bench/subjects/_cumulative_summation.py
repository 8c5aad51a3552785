"""cumulative_summation: running sums along rows and columns of a matrix, and backwards."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import Form
from . import cumulative

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)
cases = partial(cumulative.cases, "cumulative_summation")


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return cumulative.of_jnp(jnp.cumsum, a)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return cumulative.of_numpy(np.cumsum, a)


TORCH: Mapping[str, Form] = {"cumsum": partial(cumulative.of_torch, "cumsum")}

of_onnx = cumulative.of_onnx
