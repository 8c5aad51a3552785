"""upsample_2d, resample and grid_sample: images resized and sampled."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..case import ROUNDED, Case, data, dims, normal
from .docstring_examples import grown
from .operator_benchmark import ALL_SIZES, Attributes, OnnxNode, Operator, by_type


def _upsamplings(size: int, itemsize: int) -> Iterator[Case]:
    """upsample_2d: twice, three and four times as large, every pixel repeated."""
    side = 64 if size >= 2**22 else 16
    for scale in ((2, 2), (3, 3), (4, 4), (1, 2)):
        batch = max(1, size // itemsize // (32 * side * side * prod(scale)))
        yield _upsampling((batch, 32, side, side), scale, itemsize)
    yield _upsampling((max(1, size // itemsize // (12 * 127 * 131)), 3, 127, 131), (2, 2), itemsize)


def _upsampling(shape: tuple[int, ...], scale: tuple[int, int], itemsize: int) -> Case:
    x = data(shape, itemsize)
    return Case("upsample_2d", f"{dims(scale)} of {x}", {"scale_size": scale}, [x])


def _repeated(copy: Callable[[Any, Any], Any], a: Attributes, out: Any, x: Any) -> None:
    """Nearest upsampling by a broadcast copy: the output is viewed as [.., height, h, width, w]."""
    h, w = a["scale_size"]
    *outer, height, width = out.shape
    copy(out.reshape(*outer, height // h, h, width // w, w), x[..., :, None, :, None])


def _repeated_by_onnx(a: Attributes) -> OnnxNode:
    attributes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return OnnxNode("Resize", attributes, (None, np.array([1, 1, *a["scale_size"]], np.float32)))


def _resamplings(size: int, itemsize: int) -> Iterator[Case]:
    """resample: twice as large and half as large, linear and nearest, and the maps of feature pyramids."""
    side = 512 if size >= 2**21 else 32
    yield _resampling("linear", (3, side, side), (1, 2, 2), size, itemsize)
    yield _resampling("linear", (side, side, 3), (2, 2, 1), size, itemsize)
    yield _resampling("linear", (3, side, side), (1, 0.5, 0.5), size, itemsize)
    yield _resampling("nearest", (64, side // 8, side // 8), (1, 2, 2), size, itemsize)
    yield _resampling("nearest", (3, side, side), (1, 1.5, 1.5), size, itemsize)
    yield _resampling("nearest", (side, side, 3), (0.5, 0.5, 1), size, itemsize)


def _resampling(mode: str, picture: tuple[int, ...], scales: tuple[float, ...], size: int, itemsize: int) -> Case:
    one = [int(n * scale) for n, scale in zip(picture, scales, strict=True)]
    batch = max(1, size // itemsize // max(prod(one), prod(picture)))
    shape, sizes = (batch, *picture), (batch, *one)
    is_copy = mode == "nearest"
    x = (data if is_copy or itemsize == 1 else normal)(shape, itemsize)
    return Case(
        "resample",
        f"{mode} {dims(scales)} of {x}",
        {"sizes": sizes, "scales": (1, *scales), "mode": mode},
        [x],
        needed=(min(prod(shape), prod(sizes)) + prod(sizes)) * itemsize,
        tolerance=0.0 if is_copy else 2**-5 if itemsize == 1 else ROUNDED[itemsize],
    )


def _resampled_by_numpy(a: Attributes, out: np.ndarray, x: np.ndarray) -> None:
    """Separable interpolation in NumPy, one dimension after the other."""
    for d in [d for d, scale in enumerate(a["scales"]) if scale != 1]:
        at = (np.arange(a["sizes"][d]) + 0.5) / a["scales"][d] - 0.5
        x = _nearest(x, at, d) if a["mode"] == "nearest" else _mixed(x, at.astype(np.float32), d)
    np.copyto(out, np.rint(x) if out.dtype == np.uint8 else x, casting="unsafe")


def _nearest(x: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    return x.take(np.clip(np.floor(at + 0.5).astype(int), 0, x.shape[axis] - 1), axis)


def _mixed(x: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    before = np.floor(at)
    weight = (at - before).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    ends = [np.clip(before.astype(int) + i, 0, x.shape[axis] - 1) for i in (0, 1)]
    return x.take(ends[0], axis) * (1 - weight) + x.take(ends[1], axis) * weight


def _resampled_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    """Pictures whose channels come last are those of another memory format."""
    aten = torch.ops.aten
    forms = {
        "linear": lambda x, sizes, out: aten.upsample_bilinear2d.out(x, sizes, False, out=out),
        "nearest": lambda x, sizes, out: aten._upsample_nearest_exact2d.out(x, sizes, out=out),
    }
    order = (0, 3, 1, 2) if a["scales"][-1] == 1 else (0, 1, 2, 3)

    def write(out: Any, x: Any) -> None:
        view = out.permute(order)
        forms[a["mode"]](x.permute(order), view.shape[2:], view)

    return write


def _resampled_by_onnx(a: Attributes) -> OnnxNode:
    how = {"nearest_mode": "round_prefer_ceil", "coordinate_transformation_mode": "half_pixel"}
    return OnnxNode("Resize", {"mode": a["mode"], **how}, (None, np.array(a["scales"], np.float32)))


def _sampled_by_jnp(_: Attributes) -> Callable[..., Any]:
    """grid_sample, as in its example."""

    def one(picture: Any, grid: Any) -> Any:
        ends = np.asarray(picture.shape, grid.dtype).reshape(-1, 1, 1) - 1
        at = (jnp.moveaxis(grid[..., ::-1], -1, 0) + 1) * ends / 2
        return jax.scipy.ndimage.map_coordinates(picture, [*at], 1, mode="constant")

    return jax.vmap(jax.vmap(one, (0, None)))


OPERATORS: Mapping[str, Operator] = {
    "upsample_2d": Operator(
        plans=by_type(
            _upsamplings, ALL_SIZES, quick=None, small=lambda size: [_upsampling((1, 1, 8, size // 128), (2, 2), 4)]
        ),
        jnp=lambda a: lambda x: x.repeat(a["scale_size"][0], -2).repeat(a["scale_size"][1], -1),
        numpy=lambda a: partial(_repeated, np.copyto, a),
        torch={
            "copy_": lambda torch, a: partial(_repeated, torch.Tensor.copy_, a),
            "upsample_nearest2d": lambda torch, _: (
                lambda out, x: torch.ops.aten.upsample_nearest2d.out(x, out.shape[-2:], out=out)
            ),
        },
        cupy=lambda cupy, a: partial(_repeated, cupy.copyto, a),
        onnx=_repeated_by_onnx,
    ),
    "resample": Operator(
        plans=by_type(_resamplings, (1, 2, 4)),
        jnp=lambda a: lambda x: jax.image.resize(x, a["sizes"], a["mode"], antialias=False),
        numpy=lambda a: partial(_resampled_by_numpy, a),
        torch={"upsample": _resampled_by_torch},
        onnx=_resampled_by_onnx,
    ),
    "grid_sample": Operator(
        plans=grown("grid_sample", (2, 4)),
        jnp=_sampled_by_jnp,
        torch={
            "grid_sample": lambda torch, a: (
                lambda out, x, grid: torch.nn.functional.grid_sample(x, grid, align_corners=a["align_corners"])
            )
        },
        onnx=lambda a: OnnxNode("GridSample", {"align_corners": int(a["align_corners"])}),
    ),
}
