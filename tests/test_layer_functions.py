"""`dml_jax.layers`, against loops and whole-array formulas of NumPy."""

import re
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from small_arrays import narrow_floats

from dml_jax import ConstraintError, DataTypeError, layers

ROWS, GROUPS, WIDTH = 40, 5, 3
RNG = np.random.default_rng(7)
GROUP = RNG.integers(0, GROUPS, ROWS).astype(np.int32)
COPIES = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)


# Routing.


def test_narrow_differences_choose_and_ties_go_to_the_lower_expert():
    logits = np.float32([[1, 1 + 2**-20, 0, -3], [2, 2, 2, 2]])
    expert, weight = layers.route(logits, 2)
    np.testing.assert_array_equal(expert, [[1, 0], [0, 1]])
    powers = np.exp(np.float64(logits))
    wanted = np.take_along_axis(powers / powers.sum(axis=1, keepdims=True), np.asarray(expert), axis=1)
    np.testing.assert_allclose(weight, wanted, rtol=1e-6)


def test_the_weights_have_gradients_and_the_choice_has_none():
    logits = RNG.normal(size=(6, 4)).astype(np.float32)
    cotangent = RNG.normal(size=(6, 2)).astype(np.float32)
    slope = jax.grad(lambda x: (layers.route(x, 2)[1] * cotangent).sum())(logits)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    at_all = np.zeros_like(logits)
    np.put_along_axis(at_all, np.argsort(-logits, axis=1)[:, :2], cotangent, axis=1)
    np.testing.assert_allclose(slope, softmax * (at_all - (at_all * softmax).sum(axis=1, keepdims=True)), atol=1e-6)


def test_rows_sorted_by_group_and_back():
    order, inverse = layers.sort_by_group(GROUP)
    np.testing.assert_array_equal(order, np.argsort(GROUP, kind="stable"))
    np.testing.assert_array_equal(inverse, np.argsort(order))
    sorted_rows = layers.permute_rows(COPIES, order)
    assert_same_bits(sorted_rows, COPIES[order])
    assert_same_bits(layers.permute_rows(sorted_rows, inverse), COPIES)


@pytest.mark.parametrize("padding", [[], [GROUPS] * 3, [-1, -GROUPS, np.iinfo(np.int32).min]])
def test_sizes_count_rows_of_groups_alone(padding):
    group = np.append(GROUP, np.int32(padding))
    sizes = layers.group_sizes(group, GROUPS)
    assert sizes.dtype == jnp.int32
    np.testing.assert_array_equal(sizes, np.bincount(GROUP, minlength=GROUPS))


def test_sorted_rows_of_no_group_lie_behind_the_sizes():
    """As jax.lax.ragged_dot takes them: padding is multiplied with nothing."""
    group = np.where(np.arange(ROWS) % 4 == 0, -1, GROUP).astype(np.int32)
    order = np.asarray(layers.sort_by_group(group)[0])
    sizes = np.asarray(layers.group_sizes(group, GROUPS))
    np.testing.assert_array_equal(group[order], np.append(np.repeat(np.arange(GROUPS), sizes), [-1] * (ROWS // 4)))


def slots_by_loop(group, capacity):
    used = np.zeros(GROUPS + 2, int)
    slots = []
    for of_row in group:
        fits = 0 <= of_row < GROUPS and used[of_row] < capacity
        slots.append(of_row * capacity + used[of_row] if fits else GROUPS * capacity)
        used[of_row] += 1
    return slots


@pytest.mark.parametrize("padding", [GROUPS, -2])
@pytest.mark.parametrize("capacity", [1, 3, ROWS])
def test_buffers_take_the_first_copies_and_none_of_padding(capacity, padding):
    """Numbers of no group are padding: their copies are dropped, and displace none."""
    group = np.where(np.arange(ROWS) % 6 == 5, padding + np.arange(ROWS) % 2, GROUP).astype(np.int32)
    slot = np.asarray(layers.buffer_slots(group, GROUPS, capacity))
    np.testing.assert_array_equal(slot, slots_by_loop(group, capacity))
    buffers = layers.dispatch(COPIES, slot, jnp.full((GROUPS, capacity, WIDTH), -1, jnp.float32))
    wanted = np.full((GROUPS * capacity, WIDTH), -1, np.float32)
    is_kept = slot < len(wanted)
    wanted[slot[is_kept]] = COPIES[is_kept]
    assert_same_bits(buffers.reshape(-1, WIDTH), wanted)
    assert_same_bits(layers.collect(buffers, slot), np.where(is_kept[:, None], COPIES, np.float32(0)))
    slope = jax.grad(lambda rows: (layers.dispatch(rows, slot, buffers) ** 2).sum())(COPIES)
    assert_same_bits(slope, np.where(is_kept[:, None], 2 * COPIES, np.float32(0)))


def test_copies_are_added_up():
    weight = RNG.normal(size=(ROWS // 4, 4)).astype(np.float32)
    wanted = (COPIES.reshape(-1, 4, WIDTH) * weight[..., None]).sum(axis=1)
    np.testing.assert_allclose(layers.weighted_sum(COPIES, weight), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("step", "written"), [("permute", 0), ("dispatch", 0), ("collect", 1)])
def test_transposes_read_rows_or_write_them_once(step, written):
    """Of so many and so long rows that the inverse of a permutation pays on CPUs."""
    rows, order = np.zeros((256, 128), np.float32), np.arange(256, dtype=np.int32)[::-1]
    calls = {
        "permute": layers.permute_rows,
        "dispatch": lambda rows, order: layers.dispatch(rows, order, jnp.zeros((4, 64, 128))),
        "collect": lambda rows, order: layers.collect(rows.reshape(4, -1, 128), order),
    }

    def transposed(cotangent, order):
        return jax.linear_transpose(lambda rows: calls[step](rows, order), rows)(cotangent)

    results = jax.eval_shape(calls[step], rows, order)
    text = jax.jit(transposed).lower(results, order).compile().as_text()
    assert len(re.findall(r"= f32\S+ scatter\(", text)) == written
    assert bool(re.search(r"= [fu]32\S+ gather\(", text)) == (not written)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64"])
def test_groups_of_every_type(dtype):
    """Slots may be larger than the type of the groups; lists do as well."""
    group = np.array([2, 0, 2, 1]).astype(dtype)
    for given in (group, group.tolist()):
        np.testing.assert_array_equal(layers.buffer_slots(given, 3, 200), [400, 0, 401, 200])
        np.testing.assert_array_equal(layers.group_sizes(given, 3), [1, 1, 2])
        np.testing.assert_array_equal(layers.sort_by_group(given)[0], [1, 3, 0, 2])
    if dtype in ("uint32", "int64"):
        group[0] = np.iinfo(dtype).max  # padding
        np.testing.assert_array_equal(layers.buffer_slots(group, 3, 200), [600, 0, 400, 200])
        np.testing.assert_array_equal(layers.group_sizes(group, 3), [1, 1, 1])


# Softmax over segments.


def softmax_by_loop(scores, segments):
    """In float64."""
    wanted = np.zeros(scores.shape)
    for segment in np.unique(segments):
        of = np.float64(scores[segments == segment])
        powers = np.exp(of - of.max(axis=0))
        wanted[segments == segment] = powers / powers.sum(axis=0)
    return wanted


@pytest.mark.parametrize("heads", sampled([(), (4,), (2, 3)], [(2, 3)]))
def test_softmax_by_segment(heads):
    """Scores of 1000 overflow no exponential; segment 5 is empty."""
    scores = 10 * RNG.normal(size=(ROWS, *heads)) + 1000 * (GROUP == 2).reshape(-1, *(1 for _ in heads))
    scores = scores.astype(np.float32)
    weights = jax.jit(layers.segment_softmax, static_argnums=2)(scores, GROUP, 6)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, softmax_by_loop(scores, GROUP), rtol=4e-6, atol=1e-7)


def test_the_gradient_is_that_of_each_softmax():
    scores, cotangent = RNG.normal(size=(2, ROWS)).astype(np.float32)
    slope = jax.grad(lambda x: (layers.segment_softmax(x, GROUP, GROUPS) * cotangent).sum())(scores)
    weights = softmax_by_loop(scores, GROUP)
    means = np.bincount(GROUP, weights * cotangent, GROUPS)[GROUP]
    np.testing.assert_allclose(slope, weights * (cotangent - means), atol=1e-6)


def test_a_segment_of_minus_infinity_alone_is_nan_as_in_jax():
    scores = np.float32([-np.inf, 1, -np.inf, 1])
    np.testing.assert_array_equal(layers.segment_softmax(scores, np.int32([0, 1, 0, 1]), 2), [np.nan, 0.5, np.nan, 0.5])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: layers.segment_softmax(x, np.int32([0, 0, 1, 1]), 2),
        lambda x: layers.route(x.reshape(2, 2), 2)[1].ravel(),
    ],
    ids=["segment_softmax", "route"],
)
def test_derivatives_are_0_where_all_are_minus_infinity(call):
    """So NaN that the caller replaces does not come back in the gradient."""
    scores, cotangent = np.float32([-np.inf, -np.inf, 1, 1]), np.float32([1, 2, 3, 4])
    slope = jax.jit(jax.grad(lambda x: (jnp.where(x == -jnp.inf, 0, call(x)) * cotangent).sum()))(scores)
    np.testing.assert_allclose(slope, [0, 0, -0.25, 0.25], rtol=1e-6)


# Functions of rows and a number for each, whose count is symbolic; then the rows' sizes.
ROW_WISE = {
    "segment_softmax": (lambda x, at: layers.segment_softmax(x, at, 3), (4, 2)),
    "route": (lambda x, _: layers.route(x, 2), (4, 4)),
    "weighted_sum": (lambda x, at: layers.weighted_sum(x, jnp.ones((at.size, 1))), (4, 3)),
    "permute_rows": (layers.permute_rows, (4, 3)),
    "group_sizes": (lambda _, at: layers.group_sizes(at, 3), (4, 3)),
    "sort_by_group": (lambda _, at: layers.sort_by_group(at), (4, 3)),
    "buffer_slots": (lambda _, at: layers.buffer_slots(at, 3, 2), (4, 3)),
    "dispatch": (lambda x, at: layers.dispatch(x, at, jnp.zeros((2, 2, 3))), (4, 3)),
    "collect": (lambda x, at: layers.collect(x[None], at), (4, 3)),
    "coalesce": (lambda x, at: layers.coalesce(at, x, 3), (4, 3)),
    "patches": (lambda x, _: layers.patches(x, 2), (4, 3, 4, 4)),
}


@pytest.mark.parametrize(("call", "sizes"), ROW_WISE.values(), ids=ROW_WISE)
def test_a_symbolic_number_of_rows_is_exported(call, sizes):
    arrays, scope = (RNG.normal(size=sizes).astype(np.float32), np.int32([2, 0, 1, 3])), jax.export.SymbolicScope()
    shapes = [jax.export.symbolic_shape("n, ...", scope=scope, like=a.shape) for a in arrays]
    specs = [jax.ShapeDtypeStruct(shape, a.dtype) for shape, a in zip(shapes, arrays, strict=True)]
    exported = jax.export.export(jax.jit(call))(*specs)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), exported.call(*arrays), call(*arrays))


# Narrow floats.


@pytest.mark.parametrize("dtype", [*narrow_floats(), np.dtype("float16")], ids=str)
@pytest.mark.parametrize(
    "call",
    [lambda rows: layers.segment_softmax(rows, GROUP, GROUPS), lambda rows: layers.route(rows, 2)],
    ids=["segment_softmax", "route"],
)
def test_a_softmax_of_narrow_floats_is_that_of_float32_rounded_once(call, dtype):
    """Some of these types have no infinity, from which a maximum could start."""
    rows = np.abs(COPIES).astype(dtype)
    wanted = jax.tree.map(
        lambda y: np.asarray(y).astype(y.dtype if y.dtype == np.int32 else dtype), call(jnp.float32(rows))
    )
    jax.tree.map(assert_same_bits, call(rows), wanted)


# Patches.


@pytest.mark.parametrize("size", sampled([1, 2, 3], [3]))
@pytest.mark.parametrize("batch", [(), (2, 2)])
def test_patches_are_the_squares_flat(batch, size):
    pictures = RNG.integers(0, 99, (*batch, 4, 2 * size, 3 * size)).astype(np.uint8)
    squares = [pictures[..., r * size : (r + 1) * size, c * size : (c + 1) * size] for r in range(2) for c in range(3)]
    wanted = np.stack([square.reshape(*batch, -1) for square in squares], axis=-2)
    assert_same_bits(layers.patches(pictures, size), wanted)
    last = [np.moveaxis(square, -3, -1).reshape(*batch, -1) for square in squares]
    wanted = np.stack(last, axis=-2)
    assert_same_bits(layers.patches(np.moveaxis(pictures, -3, -1), size, data_format="NHWC"), wanted)


# Mistakes.


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: layers.segment_softmax(np.int32([1, 2]), [0, 1], 2), DataTypeError, "scores must be floats"),
        (
            lambda: layers.segment_softmax(np.zeros(3, np.float32), GROUP, 3),
            ConstraintError,
            r"segment_softmax: scores must have a row for each of segments \[element\], but its shape is \(3,\)",
        ),
        (lambda: layers.patches(np.zeros((3, 5, 4), np.float32), 2), ConstraintError, "multiple of block_size"),
        (lambda: layers.patches(np.zeros((4, 4), np.float32), 2), ConstraintError, "three dimensions|at least 3"),
        (lambda: layers.group_sizes(np.float32([0, 1]), 2), DataTypeError, "integer"),
        (
            lambda: layers.dispatch(COPIES, GROUP[:3], jnp.zeros((2, 2, WIDTH))),
            ConstraintError,
            r"dispatch: copies must be \[copy, width\], a row for each slot: \(3, 3\), but its shape is \(40, 3\)",
        ),
        (lambda: layers.dispatch([[1.0]], GROUP, jnp.zeros((2, 2, WIDTH))), DataTypeError, "copies must be an array"),
        (
            lambda: layers.dispatch(COPIES, GROUP, jnp.zeros((2, 2, WIDTH), jnp.bfloat16)),
            DataTypeError,
            "dispatch: copies must have the dtype of buffers, bfloat16, but it is float32",
        ),
        (lambda: layers.collect([[1.0]], GROUP), DataTypeError, "collect: buffers must be an array"),
        (lambda: layers.route(COPIES, 9), ConstraintError, "route: k must be at least 1 and at most 3, but it is 9"),
        (lambda: layers.sort_by_group(COPIES[:, 0]), DataTypeError, "group.dtype must be an integer type, .* float32"),
        (
            lambda: layers.sort_by_group(GROUP[None]),
            ConstraintError,
            r"group must be \[row\], but its shape is \(1, 40\)",
        ),
        (lambda: layers.buffer_slots(0, 3, 1), ConstraintError, r"group must be \[copy\]"),
        (lambda: layers.collect(COPIES, GROUP), ConstraintError, r"buffers must be \[group, capacity, width\]"),
        (lambda: layers.segment_softmax(COPIES, GROUP[:, None], 3), ConstraintError, r"segments must be \[element\]"),
        (lambda: layers.route(COPIES[None], 1), ConstraintError, r"logits must be \[token, expert\]"),
        (lambda: layers.route(GROUP[:, None], 1), DataTypeError, "logits must be floats, but they are int32"),
        (lambda: layers.route([[1.0]], 1), DataTypeError, "route: logits must be an array"),
        (lambda: layers.weighted_sum(COPIES, COPIES), ConstraintError, "copies must have a row for each of weight"),
        (lambda: layers.buffer_slots(GROUP, 5, 0), ConstraintError, "capacity must be at least 1, but it is 0"),
        (lambda: layers.group_sizes(GROUP, 2.5), DataTypeError, "groups must be an integer"),
        (lambda: layers.sort_by_group("ab"), DataTypeError, "sort_by_group: group must be"),
        (lambda: layers.segment_softmax(np.zeros(3), [0, 1, 0], 2), DataTypeError, "float64 needs 64-bit types"),
    ],
)
def test_mistakes(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda rows: layers.group_sizes(rows, 3),
        layers.sort_by_group,
        lambda rows: layers.buffer_slots(rows, 3, 2),
        lambda rows: layers.segment_softmax(rows.astype(np.float32), rows, 3),
    ],
    ids=["group_sizes", "sort_by_group", "buffer_slots", "segment_softmax"],
)
def test_rows_that_a_mesh_divides_are_refused(call):
    """Each device has rows of every group, but within jax.shard_map a call is about its own."""
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        rows = jax.device_put(np.int32([0, 1, 2, 0, 1, 2, 0, 1]), jax.P("x"))
        with pytest.raises(ConstraintError, match="must have all rows on each device"):
            call(rows)
        jax.shard_map(lambda rows: jax.tree.map(jnp.ravel, call(rows)), in_specs=jax.P("x"), out_specs=jax.P("x"))(rows)
