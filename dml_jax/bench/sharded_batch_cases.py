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

ROWS, FEW, WIDTH = 1024, 128, 64  # the rows of each table that a scatter writes to, those that it writes, and columns
PATCHES = {"block_size": 14, "order": "DCR", "data_format": "NCHW"}  # of vision transformers
BLOCKS = {"block_size": 2, "order": "CRD", "data_format": "NCHW"}

# Takes torch; returns a function that writes into its first argument.
Torch = Callable[[Any], Callable[..., Any]]


@dataclass(frozen=True, kw_only=True)
class BatchCase(Case):
    """A function of a batch that is sharded over the devices.

    Args:
      function: computes any part of the batch.
      split: per operand, whether its first dimension is the batch; the others are replicated.
      torch: the same function of torch.
    """

    function: Callable[..., jax.Array] = field(compare=False)
    split: tuple[bool, ...]
    torch: Torch = field(compare=False)

    def call(self, *arrays: Any) -> Any:
        return self.function(*arrays)


def cases(size: int, devices: int) -> Iterator[BatchCase]:
    """Cases that move about `size` bytes of data, in batches that `devices` share evenly."""

    def batch(*item: int, itemsize: int = 4) -> tuple[int, ...]:
        return max(1, round(size / (itemsize * prod(item)) / devices)) * devices, *item

    # torch's pixel_shuffle takes three to five times as long as these copies.
    to_space, to_depth = partial(dml_jax.depth_to_space, **BLOCKS), partial(dml_jax.space_to_depth, **PATCHES)
    space, depth = with_view(depth_to_space, BLOCKS, copy_torch), with_view(space_to_depth, PATCHES, copy_torch)
    yield _moved(
        "copy", "(negation)", batch(2**14), "float32", jnp.negative, lambda torch: lambda out, x: torch.neg(x, out=out)
    )
    for itemsize in (4, 1):
        pictures, dtype = batch(64, 64, 64, itemsize=itemsize), DTYPES[itemsize].name
        yield _moved("depth_to_space", "NCHW CRD b=2", pictures, dtype, to_space, lambda _: space)
    patches = batch(3, 224, 224, itemsize=2)
    yield _moved("space_to_depth", "NCHW DCR b=14", patches, "bfloat16", to_depth, lambda _: depth)
    yield _rows(batch(WIDTH))
    yield _elements(batch(4096))
    yield from _scatters(batch(ROWS, WIDTH))


def _case(
    operator: str,
    detail: str,
    make: Callable[[], Arrays],
    moved: int,
    function: Any,
    torch: Torch,
    split: tuple[bool, ...] = (True,),
) -> BatchCase:
    return BatchCase(operator, detail, {}, make, moved, function=function, split=split, torch=torch)


def _moved(operator: str, detail: str, shape: tuple[int, ...], dtype: str, function: Any, torch: Torch) -> BatchCase:
    """A function that moves every element of one array."""
    count = prod(shape) * jnp.dtype(dtype).itemsize
    make = lambda: (data(shape, dtype),)  # noqa: E731
    return _case(operator, f"{detail} {dtype} {mib(count)}", make, 2 * count, function, torch)


def _rows(shape: tuple[int, ...]) -> BatchCase:
    """Rows of one table, which every device has."""
    rows, width = shape
    return _case(
        "gather",
        f"rows of 256 bytes float32 {mib(4 * width * rows)}, of one table",
        lambda: (data(shape, 4), random_indices(rows, (rows,))),
        8 * width * rows + 4 * rows,
        partial(dml_jax.gather, axis=0),
        lambda torch: lambda out, x, i: torch.index_select(x, 0, i, out=out),
        (False, True),
    )


def _elements(shape: tuple[int, ...]) -> BatchCase:
    return _case(
        "gather_elements",
        f"last axis of {shape[1]} float32 {mib(4 * prod(shape))}",
        lambda: (data(shape, 4), random_indices(shape[1], shape)),
        12 * prod(shape),
        partial(dml_jax.gather_elements, axis=1),
        lambda torch: lambda out, x, i: torch.gather(x, 1, i, out=out),
        (True, True),
    )


def _scatters(shape: tuple[int, ...]) -> Iterator[BatchCase]:
    """An eighth of the rows of each table, as elements and as rows."""
    tables, count = shape[0], 4 * prod(shape)
    updates = (tables, FEW, WIDTH)

    def arrays(indices: np.ndarray) -> Arrays:
        return data(shape, 4), indices, data(updates, 4)[::-1]

    def written() -> np.ndarray:
        """Distinct rows of each table."""
        drawn = np.random.default_rng(1).random((tables, ROWS), np.float32)
        return np.argsort(drawn, axis=1)[:, :FEW, None].astype(np.int32)

    yield _case(
        "scatter_elements",
        f"an eighth along axis 1 of {ROWS}x{WIDTH} float32 {mib(count)}",
        lambda: arrays(np.repeat(written(), WIDTH, axis=2)),
        2 * count + 8 * prod(updates),
        partial(dml_jax.scatter_elements, axis=1),
        lambda _: lambda out, x, i, u: out.copy_(x).scatter_(1, i, u),
        (True, True, True),
    )
    yield _case(
        "scatter_nd",
        f"an eighth of {ROWS} rows of 256 bytes float32 {mib(count)}",
        lambda: arrays(written()),
        2 * count + 4 * tables * FEW * (WIDTH + 1),
        jax.vmap(dml_jax.scatter_nd),
        lambda _: lambda out, x, i, u: out.copy_(x).scatter_(1, i.expand(-1, -1, WIDTH), u),
        (True, True, True),
    )
