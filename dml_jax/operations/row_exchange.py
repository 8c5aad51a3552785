"""Rows that devices along an axis of a mesh ask of each other: `fetch_rows`, and `send_rows`, its transpose.

Every device has a part of a table, and asks for as many rows as the others: of each it names the owner and the place in
the owner's part. All devices know all requests. Two devices with a table of four rows, of which each has two:

    owner = [[1, 0], [1, 1]]    device 0 asks for row 1 of device 1, then for row 0 of its own part;
    place = [[1, 0], [0, 1]]    device 1 asks for both rows of its own part

Plainly, rows travel in rounds of jax.lax.all_to_all, whose buffers hold a quarter more than an even share of requests.
There are as many rounds as the owner that one device asks most often needs, so no row is dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .gather_scatter_dimension_numbers import Slices
from .programs.mesh_types import varying_alike
from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .scatter_combiners import ADD
from .scatter_reduce import scatter_reduce
from .scatter_rows import Write
from .values.bit_exact import as_bits, is_float

AxisName = str | tuple[str, ...]
ROWS = Slices(2, (0,), placed=(2,))


@dataclass(frozen=True)
class RowExchangeCase:
    """One exchange of rows, for the choice between implementations.

    Args:
      axis: of the mesh, or several.
      requests: shape and type of `owner`.
      rows: shape and type of the rows that a device has before.
      result: shape and type of the rows that it has afterwards.
      plain: the exchange in rounds.
      devices: among which XLA may divide an array.
    """

    axis: AxisName
    requests: Any
    rows: Any
    result: Any
    plain: Move
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of the result."""
        return known_bytes(self.result)


def fetch_rows(owner: jax.Array, place: jax.Array, part: jax.Array, axis: AxisName) -> jax.Array:
    """The rows that this device asks for: [request, width], of its own line of `owner` and `place`.

    Args:
      owner: int32 [device, request], the same on all devices.
      place: int32 [device, request], in the part of the owner.
      part: [row, width] of this device.
      axis: along which the devices are.
    """

    def back(where: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        owner, place = where
        received = send_rows(owner, cotangent, axis)
        to = jnp.where(owner == lax.axis_index(axis), place, like[0].shape[0])[..., None]
        return [scatter_reduce(to, (received,), like[0].shape, Write(ROWS, "fill"), ADD)]

    result = jax.ShapeDtypeStruct((owner.shape[1], part.shape[1]), part.dtype)
    return _exchange("fetch_rows", _fetch, back, result, (owner, place), part, axis)


def send_rows(owner: jax.Array, rows: jax.Array, axis: AxisName) -> jax.Array:
    """The rows that this device is sent: [device, request, width], zeros where it is not the owner.

    Args:
      owner: int32 [device, request], the same on all devices.
      rows: [request, width] of this device.
      axis: along which the devices are.
    """
    sizes = owner.shape

    def back(where: Any, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        (owner,) = where
        places = jnp.arange(owner.size, dtype=jnp.int32).reshape(sizes)
        return [fetch_rows(owner, places, cotangent.reshape(-1, cotangent.shape[-1]), axis)]

    result = jax.ShapeDtypeStruct((*sizes, rows.shape[1]), rows.dtype)
    return _exchange("send_rows", _send, back, result, (owner,), rows, axis)


def _exchange(
    operation: str, plain: Callable[..., jax.Array], back: Any, result: Any, where: Any, rows: jax.Array, axis: AxisName
) -> jax.Array:
    move = as_bits(partial(plain, axis), is_float)
    case = partial(RowExchangeCase, axis, *shapes_of(where[0], rows), result, move)
    return choose(operation, case, back)(where, rows)


def _fetch(axis: AxisName, where: Any, part: jax.Array) -> jax.Array:
    owner, place = where
    rounds = _Rounds(axis, owner)

    def read(number: jax.Array, rows: jax.Array) -> jax.Array:
        asked = rounds.buffer(rounds.of_others, place.reshape(-1), number)
        arrived = rounds.swap(part.at[asked].get(mode="clip"))
        return rounds.read(rounds.own, arrived, number, rows)

    return rounds.run(read, jnp.zeros((owner.shape[1], part.shape[1]), part.dtype))


def _send(axis: AxisName, where: Any, rows: jax.Array) -> jax.Array:
    (owner,) = where
    rounds = _Rounds(axis, owner)

    def read(number: jax.Array, received: jax.Array) -> jax.Array:
        arrived = rounds.swap(rounds.buffer(rounds.own, rows, number))
        return rounds.read(rounds.of_others, arrived, number, received)

    received = rounds.run(read, jnp.zeros((owner.size, rows.shape[1]), rows.dtype))
    return received.reshape(*owner.shape, rows.shape[1])


class _Rounds:
    """The rounds of an exchange: which request uses which slot of the buffers, in which round.

    The buffers of a device are [other device, slot]. The requests of one device to one owner use the slots in their
    order: with a capacity of 2 the fourth has the second slot of round 1.
    """

    def __init__(self, axis: AxisName, owner: jax.Array):
        self.axis, self.owner, (self.devices, count) = axis, owner, owner.shape
        me = lax.axis_index(axis)
        self.capacity = min(count, -(-5 * count // (4 * self.devices)))
        own = lax.dynamic_index_in_dim(owner, me, keepdims=False)
        arrivals = jnp.cumsum(jax.nn.one_hot(own, self.devices, dtype=jnp.int32), axis=0)
        rank = jnp.take_along_axis(arrivals, own[:, None], axis=1)[:, 0] - 1
        self.count = lax.pmax(rank.max() // self.capacity + 1, axis)
        # Of each request the other device, the round and the slot; no round for one that goes elsewhere.
        self.own = own, rank // self.capacity, rank % self.capacity
        is_mine = owner == me
        rank = jnp.cumsum(is_mine, axis=1, dtype=jnp.int32) - 1
        others = lax.broadcasted_iota(jnp.int32, owner.shape, 0)
        requests = others, jnp.where(is_mine, rank // self.capacity, -1), rank % self.capacity
        self.of_others = tuple(x.reshape(-1) for x in requests)

    def run(self, read: Callable[..., jax.Array], start: jax.Array) -> jax.Array:
        """Every round: `read` takes its number and the rows that have arrived, and returns more of them."""
        start, _ = varying_alike(start, self.owner)
        step = lambda state: (state[0] + 1, read(*state))  # noqa: E731
        return lax.while_loop(lambda state: state[0] < self.count, step, (jnp.int32(0), start))[1]

    def buffer(self, requests: Any, data: jax.Array, number: jax.Array) -> jax.Array:
        """Buffers with the data of the requests of a round, [device * slot, ...]."""
        slot = self._slot(requests, number)
        empty = jnp.zeros((self.devices * self.capacity, *data.shape[1:]), data.dtype)
        return empty.at[slot].set(data, mode="drop", unique_indices=True)

    def swap(self, buffers: jax.Array) -> jax.Array:
        """Buffer i of device j becomes buffer j of device i."""
        return lax.all_to_all(buffers, self.axis, 0, 0, tiled=True)

    def read(self, requests: Any, buffers: jax.Array, number: jax.Array, rows: jax.Array) -> jax.Array:
        """The rows; buffers replace the rows that were requested in one round."""
        slot = self._slot(requests, number)
        return jnp.where((slot < len(buffers))[:, None], buffers.at[slot].get(mode="clip"), rows)

    def _slot(self, requests: Any, number: jax.Array) -> jax.Array:
        device, of_round, slot = requests
        return jnp.where(of_round == number, device * self.capacity + slot, self.devices * self.capacity)
