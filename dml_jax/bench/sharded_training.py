"""Training steps sharded over all devices: tables of rows, and routed experts (MoE); and batches from file to file."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.table import Table

import dml_jax
from dml_jax import layers

from .collectives import worded
from .file_streaming import over_devices
from .mesh_call_table import hashed_data
from .parallel_efficiency import Looped, alone, mesh_of_all, sampled, scaled
from .section import Job, Section, unframed
from .timing import Effort, Measured, by_case

LEGEND = """\
of linear        the time of one device divided by all devices' time times their number; below 0.9 with a reason
x jax.numpy      how many times as fast it is as jax.numpy on the same mesh
floor ms         how long an all-to-all takes of the rows that a table's step has to send"""
OPERATOR, RATE = "training", 1e-3
PLAIN, FLOOR = "jax.numpy", "all-to-all"  # contenders
WIDTHS, TOKENS = (256, 1024), 2**14  # of tables, and how many rows each device reads in a step
EXPERTS, EXPERT_WIDTH, HIDDEN, CHOSEN = 16, 512, 2048, 2
ALL, PARTS = PartitionSpec(), PartitionSpec("d")

State = Any


def section(size: int) -> Section:
    """A job for each step; the table and the file have `size` bytes, and the experts' tokens an eighth of them."""
    jobs = [
        _job(f"table of {width} columns, {ids} ids, {update}", partial(_table, size, width, ids, update), update)
        for width, ids, update in product(WIDTHS, IDS, UPDATES)
    ]
    jobs.append(_job(f"{EXPERTS} routed experts, {CHOSEN} of each token", partial(_experts, size)))
    files = f"{OPERATOR} map_batches from file to file"
    jobs.append(Job(files, partial(over_devices, files, OPERATOR, size)))
    return Section("training over all devices", jobs, ["dml_jax", PLAIN, FLOOR], table, LEGEND)


class Step(NamedTuple):
    """A step of training, or a part of one: on one device, or on a mesh.

    Args:
      function: takes the state and arrays, returns the next state.
      state: arrays of the first state; None for a function of the arrays alone.
      arrays: that every step reads.
      specs: how the state and the arrays are sharded; one for all arrays of each.
      plain: the same in jax.numpy, of whole arrays, to be compared with; None for nothing.
    """

    function: Callable[..., State]
    state: State
    arrays: Sequence[jax.Array]
    specs: tuple[Any, PartitionSpec]
    plain: Callable[..., State] | None = None


def _job(name: str, made: Callable[[Any], Step], update: str = "") -> Job:
    case = f"{OPERATOR} {name}"

    def measured(effort: Effort) -> Sequence[Measured]:
        single, n = made(None), jax.local_device_count()
        baseline = alone(Looped(single.function, single.state, single.arrays), effort)
        del single
        mesh = mesh_of_all(AxisType.Explicit)
        with jax.set_mesh(mesh):
            step = made(mesh)
            rows = [scaled(case, OPERATOR, _looped(step.function, step, mesh), baseline, effort)]
        if not step.plain:
            return rows
        mesh = mesh_of_all(AxisType.Auto)
        with jax.set_mesh(mesh):
            plain = scaled(case, OPERATOR, _looped(step.plain, step, mesh), baseline, effort)
            exchanged = sampled(_all_to_all(step.arrays[-1], mesh), effort)
        times = [seconds * (1 if update == FORWARD else 2) for seconds in exchanged]
        rest: Any = {"moved": plain.moved, "same_bits": True, "why": plain.why}
        return [
            *rows,
            replace(plain, contender=PLAIN),
            Measured.of(case, OPERATOR, FLOOR, times, baseline.seconds / n, **rest),
        ]

    return Job(case, measured)


def _looped(function: Callable[..., State], step: Step, mesh: Any) -> Looped:
    """The step on a mesh, which is set."""
    of_state, of_arrays = (jax.tree.map(partial(NamedSharding, mesh), spec) for spec in step.specs)
    return Looped(function, jax.device_put(step.state, of_state), jax.device_put(list(step.arrays), of_arrays))


def _all_to_all(rows: jax.Array, mesh: Any) -> Looped:
    """An exchange of rows, of which each device sends an equal part to each."""
    swap = partial(lax.all_to_all, axis_name="d", split_axis=0, concat_axis=0, tiled=True)
    function = jax.shard_map(swap, mesh=mesh, in_specs=PARTS, out_specs=PARTS)
    return _looped(function, Step(function, rows, (), (PARTS, PARTS)), mesh)


# Tables.


def _uniform(rows: int, count: int) -> jax.Array:
    return hashed_data((count,), str(rows))


def _zipf(rows: int, count: int) -> jax.Array:
    """Zipf's law with the exponent 1; frequent rows are anywhere in the table."""
    rank = jnp.exp(hashed_data((count,), "u1") * math.log(rows)).astype(jnp.uint32)
    return (rank * np.uint32(0x9E3779B1) % np.uint32(rows)).astype(jnp.int32)


def _sgd(state: State, row: jax.Array, gradient: jax.Array) -> State:
    (table,) = state
    return (dml_jax.scatter_nd(table, row[:, None], -RATE * gradient, reduction="add"),)


def _adagrad(state: State, row: jax.Array, gradient: jax.Array) -> State:
    """The rate of a row falls with its accumulated squared gradients; other rows are not read."""
    table, squares = state
    row, gradient = layers.coalesce(row, gradient, len(table))
    square = dml_jax.gather(squares, row, axis=0) + gradient**2
    new = dml_jax.gather(table, row, axis=0) - RATE * gradient / jnp.sqrt(square + 1e-6)
    write = partial(dml_jax.scatter_nd, unique_indices=True)
    return write(table, row[:, None], new), write(squares, row[:, None], square)


def _plain_sgd(state: State, ids: jax.Array, gradient: jax.Array) -> State:
    return (state[0].at[ids].add(-RATE * gradient),)


def _plain_adagrad(state: State, ids: jax.Array, gradient: jax.Array) -> State:
    table, squares = state
    whole = jnp.zeros_like(table).at[ids].add(gradient)
    squares = squares + whole**2
    return table - RATE * whole / jnp.sqrt(squares + 1e-6), squares


FORWARD = "forward"
IDS = {"uniform": _uniform, "Zipf": _zipf}
UPDATES: dict[str, Any] = {FORWARD: (None, None), "SGD": (_sgd, _plain_sgd), "Adagrad": (_adagrad, _plain_adagrad)}


def _table(size: int, width: int, ids: str, update: str, mesh: Any) -> Step:
    """Reads rows of a table that is sharded by rows, and trains them towards targets."""
    n = jax.local_device_count()
    rows = max(1, size // (4 * width) // (8 * n)) * 8 * n
    count = min(TOKENS * n, rows)
    (ours, plain), axis = UPDATES[update], None if mesh is None else "d"

    def read(table: jax.Array, ids: jax.Array) -> jax.Array:
        return layers.embedding_lookup(table, ids, axis) if axis else dml_jax.gather(table, ids, axis=0)

    def taken(table: jax.Array, ids: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(jnp.take(table, ids, axis=0), PARTS)

    def step(state: State, ids: jax.Array, targets: jax.Array) -> State:
        row, gradient = ids, 2 * (read(state[0], ids) - targets)
        if axis:
            row, gradient = layers.embedding_gradients(ids, gradient, len(state[0]), axis)
        return ours(state, row, gradient)

    def plain_step(state: State, ids: jax.Array, targets: jax.Array) -> State:
        return plain(state, ids, 2 * (taken(state[0], ids) - targets))

    first, targets = hashed_data((rows, width), ""), hashed_data((count, width), "")
    arrays, state = (IDS[ids](rows, count), targets), (first, jnp.zeros_like(first))[: 1 if update == "SGD" else 2]
    functions: list[Any] = [step, plain_step]
    if update == FORWARD:
        functions = [lambda _, table, ids, __, read=read: read(table, ids) for read in (read, taken)]
        arrays, state = (first, *arrays), None
    if mesh is not None:
        functions[0] = jax.shard_map(functions[0], mesh=mesh, in_specs=PARTS, out_specs=PARTS)
    return Step(functions[0], state, arrays, (PARTS, PARTS), functions[1])


# Experts.


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
    expert, weight = jax.vmap(partial(layers.route, k=CHOSEN))(tokens @ router)
    slot = jax.vmap(partial(layers.buffer_slots, groups=EXPERTS, capacity=capacity))(expert.reshape(len(tokens), -1))
    empty = jnp.zeros((EXPERTS, capacity, tokens.shape[-1]), tokens.dtype)
    buffers = jax.vmap(partial(layers.dispatch, buffers=empty))(jnp.repeat(tokens, CHOSEN, axis=1), slot)
    if axis:  # each group is one device's: [1, expert, slot, width] to [1, own expert, slot of all, width]
        buffers = lax.all_to_all(buffers, axis, split_axis=1, concat_axis=2, tiled=True)
    hidden = jax.nn.relu(jnp.einsum("gecw,ewh->gech", buffers, up))
    buffers = jnp.einsum("gech,ehw->gecw", hidden, down)
    if axis:
        buffers = lax.all_to_all(buffers, axis, split_axis=2, concat_axis=1, tiled=True)
    return jax.vmap(layers.weighted_sum)(jax.vmap(layers.collect)(buffers, slot), weight)


def lines(rows: Sequence[Measured]) -> Iterator[list[str]]:
    """The cells of each program."""
    for case, measured in by_case(rows):
        row, plain, floor = map(measured.get, ("dml_jax", PLAIN, FLOOR))
        assert row
        cells = f"{row.seconds * 1e3:.3g}", f"{row.of_copy:.2f}" if row.same_bits else "differs"
        faster = f"{plain.seconds / row.seconds:.2f}" if plain else "-"
        least = f"{floor.seconds * 1e3:.3g}" if floor else "-"
        yield [case.removeprefix(f"{OPERATOR} "), *cells, faster, least, worded(row.collectives or {}) or "-"]


def table(title: str, rows: Sequence[Measured], *_: Any) -> Table:
    """A line for each program."""
    return unframed(title, ["step", "ms", "of linear", "x jax.numpy", "floor ms", "collectives"], lines(rows))
