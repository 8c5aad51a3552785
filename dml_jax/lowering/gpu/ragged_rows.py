"""Exchange of rows on GPUs of one host: each row is an update of jax.lax.ragged_all_to_all, from table to result.

A GPU writes into the memory of the others, over NVLink, by blocks of threads. XLA makes a block for each update, so
that an update for each row keeps all processors busy. Rows need not be put together before, nor apart afterwards.
Device 0 has the table rows 10 and 11, device 1 has 12 and 13, and device 1 asks for 11 and 12:

    device 0 sends to device 1: update 0, its row at place 1 to place 0; update 1, no row
    device 1 sends to device 1: update 0, no row; update 1, its row at place 0 to place 1
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.programs.mesh_types import varying_alike
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.row_exchange import AxisName, RowExchangeCase
from ...operations.values.packed_words import has_unsigned

PEERS = 8  # so many GPUs write into each other's memory; more, and several hosts, send each update on its own


def _can(case: RowExchangeCase) -> bool:
    is_near = case.requests.shape[0] <= PEERS and jax.process_count() == 1
    return is_near and has_unsigned(case.rows.dtype)  # XLA sends whole bytes


def _fetch_rows(case: RowExchangeCase) -> Move | None:
    return partial(_fetch, case.axis) if _can(case) else None


def _send_rows(case: RowExchangeCase) -> Move | None:
    return partial(_send, case.axis) if _can(case) else None


def _fetch(axis: AxisName, where: Any, part: jax.Array) -> jax.Array:
    owner, place = where
    is_sent, is_received = _flags(axis, owner)
    to = lax.broadcasted_iota(jnp.int32, owner.shape, 1)
    output = jnp.zeros((owner.shape[1], part.shape[1]), part.dtype)
    return _ragged(axis, part, output, jnp.where(is_sent, place, 0), is_sent, to, is_received)


def _send(axis: AxisName, where: Any, rows: jax.Array) -> jax.Array:
    (owner,) = where
    is_received, is_sent = _flags(axis, owner)
    begin = lax.broadcasted_iota(jnp.int32, owner.shape, 1)
    to = begin + lax.axis_index(axis) * owner.shape[1]
    output = jnp.zeros((owner.size, rows.shape[1]), rows.dtype)
    return _ragged(axis, rows, output, begin, is_sent, to, is_received).reshape(*owner.shape, rows.shape[1])


def _flags(axis: AxisName, owner: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of requests of each device, whether this one is the owner; of own requests, whether each device is the owner."""
    me = lax.axis_index(axis)
    own = lax.dynamic_index_in_dim(owner, me, keepdims=True)
    return owner == me, own == lax.broadcasted_iota(jnp.int32, owner.shape, 0)


def _ragged(axis: AxisName, rows: jax.Array, output: jax.Array, *updates: jax.Array) -> jax.Array:
    """The places of updates [device, update] in `rows`, how many rows are sent, their places there, how many arrive."""
    # An odd number, as XLA gives several blocks the same updates where it can halve it.
    odd = [jnp.pad(x.astype(jnp.int32), ((0, 0), (0, 1 - x.shape[1] % 2))).reshape(-1) for x in updates]
    rows, output, *odd = varying_alike(rows, output, *odd)
    return lax.ragged_all_to_all(rows, output, *odd, axis_name=axis)


VARIANTS = (
    Variant("ragged_rows", "fetch_rows", "cuda", _fetch_rows, lambda case: True),
    Variant("ragged_rows", "send_rows", "cuda", _send_rows, lambda case: True),
)
