"""upsample_2d: pictures twice, three and four times as large, every pixel repeated."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 64 if size >= 2**22 else 16
    for scale in ((2, 2), (3, 3), (4, 4), (1, 2)):
        batch = max(1, size // itemsize // (32 * side * side * prod(scale)))
        yield _case((batch, 32, side, side), scale, itemsize)
    yield _case((max(1, size // itemsize // (12 * 127 * 131)), 3, 127, 131), (2, 2), itemsize)


def small(size: int) -> Iterator[Case]:
    yield _case((1, 1, 8, size // 128), (2, 2), 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    height, width = a["scale_size"]
    return lambda x: jnp.repeat(jnp.repeat(x, height, -2), width, -1)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        np.copyto(_apart(out, a), x[..., :, None, :, None])

    return write


TORCH: Mapping[str, Form] = {
    "copy_": lambda torch, a: lambda out, x: _expand(_apart(out, a), x),
    "upsample_nearest2d": lambda torch, _: (
        lambda out, x: torch.ops.aten.upsample_nearest2d.out(x, out.shape[-2:], out=out)
    ),
}


def _expand(apart: Any, x: Any) -> None:
    apart.copy_(x[..., :, None, :, None].expand(apart.shape))


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    return lambda out, x: cupy.copyto(_apart(out, a), x[..., :, None, :, None])


def of_onnx(a: Attributes) -> OnnxNode:
    scales = np.array([1, 1, *a["scale_size"]], np.float32)
    attributes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return OnnxNode("Resize", attributes, (None, scales))


def _apart(out: Any, a: Attributes) -> Any:
    """The output with each pixel of the input as a dimension of its own."""
    *outer, height, width = out.shape
    h, w = a["scale_size"]
    return out.reshape(*outer, height // h, h, width // w, w)


def _case(shape: tuple[int, ...], scale: tuple[int, int], itemsize: int) -> Case:
    return Case(
        "upsample_2d",
        f"{scale[0]}x{scale[1]} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"scale_size": scale},
        lambda: (data(shape, itemsize),),
        prod(shape) * itemsize * (1 + prod(scale)),
    )
