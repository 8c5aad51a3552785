"""Every form under every transformation: derivatives, batches, export, meshes and symbolic sizes."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, spread, together
from form_cases import FAST, RNG, SPACE, changes, random_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import use_form

pytestmark = pytest.mark.device

# What every form of one case must survive; that it does apply is checked.
DEPTH = RNG.standard_normal((2, 16, 4, 4)).astype(np.float16)
TABLE_ROWS = RNG.standard_normal((6, 8)).astype(np.float16)
MANY_MEET = np.where(RNG.integers(0, 3, (6, 64)) > 0, RNG.integers(0, 3, (6, 1)), RNG.integers(0, 8, (6, 64)))
COLUMNS = RNG.integers(0, 6, (4, 8), dtype=np.int32)
APPLIED = {
    "space_to_depth tiles": ("tiles", lambda x: dml_jax.space_to_depth(x, 2), SPACE),
    "space_to_depth float32 tiles": ("tiles", lambda x: dml_jax.space_to_depth(x, 2), SPACE.astype(np.float32)),
    "space_to_depth element tiles": ("element_tiles", lambda x: dml_jax.space_to_depth(x, 2, order="CRD"), SPACE),
    "space_to_depth tiles, x in parts": (
        "tiles",
        lambda x: dml_jax.space_to_depth(x, 8),
        np.concatenate([SPACE, SPACE], -1),
    ),
    "space_to_depth rows first": ("rows_first", lambda x: dml_jax.space_to_depth(x, 4), SPACE),
    "depth_to_space in halves": ("halved", lambda x: dml_jax.depth_to_space(x, 2), DEPTH),
    "space_to_depth split first": ("split", lambda x: dml_jax.space_to_depth(x, 4), SPACE),
    "space_to_depth apart": ("apart", lambda x: dml_jax.space_to_depth(x, 4), SPACE),
    "space_to_depth in ranges": ("ranges", lambda x: dml_jax.space_to_depth(x, 8, order="CRD"), SPACE),
    "space_to_depth words": ("words", lambda x: dml_jax.space_to_depth(x, 2, data_format="NHWC"), SPACE),
    "depth_to_space tiles": ("tiles", lambda x: dml_jax.depth_to_space(x, 2), DEPTH),
    "depth_to_space NHWC": (
        "tiles",
        lambda x: dml_jax.depth_to_space(x, 2, order="CRD", data_format="NHWC"),
        np.moveaxis(np.concatenate([DEPTH, DEPTH], 1), 1, -1),
    ),
    "depth_to_space double words": (
        "double_words",
        lambda x: dml_jax.depth_to_space(x, 2, order="CRD", data_format="NHWC"),
        np.moveaxis(DEPTH, 1, -1),
    ),
    "depth_to_space summed": ("summed", lambda x: dml_jax.depth_to_space(x, 4), DEPTH),
    "depth_to_space in pairs": (
        "summed",
        lambda x: dml_jax.depth_to_space(x, 2, data_format="NHWC"),
        np.moveaxis(DEPTH[:, :12], 1, -1).astype(jnp.float8_e5m2),
    ),
    "as_strided summed": ("summed", lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)), TABLE_ROWS),
    "depth_to_space element tiles": ("element_tiles", lambda x: dml_jax.depth_to_space(x, 2, order="CRD"), DEPTH),
    "space_to_depth joined": ("joined", lambda x: dml_jax.space_to_depth(x, 2, data_format="NHWC"), SPACE),
    "gather words": ("words", lambda x: dml_jax.gather(x, np.int32([[1, -1], [5, 0]]), 0), TABLE_ROWS),
    "gather_nd words": ("words", lambda x: dml_jax.gather_nd(x, np.int32([[1], [-1]])), TABLE_ROWS),
    "as_strided branched": ("branched", lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)), TABLE_ROWS),
    "as_strided split": ("split", lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)), TABLE_ROWS),
    "as_strided halved": ("halved", lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)), TABLE_ROWS),
    "as_strided panels": ("panels", lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)), TABLE_ROWS),
    "as_strided integers": (
        "integers",
        lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)),
        TABLE_ROWS.astype(np.float16),
    ),
    "as_strided_scatter copied": (
        "copied",
        lambda x: dml_jax.as_strided_scatter(x.reshape(-1), 2 * x[:2], (12, 1), offset=4),
        TABLE_ROWS,
    ),
    "gather bounded": ("bounded", lambda x: dml_jax.gather(x, np.int32([[1, -1], [5, 0]]), 0), TABLE_ROWS),
    "gather, indices first": ("indices_first", lambda x: dml_jax.gather(x, np.int32([[1, -1], [5, 0]]), 0), TABLE_ROWS),
    "gather_nd bounded": (
        "bounded",
        lambda x: dml_jax.gather_nd(x, np.int32([[1], [-1]]), mode="fill"),
        TABLE_ROWS.reshape(6, 2, 4),
    ),
    "scatter_nd copied": (
        "copied",
        lambda x: dml_jax.scatter_nd(x, np.int32([[1], [-1], [9]]), x[:3] + x[:3]),
        TABLE_ROWS,
    ),
    "scatter_elements copied": (
        "copied",
        lambda x: dml_jax.scatter_elements(x, COLUMNS[:2], x[:2] + x[:2], 0),
        TABLE_ROWS,
    ),
    "scatter_nd words": (
        "words",
        lambda x: dml_jax.scatter_nd(x, np.int32([[1], [-1], [9]]), x[:3] + x[:3]),
        TABLE_ROWS,
    ),
    "as_strided words": ("words", lambda x: dml_jax.as_strided(x.reshape(-1), (3, 4), (10, 1), offset=2), TABLE_ROWS),
    "as_strided apart": ("apart", lambda x: dml_jax.as_strided(x.reshape(-1), (8, 6), (1, 8)), TABLE_ROWS),
    "as_strided in tiles": ("tiles", lambda x: dml_jax.as_strided(x.reshape(-1), (8, 6), (1, 8)), TABLE_ROWS),
    "as_strided as matrices": ("matrices", lambda x: dml_jax.as_strided(x.reshape(-1), (8, 6), (1, 8)), TABLE_ROWS),
    "as_strided as matrices, apart": (
        "matrices_apart",
        lambda x: dml_jax.as_strided(x.reshape(-1), (8, 6), (1, 8)),
        TABLE_ROWS,
    ),
    "as_strided joined": ("joined", lambda x: dml_jax.as_strided(x.reshape(-1), (8, 6), (1, 8)), TABLE_ROWS),
    "gather joined": ("joined", lambda x: dml_jax.gather(x, np.int32([[1, -1, 3, 0]]), -1), TABLE_ROWS),
    "gather_nd joined": (
        "joined",
        lambda x: dml_jax.gather_nd(x, np.int32([[[1, 0], [5, 7], [0, 3], [2, -1]]])),
        TABLE_ROWS,
    ),
    "gather_elements joined": ("joined", lambda x: dml_jax.gather_elements(x.T, COLUMNS.T, 1), TABLE_ROWS),
    "gather_elements axis last": ("axis_last", lambda x: dml_jax.gather_elements(x, COLUMNS, 0), TABLE_ROWS),
}
# Of what adds up, in the gradient of a gather: small integers, whose sums are exact in any order.
MET, ALONE = np.int32([[5, 0, 5, -1, 2, 5, 5, 3, 0]]), np.int32([3, 1, -6, 5, 2, 4])


def gradient_of(read):
    """The transpose of a read, of what it reads."""
    return lambda x: jax.vjp(read, x)[1](read(x))[0]


SMALL_INTEGERS = RNG.integers(1, 5, (6, 8)).astype(np.float16)
PLANES = RNG.integers(1, 5, (40, 3, 60)).astype(np.float16)
APPLIED |= {
    "copies side by side": ("concatenated", lambda x: dml_jax.tile(x, (2, 3)), SMALL_INTEGERS),
    "border of copies": (
        "gathered",
        lambda x: dml_jax.pad(x, (1, 9), (3, 2), mode="reflection"),
        SMALL_INTEGERS,
    ),
    "border of copies, windowed": (
        "windowed",
        lambda x: dml_jax.pad(x, (0, 1, 4), (0, 2, 3), mode="reflection"),
        PLANES,
    ),
    "border, windowed": ("windowed", lambda x: dml_jax.pad(x, (0, 1, 4), (0, 2, 3)), PLANES),
    "copies of rows, branched": ("branched", lambda x: dml_jax.tile(x, (2, 3)), SMALL_INTEGERS),
    "joined in a run": ("flattened", lambda x: dml_jax.join([x, x[1:3]], 0), PLANES),
    "split branched": ("branched", lambda x: dml_jax.split(x, (10, 30), 0)[1], PLANES),
    "border of copies, joined": ("joined", lambda x: dml_jax.pad(x, (1, 9), (3, 3), mode="edge"), SMALL_INTEGERS),
    "slice joined": ("joined", lambda x: dml_jax.slice(x, (0, 1), (6, 6), (2, -1)), SMALL_INTEGERS),
    "slice of an odd number, joined": ("joined", lambda x: dml_jax.slice(x, (0, 1), (5, 7), (1, 1)), SMALL_INTEGERS),
    "slice words": ("words", lambda x: dml_jax.slice(x, (1, 2), (5, 4), (2, 1)), SMALL_INTEGERS),
    "split words": ("words", lambda x: dml_jax.split(x, (2, 6), 1)[1], SMALL_INTEGERS),
    "join words": ("words", lambda x: dml_jax.join([x, x[:, :2]], 1), SMALL_INTEGERS),
    "join joined": ("joined", lambda x: dml_jax.join([x, x[:, :3], x[:, :1]], 1), SMALL_INTEGERS),
    "upsample joined": ("joined", lambda x: dml_jax.upsample_2d(x, (3, 2)), SMALL_INTEGERS),
    "copies joined": ("joined", lambda x: dml_jax.tile(x[:, :5], (2, 2)), SMALL_INTEGERS),
    "copies fanned out": ("fanned_out", lambda x: dml_jax.tile(x[:, :5], (8, 3)), SMALL_INTEGERS),
    "copies of words": ("words", lambda x: dml_jax.tile(x, (2, 3)), SMALL_INTEGERS),
    "border joined": ("joined", lambda x: dml_jax.pad(x, (1, 1), (0, 1)), SMALL_INTEGERS),
    "gradient copies": ("copies", gradient_of(lambda x: dml_jax.gather(x, MET, 0)), SMALL_INTEGERS),
    "gradient runs": ("runs", gradient_of(lambda x: dml_jax.gather(x, MET, 0)), SMALL_INTEGERS),
    "gradient of tuples, runs": (
        "runs",
        gradient_of(lambda x: dml_jax.gather_nd(x, MET.T, mode="fill")),
        SMALL_INTEGERS.astype(jnp.bfloat16),
    ),
    "added rows, runs": (
        "runs",
        lambda x: dml_jax.scatter_nd(x, np.int32([[1], [-1], [1]]), x[:3], reduction="add"),
        SMALL_INTEGERS,
    ),
    "gradient chunks": ("chunks", gradient_of(lambda x: dml_jax.gather(x, MET, 0)), SMALL_INTEGERS),
    "gradient pulled": (
        "pulled",
        gradient_of(lambda x: dml_jax.gather(x, MET, 0, mode="fill")),
        SMALL_INTEGERS.astype(jnp.bfloat16),
    ),
    "sum in chunks": ("chunks", lambda x: dml_jax.reduce(x, "sum", (1,)), TABLE_ROWS),
    "sum row by row": ("row_by_row", lambda x: dml_jax.cumulative_summation(x, 0), SMALL_INTEGERS),
    "sum turned": ("turned", lambda x: dml_jax.cumulative_summation(x, 1, direction="decreasing"), SMALL_INTEGERS),
    "sum by triangles": ("triangles", lambda x: dml_jax.cumulative_summation(x, 1, exclusive=True), SMALL_INTEGERS),
    "greatest in rounds": (
        "rounds",
        lambda x: x * dml_jax.top_k(COLUMNS, 1, 3)[1].sum().astype(x.dtype),
        SMALL_INTEGERS,
    ),
    "greatest among blocks": (
        "blocks",
        lambda x: x * dml_jax.top_k(COLUMNS, 1, 1)[1].sum().astype(x.dtype),
        SMALL_INTEGERS,
    ),
    "numbers of flags": (
        "flag_words",
        lambda x: x * dml_jax.nonzero_coordinates(COLUMNS)[1].sum().astype(x.dtype),
        SMALL_INTEGERS,
    ),
    "gradient numbered": (
        "numbered",
        gradient_of(lambda x: dml_jax.gather_elements(x, COLUMNS // 2, 0)),
        SMALL_INTEGERS.astype(jnp.bfloat16),
    ),
    "gradient hottest": ("hottest", gradient_of(lambda x: dml_jax.gather_elements(x, MANY_MEET, 1)), SMALL_INTEGERS),
    "gradient parts": ("parts", gradient_of(lambda x: dml_jax.gather_elements(x, COLUMNS // 2, 0)), SMALL_INTEGERS),
    "gradient sampled": (
        "sampled",
        gradient_of(lambda x: dml_jax.gather(x, MET, 0)),
        SMALL_INTEGERS.astype(np.float32),
    ),
    "gradient filled": (
        "filled",
        gradient_of(lambda x: dml_jax.gather(x, ALONE[:3], 0, unique_indices=True)),
        SMALL_INTEGERS.astype(jnp.bfloat16),
    ),
    "gradient inverse": (
        "inverse",
        gradient_of(lambda x: dml_jax.gather(x, ALONE, 0, unique_indices=True)),
        SMALL_INTEGERS,
    ),
    "gradient filled, tuples": (
        "filled",
        gradient_of(lambda x: dml_jax.gather_nd(x, np.int32([[3], [9], [-1], [0], [2], [7]]), batch_dims=1)),
        SMALL_INTEGERS.astype(jnp.bfloat16),
    ),
    "gradient filled, labels": (
        "filled",
        gradient_of(lambda x: dml_jax.gather_elements(x, np.int32([[3], [9], [-1], [0], [2], [7]]), 1, mode="fill")),
        SMALL_INTEGERS,
    ),
}
every_applied = pytest.mark.parametrize(("form", "function", "x"), APPLIED.values(), ids=APPLIED)
FIRST_OF_FORM = [*{form: name for name, (form, _, _) in reversed(APPLIED.items())}.values()]
# By default one transformation of each form, all seven several times.
first_of_every_form = pytest.mark.parametrize(("name", "which"), spread([*APPLIED], FIRST_OF_FORM, 7))


def test_every_form_is_applied_to_something():
    assert {form for form, _, _ in APPLIED.values()} == set(FAST) - {"wide"}  # of integers, which have no derivative


@first_of_every_form
def test_transformations_see_the_plain_form(name, which):
    form, function, x = APPLIED[name]
    assert changes(function, form, x)
    both = np.stack([x, -x])
    cotangent = np.asarray(RNG.standard_normal(jax.eval_shape(function, x).shape), x.dtype)

    def back(x, cotangent):
        return jax.vjp(function, x)[1](cotangent)[0]

    plain = {"alone": (function, x), "batched": (jax.vmap(function), both), "pulled": (back, x, cotangent)}
    calls = {  # what is called, which of the plain ones it is compared with, and what of that
        "jit": ((function, x), "alone", np.asarray),
        "vmap": ((jax.vmap(function), both), "batched", np.asarray),
        "vmap of other axes": (
            (jax.vmap(function, in_axes=-1, out_axes=1), np.moveaxis(both, 0, -1)),
            *("batched", lambda batched: np.moveaxis(batched, 0, 1)),
        ),
        "jvp": ((lambda x: jax.jvp(function, (x,), (-x,))[1], x), "batched", lambda batched: batched[1]),
        "vjp": ((back, x, cotangent), "pulled", np.asarray),
        "checkpoint": ((jax.checkpoint(function), x), "alone", np.asarray),
        "scan": ((lambda xs: jax.lax.scan(lambda c, x: (c, function(x)), 0, xs)[1], both), "batched", np.asarray),
    }
    calls = dict([*calls.items()][which])
    needed = dict.fromkeys(name for _, name, _ in calls.values())
    with use_form("plain"):
        expected = dict(zip(needed, together(plain[name] for name in needed), strict=True))
    with use_form(form):
        results = together(call for call, *_ in calls.values())
    for transformation, actual, (_, name, part) in zip(calls, results, calls.values(), strict=True):
        try:
            assert_same_bits(actual, part(expected[name]))
        except AssertionError as error:
            error.add_note(transformation)
            raise


@pytest.mark.thinned(10)
@every_applied
def test_forms_are_exported(form, function, x):
    with use_form(form):
        exported = jax.export.export(jax.jit(lambda x: function(x)), platforms=["cpu", "cuda", "tpu"])(x)
    assert_same_bits(jax.export.deserialize(exported.serialize()).call(x), function(x))


@pytest.mark.thinned(10)
@every_applied
def test_an_explicit_mesh(form, function, x):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,), devices=jax.devices("cpu")[:2])
    batched = np.stack([x, -x])
    with jax.set_mesh(mesh), use_form(form):
        sharded = jax.device_put(batched, NamedSharding(mesh, P("d")))
        if x.ndim == 4:  # leading dimensions belong to the operator
            assert_same_bits(function(sharded), np.stack([function(x), function(-x)]))
        assert_same_bits(jax.vmap(function)(sharded), np.stack([function(x), function(-x)]))


@pytest.mark.parametrize(
    "name",
    [
        "as_strided branched",
        "as_strided panels",
        "as_strided split",
        "as_strided halved",
        "as_strided integers",
        "as_strided_scatter copied",
        "gather bounded",
        "scatter_nd copied",
        "joined in a run",
    ],
)
def test_inside_of_a_shard_map(name):
    """What is chosen on CPUs, where JAX checks what varies among the devices."""
    form, function, x = APPLIED[name]
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu")[:2])
    with use_form(form):
        mapped = jax.shard_map(lambda rows: function(rows[0])[None], mesh=mesh, in_specs=P("d"), out_specs=P("d"))
        assert_same_bits(jax.jit(mapped)(np.stack([x, x[::-1]])), np.stack([function(x), function(x[::-1])]))


@pytest.mark.parametrize("name", ["space_to_depth words", "depth_to_space double words", "gather words"])
def test_words_of_a_symbolic_batch(name):
    """Which JAX cannot call: the plain form is exported."""
    form, function, x = APPLIED[name]
    batch = jax.ShapeDtypeStruct(jax.export.symbolic_shape(", ".join(["b", *map(str, x.shape)])), x.dtype)
    with use_form(form):
        exported = jax.export.export(jax.jit(jax.vmap(lambda x: function(x))), platforms=["cpu", "cuda"])(batch)
    with jax.default_device(jax.devices("cpu")[0]):
        assert_same_bits(exported.call(np.stack([x, x])), np.stack([function(x)] * 2))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float64])
@pytest.mark.parametrize("form", [None, "words"])
def test_symbolic_numbers_of_updates(form, dtype):
    table, updates = random_bits((4096, 32), dtype), random_bits((3, 32), dtype)
    (n,) = jax.export.symbolic_shape("n")
    with jax.enable_x64(True), use_form(form) if form else contextlib.nullcontext():
        specs = [jax.ShapeDtypeStruct(*of) for of in (((4096, 32), dtype), ((n, 1), np.int32), ((n, 32), dtype))]
        exported = jax.export.export(jax.jit(lambda *x: dml_jax.scatter_nd(*x)), platforms=("cpu", "cuda"))(*specs)
        expected = table.copy()
        expected[[5, 0, 9]] = updates
        with jax.default_device(jax.devices("cpu")[0]):
            assert_same_bits(exported.call(table, np.int32([[5], [0], [9]]), updates), expected)
