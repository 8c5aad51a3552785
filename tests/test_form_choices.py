"""Which form is chosen on which platform, told by the programs."""

import contextlib
import re
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from form_cases import FAST, RNG, SPACE, chosen_on
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import ConstraintError, use_form
from dml_jax.core.stored import StoredTensor
from dml_jax.lowering import (
    along,
    combine,
    compaction,
    cumulative,
    depth_space,
    extremes,
    gather,
    greatest,
    scatter,
    totals,
)
from dml_jax.lowering import forms as choice
from dml_jax.lowering.plain import strided as views
from dml_jax.lowering.plain.blocks import Blocks

pytestmark = pytest.mark.device


def test_a_promise_of_order_keeps_the_axis_where_it_is():
    """Sorted indices are read faster along a first axis than moved last."""
    x, indices = jax.ShapeDtypeStruct((8192, 8192), np.float32), jax.ShapeDtypeStruct((8192, 8192), np.int32)
    texts = []
    for is_sorted in (False, True):
        read = jax.jit(partial(dml_jax.gather_elements, axis=0, indices_are_sorted=is_sorted))
        texts.append(read.trace(x, indices).lower(lowering_platforms=("cuda",)).as_text())
    assert "optimization_barrier" in texts[0]
    assert "optimization_barrier" not in texts[1]


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        (np.uint8, (512, 512, 512), True),
        (np.float16, (512, 512, 512), True),
        (np.float32, (512, 512, 512), False),
        (np.float32, (8192, 8192), True),
        (np.int64, (8192, 8192), False),
        (np.uint8, (512, 512), False),
    ],
)
def test_temporaries_are_taken_only_for_a_large_gain(dtype, shape, expected):
    with jax.enable_x64(True):
        specs = jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct(shape, np.int32)
        read = jax.jit(partial(dml_jax.gather_elements, axis=0))
        assert ("optimization_barrier" in read.trace(*specs).lower(lowering_platforms=("cuda",)).as_text()) == expected


TABLES = {
    "along": along.TABLE,
    "combine": combine.TABLE,
    "compaction": compaction.TABLE,
    "cumulative": cumulative.TABLE,
    "depth_space": depth_space.TABLE,
    "extremes": extremes.TABLE,
    "gather": gather.TABLE,
    "greatest": greatest.TABLE,
    "scatter": scatter.TABLE,
    "totals": totals.TABLE,
    "views": views.TABLE,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_name_forms_and_platforms(table):
    for row in table:
        assert row.form in FAST
        assert row.platform in ("cpu", "cuda", "rocm", "tpu")
        assert "plain" in row.measured or "apart" in row.measured


@pytest.mark.parametrize(
    ("rows", "ids", "is_sorted", "expected"),
    [
        (2**20, 2**20, False, "indices_first"),
        (2**20, 16, False, "bounded"),
        (2**20, 2**20, True, "bounded"),
        (2**18, 2**20, False, "bounded"),
    ],
    ids=["many of a large table", "few", "in ascending order", "of a table in a cache"],
)
def test_indices_are_clipped_first_where_many_rows_are_waited_for(rows, ids, is_sorted, expected):
    assert form_of_rows(rows, 64, "uint8", ids, is_sorted) == {expected}


@pytest.mark.parametrize(
    ("width", "dtype", "expected"),
    [
        (8, "float32", {"indices_first"}),
        (12, "float32", {"indices_first"}),
        (16, "int32", {"indices_first"}),
        (16, "float16", {"bounded"}),
        (20, "float32", set()),
        (24, "float32", {"bounded"}),
    ],
)
def test_which_short_rows_of_a_large_table_have_their_indices_clipped_first(width, dtype, expected):
    assert form_of_rows(2**20, width, dtype, 2**20, False) == expected


def form_of_rows(rows, width, dtype, ids, is_sorted):
    specs = jax.ShapeDtypeStruct((rows, width), np.dtype(dtype)), jax.ShapeDtypeStruct((ids,), np.int32)
    read = partial(dml_jax.gather, axis=0, indices_are_sorted=is_sorted)
    return chosen_on("cpu", lambda operands: read(*operands), specs)


GRADIENTS = {
    "a large vocabulary, bfloat16": ((128256, 1024), jnp.bfloat16, 65536, {}, "runs"),
    "a vocabulary, bfloat16": ((32000, 1024), jnp.bfloat16, 16384, {}, "plain"),
    "a vocabulary, float32": ((32000, 1024), jnp.float32, 16384, {}, "plain"),
    "a vocabulary of which few are used, float32": ((32000, 1024), jnp.float32, 4096, {}, "plain"),
    "items of a shop": ((1000000, 64), jnp.float32, 1000000, {}, "sampled"),
    "positions": ((64, 1024), jnp.float32, 65536, {}, "copies"),
    "a number per node": ((10000,), jnp.bfloat16, 4000000, {}, "copies"),
    "few tokens": ((32000, 1024), jnp.bfloat16, 512, {}, "plain"),
    "few tokens of few": ((1000, 1024), jnp.bfloat16, 512, {}, "plain"),
    "a permutation": ((16384, 2048), jnp.bfloat16, 16384, {"unique_indices": True}, "inverse"),
    "distinct rows": ((16384, 2048), jnp.bfloat16, 8192, {"unique_indices": True}, "filled"),
    "distinct rows, float32": ((16384, 2048), jnp.float32, 8192, {"unique_indices": True}, "filled"),
    "whatever the ids": ((16384, 2048), jnp.float32, 8192, {"deterministic": True}, "runs"),
}


ON_CPUS = {
    "tokens sent to experts": ((8192, 4096), jnp.bfloat16, 8192, {}, "pulled"),
    "tokens, float32": ((8192, 4096), jnp.float32, 8192, {}, "plain"),
    "items of a shop": ((125000, 64), jnp.bfloat16, 125000, {}, "pulled"),
    "fewer items, whose sums stay in kept memory": ((60000, 64), jnp.bfloat16, 60000, {}, "plain"),
    "a position for many": ((1000, 1024), jnp.float16, 20000, {}, "pulled"),
    "classes": ((1000, 128), jnp.bfloat16, 125000, {}, "chunks"),
    "fewer of a class": ((1000, 128), jnp.bfloat16, 60000, {}, "plain"),
    "a permutation": ((2048, 2048), jnp.float32, 2048, {"unique_indices": True}, "inverse"),
    "a permutation of short rows": ((125000, 64), jnp.float32, 125000, {"unique_indices": True}, "plain"),
}
BY_PLATFORM = {
    f"{p}: {name}": (p, *case) for p, table in (("cuda", GRADIENTS), ("cpu", ON_CPUS)) for name, case in table.items()
}
FIRST_BY_PLATFORM = [
    *{(p, form, *promises): name for name, (p, *_, promises, form) in reversed(BY_PLATFORM.items())}.values()
]


@pytest.mark.parametrize("name", sampled([*BY_PLATFORM], FIRST_BY_PLATFORM))
def test_which_form_the_gradient_of_a_gather_has(name):
    """The program is that of the forced form, and no plain one; by default the first row of each form."""
    platform, shape, dtype, count, promises, form = BY_PLATFORM[name]
    table, ids = jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((count,), np.int32)

    def lowered(name):
        def gradient(table, ids):
            read = lambda table: dml_jax.gather(table, ids, 0, **promises)  # noqa: E731
            return jax.vjp(read, table)[1](jnp.ones((count, *shape[1:]), dtype))[0]

        with use_form(name) if name else contextlib.nullcontext():
            text = jax.jit(gradient).trace(table, ids).lower(lowering_platforms=(platform,)).as_text()
        of_platforms = ("case", "constant", "return")
        return Counter(op for op in re.findall(r"stablehlo\.(\w+)", text) if op not in of_platforms)

    actual, plain = lowered(None), lowered("plain")
    if promises.get("deterministic"):  # which has one form
        assert actual == plain
        assert actual["sort"] == 1
    elif form == "plain":
        assert actual == plain
    else:
        assert actual == lowered(form) != plain


def test_a_table_chooses_by_platform_and_case():
    """In the program for several platforms, both forms are there; where nothing is chosen, only the plain one."""
    lowered = lambda f, x: jax.jit(f).trace(x).lower(lowering_platforms=("cpu", "cuda")).as_text()  # noqa: E731
    large = RNG.standard_normal((2, 4, 128, 128)).astype(np.float16)
    chosen = lowered(lambda x: dml_jax.space_to_depth(x, 2), large)
    assert "stablehlo.case" in chosen
    assert "stablehlo.case" not in lowered(lambda x: dml_jax.space_to_depth(x, 2), SPACE)
    exported = jax.export.export(jax.jit(lambda x: dml_jax.space_to_depth(x, 2)), platforms=["cpu", "cuda", "tpu"])(
        large
    )
    assert_same_bits(exported.call(large), dml_jax.space_to_depth(large, 2))
    assert "stablehlo.case" not in lowered(lambda x: dml_jax.space_to_depth(x, 5), np.zeros((1, 1, 5, 5), np.float32))
    with use_form("plain"):
        assert "stablehlo.case" not in lowered(lambda x: dml_jax.space_to_depth(x, 2), large)


WIDE_ROWS = lambda x: dml_jax.as_strided(x, (2000, 64), (65, 1))  # noqa: E731
PADDED = lambda x: dml_jax.as_strided(x, (2000, 64), (68, 1))  # noqa: E731
REPEATED = lambda x: dml_jax.as_strided(x, (4096, 64), (0, 1))  # noqa: E731
ROWS_AT = lambda x: dml_jax.gather(x, np.zeros(4096, np.int32), 0)  # noqa: E731
COLUMNS_AT = lambda x: dml_jax.gather(x, np.zeros(64, np.int32), -1)  # noqa: E731
WRITTEN = lambda x: dml_jax.scatter_nd(x, np.int32([[3]]), x[:1])  # noqa: E731
TO_DEPTH = lambda x: dml_jax.space_to_depth(x, 8)  # noqa: E731
TO_SPACE = lambda x: dml_jax.depth_to_space(x, 9)  # noqa: E731
TO_SPACE_CRD = lambda x: dml_jax.depth_to_space(x, 9, order="CRD")  # noqa: E731
NHWC_CRD = lambda x: dml_jax.space_to_depth(x, 4, order="CRD", data_format="NHWC")  # noqa: E731
RGB_PATCHES = lambda x: dml_jax.space_to_depth(x[None], 14, data_format="NHWC")  # noqa: E731
ODD_PATCHES = lambda x: dml_jax.space_to_depth(x[None], 3, data_format="NHWC")  # noqa: E731
FIVE_PLANES = lambda x: dml_jax.as_strided(x, (2**16, 5), (1, 2**16))  # noqa: E731
FIVE_CHANNELS = lambda x: dml_jax.as_strided(x, (5, 2**16), (1, 5))  # noqa: E731
REVERSED = lambda x: dml_jax.reverse_subsequences(x, np.full((512, 1), 300, np.int32), axis=1)  # noqa: E731
CHOSEN = {
    "a small buffer read many times": (REPEATED, (65,), np.uint8, "bitcast_convert", True),
    "rows with gaps": (PADDED, (136000,), np.uint8, "bitcast_convert", True),
    "rows with gaps, 8 bytes": (PADDED, (136000,), np.int64, "bitcast_convert", True),
    "rows with gaps, 4 bytes": (PADDED, (136000,), np.int32, "bitcast_convert", False),
    "rows that begin inside of words": (WIDE_ROWS, (136000,), np.uint8, "bitcast_convert", False),
    "rows with gaps, and a buffer of torn words": (PADDED, (135997,), np.uint8, "bitcast_convert", False),
    "a small table read many times": (ROWS_AT, (16, 256), np.uint8, "bitcast_convert", True),
    "columns": (COLUMNS_AT, (4096, 64), np.uint8, "shift_left", True),
    "written rows": (WRITTEN, (4096, 64), np.uint8, "bitcast_convert", True),
    "written rows, 8 bytes": (WRITTEN, (4096, 64), np.int64, "bitcast_convert", True),
    "written rows, small": (WRITTEN, (64, 64), np.uint8, "bitcast_convert", False),
    "b=8, whole lines": (TO_DEPTH, (8, 64, 128), np.int32, "select", True),
    "b=8, parts of lines": (TO_DEPTH, (8, 64, 136), np.int32, "select", False),
    "NHWC CRD b=4": (NHWC_CRD, (64, 64, 16), np.uint16, "shift_left", True),
    "b=9 to space": (TO_SPACE, (81, 32, 64), np.uint8, "reduce_window", True),
    "b=9 to space, parts of lines": (TO_SPACE, (81, 32, 100), np.uint8, "reduce_window", False),
    "b=9 to space, longer rows than were measured": (TO_SPACE, (81, 4, 832), np.uint8, "reduce_window", False),
    "b=9 to space, CRD": (TO_SPACE_CRD, (81, 32, 64), np.uint8, "reduce_window", True),
    "patches of RGB": (RGB_PATCHES, (224, 224, 3), np.uint8, "ui16", True),
    "patches of RGB, 2 bytes": (RGB_PATCHES, (224, 224, 3), np.uint16, "reduce_window", False),
    "patches of whole words": (RGB_PATCHES, (224, 224, 4), np.uint8, "reduce_window", False),
    "odd rows of blocks": (ODD_PATCHES, (240, 240, 3), np.uint8, "reduce_window", True),
    "planes of 5 channels as pixels": (FIVE_PLANES, (5 * 2**16,), np.uint8, "reduce_window", True),
    "pixels of 5 channels as planes": (FIVE_CHANNELS, (5 * 2**16,), np.uint8, "reduce_window", False),
    "rows reversed": (REVERSED, (512, 512), np.uint8, "shift_left", True),
    "short rows reversed": (REVERSED, (512, 256), np.uint8, "shift_left", False),
}


@pytest.mark.parametrize(("function", "shape", "dtype", "mark", "expected"), CHOSEN.values(), ids=CHOSEN)
def test_what_is_chosen_on_a_gpu(function, shape, dtype, mark, expected):
    """By what only the form has in its program."""
    lowered = lambda: jax.jit(lambda x: function(x)).trace(x).lower(lowering_platforms=("cuda",)).as_text()  # noqa: E731
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct(shape, dtype)
        assert (mark in lowered()) == expected
        with use_form("plain"):
            assert mark not in lowered()


TURNED_BYTES = lambda x: dml_jax.as_strided(x, (2048, 64), (1, 2048))  # noqa: E731
TURNED_ODDLY = lambda x: dml_jax.as_strided(x, (2000, 66), (1, 2000))  # noqa: E731
MUCH_WRITTEN = lambda x: dml_jax.scatter_nd(x, np.arange(16, dtype=np.int32)[:, None], x[:16])  # noqa: E731
TWICE_AS_WIDE = lambda x: dml_jax.depth_to_space(x, 2)  # noqa: E731
THREE_TIMES = lambda x: dml_jax.depth_to_space(x, 3)  # noqa: E731
OF_RGB = lambda x: dml_jax.depth_to_space(x[None], 2, data_format="NHWC")  # noqa: E731
FOUR_TO_DEPTH = lambda x: dml_jax.space_to_depth(x[None], 4, order="CRD", data_format="NHWC")  # noqa: E731
CHOSEN_ON_A_CPU = {
    "short rows": (ROWS_AT, (4096, 64), np.uint8, "minimum", True),
    "short rows of two dimensions": (ROWS_AT, (4096, 4, 8), np.float32, "minimum", True),
    "long rows": (ROWS_AT, (4096, 80), np.uint8, "minimum", False),
    "rows of 16": (ROWS_AT, (4096, 16), np.uint8, "minimum", True),
    "rows of 16, 4 bytes": (ROWS_AT, (4096, 16), np.float32, "minimum", False),
    "shortest rows": (ROWS_AT, (4096, 31), np.uint8, "minimum", False),
    "complex rows": (ROWS_AT, (4096, 64), np.complex64, "minimum", False),
    "written rows": (MUCH_WRITTEN, (4096, 64), np.float32, "optimization_barrier", True),
    "few written rows": (WRITTEN, (4096, 64), np.float32, "optimization_barrier", False),
    "written bfloat16, which is copied anyway": (
        MUCH_WRITTEN,
        (4096, 64),
        jnp.bfloat16,
        "optimization_barrier",
        False,
    ),
    "turned": (TURNED_BYTES, (2**17,), np.uint8, "optimization_barrier", True),
    "turned, neighbours in many sets": (TURNED_ODDLY, (132000,), np.uint8, "optimization_barrier", False),
}


@pytest.mark.parametrize(
    ("function", "shape", "dtype", "mark", "expected"), CHOSEN_ON_A_CPU.values(), ids=CHOSEN_ON_A_CPU
)
def test_what_is_chosen_on_a_cpu_with_jaxlib_0_10(function, shape, dtype, mark, expected, with_jaxlib):
    with_jaxlib(10)
    x = jax.ShapeDtypeStruct(shape, dtype)
    assert (mark in jax.jit(function).trace(x).lower(lowering_platforms=("cpu",)).as_text()) == expected


TO_DEPTH_CRD = lambda x: dml_jax.space_to_depth(x, 2, order="CRD")  # noqa: E731


def pixels_to_depth(block_size, order):
    return lambda x: dml_jax.space_to_depth(x[None], block_size, order=order, data_format="NHWC")


# The releases of jaxlib, of 10, 11 and 12, with which a dimension is halved.
HALVED = {
    "planes to space": (TWICE_AS_WIDE, (12, 128, 128), np.uint8, {10, 11, 12}),
    "one plane to space": (TWICE_AS_WIDE, (4, 256, 256), np.uint8, set()),
    "planes of 4 bytes": (TWICE_AS_WIDE, (12, 128, 128), np.int32, {11, 12}),
    "planes of 4 bytes, b=3": (THREE_TIMES, (27, 128, 128), np.int32, {10, 11, 12}),
    "planes of 4 bytes to depth, b=8": (TO_DEPTH, (3, 128, 128), np.int32, {11, 12}),
    "planes of 4 bytes to depth, CRD b=2": (TO_DEPTH_CRD, (3, 128, 128), np.int32, set()),
    "planes of bytes to depth, CRD b=2": (TO_DEPTH_CRD, (12, 128, 128), np.uint8, {11, 12}),
    "pixels of RGB to space": (OF_RGB, (128, 128, 12), np.int16, {10, 11, 12}),
    "pixels of RGB to space, 4 bytes": (OF_RGB, (128, 128, 12), np.int32, {11, 12}),
    "pixels of 16 channels to space": (OF_RGB, (128, 128, 64), np.int16, set()),
    "pixels of 64 channels to space, 4 bytes": (OF_RGB, (64, 64, 256), np.int32, set()),
    "rows of 16 elements to depth": (FOUR_TO_DEPTH, (256, 256, 4), np.uint8, {10, 11, 12}),
    "bytes of RGB to depth, CRD b=4": (FOUR_TO_DEPTH, (256, 256, 3), np.uint8, {12}),
    "pixels of RGB to depth, CRD b=4": (FOUR_TO_DEPTH, (256, 256, 3), np.int16, set()),
    "pixels of RGB to depth, CRD b=3": (pixels_to_depth(3, "CRD"), (243, 243, 3), np.int16, {11, 12}),
    "pixels of RGB to depth": (pixels_to_depth(2, "DCR"), (256, 256, 3), np.int16, {11, 12}),
    "pixels of two channels to depth": (pixels_to_depth(2, "DCR"), (256, 256, 2), np.int16, set()),
}


@pytest.mark.parametrize("release", [10, 11, 12])
@pytest.mark.parametrize(("function", "shape", "dtype", "releases"), HALVED.values(), ids=HALVED)
def test_cpus_halve_dimensions_by_the_release_of_jaxlib(function, shape, dtype, releases, release, with_jaxlib):
    with_jaxlib(release)
    x = jax.ShapeDtypeStruct(shape, dtype)
    assert ("halved" in chosen_on("cpu", lambda x: function(x), x)) == (release in releases)


@pytest.mark.parametrize(("release", "form"), [(10, None), (11, None), (12, "joined")])
def test_pixels_of_many_channels_are_joined_with_new_releases_of_jaxlib(release, form, with_jaxlib):
    with_jaxlib(release)
    x = jax.ShapeDtypeStruct((128, 128, 64), np.int16)
    assert chosen_on("cpu", lambda x: OF_RGB(x), x) == {form} - {None}


@pytest.mark.parametrize("release", [10, 12])
def test_pixels_of_many_channels_are_joined_on_several_devices_with_every_release(release, with_jaxlib):
    with_jaxlib(release)
    x, blocks = jax.ShapeDtypeStruct((1, 128, 128, 64), np.uint8), Blocks("space", "DCR", "NHWC", 2)
    forms, case = depth_space._options(x, blocks, 2)
    with choice.watch_choices() as seen:
        choice.choose_anywhere(forms, depth_space.TABLE, case, None)
    assert seen[0].rows["cpu"].form == "joined"


@pytest.mark.parametrize(("release", "form"), [(10, "row_by_row"), (11, None)])
def test_rows_of_many_numbers_are_added_one_by_one_with_old_releases_of_jaxlib(release, form, with_jaxlib):
    with_jaxlib(release)
    x = jax.ShapeDtypeStruct((16, 2**15), np.float32)
    assert chosen_on("cpu", lambda x: dml_jax.reduce(x, function="sum", axes=(0,)), x) == {form} - {None}


@pytest.fixture
def with_jaxlib(monkeypatch):
    """Sets the release; whatever was traced before, or is traced now, chooses again."""

    def set_release(release):
        monkeypatch.setattr(choice, "JAXLIB", release)
        jax.clear_caches()

    yield set_release
    jax.clear_caches()


def test_the_release_of_jaxlib_is_a_number():
    """A field of every case, so that a row can name it."""
    assert jaxlib.version.__version__.startswith(f"{choice.JAXLIB // 1000}.{choice.JAXLIB % 1000}.")
    row = choice.Choice("cpu", "words", {"jaxlib": range(choice.JAXLIB + 1, 2**62)}, "")
    assert not row.applies({"jaxlib": choice.JAXLIB})
    assert row.applies({"jaxlib": choice.JAXLIB + 1})


ROWS = np.arange(4096, dtype=np.int32)
COLUMNS = ROWS % 64


@pytest.mark.parametrize(
    ("write", "shape"),
    [
        (lambda table, rows: dml_jax.scatter_nd(table, np.arange(64, dtype=np.int32)[:, None], rows), (4096, 64)),
        (lambda table, rows: dml_jax.as_strided_scatter(table, rows, (64, 1), offset=128), (262144,)),
        (lambda table, rows: dml_jax.scatter_elements(table, ROWS.reshape(64, 64), rows, 0), (4096, 64)),
        (lambda table, rows: dml_jax.scatter_elements(table, COLUMNS[:, None], rows.reshape(-1, 1), 1), (4096, 64)),
        (lambda table, rows: dml_jax.scatter_nd(table, np.stack([ROWS, COLUMNS], 1), rows.ravel()), (4096, 64)),
    ],
)
def test_a_table_is_copied_once_into_a_bound_output_and_never_where_it_is_donated(write, shape):
    """XLA:CPU of its own copies it to a temporary, and that to the output."""
    table, rows = np.zeros(shape, np.float32), np.ones((64, 64), np.float32)
    with jax.default_device(jax.devices("cpu")[0]):
        bound = jax.jit(lambda _, *x: write(*x), donate_argnums=0, keep_unused=True).lower(table, table, rows)
        donated = jax.jit(lambda *x: write(*x), donate_argnums=0).lower(table, rows)
        for program in (bound.compile(), donated.compile()):
            assert program.memory_analysis().alias_size_in_bytes == table.nbytes
            copies = 1 if table.ndim == 1 and jax.__version__ == "0.10.1" else 0  # of strided writes
            assert program.memory_analysis().temp_size_in_bytes < (copies + 1 / 8) * table.nbytes


PAD = lambda x, *edges: dml_jax.pad(x, edges, edges, mode="edge")  # noqa: E731
ADD = lambda x, reduction: dml_jax.scatter_nd(x, np.zeros((4096, 1), np.int32), x, reduction=reduction)  # noqa: E731
FEW_WRITTEN = lambda x: dml_jax.scatter_nd(x, np.zeros((8, 1), np.int32), x[:8], reduction="max")  # noqa: E731
CHOSEN_BY_NAME = {
    "bytes with odd borders": (lambda x: PAD(x, 0, 0, 3), (8, 224, 224), np.uint8, "gathered"),
    "bytes with even borders": (lambda x: PAD(x, 0, 0, 4), (8, 224, 224), np.uint8, None),
    "bytes with borders along two dimensions": (lambda x: PAD(x, 0, 4, 4), (8, 224, 224), np.uint8, "gathered"),
    "sums of bytes": (lambda x: ADD(x, "add"), (4096, 64), np.int8, "wide"),
    "maxima of bytes": (lambda x: ADD(x, "max"), (4096, 64), np.int8, None),
    "few maxima, 2 bytes": (FEW_WRITTEN, (4096, 64), np.float16, "runs"),
    "few maxima, 4 bytes": (FEW_WRITTEN, (4096, 64), np.float32, None),
    "64 columns": (COLUMNS_AT, (4096, 64), np.uint8, "joined"),
    "63 columns": (lambda x: dml_jax.gather(x, np.zeros(64, np.int32), -1), (4096, 63), np.uint8, None),
    "2 bytes to space, whole lines": (TWICE_AS_WIDE, (64, 32, 64), np.uint16, "tiles"),
    "2 bytes to space, parts of lines": (TWICE_AS_WIDE, (64, 32, 68), np.uint16, None),
}


@pytest.mark.parametrize(("function", "shape", "dtype", "form"), CHOSEN_BY_NAME.values(), ids=CHOSEN_BY_NAME)
def test_what_is_chosen_on_a_gpu_by_its_name(function, shape, dtype, form):
    x = jax.ShapeDtypeStruct(shape, dtype)
    assert chosen_on("cuda", lambda x: function(x), x) == {form} - {None}


def test_words_hold_back_where_devices_could_tear_them():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu"))
    texts = []
    for sharding in (None, NamedSharding(mesh, P())):
        x = jax.ShapeDtypeStruct((136004,), np.uint8, sharding=sharding)  # words on one device, not on eight
        texts.append(jax.jit(lambda x: PADDED(x)).trace(x).lower(lowering_platforms=("cuda",)).as_text())
    assert ["bitcast_convert" in text for text in texts] == [True, False]


def test_a_forced_form_ends_with_its_block_and_must_exist():
    with use_form("plain"), use_form("tiles"):
        assert choice.forced_form() == "tiles"
    assert choice.forced_form() is None
    with pytest.raises(ConstraintError, match=r"name must be one of 'plain', 'words', .* but it is 'fastest'"):
        use_form("fastest").__enter__()


def test_gpus_read_once_what_they_write_often():
    """Whole copies of much: four of eight at a time. Of fewer bytes, the caches hold what is read again."""
    assert chosen_on("cuda", lambda x: dml_jax.tile(x, (8, 1)), jnp.ones((2**14, 2**7), jnp.float32)) == {"fanned_out"}
    assert chosen_on("cuda", lambda x: dml_jax.tile(x, (8, 1)), jnp.ones((2**12, 2**7), jnp.float32)) == set()
    assert chosen_on("cuda", lambda x: dml_jax.tile(x, (7, 1)), jnp.ones((2**14, 2**7), jnp.float32)) == set()
    assert chosen_on("cuda", lambda x: dml_jax.tile(x, (1, 8)), jnp.ones((2**14, 2**7), jnp.float32)) == set()


def test_cpus_choose_by_the_places_of_what_moves():
    """Of large arrays, where the tables say so."""
    pictures = jnp.ones((64, 64, 60), jnp.uint8)
    calls = {
        "windowed": [
            lambda x: dml_jax.pad(x, (0, 1, 1), (0, 1, 1)),
            lambda x: dml_jax.pad(x, (0, 1, 1), (0, 1, 1), mode="edge"),
        ],
        "branched": [
            lambda x: dml_jax.split(x, (10, 54), 1)[1],
            lambda x: dml_jax.tile(x.reshape(-1, 120), (2, 2)),
        ],
        "flattened": [
            lambda x: dml_jax.join([x, x[:3]], 0),
            lambda x: dml_jax.join([x[None], x[None, :3]], -3),
        ],
    }
    for form, functions in calls.items():
        for function in functions:
            assert form in chosen_on("cpu", function, pictures)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "form", "since_11", "since_12"),
    [
        ("float32", 4096, 4096, "panels", "split", "split"),
        ("float16", 4000, 4001, "integers", "halved", "split"),
        ("bfloat16", 4000, 4001, "integers", "halved", "halved"),
        ("float32", 4000, 4000, None, "halved", "split"),  # whose rows, of 16000 bytes, lie in all sets of a cache
        ("float32", 32, 4096, None, "halved", "split"),  # few rows, which one set holds
        ("float32", 128, 4096, None, "split", "split"),
        ("float32", 256, 4096, "panels", "split", "split"),
        ("float32", 5, 16384, None, "halved", "halved"),
        ("float32", 16384, 9, None, "halved", "split"),
        ("float64", 512, 4096, None, "split", "split"),
        ("float64", 768, 1024, "panels", "split", "split"),
        ("float64", 1000, 1024, "panels", "split", "split"),
        ("bfloat16", 11008, 4096, "panels", "panels", "panels"),
        ("bfloat16", 4096, 11008, "panels", "halved", "halved"),
        ("bfloat16", 32000, 512, "panels", "panels", "panels"),
        ("float16", 32000, 512, "panels", "split", "split"),
        ("uint8", 32000, 1024, "panels", "split", "split"),
        ("uint8", 32000, 512, "panels", "split", "split"),
        ("uint8", 32000, 256, None, "halved", "split"),
        ("uint8", 4096, 4096, "panels", "split", "split"),
        ("uint8", 4000, 4001, None, "halved", "split"),
        ("uint8", 3, 65536, None, "halved", "halved"),
        ("uint16", 65536, 7, None, "halved", "halved"),
    ],
)
def test_cpus_transpose_rows_by_the_release_of_jaxlib(dtype, rows, columns, form, since_11, since_12, with_jaxlib):
    """Rows that evict each other in panels; later releases transpose what is split before, or halves."""
    x = jax.ShapeDtypeStruct((rows * columns,), dtype)
    for release, expected in ((10, form), (11, since_11), (12, since_12)):
        with_jaxlib(release)
        with jax.enable_x64(True):
            found = chosen_on("cpu", lambda x: dml_jax.as_strided(x, (columns, rows), (1, columns)), x)
        assert found == {expected} - {None}, release


@pytest.mark.parametrize(
    ("order", "forms"),
    [
        ((3, 2, 1, 0), (None, "halved", "split")),
        ((0, 3, 2, 1), (None, "halved", "split")),
        ((1, 2, 0, 3), (None, "halved", "halved")),  # runs of the last dimension stay
        ((0, 1, 2, 3), (None, None, None)),  # nothing changes places
    ],
)
def test_cpus_permute_any_dimensions_by_the_release_of_jaxlib(order, forms, with_jaxlib):
    sizes, strides, x = (20, 30, 50, 7), (10500, 350, 7, 1), jax.ShapeDtypeStruct((210000,), np.float32)
    seen = lambda x: dml_jax.as_strided(x, [sizes[d] for d in order], [strides[d] for d in order])  # noqa: E731
    for release, expected in zip((10, 11, 12), forms, strict=True):
        with_jaxlib(release)
        assert chosen_on("cpu", seen, x) == {expected} - {None}, release


@pytest.mark.parametrize("release", [11, 12])
def test_an_operand_in_channels_last_stays_plain_so_that_its_operator_fuses_with_it(release, with_jaxlib):
    with_jaxlib(release)
    desc = dml_jax.TensorDesc("FLOAT32", (2, 64, 16, 24), (24576, 1, 1536, 64))
    x = jax.ShapeDtypeStruct((49152,), np.float32)
    assert chosen_on("cpu", StoredTensor(desc, words=False).view, x) == set()
    seen = lambda x: dml_jax.as_strided(x, desc.sizes, desc.strides)  # noqa: E731
    assert chosen_on("cpu", seen, x) == {"split" if release == 12 else "halved"}


@pytest.mark.parametrize(("release", "form"), [(10, None), (11, "halved"), (12, "halved")])
def test_short_runs_that_change_places_are_halved_with_new_releases_of_jaxlib(release, form, with_jaxlib):
    with_jaxlib(release)
    x = jax.ShapeDtypeStruct((4096 * 12 * 20,), np.float32)
    assert chosen_on("cpu", lambda x: dml_jax.as_strided(x, (12, 4096, 20), (20, 240, 1)), x) == {form} - {None}
