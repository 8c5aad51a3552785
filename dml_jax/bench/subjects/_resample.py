"""resample: pictures twice as large and half as large, linear and nearest, and the maps of feature pyramids."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax
import numpy as np

from ..case import DTYPES, ROUNDED, Case, Form, data, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 512 if size >= 2**21 else 32
    yield _case("linear", (3, side, side), (1, 2, 2), size, itemsize)
    yield _case("linear", (side, side, 3), (2, 2, 1), size, itemsize)
    yield _case("linear", (3, side, side), (1, 0.5, 0.5), size, itemsize)
    yield _case("nearest", (64, side // 8, side // 8), (1, 2, 2), size, itemsize)
    yield _case("nearest", (3, side, side), (1, 1.5, 1.5), size, itemsize)
    yield _case("nearest", (side, side, 3), (0.5, 0.5, 1), size, itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: jax.image.resize(x, a["sizes"], a["mode"], antialias=False)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    """Along one dimension after the other, the wider one last."""

    def write(out: np.ndarray, x: np.ndarray) -> None:
        for d in [d for d, scale in enumerate(a["scales"]) if scale != 1]:
            at = (np.arange(a["sizes"][d]) + 0.5) / a["scales"][d] - 0.5
            x = _nearest(x, at, d) if a["mode"] == "nearest" else _mixed(x, at.astype(np.float32), d)
        np.copyto(out, np.rint(x) if out.dtype == np.uint8 else x, casting="unsafe")

    return write


def _nearest(x: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    return x.take(np.clip(np.floor(at + 0.5).astype(int), 0, x.shape[axis] - 1), axis)


def _mixed(x: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    before = np.floor(at)
    weight = (at - before).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    ends = [np.clip(before.astype(int) + i, 0, x.shape[axis] - 1) for i in (0, 1)]
    return x.take(ends[0], axis) * (1 - weight) + x.take(ends[1], axis) * weight


def _upsampled(torch: Any, a: Attributes) -> Callable[..., Any]:
    """Pictures whose channels come last are those of another memory format."""
    aten = torch.ops.aten
    forms = {
        "linear": lambda x, sizes, out: aten.upsample_bilinear2d.out(x, sizes, False, out=out),
        "nearest": lambda x, sizes, out: aten._upsample_nearest_exact2d.out(x, sizes, out=out),
    }
    order = (0, 3, 1, 2) if _is_last(a) else (0, 1, 2, 3)

    def write(out: Any, x: Any) -> None:
        view = out.permute(order)
        forms[a["mode"]](x.permute(order), view.shape[2:], view)

    return write


TORCH: Mapping[str, Form] = {"upsample": _upsampled}


def of_onnx(a: Attributes) -> OnnxNode:
    attributes = {
        "mode": a["mode"],
        "nearest_mode": "round_prefer_ceil",
        "coordinate_transformation_mode": "half_pixel",
    }
    return OnnxNode("Resize", attributes, (None, np.array(a["scales"], np.float32)))


def _is_last(a: Attributes) -> bool:
    return a["scales"][-1] == 1


def _case(mode: str, picture: tuple[int, ...], scales: tuple[float, ...], size: int, itemsize: int) -> Case:
    one = [int(n * scale) for n, scale in zip(picture, scales, strict=True)]
    batch = max(1, size // itemsize // max(prod(one), prod(picture)))
    shape, sizes = (batch, *picture), (batch, *one)
    is_copy, dtype = mode == "nearest", DTYPES[itemsize]
    return Case(
        "resample",
        f"{mode} {'x'.join(map(str, scales))} of {'x'.join(map(str, shape))} {dtype.name}",
        {"sizes": sizes, "scales": (1, *scales), "mode": mode},
        lambda: (data(shape, itemsize) if is_copy or itemsize == 1 else normal(shape, itemsize),),
        (min(prod(shape), prod(sizes)) + prod(sizes)) * itemsize,
        tolerance=0.0 if is_copy else 2**-5 if itemsize == 1 else ROUNDED[itemsize],
    )
