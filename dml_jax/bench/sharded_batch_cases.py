"""Benchmark cases whose batch dimension is sharded over devices, with their torch counterparts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

from .case import INT32, Case, Drawn, data, mib, random_indices
from .operators.operator_benchmark import Attributes, Operator

ROWS, FEW, WIDTH = 1024, 128, 64  # the rows of each table that a scatter writes to, those that it writes, and columns
PATCHES = {"block_size": 14, "order": "DCR", "data_format": "NCHW"}  # of vision transformers
BLOCKS = {"block_size": 2, "order": "CRD", "data_format": "NCHW"}


@dataclass(frozen=True, kw_only=True)
class BatchCase(Case):
    """A case of a batch that is sharded over the devices: its call computes any part of the batch.

    Args:
      way: the name of torch's form.
      whole: the number of operands, the first ones, that every device has whole; the others begin with the batch.
    """

    way: str
    whole: int = 0

    @property
    def split(self) -> tuple[bool, ...]:
        """Per operand, whether its first dimension is the batch."""
        return tuple(place >= self.whole for place in range(len(self.arrays)))


def cases(size: int, devices: int) -> Iterator[BatchCase]:
    """Cases that move about `size` bytes of data, in batches that `devices` share evenly."""

    def batch(*item: int, kind: int | str = 4) -> Drawn:
        itemsize = jnp.dtype(kind).itemsize if isinstance(kind, str) else kind
        return data((max(1, round(size / (itemsize * prod(item)) / devices)) * devices, *item), kind)

    x = batch(2**14)
    negation: Any = {"function": jnp.negative, "forms": Operator(torch={"neg": _negated}), "way": "neg"}
    yield BatchCase("copy", f"(negation) float32 {mib(x.nbytes)}", {}, [x], **negation)
    # torch's pixel_shuffle takes three to five times as long as these copies.
    for kind in (4, 1):
        x = batch(64, 64, 64, kind=kind)
        yield BatchCase("depth_to_space", f"NCHW CRD b=2 {x.dtype} {mib(x.nbytes)}", BLOCKS, [x], way="copy_")
    x = batch(3, 224, 224, kind="bfloat16")
    yield BatchCase("space_to_depth", f"NCHW DCR b=14 {x.dtype} {mib(x.nbytes)}", PATCHES, [x], way="copy_")
    x = batch(WIDTH)
    ids, detail = random_indices(x.shape[0], x.shape[:1]), f"rows of 256 bytes float32 {mib(x.nbytes)}, of one table"
    yield BatchCase("gather", detail, {"axis": 0}, [x, ids], way="index_select", whole=1)
    x = batch(4096)
    ids, detail = random_indices(4096, x.shape), f"last axis of 4096 float32 {mib(x.nbytes)}"
    yield BatchCase("gather_elements", detail, {"axis": 1}, [x, ids], way="gather")
    yield from _scatters(batch(ROWS, WIDTH))


def _scatters(x: Drawn) -> Iterator[BatchCase]:
    """An eighth of the rows of each table, as elements and as rows."""
    updates = data((x.shape[0], FEW, WIDTH), 4).then(np.flipud)

    def distinct() -> np.ndarray:
        """Rows of each table, none of them twice."""
        drawn = np.random.default_rng(1).random((x.shape[0], ROWS), np.float32)
        return np.argsort(drawn, axis=1)[:, :FEW, None].astype(np.int32)

    rows = Drawn((x.shape[0], FEW, 1), INT32, distinct)
    elements = Drawn(updates.shape, INT32, lambda: np.repeat(distinct(), WIDTH, axis=2))
    detail = f"an eighth along axis 1 of {ROWS}x{WIDTH} float32 {mib(x.nbytes)}"
    yield BatchCase("scatter_elements", detail, {"axis": 1}, [x, elements, updates], way="scatter_")
    yield BatchCase(
        "scatter_nd",
        f"an eighth of {ROWS} rows of 256 bytes float32 {mib(x.nbytes)}",
        {},
        [x, rows, updates],
        function=jax.vmap(dml_jax.scatter_nd),
        forms=Operator(torch={"scatter_": _rows_written}),
        way="scatter_",
    )


def _negated(torch: Any, _: Attributes) -> Callable[..., Any]:
    return lambda out, x: torch.neg(x, out=out)


def _rows_written(_: Any, __: Attributes) -> Callable[..., Any]:
    return lambda out, x, i, u: out.copy_(x).scatter_(1, i.expand(-1, -1, WIDTH), u)
