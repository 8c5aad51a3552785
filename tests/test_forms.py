"""The forms of each operator: the same bits as the plain one, under every transformation, on the platform at hand."""

import contextlib
import itertools
import re
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled, spread, together
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import ConstraintError, TensorDesc, use_form
from dml_jax.errors import describe
from dml_jax.lowering import combine, depth_space, gather, scatter, windowed
from dml_jax.lowering import forms as choice
from dml_jax.lowering import strided as views

pytestmark = pytest.mark.device

FAST = [name for name in choice.FORMS if name != "plain"]
every_form = pytest.mark.parametrize("form", FAST)
DTYPES = ["uint8", "bool", "float8_e5m2", "int16", "bfloat16", "float16", "float32", "complex64"]
SAMPLE = ["float8_e5m2", "int16", "bfloat16", "float32"]  # a float and no float, of each size that words are made of
RNG = np.random.default_rng(11)
# On an accelerator these are large enough for vectorised loops; a compiler was seen to get words of bytes wrong there.
LARGE = 1 if jax.default_backend() == "cpu" else 48


def random_bits(shape, dtype):
    """Every bit pattern of the type, NaN payloads and subnormals included."""
    dtype = jnp.dtype(dtype)
    if dtype == np.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    return RNG.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def assert_forms_equal_plain(forms, calls):
    """Of every call (function, *arrays)."""
    calls = list(calls)
    with use_form("plain"):
        plain = together(calls)
    for form in forms:
        with use_form(form):
            results = together(calls)
        for call, expected, actual in zip(calls, plain, results, strict=True):
            try:
                assert_same_bits(actual, expected)
            except AssertionError as error:
                error.add_note(f"{form}: {call[0]} of {[describe(array) for array in call[1:]]}")
                raise


def changes(function, form, *arrays):
    """Whether the form applies: it makes another program."""
    texts = []
    for name in ("plain", form):
        with use_form(name):
            texts.append(jax.jit(lambda *x: function(*x)).lower(*arrays).as_text())
    return texts[0] != texts[1]


def depth_space_cases(sizes):
    """(function, shape) of both directions, orders and data formats, blocks 1 to 8."""
    for block, order, data_format in itertools.product(range(1, 9), ("DCR", "CRD"), ("NCHW", "NHWC")):
        n, c, h, w = sizes
        for name, dims in (
            ("depth_to_space", (c * block * block, h, w)),
            ("space_to_depth", (c, h * block, w * block)),
        ):
            shape = (n, *dims) if data_format == "NCHW" else (n, *dims[1:], dims[0])
            function = getattr(dml_jax, name)
            yield (lambda x, f=function, b=block, o=order, d=data_format: f(x, b, order=o, data_format=d)), shape


# By default one of each block, among which are every direction, order and data format, with other blocks from sizes to
# sizes.
ALIGNED, ODD = (2, 8, 3, 4), (1, 3, 5, 7)
SOME = {"aligned, some": (ALIGNED, slice(0, None, 9)), "odd, some": (ODD, slice(7, None, 7))}
WHOLE = {"aligned": (ALIGNED, slice(None)), "odd": (ODD, slice(None))}
some_of_every_block = pytest.mark.parametrize(
    ("sizes", "which"),
    [
        *(pytest.param(*case, id=name) for name, case in ({} if LARGE > 1 else SOME).items()),
        *(
            pytest.param(*case, id=name, marks=[] if LARGE > 1 else pytest.mark.exhaustive)
            for name, case in WHOLE.items()
        ),
    ],
)


@some_of_every_block
def test_depth_and_space(sizes, which):
    dtypes = itertools.cycle(DTYPES[:7])
    calls = [(function, random_bits(shape, next(dtypes))) for function, shape in list(depth_space_cases(sizes))[which]]
    assert_forms_equal_plain(["words", "joined", "tiles", "element_tiles", "double_words"], calls)


# Primes, and numbers that make stacks of 2, 3 and 4.
LARGE_BLOCKS = [(block, order) for block in (5, 7, 9, 10, 12, 14) for order in ("DCR", "CRD")]


@pytest.mark.parametrize("step", sampled([3, 1], [3]), ids="one of {}".format)
def test_large_blocks(step):
    calls = []
    for (block, order), dtype in list(zip(LARGE_BLOCKS, itertools.cycle(DTYPES[:7]), strict=False))[::step]:
        to_depth = partial(dml_jax.space_to_depth, block_size=block, order=order)
        to_space = partial(dml_jax.depth_to_space, block_size=block, order=order)
        calls.append((to_depth, random_bits((2, 3, 2 * block, 4 * block), dtype)))
        calls.append((to_space, random_bits((2, 2 * block**2, 3, 4), dtype)))
    assert_forms_equal_plain(["rows_first", "ranges", "split", "tiles", "joined"], calls)


@some_of_every_block
def test_narrow_floats_move_like_integers(sizes, which):
    calls = [(function, random_bits(shape, jnp.bfloat16)) for function, shape in list(depth_space_cases(sizes))[which]]
    integers = together([(function, x.view(np.uint16)) for function, x in calls])
    for floats, expected in zip(together(calls), integers, strict=True):
        assert_same_bits(floats.view(np.uint16), expected)


ROWS = [(9, 32), (9, 3, 8), (9, 2, 6), (9, 7), (9, 1)]


MODES = [(mode, dtype) for mode in ("clip", "fill") for dtype in DTYPES]
MODES_SAMPLE = [("clip", "float8_e5m2"), ("fill", "int16"), ("clip", "bfloat16"), ("fill", "float32")]


@pytest.mark.parametrize(("case", "which"), spread(MODES, MODES_SAMPLE, 4))
def test_rows(case, which):
    mode, dtype = case
    indices = RNG.integers(-9, 9, (2, 5), dtype=np.int32)
    gather, gather_nd = (partial(f, mode=mode) for f in (partial(dml_jax.gather, axis=0), dml_jax.gather_nd))
    calls = []
    for shape in ROWS:
        x, tuples = random_bits(shape, dtype), indices[..., None]
        calls += [(gather, x, indices), (gather_nd, x, tuples), (gather, np.stack([x, x], 1), indices)]
        calls += [(partial(dml_jax.gather_nd, batch_dims=1), np.stack([x, x[::-1]]), tuples)]
    assert_forms_equal_plain(["words", "bounded"], calls[which])


def test_a_last_dimension_that_is_shared_is_not_split():
    x, indices = random_bits((8, 4096), np.uint8), RNG.integers(0, 4096, (8, 1), dtype=np.int32)
    # The other forms are of other operators.
    assert_forms_equal_plain(["words", "joined"], [(partial(dml_jax.gather_nd, batch_dims=1), x, indices)])
    assert_same_bits(dml_jax.gather_nd(x, indices, batch_dims=1), x[np.arange(8), indices[:, 0]])


def test_types_that_do_not_fill_their_bytes_are_moved_plainly():
    x = jnp.arange(64, dtype=jnp.int8).reshape(4, 4, 4).astype(jnp.int4)
    made = dml_jax.space_to_depth(x, 2, data_format="NHWC")
    assert jnp.array_equal(dml_jax.depth_to_space(made, 2, data_format="NHWC"), x)
    rows = x.reshape(4, 16)
    assert jnp.array_equal(dml_jax.gather(rows, np.int32([1]), 0), rows[1:2])
    assert jnp.array_equal(dml_jax.scatter_nd(rows, np.int32([[1]]), rows[:1])[1], rows[0])
    assert jnp.array_equal(dml_jax.as_strided(x.reshape(-1), (3, 8), (0, 1))[2], x.reshape(-1)[:8])


def test_a_compiled_operator_keeps_the_form_of_its_making():
    """Also if it is traced inside of a use_form: equal descriptors share what is compiled."""
    sizes = TensorDesc("UINT8", (1, 2, 4, 8)), TensorDesc("UINT8", (1, 8, 2, 4))
    desc = dml_jax.SpaceToDepthDesc(*sizes, 2)
    run = dml_jax.compile_operator(desc)
    with use_form("tiles"):
        chosen, forced = run.as_text(), dml_jax.compile_operator(desc).as_text()
    assert chosen != forced
    assert "shift-left" in forced
    assert dml_jax.compile_operator(desc).as_text() == chosen


@pytest.mark.parametrize("dtype", sampled(DTYPES, SAMPLE))
def test_written_rows(dtype):
    x, updates = random_bits((9, 32), dtype), random_bits((4, 32), dtype)
    far = np.int32([[3], [-2], [20], [0]])  # row 8 is that of index 20, clipped; no row is written twice
    calls = [(partial(dml_jax.scatter_nd, mode=mode), x, far, updates) for mode in ("drop", "clip")]
    calls += [(dml_jax.scatter_nd, x[:, :7], np.int32([[3], [0]]), updates[:2, :7])]
    calls += [(dml_jax.scatter_nd, x, np.int32([[3, 4], [0, 31]]), updates[0, :2])]
    assert_forms_equal_plain(["words", "copied"], calls)


LAYOUTS = [((3, 8), (12, 1), 4), ((3, 8), (12, 1), 3), ((3, 8), (0, 1), 0), ((2, 3, 4), (40, 12, 1), 8)]
LAYOUTS += [((3, 8), (13, 1), 4), ((3, 6), (12, 1), 4), ((3, 8), (4, 1), 0), ((8, 3), (1, 12), 4)]
DENSE = [((2, 12, 3), (36, 1, 12), 5), ((2, 3, 12), (36, 1, 3), 0), ((4, 8), (1, 4), 2), ((3, 2), (1, 3), 0)]
DENSE += [((8, 3), (1, 8), 2), ((2, 4, 1, 9), (36, 1, 7, 4), 2), ((5, 2, 3), (1, 15, 5), 2), ((2, 2), (0, 3), 2)]
VIEWS = [partial(dml_jax.as_strided, sizes=n, strides=strides, offset=at) for n, strides, at in LAYOUTS]


@pytest.mark.parametrize(("dtype", "which"), spread(DTYPES, SAMPLE, 2))
def test_views(dtype, which):
    buffer = random_bits((99,), dtype)
    assert_forms_equal_plain(["words"], [(view, buffer) for view in VIEWS[which]])
    dense = [partial(dml_jax.as_strided, sizes=n, strides=strides, offset=at) for n, strides, at in DENSE[which]]
    assert_forms_equal_plain(["joined", "branched"], [(view, buffer) for view in dense])


@pytest.mark.parametrize("form", ["plain", "words"])
def test_views_keep_signalling_nans(form):
    """XLA:CPU of jaxlib 0.12 slices float8 through wider floats, in a program of several views."""
    buffer = np.full(99, 0xFE, np.uint8)
    with use_form(form):
        for view in together([(view, buffer.view(jnp.float8_e5m2)) for view in VIEWS]):
            assert set(view.view(np.uint8).ravel()) == {0xFE}


ELEMENTS = [(form, dtype) for form in ("joined", "axis_last") for dtype in DTYPES]
ELEMENTS_SAMPLE = [("joined", "float8_e5m2"), ("joined", "bfloat16"), ("joined", "float32")]
ELEMENTS_SAMPLE += [("axis_last", "uint8"), ("axis_last", "float16"), ("axis_last", "complex64")]


@pytest.mark.parametrize(("case", "which"), spread(ELEMENTS, ELEMENTS_SAMPLE, 6))
def test_elements(case, which):
    (form, dtype), calls = case, []
    for shape, size in itertools.product([(6, 16), (5, 7), (3, 4, 8)], (1, 8)):
        x = random_bits(shape, dtype)
        for axis, mode in itertools.product(range(len(shape)), ("clip", "fill")):
            n = shape[axis]
            indices = RNG.integers(-n, n, (*shape[:axis], size, *shape[axis + 1 :]), dtype=np.int32)
            calls.append((partial(dml_jax.gather_elements, axis=axis, mode=mode), x, indices))
    assert_forms_equal_plain([form], calls[which])


@pytest.mark.parametrize(("dtype", "which"), spread(DTYPES, SAMPLE, 4))
def test_slices_of_the_last_axis(dtype, which):
    calls = []
    for shape, mode in itertools.product([(6, 16), (5, 7), (3, 4, 8)], ("clip", "fill")):
        x, n = random_bits(shape, dtype), shape[-1]
        for size in (1, 8, (2, 4), 3):
            indices = RNG.integers(-n - 2, n + 2, size, dtype=np.int32)
            calls.append((partial(dml_jax.gather, axis=-1, mode=mode), x, indices))
    assert_forms_equal_plain(["joined"], calls[which])


def test_words_of_eight_bytes_apply():
    x, rows, buffer = np.zeros((2, 4, 8)), np.zeros((9, 7)), np.zeros(99)
    with jax.enable_x64(True):
        assert changes(lambda x: dml_jax.space_to_depth(x, 2, data_format="NHWC"), "words", x)
        assert changes(lambda x: dml_jax.scatter_nd(x, np.int32([[3]]), x[:1]), "words", rows)
        assert changes(lambda x: dml_jax.as_strided(x, (3, 8), (12, 1)), "words", buffer)


@pytest.mark.parametrize("dtype", sampled(["float64", "int64", "complex64"], ["float64"]))
def test_eight_bytes(dtype, exhaustive):
    x = random_bits((2, 4, 8, 16), dtype)
    rows, updates, buffer = random_bits((9, 7), dtype), random_bits((2, 7), dtype), random_bits((99,), dtype)
    to_depth = [
        partial(dml_jax.space_to_depth, block_size=b, order=order, data_format=data_format)
        for b, order, data_format in itertools.product((2, 4), ("DCR", "CRD"), ("NCHW", "NHWC"))
    ][:: 1 if exhaustive else 3]  # every third one has every attribute
    to_space = [partial(dml_jax.depth_to_space, **f.keywords) for f in to_depth]
    calls = [(f, x) for f in to_depth]
    with jax.enable_x64(True):
        made = together(calls)
        calls += list(zip(to_space, made, strict=True))
        calls += [(dml_jax.scatter_nd, rows, np.int32([[3], [-1]]), updates)]
        calls += [(partial(dml_jax.gather, axis=0), rows, np.int32([3, -1]))]
        for sizes, strides, offset in (((3, 8), (12, 1), 3), ((3, 8), (0, 1), 1), ((2, 3, 4), (40, 12, 1), 7)):
            calls += [(partial(dml_jax.as_strided, sizes=sizes, strides=strides, offset=offset), buffer)]
        assert_forms_equal_plain(["words", "tiles", "element_tiles"], calls)


# What every form of one case must survive; that it does apply is checked.
SPACE = RNG.standard_normal((2, 4, 8, 8)).astype(np.float16)
DEPTH = RNG.standard_normal((2, 16, 4, 4)).astype(np.float16)
TABLE_ROWS = RNG.standard_normal((6, 8)).astype(np.float16)
COLUMNS = RNG.integers(0, 6, (4, 8), dtype=np.int32)
APPLIED = {
    "space_to_depth tiles": ("tiles", lambda x: dml_jax.space_to_depth(x, 2), SPACE),
    "space_to_depth float32 tiles": ("tiles", lambda x: dml_jax.space_to_depth(x, 2), SPACE.astype(np.float32)),
    "space_to_depth element tiles": ("element_tiles", lambda x: dml_jax.space_to_depth(x, 2, order="CRD"), SPACE),
    "space_to_depth in halves": (
        "tiles",
        lambda x: dml_jax.space_to_depth(x, 8),
        np.concatenate([SPACE, SPACE], -1),
    ),
    "space_to_depth rows first": ("rows_first", lambda x: dml_jax.space_to_depth(x, 4), SPACE),
    "space_to_depth split first": ("split", lambda x: dml_jax.space_to_depth(x, 4), SPACE),
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
    "depth_to_space element tiles": ("element_tiles", lambda x: dml_jax.depth_to_space(x, 2, order="CRD"), DEPTH),
    "space_to_depth joined": ("joined", lambda x: dml_jax.space_to_depth(x, 2, data_format="NHWC"), SPACE),
    "gather words": ("words", lambda x: dml_jax.gather(x, np.int32([[1, -1], [5, 0]]), 0), TABLE_ROWS),
    "gather_nd words": ("words", lambda x: dml_jax.gather_nd(x, np.int32([[1], [-1]])), TABLE_ROWS),
    "as_strided branched": ("branched", lambda x: dml_jax.as_strided(x.reshape(-1), (6, 8), (1, 6)), TABLE_ROWS),
    "gather bounded": ("bounded", lambda x: dml_jax.gather(x, np.int32([[1, -1], [5, 0]]), 0), TABLE_ROWS),
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
    "as_strided split first, joined": (
        "split_joined",
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
    "split branched": ("branched", lambda x: dml_jax.split(x, (10, 30), 0)[1], PLANES),
    "border of copies, joined": ("joined", lambda x: dml_jax.pad(x, (1, 9), (3, 3), mode="edge"), SMALL_INTEGERS),
    "slice joined": ("joined", lambda x: dml_jax.slice(x, (0, 1), (6, 6), (2, -1)), SMALL_INTEGERS),
    "slice words": ("words", lambda x: dml_jax.slice(x, (1, 2), (5, 4), (2, 1)), SMALL_INTEGERS),
    "split words": ("words", lambda x: dml_jax.split(x, (2, 6), 1)[1], SMALL_INTEGERS),
    "join words": ("words", lambda x: dml_jax.join([x, x[:, :2]], 1), SMALL_INTEGERS),
    "join joined": ("joined", lambda x: dml_jax.join([x, x[:, :3], x[:, :1]], 1), SMALL_INTEGERS),
    "upsample joined": ("joined", lambda x: dml_jax.upsample_2d(x, (3, 2)), SMALL_INTEGERS),
    "copies joined": ("joined", lambda x: dml_jax.tile(x[:, :5], (2, 2)), SMALL_INTEGERS),
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
    "gradient numbered": (
        "numbered",
        gradient_of(lambda x: dml_jax.gather_elements(x, COLUMNS // 2, 0)),
        SMALL_INTEGERS.astype(jnp.bfloat16),
    ),
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
first_of_every_form = pytest.mark.parametrize(("name", "which"), spread([*APPLIED], FIRST_OF_FORM, 3))


def test_every_form_is_applied_to_something():
    assert {form for form, _, _ in APPLIED.values()} == set(FAST) - {"wide"}  # of integers, which have no derivative


def test_narrow_integers_are_combined_as_wide_ones():
    x, updates = np.int8([[100, -100], [7, 1]]), np.int8([[100, -100], [2, 3], [60, 1]])
    add = partial(dml_jax.scatter_nd, indices=np.int32([[0], [1], [0]]), updates=updates, reduction="add")
    assert changes(add, "wide", x)
    expected = x.copy()
    np.add.at(expected, [0, 1, 0], updates)  # which wraps
    for form in ("plain", "wide"):
        with use_form(form):
            assert_same_bits(jax.jit(add)(x), expected)


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


@pytest.mark.thinned(6)
@every_applied
def test_forms_are_exported(form, function, x):
    with use_form(form):
        exported = jax.export.export(jax.jit(lambda x: function(x)), platforms=["cpu", "cuda", "tpu"])(x)
    assert_same_bits(jax.export.deserialize(exported.serialize()).call(x), function(x))


@pytest.mark.thinned(6)
@every_applied
def test_an_explicit_mesh(form, function, x):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,), devices=jax.devices("cpu")[:2])
    batched = np.stack([x, -x])
    with jax.set_mesh(mesh), use_form(form):
        sharded = jax.device_put(batched, NamedSharding(mesh, P("d")))
        if x.ndim == 4:  # leading dimensions belong to the operator
            assert_same_bits(function(sharded), np.stack([function(x), function(-x)]))
        assert_same_bits(jax.vmap(function)(sharded), np.stack([function(x), function(-x)]))


@pytest.mark.parametrize("name", ["as_strided branched", "gather bounded", "scatter_nd copied"])
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
    "combine": combine.TABLE,
    "depth_space": depth_space.TABLE,
    "gather": gather.TABLE,
    "scatter": scatter.TABLE,
    "views": views.TABLE,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_name_forms_and_platforms(table):
    for row in table:
        assert row.form in FAST
        assert row.platform in ("cpu", "cuda", "rocm", "tpu")
        assert "plain" in row.measured or "apart" in row.measured


GRADIENTS = {
    "a vocabulary, bfloat16": ((32000, 1024), jnp.bfloat16, 16384, {}, "runs"),
    "a vocabulary, float32": ((32000, 1024), jnp.float32, 16384, {}, "plain"),
    "items of a shop": ((1000000, 64), jnp.float32, 1000000, {}, "sampled"),
    "positions": ((64, 1024), jnp.float32, 65536, {}, "copies"),
    "a number per node": ((10000,), jnp.bfloat16, 4000000, {}, "copies"),
    "few tokens": ((32000, 1024), jnp.bfloat16, 512, {}, "plain"),
    "a permutation": ((16384, 2048), jnp.bfloat16, 16384, {"unique_indices": True}, "inverse"),
    "distinct rows": ((16384, 2048), jnp.bfloat16, 8192, {"unique_indices": True}, "filled"),
    "distinct rows, float32": ((16384, 2048), jnp.float32, 8192, {"unique_indices": True}, "plain"),
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


@pytest.mark.parametrize(
    ("platform", "shape", "dtype", "count", "promises", "form"), BY_PLATFORM.values(), ids=BY_PLATFORM
)
def test_which_form_the_gradient_of_a_gather_has(platform, shape, dtype, count, promises, form):
    """The program is that of the forced form, and no plain one."""
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
NHWC_CRD = lambda x: dml_jax.space_to_depth(x, 4, order="CRD", data_format="NHWC")  # noqa: E731
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
CHOSEN_ON_A_CPU = {
    "short rows": (ROWS_AT, (4096, 64), np.uint8, "minimum", True),
    "short rows of two dimensions": (ROWS_AT, (4096, 4, 8), np.float32, "minimum", True),
    "long rows": (ROWS_AT, (4096, 80), np.uint8, "minimum", False),
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
    "turned": (TURNED_BYTES, (2**17,), np.uint8, "stablehlo.case", True),
    "turned, 4 bytes": (TURNED_BYTES, (2**17,), np.float32, "stablehlo.case", False),
    "turned, neighbours in many sets": (TURNED_ODDLY, (132000,), np.uint8, "stablehlo.case", False),
}


@pytest.mark.parametrize(
    ("function", "shape", "dtype", "mark", "expected"), CHOSEN_ON_A_CPU.values(), ids=CHOSEN_ON_A_CPU
)
def test_what_is_chosen_on_a_cpu(function, shape, dtype, mark, expected):
    x = jax.ShapeDtypeStruct(shape, dtype)
    assert (mark in jax.jit(function).trace(x).lower(lowering_platforms=("cpu",)).as_text()) == expected


def test_a_table_is_copied_once_into_a_bound_output_and_never_where_it_is_donated():
    """XLA:CPU of its own copies it to a temporary, and that to the output."""
    table, at, rows = np.zeros((4096, 64), np.float32), np.zeros((64, 1), np.int32), np.ones((64, 64), np.float32)
    write = dml_jax.scatter_nd
    with jax.default_device(jax.devices("cpu")[0]):
        bound = jax.jit(lambda _, *x: write(*x), donate_argnums=0, keep_unused=True).lower(table, table, at, rows)
        donated = jax.jit(lambda *x: write(*x), donate_argnums=0).lower(table, at, rows)
        for program in (bound.compile(), donated.compile()):
            assert program.memory_analysis().alias_size_in_bytes == table.nbytes
            assert program.memory_analysis().temp_size_in_bytes < table.nbytes / 8
            assert "f32[4096,64]{1,0} copy(" not in program.as_text()


@pytest.mark.parametrize("width", [31, 32, 48, 64, 76, 77])
def test_rows_of_every_width_within_bounds(width):
    """The least and the greatest integers pass, and signalling NaNs."""
    at = RNG.integers(-50, 60, 40, dtype=np.int32)
    for dtype in ("uint8", "int16", "float32", "bool"):
        x = random_bits((50, width), dtype)
        expected = x[np.clip(np.where(at < 0, at + 50, at), 0, 49)]
        with use_form("bounded"):
            assert_same_bits(jax.jit(lambda x, i: dml_jax.gather(x, i, 0))(x, at), expected)


def test_words_hold_back_where_devices_could_tear_them():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu"))
    texts = []
    for sharding in (None, NamedSharding(mesh, P())):
        x = jax.ShapeDtypeStruct((136004,), np.uint8, sharding=sharding)  # words on one device, not on eight
        texts.append(jax.jit(lambda x: PADDED(x)).trace(x).lower(lowering_platforms=("cuda",)).as_text())
    assert ["bitcast_convert" in text for text in texts] == [True, False]


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


def test_a_forced_form_ends_with_its_block_and_must_exist():
    with use_form("plain"), use_form("tiles"):
        assert choice.forced_form() == "tiles"
    assert choice.forced_form() is None
    with pytest.raises(ConstraintError, match=r"name must be one of 'plain', 'words', .* but it is 'fastest'"):
        use_form("fastest").__enter__()


@pytest.mark.exhaustive  # of the small ones of test_depth_and_space some run always
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("block", [3] if LARGE == 1 else [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14])
def test_large_pictures(dtype, block):
    n, c, side = 2, (4 if block < 9 else 1) * LARGE, 32 * block
    calls, back = [], []
    for order, data_format in itertools.product(("DCR", "CRD"), ("NCHW", "NHWC")):
        space = (n, c, side, side) if data_format == "NCHW" else (n, side, side, c)
        attributes = {"block_size": block, "order": order, "data_format": data_format}
        calls.append((partial(dml_jax.space_to_depth, **attributes), random_bits(space, dtype)))
        back.append(partial(dml_jax.depth_to_space, **attributes))
    with use_form("plain"):
        depths = together(calls)
    for form in (None, "words", "joined", "tiles", "element_tiles", "double_words", "rows_first", "ranges", "split"):
        with use_form(form) if form else contextlib.nullcontext():
            made = together(calls)
            returned = together(zip(back, made, strict=True))
        for depth, expected in zip(made, depths, strict=True):
            assert_same_bits(depth, expected)
        for picture, (_, x) in zip(returned, calls, strict=True):
            assert_same_bits(picture, x)


BORDERS = {
    "pictures": ((8, 5, 4, 80), (0, 0, 3, 3), (0, 0, 1, 2)),
    "rows": ((200, 20), (0, 20), (0, 13)),
    "one side": ((40, 2, 70), (0, 0, 0), (0, 0, 9)),
    "three dimensions": ((40, 2, 3, 60), (0, 2, 1, 3), (0, 1, 4, 2)),
}
MODES = {"constant": "constant", "edge": "edge", "reflection": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


WINDOWS = [
    pytest.param(name, mode, dtype, marks=() if few else pytest.mark.exhaustive)
    for name, mode, dtype in itertools.product(BORDERS, MODES, ("uint8", "float16", "float32", "bool", "complex64"))
    for few in [dtype == "uint8" and name == ("pictures" if mode in ("constant", "reflection") else "rows")]
]


@pytest.mark.parametrize(("name", "mode", "dtype"), WINDOWS)
def test_windows_of_rows_make_every_border(name, mode, dtype):
    """The first and the last planes too, whose windows reach outside of the array."""
    shape, start, end = BORDERS[name]
    if name == "rows" and mode == "constant":
        start, end = (0, 50), (0, 43)  # longer than a plane; of copies a row would have too many windows
    array, options = random_bits(shape, dtype), {"value": 1} if mode == "constant" else {}
    assert windowed.fits_windows(array, start, end, mode)
    with use_form("windowed"):
        padded = jax.jit(lambda x: dml_jax.pad(x, start, end, mode=mode, **options))(array)
    constant = {"constant_values": 1} if options else {}
    assert_same_bits(padded, np.pad(array, list(zip(start, end, strict=True)), MODES[mode], **constant))


def test_windows_need_rows_and_planes():
    x = jnp.ones((40, 60), jnp.uint8)
    assert windowed.fits_windows(x, (0, 3), (0, 3), "edge")
    assert not windowed.fits_windows(x, (3, 0), (3, 0), "edge")  # no border in a row
    assert not windowed.fits_windows(x[:8], (0, 3), (0, 3), "edge")  # few rows beside those padded in another way
    assert not windowed.fits_windows(x[:, :30], (0, 3), (0, 3), "constant")  # short rows
    assert not windowed.fits_windows(x, (0, 300), (0, 0), "wrap")  # many windows
    assert not windowed.fits_windows(x.astype(jnp.bfloat16), (0, 3), (0, 3), "edge")
    assert not windowed.fits_windows(jax.ShapeDtypeStruct((2**20, 2**11), jnp.uint8), (0, 3), (0, 3), "edge")


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "complex64"])
def test_branches_split_and_repeat(dtype):
    x = random_bits((6, 9, 4, 10), dtype)
    with use_form("branched"):
        parts = jax.jit(lambda x: dml_jax.split(x, (2, 3, 4), 1))(x)
        tiled = jax.jit(lambda x: [dml_jax.tile(x, r) for r in ((1, 2, 1, 3), (2, 1, 1, 1), (1, 1, 1, 1))])(x)
    for part, expected in zip(parts, np.split(x, (2, 5), 1), strict=True):
        assert_same_bits(part, expected)
    for found, repeats in zip(tiled, ((1, 2, 1, 3), (2, 1, 1, 1), (1, 1, 1, 1)), strict=True):
        assert_same_bits(found, np.tile(x, repeats))


def test_cpus_choose_windows_and_branches():
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
    }
    for form, functions in calls.items():
        for function in functions:
            with choice.watch_choices() as seen:
                jax.jit(function).lower(pictures)
            assert form in [row.form for chosen in seen for platform, row in chosen.rows.items() if platform == "cpu"]
