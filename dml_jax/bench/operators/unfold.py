"""unfold (im2col) and fold (col2im): windows of convolutions, and patches of vision transformers."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from math import prod
from operator import add
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import ROUNDED, Case, data, dims, normal
from .operator_benchmark import Attributes, OnnxNode, Operator, by_type


class _Window(NamedTuple):
    """Windows over pictures: their sides, how far they are apart, the padding, and channels and side of a picture."""

    sides: int
    step: int
    pad: int
    channels: int
    side: int

    @property
    def name(self) -> str:
        return f"{self.sides}x{self.sides}, {self.step} apart"

    @property
    def attributes(self) -> Attributes:
        pairs = {"window_sizes": self.sides, "strides": self.step, "start_padding": self.pad, "end_padding": self.pad}
        return {name: (n, n) for name, n in pairs.items()}

    def shapes(self, size: int, itemsize: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of images whose columns have about `size` bytes, and the shape of the columns."""
        count = (self.side + 2 * self.pad - self.sides) // self.step + 1
        columns = (self.channels * self.sides**2, count**2)
        batch = max(1, size // (itemsize * prod(columns)))
        return (batch, self.channels, self.side, self.side), (batch, *columns)


WINDOWS = (_Window(3, 1, 1, 16, 56), _Window(7, 2, 3, 3, 112), _Window(14, 14, 0, 3, 224))


def _unfolds(size: int, itemsize: int) -> Iterator[Case]:
    """unfold: windows that overlap, and patches side by side."""
    for window in WINDOWS:
        x = data(window.shapes(size, itemsize)[0], itemsize)
        yield Case("unfold", f"{window.name} of {x}", window.attributes, [x])


def _unfolded_by_jnp(a: Attributes) -> Callable[..., Any]:
    kernel, step, pad = a["window_sizes"][0], a["strides"][0], a["start_padding"][0]

    def unfolded(x: Any) -> Any:
        n, c, h, w = x.shape
        if kernel == step:  # side by side
            parts = x.reshape(n, c, h // kernel, kernel, w // kernel, kernel)
            return parts.transpose(0, 1, 3, 5, 2, 4).reshape(n, c * kernel**2, -1)
        x = jnp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        ends = h + 2 * pad - kernel + 1, w + 2 * pad - kernel + 1
        parts = [x[:, :, i : i + ends[0] : step, j : j + ends[1] : step] for i in range(kernel) for j in range(kernel)]
        return jnp.stack(parts, 2).reshape(n, c * kernel**2, -1)

    return unfolded


def _unfolded_by_numpy(a: Attributes, out: np.ndarray, x: np.ndarray) -> None:
    step, pad = a["strides"][0], a["start_padding"][0]
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, a["window_sizes"], (2, 3))[:, :, ::step, ::step]
    apart = windows.transpose(0, 1, 4, 5, 2, 3)
    np.copyto(out.reshape(apart.shape), apart)


def _unfolded_by_torch(torch: Any, a: Attributes, out: Any, x: Any) -> None:
    step, pad = a["strides"][0], a["start_padding"][0]
    x = torch.nn.functional.pad(x, (pad,) * 4) if pad else x
    apart = x.unfold(2, a["window_sizes"][0], step).unfold(3, a["window_sizes"][1], step).permute(0, 1, 4, 5, 2, 3)
    out.view(apart.shape).copy_(apart)


def _im2col(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["window_sizes"], (1, 1), a["start_padding"], a["strides"])
    return lambda out, x: torch.ops.aten.im2col.out(x, *numbers, out=out)


def _folds(size: int, itemsize: int) -> Iterator[Case]:
    """fold: gradients of convolutions, and patches put back side by side."""
    for window in WINDOWS:
        made, columns = window.shapes(size, itemsize)
        x, attributes = normal(columns, itemsize), {**window.attributes, "output_sizes": made[2:]}
        detail = f"{window.name} to {dims(made)} {x.dtype}"
        yield Case("fold", detail, attributes, [x], tolerance=ROUNDED[itemsize])


def _numbers(a: Attributes) -> tuple[int, ...]:
    return tuple(a[name][0] for name in ("output_sizes", "window_sizes", "strides", "start_padding"))


def _columns_apart(x: Any, a: Attributes) -> Any:
    """The columns with the elements of a window, and the windows, in two dimensions each."""
    side, kernel, step, pad = _numbers(a)
    count = (side + 2 * pad - kernel) // step + 1
    return x.reshape(len(x), -1, kernel, kernel, count, count)


def _folded_by_jnp(a: Attributes) -> Callable[..., Any]:
    side, kernel, step, pad = _numbers(a)

    def folded(x: Any) -> Any:
        apart = _columns_apart(x, a)
        n, c, _, _, count, _ = apart.shape
        if kernel == step:  # side by side
            return apart.transpose(0, 1, 4, 2, 5, 3).reshape(n, c, side, side)
        whole = side + 2 * pad
        edges = [(i, whole - i - (count - 1) * step - 1, step - 1) for i in range(kernel)]
        each, zero = (0, 0, 0), np.zeros((), x.dtype)
        parts = [
            lax.pad(apart[:, :, i, j], zero, (each, each, edges[i], edges[j]))
            for i in range(kernel)
            for j in range(kernel)
        ]
        return reduce(add, parts)[:, :, pad : pad + side, pad : pad + side]

    return folded


def _folded_by_numpy(a: Attributes, out: np.ndarray, x: np.ndarray) -> None:
    side, kernel, step, pad = _numbers(a)
    apart = _columns_apart(x, a)
    whole = np.zeros((*out.shape[:2], side + 2 * pad, side + 2 * pad), np.float32)
    end = (apart.shape[-1] - 1) * step + 1
    for i in range(kernel):
        for j in range(kernel):
            whole[:, :, i : i + end : step, j : j + end : step] += apart[:, :, i, j]
    np.copyto(out, whole[:, :, pad : pad + side, pad : pad + side], casting="same_kind")


def _col2im(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["output_sizes"], a["window_sizes"], (1, 1), a["start_padding"], a["strides"])
    return lambda out, x: torch.ops.aten.col2im.out(x, *numbers, out=out)


def _folded_by_onnx(a: Attributes) -> OnnxNode:
    sizes = (np.array(a[name], np.int64) for name in ("output_sizes", "window_sizes"))
    return OnnxNode("Col2Im", {"strides": a["strides"], "pads": [*a["start_padding"], *a["end_padding"]]}, (*sizes,))


OPERATORS: Mapping[str, Operator] = {
    "unfold": Operator(
        plans=by_type(_unfolds, (1, 2, 4)),
        jnp=_unfolded_by_jnp,
        numpy=lambda a: partial(_unfolded_by_numpy, a),
        torch={"im2col": _im2col, "copy_": lambda torch, a: partial(_unfolded_by_torch, torch, a)},
    ),
    "fold": Operator(
        plans=by_type(_folds, (2, 4)),
        jnp=_folded_by_jnp,
        numpy=lambda a: partial(_folded_by_numpy, a),
        torch={"col2im": _col2im},
        onnx=_folded_by_onnx,
    ),
}
