"""convolution: layers of networks of pictures."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from jax import lax

from ..case import DTYPES, Case, Form, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]


class _Layer(NamedTuple):
    """Channels that go in and come out, in how many groups, side of a filter, its step, and side of a picture."""

    inputs: int
    outputs: int
    groups: int
    filter: int
    step: int
    side: int


_LAYERS = {
    "3x3": _Layer(64, 64, 1, 3, 1, 56),
    "1x1": _Layer(256, 64, 1, 1, 1, 56),
    "7x7, 2 apart": _Layer(3, 64, 1, 7, 2, 224),
    "3x3 of each channel": _Layer(128, 128, 128, 3, 1, 56),
}


def quick(size: int) -> Iterator[Case]:
    yield _case("3x3", 1)


def full(size: int) -> Iterator[Case]:
    for name in _LAYERS:
        yield _case(name, 8 if size >= 2**25 else 1)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    pads = [*zip(a["start_padding"], a["end_padding"], strict=True)]
    return lambda x, w: lax.conv_general_dilated(
        x, w, a["strides"], pads, feature_group_count=a["group_count"], precision="highest"
    )


def _convolved(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (None, a["strides"], a["start_padding"], 1, a["group_count"])
    return lambda out, x, w: torch.nn.functional.conv2d(x, w, *numbers)


TORCH: Mapping[str, Form] = {"conv2d": _convolved}


def of_onnx(a: Attributes) -> OnnxNode:
    pads = [*a["start_padding"], *a["end_padding"]]
    return OnnxNode("Conv", {"strides": a["strides"], "pads": pads, "group": a["group_count"]})


def _case(name: str, batch: int) -> Case:
    layer = _LAYERS[name]
    pads = (layer.filter // 2,) * 2
    count = (layer.side + 2 * pads[0] - layer.filter) // layer.step + 1
    shape = (batch, layer.inputs, layer.side, layer.side)
    weights = (layer.outputs, layer.inputs // layer.groups, layer.filter, layer.filter)
    made = batch * layer.outputs * count**2
    return Case(
        "convolution",
        f"{name}, {layer.inputs} to {layer.outputs} channels, of {'x'.join(map(str, shape))} {DTYPES[4].name}",
        {
            "strides": (layer.step, layer.step),
            "start_padding": pads,
            "end_padding": pads,
            "group_count": layer.groups,
        },
        lambda: (normal(shape, 4), normal(weights, 4)),
        4 * (prod(shape) + prod(weights) + made),
        tolerance=2**-14,
        operations=2 * made * prod(weights[1:]),
    )
