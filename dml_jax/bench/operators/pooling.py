"""Pooling: max, average and Lp, with windows of networks; roi_pooling and roi_align, with their docstring examples."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import ROUNDED, Case, batch_of, normal
from .docstring_examples import grown
from .operator_benchmark import Attributes, OnnxNode, Operator, Plan, by_type


def _windows(operator: str, size: int, itemsize: int) -> Iterator[Case]:
    """Windows without overlap, and overlapping ones with padding."""
    side = 112 if size >= 2**21 else 16
    x = normal(batch_of((64, side, side), size, itemsize), itemsize)
    tolerance = 0.0 if operator == "max_pooling" else ROUNDED[itemsize]
    for sides, step, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
        pairs = {"window_sizes": sides, "strides": step, "start_padding": pad, "end_padding": pad}
        attributes = {name: (n, n) for name, n in pairs.items()}
        yield Case(operator, f"{sides}x{sides}, {step} apart, of {x}", attributes, [x], tolerance=tolerance)


def _plans(operator: str) -> Mapping[str, Plan]:
    return by_type(partial(_windows, operator), (2, 4))


def _pads(a: Attributes) -> list[tuple[int, int]]:
    return [(0, 0), (0, 0), *zip(a["start_padding"], a["end_padding"], strict=True)]


def _each(a: Attributes, x: np.ndarray, beyond: float) -> list[np.ndarray]:
    """The elements of all windows at each place of a window, with a number for the padding."""
    x = np.pad(x, _pads(a), constant_values=beyond)
    (h, w), (dh, dw) = a["window_sizes"], a["strides"]
    height, width = x.shape[2] - h + 1, x.shape[3] - w + 1
    return [x[:, :, i : i + height : dh, j : j + width : dw] for i in range(h) for j in range(w)]


def _total(a: Attributes, x: Any) -> Any:
    """The sum of each window."""
    return lax.reduce_window(x, 0.0, lax.add, (1, 1, *a["window_sizes"]), (1, 1, *a["strides"]), _pads(a))


def _node(name: str, a: Attributes, **others: Any) -> OnnxNode:
    pads = [*a["start_padding"], *a["end_padding"]]
    return OnnxNode(name, {"kernel_shape": a["window_sizes"], "strides": a["strides"], "pads": pads, **others})


def _greatest_by_jnp(a: Attributes) -> Callable[..., Any]:
    """max_pooling: the greatest element of each window, and where it lies among all."""

    def greater(x: Any, y: Any) -> Any:
        is_first = (x[0] > y[0]) | ((x[0] == y[0]) & (x[1] < y[1]))
        return jnp.where(is_first, x[0], y[0]), jnp.where(is_first, x[1], y[1])

    def found(x: Any) -> Any:
        places = jnp.arange(x.size, dtype=np.uint32).reshape(x.shape)
        none = (np.asarray(-np.inf, x.dtype), np.uint32(2**32 - 1))
        windows = (1, 1, *a["window_sizes"]), (1, 1, *a["strides"])
        return lax.reduce_window((x, places), none, greater, *windows, _pads(a))

    return found


def _greatest_by_numpy(a: Attributes, outs: Any, x: np.ndarray) -> None:
    places = _each(a, np.arange(x.size, dtype=np.uint32).reshape(x.shape), 0)
    values = _each(a, x, -np.inf)
    np.copyto(outs[0], values[0])
    np.copyto(outs[1], places[0])
    for value, place in zip(values[1:], places[1:], strict=True):
        is_greater = value > outs[0]
        np.copyto(outs[0], value, where=is_greater)
        np.copyto(outs[1], place, where=is_greater)


def _greatest_by_torch(torch: Any, a: Attributes, outs: Any, x: Any) -> None:
    """Max pooling in torch, whose indices count within each channel; an offset per channel is added."""
    numbers = (a["window_sizes"], a["strides"], a["start_padding"])
    torch.ops.aten.max_pool2d_with_indices.out(x, *numbers, out=outs[0], indices=outs[1])
    n, c, h, w = x.shape
    outs[1].add_(torch.arange(0, x.numel(), h * w, device=x.device).view(n, c, 1, 1))


def _ones(like: Any, x: Any) -> Any:
    """average_pooling: what counts the elements of each window, the padding left out."""
    return like.ones((1, 1, *x.shape[2:]), np.float32)


def _means_by_numpy(a: Attributes, out: np.ndarray, x: np.ndarray) -> None:
    wide = reduce(np.add, _each(a, x.astype(np.float32), 0))
    np.divide(wide, sum(_each(a, _ones(np, x), 0)), out=out, casting="same_kind")


def _means_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["window_sizes"], a["strides"], a["start_padding"], False, False)
    return lambda out, x: torch.ops.aten.avg_pool2d.out(x, *numbers, out=out)


def _norms_by_numpy(a: Attributes, out: np.ndarray, x: np.ndarray) -> None:
    """lp_pooling: roots of sums of squares."""
    np.sqrt(reduce(np.add, _each(a, np.square(x, dtype=np.float32), 0)), out=out, casting="same_kind")


def _norms_by_torch(torch: Any, a: Attributes, _: Any, x: Any) -> Any:
    """Lp pooling in torch, after an explicit pad: lp_pool2d has no padding."""
    ends = [n for pair in reversed(_pads(a)[2:]) for n in pair]
    x = torch.nn.functional.pad(x, ends) if any(ends) else x
    return torch.nn.functional.lp_pool2d(x, 2.0, a["window_sizes"], a["strides"])


def _aligned_by_onnx(a: Attributes) -> OnnxNode:
    height, width = a["output_sizes"]
    numbers = {"output_height": height, "output_width": width, "sampling_ratio": a["minimum_samples"]}
    how = {"coordinate_transformation_mode": "half_pixel", "mode": "avg"}
    return OnnxNode("RoiAlign", {**numbers, **how}, arrays=lambda x: (*x[:2], x[2].astype(np.int64)))


OPERATORS: Mapping[str, Operator] = {
    "max_pooling": Operator(
        plans=_plans("max_pooling"),
        jnp=_greatest_by_jnp,
        numpy=lambda a: partial(_greatest_by_numpy, a),
        torch={"max_pool2d_with_indices": lambda torch, a: partial(_greatest_by_torch, torch, a)},
        onnx=partial(_node, "MaxPool"),
    ),
    "average_pooling": Operator(
        plans=_plans("average_pooling"),
        jnp=lambda a: lambda x: (_total(a, x.astype(np.float32)) / _total(a, _ones(jnp, x))).astype(x.dtype),
        numpy=lambda a: partial(_means_by_numpy, a),
        torch={"avg_pool2d": _means_by_torch},
        onnx=partial(_node, "AveragePool"),
    ),
    "lp_pooling": Operator(
        plans=_plans("lp_pooling"),
        jnp=lambda a: lambda x: jnp.sqrt(_total(a, jnp.square(x.astype(np.float32)))).astype(x.dtype),
        numpy=lambda a: partial(_norms_by_numpy, a),
        torch={"lp_pool2d": lambda torch, a: partial(_norms_by_torch, torch, a)},
        onnx=partial(_node, "LpPool", p=2),
    ),
    "roi_pooling": Operator(
        plans=grown("roi_pooling", (2, 4)),
        onnx=lambda a: OnnxNode("MaxRoiPool", {"pooled_shape": a["output_sizes"]}),
    ),
    "roi_align": Operator(plans=grown("roi_align", (2, 4)), onnx=_aligned_by_onnx),
}
