"""Every variant of a sum, a product and an extreme, on many distributions of indices, against exact numbers."""

import itertools
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from reduction_cases import COMPLEX, HALF, REDUCTIONS, as_type, exact, small, unsigned
from variant_cases import chosen_on

import dml_jax
from dml_jax.operations import sorted_segments as segments

pytestmark = pytest.mark.device

COUNT = 1100


def distributions(count=COUNT):
    rng = np.random.default_rng(5)
    uniform, order = rng.integers(0, count, count), rng.permutation(count)
    zipf = (rng.zipf(1.3, count) - 1) % count
    return [ids.astype(np.int32) for ids in (order, uniform, zipf, np.full(count, 7), np.sort(zipf))]


def programs(forms, function, *arrays):
    """One per form, each other than the rest: a form that does not apply would be the plain one."""
    lowered = []
    for form in forms:
        with dml_jax.use_form(form):
            lowered.append(jax.jit(lambda *x: function(*x)).lower(*arrays))
    assert len({each.as_text() for each in lowered}) == len(lowered)
    return [each.compile() for each in lowered]


def rows(x, ids, **promises):
    return dml_jax.gather(x, ids, 0, **promises)


def elements(x, ids):
    return dml_jax.gather_elements(x, jnp.tile(ids[:, None], x.shape[1]), 0)


def flown_back(read, ids, cotangents):
    return [jax.vjp(lambda x: read(x, ids), jnp.zeros_like(c))[1](c)[0] for c in cotangents]


FORMS = [  # of what is read, with which promise; the forms of its gradient, and the widths of rows
    (rows, {}, ("plain", "sorted_segments", "chunked_scatter_add", "gather_side_sum"), (1, 3, 4, 64)),
    (rows, {"unique_indices": True}, ("plain", "inverse"), (1, 3, 4, 64)),
    (elements, {}, ("plain", "chunked_scatter_add", "sorted_segments"), (1, 3)),
    (elements, {}, ("plain", "chunked_scatter_add"), (4, 7)),
]
# By default, and by the number of the read: each with one type.
FEW = {"float32": {1: (3, 64)}, "bfloat16": {0: (4,), 3: (7,)}, "complex64": {2: (1,)}}


@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16", "float8_e5m2", "complex64"], FEW))
def test_forms_of_gradients(dtype, exhaustive):
    reads = FORMS if exhaustive else [(*FORMS[number][:3], widths) for number, widths in FEW[dtype].items()]
    dtype, rng, every = jnp.dtype(dtype), np.random.default_rng(6), distributions()
    for read, promises, forms, widths in reads:
        cotangents = [small(rng, dtype, (COUNT, width)) for width in widths]
        back = partial(flown_back, partial(read, **promises))
        for program, ids in itertools.product(
            programs(forms, back, every[0], cotangents), every[: 1 if promises else 5]
        ):
            for actual, cotangent in zip(program(ids, cotangents), cotangents, strict=True):
                expected = np.zeros_like(exact(cotangent))
                np.add.at(expected, ids, exact(cotangent))
                assert_same_bits(actual, as_type(expected, dtype))


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16"], ["bfloat16"]))
def test_segments_of_blocks_of_every_level(dtype):
    """The last one, of all blocks that are left, is unrolled if these are few, and otherwise a loop as the third is."""
    rng, blocks = np.random.default_rng(16), (segments.FIRST_BLOCK, segments.SECOND_BLOCK, segments.LATER_BLOCK)
    for left in (segments.UNROLLED - 3, segments.UNROLLED + 3):
        count = prod(blocks) * left - 7
        cotangent, every = small(rng, jnp.dtype(dtype), (count, 2)), distributions(count)
        program = programs(("plain", "sorted_segments"), partial(flown_back, rows), every[0], [cotangent])[1]
        for ids in every:
            expected = np.zeros((count, 2))
            np.add.at(expected, ids, exact(cotangent))
            assert_same_bits(program(ids, [cotangent])[0], as_type(expected, jnp.dtype(dtype)))


ON_CPUS = ("chunked_scatter_add", "gather_side_sum")
SUMMED = list(itertools.product(("bfloat16", "float16", "float8_e4m3fn"), ON_CPUS, ("clip", "fill")))


@pytest.mark.thinned
@pytest.mark.parametrize("case", sampled(SUMMED, [SUMMED[0], SUMMED[3], SUMMED[4]]), ids=str)
def test_sums_of_many_turns_are_rounded_once(case):
    """Several chunks and a rest, many more updates than a row reads itself, and indices out of range."""
    dtype, form, mode = case
    dtype, rng = jnp.dtype(dtype), np.random.default_rng(12)
    updates, (count, info) = rng.normal(size=(600, 1024)).astype(dtype), (20, jnp.finfo(dtype))
    table = jnp.zeros((count, 1024), dtype)
    back = jax.jit(lambda ids, u: jax.vjp(lambda x: dml_jax.gather(x, ids, 0, mode=mode), table)[1](u)[0])
    with dml_jax.use_form(form):
        program = back.lower(np.zeros(600, np.int32), updates).compile()
    zipf = (rng.zipf(1.3, 600) - 1) % (count + 9)
    for ids in (zipf, rng.integers(0, count, 600), np.full(600, 7), np.full(600, count), -1 - zipf):
        ids = ids.astype(np.int32)
        at = np.where(ids < 0, ids + count, ids)
        is_inside, at = (at >= 0) & (at < count), np.clip(at, 0, count - 1)
        kept = np.ones_like(is_inside) if mode == "clip" else is_inside
        sums, most = np.zeros((2, count, 1024))
        np.add.at(sums, at[kept], exact(updates)[kept])
        np.add.at(most, at[kept], abs(exact(updates))[kept])
        unit = np.ldexp(1.0, np.maximum(np.frexp(sums)[1] - 1, info.minexp) - info.nmant)
        found = exact(np.asarray(program(ids, updates)))
        assert (abs(found - sums) <= unit / 2 + 600 * 2.0**-24 * most).all()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16"], ["bfloat16"]))
@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_in_several_chunks(axis, mode, dtype):
    """Chunks end within the table, and the last one begins within the one before."""
    dtype, rng, table = jnp.dtype(dtype), np.random.default_rng(13), (70, 61, 90)
    shape = tuple(50 if d == axis else n for d, n in enumerate(table))
    cotangent, n = small(rng, dtype, shape), table[axis]
    read = partial(dml_jax.gather_elements, axis=axis, mode=mode)
    back = lambda at, c: jax.vjp(lambda x: read(x, at), jnp.zeros(table, dtype))[1](c)[0]  # noqa: E731
    zipf = (rng.zipf(1.3, shape) - 1) % (n + 3)
    program = programs(("plain", "chunked_scatter_add"), back, zipf.astype(np.int32), cotangent)[1]
    for at in (zipf, rng.integers(0, n, shape), np.full(shape, n - 1), np.full(shape, n)):
        kept, expected, where = (at < n) | (mode == "clip"), np.zeros(table), [*np.indices(shape)]
        where[axis] = np.minimum(at, n - 1)
        np.add.at(expected, tuple(each[kept] for each in where), exact(cotangent)[kept])
        assert_same_bits(program(at.astype(np.int32), cotangent), as_type(expected, dtype))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("of_elements", [False, True])
@pytest.mark.parametrize("form", ON_CPUS)
def test_loops_inside_of_a_shard_map(form, of_elements):
    """They need values that are typed alike: as different on every device, zeros that are added to included."""
    mesh = jax.make_mesh((1,), ("x",), (AxisType.Auto,), devices=jax.devices()[:1])
    ids, updates = np.arange(70, dtype=np.int32) % 7, np.ones((70, 70), jnp.bfloat16)
    read = rows if not of_elements else lambda x, ids: dml_jax.gather_elements(x, jnp.tile(ids, (70, 1)), 1)
    back = jax.shard_map(lambda i, u: flown_back(read, i, [u])[0], mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    found = programs(("plain", form), back, ids, updates)[1](ids, updates)
    expected = np.where(np.arange(70) < 7, 10, 0).astype(jnp.bfloat16)
    assert_same_bits(found, np.broadcast_to(expected if of_elements else expected[:, None], (70, 70)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("form", ON_CPUS)
def test_one_update_that_goes_elsewhere_is_not_lost(form):
    updates = np.random.default_rng(14).normal(size=(300, 64)).astype(jnp.bfloat16)
    read = lambda x, ids: dml_jax.gather(x, ids, 0)  # noqa: E731
    back = lambda ids, u: flown_back(read, ids, [u])[0][:40]  # noqa: E731
    program = programs(("plain", form), back, np.zeros(300, np.int32), updates)[1]
    for ids in np.where(np.arange(300) == np.array([[-1], [0], [150], [299]]), 3, 39).astype(np.int32):
        expected = np.zeros((40, 64))
        np.add.at(expected, ids, exact(updates))
        np.testing.assert_allclose(exact(np.asarray(program(ids, updates))), expected, rtol=2**-8, atol=1e-4)


WIDE_SUMS = list(itertools.product(("int8", "uint16"), REDUCTIONS))
REDUCED = [*HALF, *COMPLEX, ("float8_e5m2", "add"), *WIDE_SUMS]
UFUNCS = {"add": (64, np.add), "mul": (3, np.multiply), "min": (4, np.minimum), "max": (1, np.maximum)}


@pytest.mark.parametrize("case", sampled(REDUCED, [COMPLEX[1], WIDE_SUMS[0], *WIDE_SUMS[5:]]), ids=str)
def test_forms_of_every_reduction(case):
    """Of floats signs alone, so that a product of any length is exact."""
    dtype, reduction = case
    dtype, rng, every = jnp.dtype(dtype), np.random.default_rng(8), distributions()
    fast, signs = (
        "int32_atomics" if dtype.kind in "iu" else "sorted_segments",
        [1, -1, 1j, -1j] if dtype.kind == "c" else [1, -1],
    )
    width, ufunc = UFUNCS[reduction]
    kind = small if fast == "int32_atomics" else lambda _, dtype, shape: rng.choice(signs, shape).astype(dtype)
    x, updates = kind(rng, dtype, (2, COUNT, width))

    def function(ids, x, updates):
        return dml_jax.scatter_nd(x, ids[:, None], updates, reduction=reduction)

    forms = ("plain", fast) if fast == "sorted_segments" or reduction == "add" else ("plain",)
    for program, ids in itertools.product(programs(forms, function, every[0], x, updates), every):
        expected = exact(x)
        ufunc.at(expected, ids, exact(updates))
        assert_same_bits(unsigned(np.asarray(program(ids, x, updates))), unsigned(as_type(expected, dtype)))


# XLA:CPU copies a table of bfloat16 whose bits it writes as integers; of float16 it does not.
COPIED = 1 if jax.default_backend() == "cpu" else 0


NARROW = list(itertools.product([(np.float16, 0), (jnp.bfloat16, COPIED)], REDUCTIONS))


@pytest.mark.parametrize("case", sampled(NARROW, [NARROW[7]]), ids=str)
def test_few_updates_of_a_donated_table_of_narrow_floats(case):
    """Are computed beside the table, not in a wide copy of it."""
    (dtype, copies), reduction = case
    table, rows = (jax.ShapeDtypeStruct((count, 64), dtype) for count in (1 << 17, 16))
    at = jax.ShapeDtypeStruct((16, 1), jnp.int32)
    function = jax.jit(partial(dml_jax.scatter_nd, reduction=reduction), donate_argnums=0)
    memory = function.lower(table, at, rows).compile().memory_analysis()
    size = table.size * table.dtype.itemsize
    assert memory.alias_size_in_bytes == size
    assert memory.temp_size_in_bytes < (copies + 1 / 4) * size


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("width", [4, 5])
def test_few_updates_write_their_rows_alone(dtype, width):
    """Rows meet once, often or never; the last index is none of the table's."""
    dtype, count = jnp.dtype(dtype), 96
    updates = small(np.random.default_rng(9), dtype, (1, 12, width))[0]
    read = lambda x, ids: dml_jax.gather(x, ids, 0, mode="fill")  # noqa: E731
    back = lambda ids, u: jax.vjp(lambda x: read(x, ids), jnp.zeros((count, width), dtype))[1](u)[0]  # noqa: E731
    for program, ids in itertools.product(
        programs(("plain", "sorted_segments"), back, np.zeros(12, np.int32), updates),
        (np.full(12, 7), np.arange(12) * 8, np.arange(12) // 5, np.where(np.arange(12) < 11, 95, count)),
    ):
        expected = np.zeros((count + 1, width), exact(updates).dtype)
        np.add.at(expected, ids, exact(updates))
        assert_same_bits(np.asarray(program(ids.astype(np.int32), updates)), as_type(expected[:count], dtype))


SEGMENTS = {"sorted_segments"}


@pytest.mark.parametrize(
    ("count", "width", "updates", "chosen"),
    [
        (2**18, 256, 2**15, SEGMENTS),
        (2**18, 256, 2**16, set()),
        (2**20, 256, 2**20, SEGMENTS),
        (2**20, 256, 2**20 + 1, set()),
        (2**18, 257, 2**15, set()),
        (2**18 + 1, 257, 2**15, SEGMENTS),
        (2**16, 256, 2**10, set()),
    ],
    ids=["few", "many", "a large table", "more than rows", "no whole vectors", "an odd table", "small"],
)
def test_which_gradients_a_gpu_sorts(count, width, updates, chosen):
    table = jax.ShapeDtypeStruct((count, width), jnp.float16)
    at, cotangent = jax.ShapeDtypeStruct((updates,), jnp.int32), jax.ShapeDtypeStruct((updates, width), jnp.float16)

    def back(at, cotangent):
        return jax.linear_transpose(lambda x: dml_jax.gather(x, at, 0), table)(cotangent)

    assert chosen_on("cuda", back, at, cotangent) == chosen


@pytest.mark.parametrize(("width", "chosen"), [(64, SEGMENTS), (63, set()), (1, set())])
def test_a_gpu_adds_few_rows_to_a_table_where_it_is(width, chosen):
    """Shorter rows are added sooner than sorted."""
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float16) for shape in ((2**20, width), (2**10, width))]
    at = jax.ShapeDtypeStruct((2**10, 1), jnp.int32)
    added = lambda x, at, updates: dml_jax.scatter_nd(x, at, updates, reduction="add")  # noqa: E731
    assert chosen_on("cuda", added, arrays[0], at, arrays[1]) == chosen
