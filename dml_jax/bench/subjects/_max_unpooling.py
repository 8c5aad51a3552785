"""max_unpooling: what 2x2 windows found, put back among zeros."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Arrays, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 128 if size >= 2**22 else 16
    made = (max(1, size // itemsize // (32 * side**2)), 32, side, side)
    shape = (*made[:2], side // 2, side // 2)

    def make() -> Arrays:
        at = np.arange(prod(made), dtype=np.int32).reshape(*shape[:3], 2, shape[3], 2).swapaxes(3, 4)
        chosen = np.resize(np.random.default_rng(4).integers(0, 4, 2**16 + 1), (prod(shape), 1))
        return data(shape, itemsize), np.take_along_axis(at.reshape(-1, 4), chosen, 1).reshape(shape)

    yield Case(
        "max_unpooling",
        f"2x2 to {'x'.join(map(str, made))} {DTYPES[itemsize].name}",
        {"output_sizes": made},
        make,
        prod(shape) * (itemsize + 4) + prod(made) * itemsize,
    )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    def written(x: Any, i: Any) -> Any:
        zeros = jnp.zeros(prod(a["output_sizes"]), x.dtype)
        return zeros.at[i.reshape(-1)].set(x.reshape(-1), mode="drop").reshape(a["output_sizes"])

    return written


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray, i: np.ndarray) -> None:
        out.fill(0)
        out.reshape(-1)[i] = x

    return write


def _scattered(_: Any, __: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any, i: Any) -> None:
        out.zero_().view(-1).scatter_(0, i.view(-1), x.view(-1))

    return write


def _unpooled(torch: Any, _: Attributes) -> Callable[..., Any]:
    """As one picture: it counts the elements of each picture anew."""

    def write(out: Any, x: Any, i: Any) -> None:
        whole = out.view(1, 1, -1, out.shape[-1])
        torch.ops.aten.max_unpool2d.out(
            *(one.view(1, 1, -1, x.shape[-1]) for one in (x, i)), whole.shape[2:], out=whole
        )

    return write


TORCH: Mapping[str, Form] = {"scatter_": _scattered, "max_unpool2d": _unpooled}


def of_onnx(a: Attributes) -> OnnxNode:
    attributes = {"kernel_shape": (2, 2), "strides": (2, 2)}
    shape = np.array(a["output_sizes"], np.int64)
    return OnnxNode("MaxUnpool", attributes, (shape,), lambda arrays: (arrays[0], arrays[1].astype(np.int64)))
