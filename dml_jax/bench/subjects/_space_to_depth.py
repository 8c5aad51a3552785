"""space_to_depth: both orders and formats, blocks of several sizes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..case import Form
from ..onnx_node import OnnxNode
from .pictures import (
    copy_numpy,
    copy_torch,
    every_picture,
    few_pictures,
    real_pictures,
    small_picture,
    space_to_depth,
    with_channels_first,
    with_view,
)

Attributes = Mapping[str, Any]

quick, full, real, small = (
    partial(plan, "space_to_depth") for plan in (few_pictures, every_picture, real_pictures, small_picture)
)
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
