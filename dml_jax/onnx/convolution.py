"""ONNX's Conv and ConvTranspose, and ONNX Runtime's NhwcConv and ConvTransposeWithDynamicPads."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from .. import operators
from ..core.sharding import Dims, on_any_mesh
from ..errors import ConstraintError
from ..operations.convolution import convolve
from ..operations.sliding_windows import Windows
from .contrib_schemas import optional, schema
from .elementwise import add
from .sliding_windows import padding, per_dimension, windows_of
from .values import Array, Operators, known_ints, on_device


def conv(*, x: Array, w: Array, b: Array | None = None, group: int = 1, **steps: Any) -> Array:
    windows = filter_windows(x, w, group=group, **steps)
    check_bias(b, w.shape[0])
    names, read = [f"spatial {d}" for d in range(len(windows))], "channel" if 1 < group == x.shape[1] else "added up"
    operands = {"x": ["batch", read, *names], "w": ["channel", "added up", *names]}
    dims = Dims(operands, ["batch", "channel", *(f"output {name}" for name in names)])
    y = on_any_mesh("Conv", lambda x, w: convolve(x, w, windows, group), dims, x=on_device(x), w=on_device(w))
    return y if b is None else add(a=y, b=on_device(b).reshape((-1, *(1,) * len(windows))))


def filter_windows(
    x: Array,
    w: Array,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> list[Windows]:
    """Returns the windows of a convolution along each spatial dimension.

    Raises:
      ConstraintError: the filters do not fit x.
    """
    _check_ranks(x, w, kernel_shape)
    if group < 1 or w.shape[1] * group != x.shape[1] or w.shape[0] % group:
        raise ConstraintError(
            f"channels must fit group: {group} * w.shape[1] = x.shape[1] and w.shape[0] % {group} = 0, "
            f"but x is {x.shape} and w is {w.shape}"
        )
    windows = windows_of(x.shape, w.shape[2:], auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    if any(isinstance(w.count, int) and w.count < 1 for w in windows):
        spans, sizes = [w.span for w in windows], [w.padded for w in windows]
        raise ConstraintError(f"the dilated w must fit into the padded x, but it is {spans} and that is {sizes}")
    return windows


def conv_transpose(
    *,
    x: Array,
    w: Array,
    b: Array | None = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    """ConvTranspose: the full output, cropped by `pads` or to `output_shape`, or padded with zeros before the bias."""
    _check_ranks(x, w, kernel_shape)
    if group < 1 or w.shape[0] != x.shape[1] or w.shape[0] % group:
        raise ConstraintError(
            f"channels must fit group: w.shape[0] = x.shape[1] and w.shape[0] % {group} = 0, "
            f"but x is {x.shape} and w is {w.shape}"
        )
    check_bias(b, w.shape[1] * group)
    rank = x.ndim - 2
    strides, dilations = (per_dimension(name, v, rank) for name, v in (("strides", strides), ("dilations", dilations)))
    columns = zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    sums = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in columns]
    more = per_dimension("output_padding", output_padding, rank, least=0)
    edges = padding(auto_pad, per_dimension("pads", pads, 2 * rank, least=0), sums, sums, strides)
    if output_shape is not None or auto_pad.startswith("SAME"):
        same = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        sizes = same if output_shape is None else per_dimension("output_shape", output_shape, rank)
        totals = [max(0, n + m - size) for n, m, size in zip(sums, more, sizes, strict=True)]
        edges = [(t // 2, t - t // 2) if auto_pad == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]
    else:
        sizes = [n + m - start - end for n, m, (start, end) in zip(sums, more, edges, strict=True)]
    if min(sizes) < 0:
        raise ConstraintError(f"pads must leave sizes of at least 0, but they leave {sizes}")
    if any(size == 0 or start >= n for n, size, (start, _) in zip(sums, sizes, edges, strict=True)):
        return _without_sums(x, w, b, group, sizes)
    missing = [start + size - n for n, size, (start, _) in zip(sums, sizes, edges, strict=True)]
    return operators.convolution(
        *(on_device(each) for each in (x, w, b) if each is not None),
        direction="backward",
        strides=strides,
        dilations=dilations,
        start_padding=[start for start, _ in edges],
        end_padding=[max(0, -n) for n in missing],
        output_padding=[max(0, n) for n in missing],
        group_count=group,
    )


def _without_sums(x: Array, w: Array, b: Array | None, group: int, sizes: Sequence[int]) -> Array:
    """Returns the output of a ConvTranspose without elements, or of padding alone: zeros, and the bias."""
    zeros = jnp.zeros((x.shape[0], w.shape[1] * group, *sizes), x.dtype)
    return zeros if b is None else add(a=zeros, b=on_device(b).reshape((-1, *(1,) * len(sizes))))


def _nhwc_conv(*, x: Array, w: Array, **given: Any) -> Array:
    """NhwcConv: channels are the last dimension of x, and of w too, as ONNX Runtime's tools write it."""
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ConstraintError(f"x and w must have one rank of at least 3, but they are {x.shape} and {w.shape}")
    channels_first = {name: jnp.moveaxis(on_device(value), -1, 1) for name, value in (("x", x), ("w", w))}
    return jnp.moveaxis(on_device(conv(**channels_first, **given)), 1, -1)


def _conv_transpose_by_pads(*, pads: Array | None = None, **given: Any) -> Array:
    """ConvTransposeWithDynamicPads; the pads decide the output's sizes, so they must be constants."""
    if pads is None:
        raise ConstraintError("pads must be given, but they are left out")
    return conv_transpose(pads=known_ints("pads", pads), **given)


def _check_ranks(x: Array, w: Array, kernel_shape: Any) -> None:
    if x.ndim < 3 or w.ndim != x.ndim or kernel_shape not in (None, list(w.shape[2:])):
        shapes = f"x is {x.shape}, w is {w.shape}, kernel_shape is {kernel_shape}"
        raise ConstraintError(
            f"x and w must have one rank of at least 3, and w the sizes of kernel_shape, but {shapes}"
        )


def check_bias(b: Array | None, channels: int) -> None:
    if b is not None and b.shape != (channels,):
        raise ConstraintError(f"b must have a number for each of {channels} channels, but its shape is {b.shape}")


OPERATORS: Operators = {
    "Conv": {1: conv},
    "ConvTranspose": {1: conv_transpose},
    "com.microsoft::ConvTransposeWithDynamicPads": {1: _conv_transpose_by_pads},
    "com.microsoft::NhwcConv": {1: _nhwc_conv},
}
_FLOATS = "float16 float double"
_OF_BOTH = {
    "auto_pad": "NOTSET",
    "dilations": optional("INTS"),
    "group": 1,
    "kernel_shape": optional("INTS"),
    "strides": optional("INTS"),
}
CONV_ATTRIBUTES = _OF_BOTH | {"pads": optional("INTS")}
SCHEMAS = (
    schema(
        "ConvTransposeWithDynamicPads",
        "X T, W T, Pads? N, B? T",
        "Y T",
        _OF_BOTH | {"output_padding": optional("INTS")},
        T=_FLOATS,
        N="int64",
    ),
    schema("NhwcConv", "X T, W T, B? T", "Y T", CONV_ATTRIBUTES, T=_FLOATS),
)
