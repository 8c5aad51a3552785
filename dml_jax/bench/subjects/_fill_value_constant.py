"""fill_value_constant: one number everywhere."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, mega
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    dtype = DTYPES[itemsize]
    attributes = {"sizes": (size // itemsize,), "value": 7, "dtype": dtype}
    yield Case("fill_value_constant", f"{dtype.name} {mega(size)}", attributes, tuple, size)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda: jnp.full(a["sizes"], a["value"], a["dtype"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out: out.fill(a["value"])


TORCH: Mapping[str, Form] = {"fill_": lambda torch, a: lambda out: out.fill_(a["value"])}


def of_onnx(a: Attributes) -> OnnxNode:
    from onnx import numpy_helper

    value = numpy_helper.from_array(np.full((1,), a["value"], a["dtype"]))
    return OnnxNode("ConstantOfShape", {"value": value}, arrays=lambda _: (np.array(a["sizes"], np.int64),))
