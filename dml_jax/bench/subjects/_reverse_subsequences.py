"""reverse_subsequences: sequences of all lengths, along either axis of a matrix."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
    count = size // itemsize
    yield _case((count // 512, 512), 1, itemsize)
    yield _case((512, count // 512), 0, itemsize)
    yield _case((count // 8192, 8192), 1, itemsize)


def small(size: int) -> Iterator[Case]:
    yield _case((16, size // 64), 1, 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x, lengths: jnp.take_along_axis(x, _sources(jnp, x.shape, lengths, a["axis"]), a["axis"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    axis = a["axis"]
    return lambda out, x, lengths: np.copyto(out, np.take_along_axis(x, _sources(np, x.shape, lengths, axis), axis))


def _gathered(torch: Any, a: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any, lengths: Any) -> None:
        torch.gather(x, a["axis"], _sources(torch, x.shape, lengths, a["axis"], device=x.device), out=out)

    return write


def _copied(torch: Any, a: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any, lengths: Any) -> None:
        out.copy_(torch.gather(x, a["axis"], _sources(torch, x.shape, lengths, a["axis"], device=x.device)))

    return write


TORCH: Mapping[str, Form] = {"gather": _gathered, "compile": _copied}


def of_onnx(a: Attributes) -> OnnxNode:
    """Its lengths are one per row, of INT64."""
    return OnnxNode(
        "ReverseSequence",
        {"time_axis": a["axis"], "batch_axis": 1 - a["axis"]},
        arrays=lambda arrays: (arrays[0], arrays[1].ravel().astype(np.int64)),
    )


def _sources(xp: Any, shape: tuple[int, ...], lengths: Any, axis: int, **device: Any) -> Any:
    at = xp.arange(shape[axis], dtype=lengths.dtype, **device).reshape(
        [-1 if d == axis else 1 for d in range(len(shape))]
    )
    return xp.where(at < lengths, lengths - 1 - at, at)


def _case(shape: tuple[int, ...], axis: int, itemsize: int) -> Case:
    ends = tuple(1 if d == axis else n for d, n in enumerate(shape))

    def make() -> tuple[np.ndarray, ...]:
        lengths = np.random.default_rng(2).integers(0, shape[axis] + 1, ends, dtype=np.int32)
        return data(shape, itemsize), lengths

    return Case(
        "reverse_subsequences",
        f"axis {axis} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"axis": axis},
        make,
        2 * prod(shape) * itemsize + 4 * prod(ends),
    )
