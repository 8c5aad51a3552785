"""Training steps sharded over all devices: an embedding, and routed experts (MoE); and batches from file to file."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.table import Table

import dml_jax

from .collectives import worded
from .file_streaming import over_devices
from .mesh_call_table import hashed_data
from .parallel_efficiency import Looped, alone, scaled
from .section import Job, Section, unframed
from .timing import Effort, Measured

LEGEND = (
    "of linear        the time of one device divided by all devices' time times their number; below 0.9 with a reason"
)
OPERATOR, RATE = "training", 1e-3
WIDTH, TOKENS = 256, 2**16  # of a table, and how many rows of it a step reads
EXPERTS, EXPERT_WIDTH, HIDDEN, CHOSEN = 16, 512, 2048, 2
ALL, PARTS = PartitionSpec(), PartitionSpec("d")

State = Any


def section(size: int) -> Section:
    """A job for each step; the table and the file have `size` bytes, and the experts' tokens an eighth of them."""
    jobs = [
        _job(f"embedding, {update.__name__}, tokens {name}", partial(_embedding, size, update, spec))
        for update in (sgd, adagrad)
        for name, spec in (("replicated", ALL), ("sharded", PARTS))
    ]
    jobs.append(_job(f"{EXPERTS} routed experts, {CHOSEN} of each token", partial(_experts, size)))
    files = f"{OPERATOR} map_batches from file to file"
    jobs.append(Job(files, partial(over_devices, files, OPERATOR, size)))
    return Section("training over all devices", jobs, ["dml_jax"], table, LEGEND)


def sgd(table: State, gradient: State) -> State:
    """A step of gradient descent."""
    (table,) = table
    return (table - RATE * gradient,)


def adagrad(state: State, gradient: State) -> State:
    """A step of Adagrad: the rate falls with the accumulated squared gradients."""
    table, squares = state
    squares = squares + gradient**2
    return table - RATE * gradient / jnp.sqrt(squares + 1e-6), squares


class Step(NamedTuple):
    """A step of training: on one device, or on a mesh.

    Args:
      function: takes the state and arrays, returns the next state.
      state: arrays of the first state.
      arrays: that every step reads.
      specs: how the state and the arrays are sharded; one for all arrays of each.
    """

    function: Callable[..., State]
    state: State
    arrays: Sequence[jax.Array]
    specs: tuple[Any, PartitionSpec]


def _job(name: str, made: Callable[[Any], Step]) -> Job:
    case = f"{OPERATOR} {name}"

    def measured(effort: Effort) -> Sequence[Measured]:
        single, n = made(None), jax.local_device_count()
        baseline = alone(Looped(single.function, single.state, single.arrays), effort)
        mesh = jax.make_mesh((n,), ("d",), axis_types=(AxisType.Explicit,), devices=jax.local_devices())
        del single
        step = made(mesh)
        with jax.set_mesh(mesh):
            of_state, of_arrays = (jax.tree.map(partial(NamedSharding, mesh), spec) for spec in step.specs)
            state = jax.device_put(step.state, of_state)
            run = Looped(step.function, state, jax.device_put(list(step.arrays), of_arrays))
            return [scaled(case, OPERATOR, run, baseline, effort)]

    return Job(case, measured)


def _embedding(size: int, update: Any, tokens: PartitionSpec, mesh: Any) -> Step:
    """Embedding: gathers rows of a table sharded by rows, and trains them towards targets."""
    rows = max(1, size // (4 * WIDTH) // 64) * 64
    count = min(TOKENS, rows)
    placed = None if mesh is None else NamedSharding(mesh, tokens)

    def loss(table: jax.Array, ids: jax.Array, targets: jax.Array) -> jax.Array:
        return ((dml_jax.gather(table, ids, axis=0, out_sharding=placed) - targets) ** 2).sum()

    def step(state: State, ids: jax.Array, targets: jax.Array) -> State:
        return update(state, jax.grad(loss)(state[0], ids, targets))

    table = hashed_data((rows, WIDTH), "")
    state = (table,) if update is sgd else (table, jnp.zeros_like(table))
    return Step(step, state, (hashed_data((count,), str(rows)), hashed_data((count, WIDTH), "")), (PARTS, tokens))


def _experts(size: int, mesh: Any) -> Step:
    """Tokens in groups, one for each device; every expert takes 1.25 times its share of each group's tokens."""
    n = jax.local_device_count()
    count = max(EXPERTS, size // 8 // (4 * EXPERT_WIDTH) // n)
    capacity = math.ceil(1.25 * CHOSEN * count / EXPERTS)
    tokens = hashed_data((n, count, EXPERT_WIDTH), "")
    up, down = (hashed_data((EXPERTS, *shape), "") / 32 for shape in ((EXPERT_WIDTH, HIDDEN), (HIDDEN, EXPERT_WIDTH)))
    state = (hashed_data((EXPERT_WIDTH, EXPERTS), ""), up, down)
    specs = ((ALL, PARTS, PARTS), PARTS)
    layer = partial(routed, capacity, None if mesh is None else "d")
    if mesh is not None:
        layer = jax.shard_map(layer, mesh=mesh, in_specs=specs, out_specs=PARTS)

    def loss(state: State, tokens: jax.Array) -> jax.Array:
        return ((layer(state, tokens) - tokens) ** 2).mean()

    def step(state: State, tokens: jax.Array) -> State:
        return jax.tree.map(lambda x, slope: x - RATE * slope, state, jax.grad(loss)(state, tokens))

    return Step(step, state, (tokens,), specs)


def routed(capacity: int, axis: str | None, state: State, tokens: jax.Array) -> jax.Array:
    """A layer of experts, of tokens [group, token, width]; the experts of others are reached along `axis`."""
    router, up, down = state
    logits = tokens @ router
    _, expert = lax.top_k(lax.stop_gradient(logits), CHOSEN)
    weight = jnp.take_along_axis(jax.nn.softmax(logits), expert, axis=-1)
    slot = jax.vmap(partial(_slots, capacity))(expert.reshape(len(tokens), -1))
    copies = jnp.repeat(tokens, CHOSEN, axis=1)
    buffers = jax.vmap(partial(_dispatched, capacity))(copies, slot)
    if axis:  # each group is one device's: [1, expert, slot, width] to [1, own expert, slot of all, width]
        buffers = lax.all_to_all(buffers, axis, split_axis=1, concat_axis=2, tiled=True)
    hidden = jax.nn.relu(jnp.einsum("gecw,ewh->gech", buffers, up))
    buffers = jnp.einsum("gech,ehw->gecw", hidden, down)
    if axis:
        buffers = lax.all_to_all(buffers, axis, split_axis=2, concat_axis=1, tiled=True)
    results = jax.vmap(_collected)(buffers, slot).reshape(*expert.shape, -1)
    return (results * weight[..., None]).sum(2)


def _slots(capacity: int, expert: jax.Array) -> jax.Array:
    """The row of each copy in the buffers of all experts; beyond the last one if its own is full."""
    arrivals = dml_jax.cumulative_summation(jax.nn.one_hot(expert, EXPERTS, dtype=jnp.int32), axis=0)
    place = dml_jax.gather_elements(arrivals, expert[:, None], axis=1)[:, 0] - 1
    return jnp.where(place < capacity, expert * capacity + place, EXPERTS * capacity)


def _dispatched(capacity: int, copies: jax.Array, slot: jax.Array) -> jax.Array:
    rows = jnp.zeros((EXPERTS * capacity, copies.shape[1]), copies.dtype)
    rows = dml_jax.scatter_nd(rows, slot[:, None], copies, mode="drop", unique_indices=True)
    return rows.reshape(EXPERTS, capacity, -1)


def _collected(buffers: jax.Array, slot: jax.Array) -> jax.Array:
    rows = buffers.reshape(-1, buffers.shape[-1])
    return dml_jax.gather(rows, slot, axis=0, mode="fill", unique_indices=True)


def lines(rows: Sequence[Measured]) -> Iterator[list[str]]:
    """The cells of each program."""
    for row in rows:
        found = worded(row.collectives or {}) or "-"
        cells = f"{row.seconds * 1e3:.3g}", f"{row.of_copy:.2f}" if row.same_bits else "differs"
        yield [row.case.removeprefix(f"{OPERATOR} "), *cells, found]


def table(title: str, rows: Sequence[Measured], *_: Any) -> Table:
    """A line for each program."""
    return unframed(title, ["step", "ms", "of linear", "collectives"], lines(rows))
