"""space_to_depth: both orders and formats, blocks of several sizes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..case import DTYPES, Case, Form
from ..onnx_node import OnnxNode
from .pictures import copy_numpy, copy_torch, pictures, real_pictures, space_to_depth, with_channels_first, with_view

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    for itemsize in (1, 4):
        yield from pictures("space_to_depth", size, itemsize, ("DCR",), ("NCHW",), (2,))


def full(size: int) -> Iterator[Case]:
    for itemsize in DTYPES:
        blocks = (2, 3, 4, 8) if itemsize < 8 else (2,)
        yield from pictures("space_to_depth", size, itemsize, ("DCR", "CRD"), ("NCHW", "NHWC"), blocks)


def real(size: int) -> Iterator[Case]:
    return real_pictures("space_to_depth", size)


def small(size: int) -> Iterator[Case]:
    yield from pictures("space_to_depth", size, 4, ("DCR",), ("NCHW",), (2,))


sweep = small


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: space_to_depth(x, **a)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return with_view(space_to_depth, a, copy_numpy)


TORCH: Mapping[str, Form] = {
    "copy_": lambda torch, a: with_view(space_to_depth, a, copy_torch),
    "pixel_unshuffle": lambda torch, a: with_channels_first(torch.pixel_unshuffle, a),
    "compile": lambda torch, a: with_view(space_to_depth, a, copy_torch),
}


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    return with_view(space_to_depth, a, cupy.copyto)


def of_onnx(a: Attributes) -> OnnxNode | None:
    if (a["data_format"], a["order"]) != ("NCHW", "DCR"):
        return None
    return OnnxNode("SpaceToDepth", {"blocksize": a["block_size"]})
