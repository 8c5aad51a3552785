"""Benchmark cases whose batch dimension is sharded over devices, with their torch counterparts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

from .case import DTYPES, Arrays, Case, data, mib, random_indices
from .operators.depth_space import copy_torch, depth_to_space, space_to_depth, with_view

ROWS, WIDTH = 1024, 64  # the shape of each table that a scatter writes to; it writes an eighth of the rows
PATCHES = {"block_size": 14, "order": "DCR", "data_format": "NCHW"}
BLOCKS = {"block_size": 2, "order": "CRD", "data_format": "NCHW"}


@dataclass(frozen=True, kw_only=True)
class BatchCase(Case):
    """A function of a batch that is sharded over the devices.

    Args:
      function: computes any part of the batch.
      split: per operand, whether its first dimension is the batch; the others are replicated.
      torch: the same function of torch, which writes into its first argument.
    """

    function: Callable[..., jax.Array] = field(compare=False)
    split: tuple[bool, ...]
    torch: Callable[..., Any] = field(compare=False)

    def call(self, *arrays: Any) -> Any:
        return self.function(*arrays)


def cases(size: int, devices: int) -> Iterator[BatchCase]:
    """Cases of data movement; the batch size is a multiple of the number of devices.

    Args:
      size: bytes of the data, about.
      devices: the number of devices.
    """
    yield _negation(size, devices)
    yield _pictures(size, devices, 4)
    yield _pictures(size, devices, 1)
    yield _patches(size, devices)
    yield _rows(size, devices)
    yield _elements(size, devices)
    yield _scattered_elements(size, devices)
    yield _scattered_rows(size, devices)


def _number(size: int, item: int, devices: int) -> int:
    """The number of items of `item` bytes in about `size` bytes: a multiple of `devices`."""
    return max(1, round(size / item / devices)) * devices


def _negation(size: int, devices: int) -> BatchCase:
    shape = (_number(size, 2**16, devices), 2**14)
    return BatchCase(
        "copy",
        f"(negation) float32 {mib(4 * prod(shape))}",
        {},
        lambda: (data(shape, 4),),
        8 * prod(shape),
        function=jnp.negative,
        split=(True,),
        torch=_negated,
    )


def _pictures(size: int, devices: int, itemsize: int) -> BatchCase:
    shape = (_number(size, itemsize * 64**3, devices), 64, 64, 64)
    return BatchCase(
        "depth_to_space",
        f"NCHW CRD b=2 {DTYPES[itemsize].name} {mib(itemsize * prod(shape))}",
        {},
        lambda: (data(shape, itemsize),),
        2 * itemsize * prod(shape),
        function=partial(dml_jax.depth_to_space, **BLOCKS),
        split=(True,),
        torch=with_view(depth_to_space, BLOCKS, copy_torch),  # pixel_shuffle takes three to five times as long
    )


def _patches(size: int, devices: int) -> BatchCase:
    """Patches of vision transformers, 14 x 14 pixels."""
    shape = (_number(size, 2 * 3 * 224**2, devices), 3, 224, 224)
    return BatchCase(
        "space_to_depth",
        f"NCHW DCR b=14 bfloat16 {mib(2 * prod(shape))}",
        {},
        lambda: (data(shape, "bfloat16"),),
        4 * prod(shape),
        function=partial(dml_jax.space_to_depth, **PATCHES),
        split=(True,),
        torch=with_view(space_to_depth, PATCHES, copy_torch),
    )


def _rows(size: int, devices: int) -> BatchCase:
    rows = _number(size, 4 * WIDTH, devices)
    return BatchCase(
        "gather",
        f"rows of 256 bytes float32 {mib(4 * WIDTH * rows)}, of one table",
        {},
        lambda: (data((rows, WIDTH), 4), random_indices(rows, (rows,))),
        2 * 4 * WIDTH * rows + 4 * rows,
        function=partial(dml_jax.gather, axis=0),
        split=(False, True),
        torch=_index_selected,
    )


def _elements(size: int, devices: int) -> BatchCase:
    shape = (_number(size, 4 * 4096, devices), 4096)
    return BatchCase(
        "gather_elements",
        f"last axis of 4096 float32 {mib(4 * prod(shape))}",
        {},
        lambda: (data(shape, 4), random_indices(4096, shape)),
        12 * prod(shape),
        function=partial(dml_jax.gather_elements, axis=1),
        split=(True, True),
        torch=_gathered,
    )


def _scattered_elements(size: int, devices: int) -> BatchCase:
    shape, few = (_number(size, 4 * ROWS * WIDTH, devices), ROWS, WIDTH), ROWS // 8

    def make() -> Arrays:
        indices = np.broadcast_to(_written(shape[0], few)[..., None], (shape[0], few, WIDTH))
        return data(shape, 4), np.ascontiguousarray(indices), _updates(shape[0], few)

    return BatchCase(
        "scatter_elements",
        f"an eighth along axis 1 of {ROWS}x{WIDTH} float32 {mib(4 * prod(shape))}",
        {},
        make,
        8 * prod(shape) + 8 * shape[0] * few * WIDTH,
        function=partial(dml_jax.scatter_elements, axis=1),
        split=(True, True, True),
        torch=lambda out, x, i, u: out.copy_(x).scatter_(1, i, u),
    )


def _scattered_rows(size: int, devices: int) -> BatchCase:
    shape, few = (_number(size, 4 * ROWS * WIDTH, devices), ROWS, WIDTH), ROWS // 8
    return BatchCase(
        "scatter_nd",
        f"an eighth of {ROWS} rows of 256 bytes float32 {mib(4 * prod(shape))}",
        {},
        lambda: (data(shape, 4), _written(shape[0], few)[..., None], _updates(shape[0], few)),
        8 * prod(shape) + 4 * shape[0] * few * (WIDTH + 1),
        function=jax.vmap(dml_jax.scatter_nd),
        split=(True, True, True),
        torch=lambda out, x, i, u: out.copy_(x).scatter_(1, i.expand(-1, -1, WIDTH), u),
    )


def _written(tables: int, few: int) -> np.ndarray:
    """Distinct random row indices for each table."""
    drawn = np.random.default_rng(1).random((tables, ROWS), np.float32)
    return np.argsort(drawn, axis=1)[:, :few].astype(np.int32)


def _updates(tables: int, few: int) -> np.ndarray:
    return data((tables, few, WIDTH), 4)[::-1]


def _negated(out: Any, x: Any) -> None:
    import torch  # pyright: ignore[reportMissingImports]

    torch.neg(x, out=out)


def _index_selected(out: Any, x: Any, i: Any) -> None:
    import torch  # pyright: ignore[reportMissingImports]

    torch.index_select(x, 0, i, out=out)


def _gathered(out: Any, x: Any, i: Any) -> None:
    import torch  # pyright: ignore[reportMissingImports]

    torch.gather(x, 1, i, out=out)
