"""Benchmark cases whose batch dimension is sharded over devices, with their torch counterparts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

from .case import INT32, Drawn, FunctionCase, data, mib, random_indices
from .operators import OPERATORS

ROWS, FEW, WIDTH = 1024, 128, 64  # the rows of each table that a scatter writes to, those that it writes, and columns
PATCHES = {"block_size": 14, "order": "DCR", "data_format": "NCHW"}  # of vision transformers
BLOCKS = {"block_size": 2, "order": "CRD", "data_format": "NCHW"}


@dataclass(frozen=True, kw_only=True)
class BatchCase(FunctionCase):
    """A function of a batch that is sharded over the devices; it computes any part of the batch.

    Args:
      whole: the number of operands, the first ones, that every device has whole; the others begin with the batch.
      torch: takes torch; returns the same function, which writes into its first argument.
    """

    whole: int = 0
    torch: Callable[[Any], Callable[..., Any]] = field(compare=False)

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
    negated = lambda torch: lambda out, x: torch.neg(x, out=out)  # noqa: E731
    yield BatchCase("copy", f"(negation) float32 {mib(x.nbytes)}", {}, [x], function=jnp.negative, torch=negated)
    # torch's pixel_shuffle takes three to five times as long as these copies.
    for kind in (4, 1):
        x = batch(64, 64, 64, kind=kind)
        yield _case("depth_to_space", f"NCHW CRD b=2 {x.dtype} {mib(x.nbytes)}", BLOCKS, [x], "copy_")
    x = batch(3, 224, 224, kind="bfloat16")
    yield _case("space_to_depth", f"NCHW DCR b=14 {x.dtype} {mib(x.nbytes)}", PATCHES, [x], "copy_")
    x = batch(WIDTH)
    ids, detail = random_indices(x.shape[0], x.shape[:1]), f"rows of 256 bytes float32 {mib(x.nbytes)}, of one table"
    yield _case("gather", detail, {"axis": 0}, [x, ids], "index_select", whole=1)
    x = batch(4096)
    ids, detail = random_indices(4096, x.shape), f"last axis of 4096 float32 {mib(x.nbytes)}"
    yield _case("gather_elements", detail, {"axis": 1}, [x, ids], "gather")
    yield from _scatters(batch(ROWS, WIDTH))


def _case(
    operator: str, detail: str, attributes: Mapping[str, Any], arrays: Sequence[Drawn], way: str, whole: int = 0
) -> BatchCase:
    """A case of an operator that computes any part of the batch; `way` is the name of torch's form."""
    function, form = partial(getattr(dml_jax, operator), **attributes), OPERATORS[operator].torch[way]
    torch: Any = lambda torch: form(torch, attributes)  # noqa: E731
    return BatchCase(operator, detail, attributes, arrays, function=function, torch=torch, whole=whole)


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
    yield _case("scatter_elements", detail, {"axis": 1}, [x, elements, updates], "scatter_")
    yield BatchCase(
        "scatter_nd",
        f"an eighth of {ROWS} rows of 256 bytes float32 {mib(x.nbytes)}",
        {},
        [x, rows, updates],
        function=jax.vmap(dml_jax.scatter_nd),
        torch=lambda _: lambda out, x, i, u: out.copy_(x).scatter_(1, i.expand(-1, -1, WIDTH), u),
    )
