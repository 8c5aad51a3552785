"""Embedding tables sharded by rows (dml_jax.layers): results, gradients and collectives, against one device."""

import itertools
import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from jax import lax

import dml_jax
from dml_jax import ConstraintError, DataTypeError, use_form
from dml_jax.layers import coalesce, embedding_gradients, embedding_lookup
from dml_jax.operations.programs import variant_selection

ROWS, WIDTH, TOKENS = 64, 6, 80
IDS = {
    "unique": lambda rng: rng.permutation(ROWS)[: ROWS // 2],
    "uniform": lambda rng: rng.integers(0, ROWS, TOKENS),
    "Zipf": lambda rng: rng.permutation(ROWS)[(rng.zipf(1.3, TOKENS) - 1) % ROWS],
    "one": lambda rng: np.full(TOKENS, 37),  # one device owns all that travels: as many rounds as there can be
    "out of range": lambda rng: rng.integers(-2 * ROWS, 2 * ROWS, TOKENS),
}

# By name: sizes of a mesh, the axes of the table, and those of the ids.
MESHES = {
    "8": ((8,), "a", "a"),
    "2 x 4, rows on one axis": ((2, 4), "b", ("a", "b")),
    "2 x 4, rows on both": ((2, 4), ("a", "b"), ("a", "b")),
    "1": ((1,), "a", "a"),
}


class Setting:
    """A mesh with functions of whole arrays, which each device computes from its part."""

    def __init__(self, name="8", kind=jax.sharding.AxisType.Explicit):
        sizes, self.rows, self.tokens = MESHES[name]
        devices = jax.devices("cpu")[: math.prod(sizes)]
        self.mesh = jax.make_mesh(sizes, ("a", "b")[: len(sizes)], (kind,) * len(sizes), devices=devices)
        self.parts = math.prod(self.mesh.shape[axis] for axis in np.atleast_1d(self.rows))

    def on_each(self, function, *specs, out):
        return jax.shard_map(function, mesh=self.mesh, in_specs=tuple(map(jax.P, specs)), out_specs=jax.P(out))

    def put(self, array, axes):
        return jax.device_put(array, jax.NamedSharding(self.mesh, jax.P(axes)))

    @property
    def lookup(self):
        local = lambda table, ids: embedding_lookup(table, ids, self.rows)  # noqa: E731
        return jax.jit(self.on_each(local, self.rows, self.tokens, out=self.tokens))


def drawn(kind, dtype=np.float32):
    """A table, ids, and cotangents of the rows."""
    rng = np.random.default_rng(3)
    ids = IDS[kind](rng).astype(np.int32)
    table = random_bits(rng, (ROWS, WIDTH), dtype) if dtype != np.float32 else rng.normal(size=(ROWS, WIDTH))
    return table.astype(dtype), ids, rng.normal(size=(len(ids), WIDTH)).astype(np.float32)


def random_bits(rng, shape, dtype):
    size = jnp.dtype(dtype).itemsize
    return rng.integers(0, 256, (*shape, size), dtype=np.uint8).view(jnp.dtype(dtype))[..., 0]


# Results.


BITS = [*itertools.product(IDS, ["float32", "bfloat16", "uint8", "complex64"])]


@pytest.mark.parametrize("case", sampled(BITS, [("one", "float32"), ("out of range", "bfloat16")]), ids=", ".join)
def test_the_rows_are_those_of_one_device_to_the_bits(case):
    kind, dtype = case
    table, ids, _ = drawn(kind, jnp.dtype(dtype))
    setting = Setting()
    rows = setting.lookup(setting.put(table, "a"), setting.put(ids, "a"))
    assert_same_bits(rows, table[np.clip(np.where(ids < 0, ids + ROWS, ids), 0, ROWS - 1)])
    assert rows.sharding.spec == jax.P("a", None)


GRADIENTS = [*itertools.product(["unique", "uniform"], MESHES)]
SOME = [("unique", "8"), ("uniform", "2 x 4, rows on one axis")]


@pytest.mark.parametrize("case", sampled(GRADIENTS, SOME), ids=", ".join)
def test_gradients_are_those_of_one_device(case):
    """To the bits where ids are unique; a table that is there several times has the sum of its devices' tokens."""
    kind, name = case
    table, ids, cotangents = drawn(kind)
    setting = Setting(name)
    operands = setting.put(table, setting.rows), setting.put(ids, setting.tokens)
    pull_back = jax.jit(lambda table, ids, t: jax.vjp(lambda x: setting.lookup(x, ids), table)[1](t)[0])
    gradient = pull_back(*operands, setting.put(cotangents, setting.tokens))
    expected = np.zeros(table.shape)
    np.add.at(expected, ids, cotangents)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    assert gradient.sharding.spec[0] == setting.rows
    if kind == "unique":
        assert_same_bits(gradient, expected.astype(np.float32))


def test_narrow_gradients_are_added_in_float32():
    """One token a hundred times: bfloat16 would stop at 256."""
    setting = Setting()
    table, ids = setting.put(jnp.zeros((ROWS, 1), jnp.bfloat16), "a"), setting.put(np.full(3000, 5, np.int32), "a")
    with jax.set_mesh(setting.mesh):
        gradient = jax.jit(jax.grad(lambda table: setting.lookup(table, ids).astype(jnp.float32).sum()))(table)
    expected = np.zeros((ROWS, 1))
    expected[5] = 3008
    np.testing.assert_array_equal(np.float64(gradient), expected)


def test_ids_have_any_shape_and_may_be_none():
    setting, (table, ids, _) = Setting(), drawn("uniform")
    whole = setting.put(table, "a")
    assert_same_bits(setting.lookup(whole, setting.put(ids.reshape(8, 2, 5), "a")), table[ids].reshape(8, 2, 5, WIDTH))
    assert setting.lookup(whole, setting.put(np.zeros((8, 0), np.int32), "a")).shape == (8, 0, WIDTH)


@pytest.mark.exhaustive
def test_under_vmap_over_tables_and_over_ids():
    setting, (table, ids, _) = Setting(), drawn("uniform")
    both = lambda table, ids: jax.vmap(lambda x: embedding_lookup(x, ids, "a"))(jnp.stack([table, -table]))  # noqa: E731
    each = lambda table, ids: jax.vmap(lambda i: embedding_lookup(table, i, "a"))(ids)  # noqa: E731
    operands = setting.put(table, "a"), setting.put(ids, "a")
    stacked = jax.shard_map(both, mesh=setting.mesh, in_specs=jax.P("a"), out_specs=jax.P(None, "a"))(*operands)
    assert_same_bits(stacked, np.stack([table[ids], -table[ids]]))
    folded = setting.on_each(each, "a", "a", out="a")(operands[0], setting.put(ids.reshape(16, 5), "a"))
    assert_same_bits(folded, table[ids].reshape(16, 5, WIDTH))


@pytest.mark.exhaustive
def test_forward_and_second_derivatives():
    """The lookup is linear in the table: its tangent is the lookup of the tangent."""
    setting, (table, ids, _) = Setting(kind=jax.sharding.AxisType.Auto), drawn("uniform")
    counts = np.bincount(ids, minlength=ROWS)[:, None]
    whole, ids = setting.put(table, "a"), setting.put(ids, "a")
    lookup = lambda table: setting.lookup(table, ids)  # noqa: E731
    assert_same_bits(jax.jvp(lookup, (whole,), (2 * whole,))[1], 2 * lookup(whole))
    slope = jax.grad(lambda table: (lookup(table) ** 3).sum())
    second = jax.jit(jax.grad(lambda table: slope(table).sum()))(whole)
    np.testing.assert_allclose(second, np.float32(6 * counts) * table, rtol=1e-5, atol=1e-5)


# Training of the rows that are touched.


def sgd(state, rows, gradients):
    (table,) = state
    return (dml_jax.scatter_nd(table, rows[:, None], -0.1 * gradients, reduction="add"),)


def adagrad(state, rows, gradients):
    """Reads and writes the touched rows of table and squares alone."""
    table, squares = state
    rows, sums = coalesce(rows, gradients, len(table))
    squares_of_rows = dml_jax.gather(squares, rows, axis=0) + sums**2
    rows_of_table = dml_jax.gather(table, rows, axis=0) - 0.1 * sums / jnp.sqrt(squares_of_rows + 1e-6)
    write = partial(dml_jax.scatter_nd, mode="drop", unique_indices=True)
    return write(table, rows[:, None], rows_of_table), write(squares, rows[:, None], squares_of_rows)


def trained_whole(update, table, ids, targets, steps):
    """The same steps on one device, of the whole table and in float64."""
    table, squares = table.astype(np.float64), np.zeros(table.shape)
    for _ in range(steps):
        gradient = np.zeros(table.shape)
        np.add.at(gradient, ids, 2 * (table[ids] - targets))
        squares += gradient**2
        table = table - 0.1 * (gradient if update is sgd else gradient / np.sqrt(squares + 1e-6))
    return table


TRAINING = {f"{kind}, {update.__name__}": (kind, update) for kind in ("uniform", "Zipf") for update in (sgd, adagrad)}


@pytest.mark.parametrize("case", sampled(TRAINING, ["Zipf, adagrad"]))
def test_rows_that_are_touched_train_as_on_one_device(case):
    kind, update = TRAINING[case]
    table, ids, targets = drawn(kind)
    setting = Setting()

    def step(state, ids, targets):
        gradients = 2 * (embedding_lookup(state[0], ids, "a") - targets)
        return update(state, *embedding_gradients(ids, gradients, len(state[0]), "a"))

    step = jax.jit(setting.on_each(step, "a", "a", "a", out="a"))
    state = (setting.put(table, "a"), setting.put(np.zeros_like(table), "a"))[: 1 if update is sgd else 2]
    for _ in range(3):
        state = step(state, setting.put(ids, "a"), setting.put(targets, "a"))
    np.testing.assert_allclose(state[0], trained_whole(update, table, ids, targets, 3), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("kind", sampled(IDS, ["out of range"]))
def test_the_owner_of_a_row_gets_all_of_its_gradients_and_adds_them_up(kind):
    _, ids, gradients = drawn(kind)
    clipped = np.clip(np.where(ids < 0, ids + ROWS, ids), 0, ROWS - 1)
    setting, part = Setting(), ROWS // 8

    def both(ids, gradients):
        received = embedding_gradients(ids, gradients, part, "a")
        return received, coalesce(*received, part)

    found = jax.jit(setting.on_each(both, "a", "a", out="a"))(setting.put(ids, "a"), setting.put(gradients, "a"))
    (rows, received), (once, sums) = jax.tree.map(lambda x: np.asarray(x).reshape(8, len(ids), -1), found)
    for device in range(8):
        is_own = clipped // part == device
        np.testing.assert_array_equal(rows[device, :, 0], np.where(is_own, clipped % part, part))
        assert_same_bits(received[device], np.where(is_own[:, None], gradients, np.float32(0)))
        expected = np.zeros((part, WIDTH))
        np.add.at(expected, clipped[is_own] % part, gradients[is_own])
        is_used = once[device, :, 0] < part
        touched = once[device, is_used, 0]
        np.testing.assert_array_equal(np.sort(touched), np.unique(clipped[is_own] % part))
        np.testing.assert_allclose(sums[device, is_used], expected[touched], rtol=1e-5, atol=1e-6)
        assert (once[device, ~is_used] == part).all()
        assert not sums[device, ~is_used].any()


def test_coalesced_gradients_drop_rows_that_the_table_does_not_have_and_are_added_in_float32():
    rows = np.repeat(np.int32([1, 4, -1, 2]), 1000)
    touched, sums = coalesce(rows, jnp.ones((4000, 2), jnp.bfloat16), 4)
    expected = np.full(4000, 4)
    expected[[0, 3000]] = 1, 2
    np.testing.assert_array_equal(touched, expected)
    totals = np.zeros((4000, 2))
    totals[[0, 3000]] = 1000
    np.testing.assert_array_equal(np.float64(sums), totals)


# Collectives.

COLLECTIVE = re.compile(r"= \(?\w+\[([\d,]*)\].* (all-gather|all-reduce|all-to-all|collective-permute)\(")


def test_nothing_of_the_size_of_the_table_travels():
    """Ids are gathered, a number of rounds is reduced, and rows travel by two all-to-alls: there and back."""
    setting, rows = Setting(), 2**12
    table, ids = setting.put(np.zeros((rows, WIDTH), np.float32), "a"), setting.put(np.arange(TOKENS), "a")
    with jax.set_mesh(setting.mesh):
        step = jax.jit(jax.grad(lambda table, ids: (setting.lookup(table, ids) ** 2).sum()))
        found = COLLECTIVE.findall(step.lower(table, ids).compile().as_text())
    kinds = [kind for _, kind in found]
    assert sorted(kinds) == ["all-gather", "all-reduce", "all-to-all", "all-to-all"]
    numbers = [math.prod(map(int, filter(None, sizes.split(",")))) for sizes, _ in found]
    assert max(numbers) < 2 * TOKENS * WIDTH < rows * WIDTH


# On GPUs of one host.


def ragged_all_to_all(operand, output, *updates, axis_name):
    """What its documentation says, of updates of one row or none, with collectives that XLA:CPU has."""
    device, (start, size, to, arriving) = lax.axis_index(axis_name), updates
    devices = lax.axis_size(axis_name)
    mine = [lax.all_gather(x, axis_name).reshape(devices, devices, -1)[:, device] for x in (start, size, to)]
    rows = jax.vmap(lambda operand, start: operand[start])(lax.all_gather(operand, axis_name), mine[0])
    is_sent = mine[1] == 1
    result = output.at[jnp.where(is_sent, mine[2], len(output))].set(rows, mode="drop")
    is_agreed = jnp.array_equal(mine[1].reshape(-1), arriving) & (mine[1] <= 1).all()
    return jnp.where(is_agreed, result, jnp.zeros((), result.dtype))


LARGE = 2**10, 256  # rows, as many tokens, and the width: enough bytes for a variant


def large(setting):
    rng = np.random.default_rng(5)
    table, cotangents = rng.normal(size=(2, *LARGE)).astype(np.float32)
    ids = rng.permutation(LARGE[0]).astype(np.int32)
    return setting.put(table, setting.rows), setting.put(ids, setting.tokens), setting.put(cotangents, setting.tokens)


@pytest.mark.parametrize("name", sampled(MESHES, ["2 x 4, rows on both"]))
def test_updates_of_a_ragged_all_to_all_are_the_same_rows(name, monkeypatch):
    monkeypatch.setattr(lax, "ragged_all_to_all", ragged_all_to_all)
    setting = Setting(name)
    table, ids, cotangents = large(setting)

    def both(table, ids, cotangents):
        rows, pull_back = jax.vjp(lambda table: setting.lookup(table, ids), table)
        return rows, pull_back(cotangents)[0]

    with use_form("ragged_rows"), variant_selection.watch_choices() as seen:
        rows, gradient = jax.jit(both)(table, ids, cotangents)
    assert {("fetch_rows", "ragged_rows"), ("send_rows", "ragged_rows")} <= {(one.operation, one.name) for one in seen}
    assert_same_bits(rows, np.asarray(table)[ids])
    expected = np.zeros_like(table)
    expected[ids] = cotangents
    assert_same_bits(gradient, expected)


@pytest.mark.parametrize(
    ("name", "processes", "is_ragged"), [("8", 1, True), ("8", 2, False), ("2 x 4, rows on one axis", 1, True)]
)
def test_gpus_of_one_host_exchange_rows_by_ragged_all_to_all(name, processes, is_ragged, monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    setting = Setting(name)
    lowered = setting.lookup.trace(*large(setting)[:2]).lower(lowering_platforms=("cuda",))
    assert ("@ragged_all_to_all" in lowered.as_text()) == is_ragged
    assert ("stablehlo.all_to_all" in lowered.as_text()) == (not is_ragged)


@pytest.mark.exhaustive
def test_elements_of_four_bits_travel_in_rounds_on_every_platform():
    setting, (table, ids, _) = Setting(), large(Setting())
    narrow = setting.put(np.asarray(table).astype(jnp.int4), "a")
    lowered = setting.lookup.trace(narrow, ids).lower(lowering_platforms=("cuda",))
    assert "ragged_all_to_all" not in lowered.as_text()
    assert_same_bits(setting.lookup(narrow, ids), np.asarray(narrow)[ids])


# Errors.


def test_outside_of_shard_map_the_error_says_what_to_do():
    for call in (
        lambda: embedding_lookup(np.zeros((4, 2), np.float32), [1], "rows"),
        lambda: embedding_gradients([1], np.zeros((1, 2), np.float32), 4, "rows"),
    ):
        with pytest.raises(ConstraintError, match=r"axis of the jax\.shard_map around the call, .* but it is 'rows'"):
            call()
        with pytest.raises(ConstraintError, match="but it is 'rows'"):  # an axis, but not one of devices
            jax.vmap(lambda _, call=call: call(), axis_name="rows")(np.zeros(2))


@pytest.mark.parametrize("axis", ["x", None, 0, (), ["a"], ("a", "a"), ("a", "x"), (["a"],)], ids=repr)
def test_axes_are_those_of_the_mesh_and_differ(axis):
    setting = Setting()
    table, ids = setting.put(np.zeros((ROWS, 2), np.float32), "a"), setting.put(np.arange(16), "a")
    with pytest.raises(ConstraintError, match=r"axis_name must be an axis of the .*, or a tuple of several"):
        setting.on_each(lambda t, i: embedding_lookup(t, i, axis), "a", "a", out="a")(table, ids)


def test_operands_are_whole_along_explicit_axes_that_are_left_out():
    setting = Setting("2 x 4, rows on one axis")
    axes = {"mesh": setting.mesh, "in_specs": jax.P("b"), "out_specs": jax.P("b"), "axis_names": {"b"}}
    table, ids = np.zeros((ROWS, 2), np.float32), np.arange(16)
    ids = setting.put(ids, "b")
    by_width = jax.device_put(table, jax.NamedSharding(setting.mesh, jax.P("b", "a")))
    calls = {
        "table": lambda t, i: embedding_lookup(t, i, "b"),
        "gradients": lambda t, i: embedding_gradients(i, t[: len(i)], 2, "b")[1],
    }
    for name, call in calls.items():
        with jax.set_mesh(setting.mesh), pytest.raises(ConstraintError, match=f"{name} must be whole along Explicit"):
            jax.shard_map(call, **axes)(by_width, ids)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t, i: embedding_lookup(t[:, 0], i, "a"), ConstraintError, "table must be"),
        (lambda t, i: embedding_gradients(i, t[:2], 2**28, "a")[1], ConstraintError, "fewer than 2.*31 rows"),
        (lambda t, i: embedding_lookup(t, i.astype(jnp.float32), "a"), DataTypeError, "ids.dtype must be an integer"),
        (lambda t, i: embedding_gradients(i, t[:, 0], 2, "a")[1], ConstraintError, "gradients must"),
        (lambda t, i: embedding_gradients(i, t[:2], 0, "a")[1], ConstraintError, "rows must be at least 1"),
        (lambda t, i: coalesce(i[:1], t, 4)[1], ConstraintError, "with a slot for each of rows"),
        (lambda t, i: coalesce(i, t[:2], 2**31)[1], ConstraintError, "count must be at least 1 and at most 2147483647"),
    ],
)
def test_errors_name_the_rule(call, error, words):
    setting = Setting()
    table, ids = setting.put(np.zeros((ROWS, 2), np.float32), "a"), setting.put(np.arange(16), "a")
    with pytest.raises(error, match=words):
        setting.on_each(call, "a", "a", out="a")(table, ids)
