"""depth_to_space: both orders and formats, blocks of several sizes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..case import Form
from ..onnx_node import OnnxNode
from .pictures import (
    copy_numpy,
    copy_torch,
    depth_to_space,
    every_picture,
    few_pictures,
    real_pictures,
    small_picture,
    with_channels_first,
    with_view,
)

Attributes = Mapping[str, Any]

quick, full, real, small = (
    partial(plan, "depth_to_space") for plan in (few_pictures, every_picture, real_pictures, small_picture)
)
sweep = small


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: depth_to_space(x, **a)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return with_view(depth_to_space, a, copy_numpy)


TORCH: Mapping[str, Form] = {
    "copy_": lambda torch, a: with_view(depth_to_space, a, copy_torch),
    "pixel_shuffle": lambda torch, a: with_channels_first(torch.pixel_shuffle, a),
    "compile": lambda torch, a: with_view(depth_to_space, a, copy_torch),
}


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    return with_view(depth_to_space, a, cupy.copyto)


def of_onnx(a: Attributes) -> OnnxNode | None:
    if a["data_format"] != "NCHW":
        return None
    return OnnxNode("DepthToSpace", {"blocksize": a["block_size"], "mode": a["order"]})
