"""unfold: windows of convolutions as columns, overlapping ones and patches side by side."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from .windows import WINDOWS, Window

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    for window in WINDOWS:
        yield _case(window, size, itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
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


def of_numpy(a: Attributes) -> Callable[..., Any]:
    step, pad = a["strides"][0], a["start_padding"][0]

    def write(out: np.ndarray, x: np.ndarray) -> None:
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(x, a["window_sizes"], (2, 3))[:, :, ::step, ::step]
        apart = windows.transpose(0, 1, 4, 5, 2, 3)
        np.copyto(out.reshape(apart.shape), apart)

    return write


def _of_view(torch: Any, a: Attributes) -> Callable[..., Any]:
    step, pad = a["strides"][0], a["start_padding"][0]

    def write(out: Any, x: Any) -> None:
        x = torch.nn.functional.pad(x, (pad,) * 4) if pad else x
        apart = x.unfold(2, a["window_sizes"][0], step).unfold(3, a["window_sizes"][1], step).permute(0, 1, 4, 5, 2, 3)
        out.view(apart.shape).copy_(apart)

    return write


def _im2col(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["window_sizes"], (1, 1), a["start_padding"], a["strides"])
    return lambda out, x: torch.ops.aten.im2col.out(x, *numbers, out=out)


TORCH: Mapping[str, Form] = {"im2col": _im2col, "copy_": _of_view}


def _case(window: Window, size: int, itemsize: int) -> Case:
    shape, made = window.picture(size, itemsize), window.columns(size, itemsize)
    return Case(
        "unfold",
        f"{window.name} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        window.attributes,
        lambda: (data(shape, itemsize),),
        (prod(shape) + prod(made)) * itemsize,
    )
