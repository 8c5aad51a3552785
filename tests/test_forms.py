"""The forms of each operator: the same bits as the plain one, on the platform at hand."""

import contextlib
import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled, spread, together
from form_cases import DTYPES, LARGE, RNG, SAMPLE, assert_forms_equal_plain, changes, chosen_on, random_bits

import dml_jax
from dml_jax import TensorDesc, use_form
from dml_jax.lowering.cpu import windowed_pad as windowed
from dml_jax.lowering.gpu.isolated_transpose import good_run

pytestmark = pytest.mark.device


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
    in_words = ["words", "joined", "summed", "tiles", "element_tiles", "double_words"]
    assert_forms_equal_plain([*in_words, "apart", "halved"], calls)


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
    assert_forms_equal_plain(["rows_first", "halved", "ranges", "split", "tiles", "joined", "summed", "apart"], calls)


@pytest.mark.thinned(2)
@some_of_every_block
def test_narrow_floats_move_like_integers(sizes, which):
    calls = [(function, random_bits(shape, jnp.bfloat16)) for function, shape in list(depth_space_cases(sizes))[which]]
    integers = together([(function, x.view(np.uint16)) for function, x in calls])
    for floats, expected in zip(together(calls), integers, strict=True):
        assert_same_bits(floats.view(np.uint16), expected)


ROWS = [(9, 32), (9, 3, 8), (9, 16), (9, 2, 6), (9, 7), (9, 1)]


MODES = [(mode, dtype) for mode in ("clip", "fill") for dtype in DTYPES]
MODES_SAMPLE = [("clip", "float8_e5m2"), ("fill", "int16"), ("clip", "bfloat16"), ("fill", "float32")]


@pytest.mark.thinned(2)
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
    assert_forms_equal_plain(["words", "bounded", "indices_first"], calls[which])


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


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", sampled(DTYPES, SAMPLE))
def test_written_rows(dtype):
    x, updates = random_bits((9, 32), dtype), random_bits((4, 32), dtype)
    far = np.int32([[3], [-2], [20], [0]])  # row 8 is that of index 20, clipped; no row is written twice
    calls = [(partial(dml_jax.scatter_nd, mode=mode), x, far, updates) for mode in ("drop", "clip")]
    calls += [(dml_jax.scatter_nd, x[:, :7], np.int32([[3], [0]]), updates[:2, :7])]
    assert_forms_equal_plain(["words", "copied"], calls)


def elements_along(shape, axis):
    """Two indices for each line along an axis: all different, some negative, and one that is far away."""
    less = [n - (d == axis) for d, n in enumerate(shape)]  # none is the last one, which an index far away becomes
    indices = np.argsort(RNG.random(less), axis).take([0, 1], axis).astype(np.int32)
    indices.reshape(-1)[::5] -= shape[axis]
    indices[0, 0, 0] = 99
    return indices


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", sampled(DTYPES, SAMPLE))
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_written_elements(dtype, mode):
    """One index each along any axis, or one for each dimension."""
    x, calls = random_bits((4, 5, 6), dtype), []
    for axis in range(3):
        indices = elements_along(x.shape, axis)
        write = partial(dml_jax.scatter_elements, axis=axis, mode=mode)
        calls.append((write, x, indices, random_bits(indices.shape, dtype)))
    tuples = np.int32([[3, 4, 0], [0, -1, 2], [3, 9, 5]])
    calls.append((partial(dml_jax.scatter_nd, mode=mode), x, tuples, random_bits((3,), dtype)))
    assert_forms_equal_plain(["copied"], calls)


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("size", [2**16 - 1, 2**16])
def test_written_elements_by_indices_of_16_bits(size, mode):
    """The greatest of 16 bits means out of range, so one element fewer than they count can be addressed by them."""
    write = partial(dml_jax.scatter_elements, axis=1, mode=mode)
    far = np.int32([[1, size - 1, size, -size, -size - 1, 2**16, 2**16 + 3, -(2**16)]])
    call = (write, np.zeros((1, size), np.uint8), far, np.full(far.shape, 7, np.uint8))
    assert_forms_equal_plain(["copied"], [call])
    with use_form("copied"):
        assert ("xui16>" in jax.jit(write).lower(*call[1:]).as_text()) == (size < 2**16)


def test_elements_of_more_tables_than_16_bits_count():
    """XLA makes a coordinate of the mapped dimension, which must not be cut to the 16 bits of the others."""
    tables, at = np.zeros((2**16 + 9, 4), np.uint8), RNG.integers(0, 4, (2**16 + 9, 1), dtype=np.int32)
    write = jax.vmap(lambda table, at: dml_jax.scatter_elements(table, at, np.uint8([7]), 0))
    assert_forms_equal_plain(["copied"], [(write, tables, at)])


LAYOUTS = [((3, 8), (12, 1), 4), ((3, 8), (12, 1), 3), ((3, 8), (0, 1), 0), ((2, 3, 4), (40, 12, 1), 8)]
LAYOUTS += [((3, 8), (13, 1), 4), ((3, 6), (12, 1), 4), ((3, 8), (4, 1), 0), ((8, 3), (1, 12), 4)]
OF_MATRICES = ["apart", "matrices", "matrices_apart", "tiles", "element_tiles", "panels"]
DENSE = [((2, 12, 3), (36, 1, 12), 5), ((2, 3, 12), (36, 1, 3), 0), ((4, 8), (1, 4), 2), ((3, 2), (1, 3), 0)]
DENSE += [((8, 3), (1, 8), 2), ((2, 4, 1, 9), (36, 1, 7, 4), 2), ((5, 2, 3), (1, 15, 5), 2), ((2, 2), (0, 3), 2)]
VIEWS = [partial(dml_jax.as_strided, sizes=n, strides=strides, offset=at) for n, strides, at in LAYOUTS]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("dtype", "which"), spread(DTYPES, SAMPLE, 2))
def test_views(dtype, which):
    buffer = random_bits((99,), dtype)
    assert_forms_equal_plain(["words"], [(view, buffer) for view in VIEWS[which]])
    dense = [partial(dml_jax.as_strided, sizes=n, strides=strides, offset=at) for n, strides, at in DENSE[which]]
    forms = ["joined", "summed", *OF_MATRICES, "branched", "integers", "split", "halved"]
    assert_forms_equal_plain(forms, [(v, buffer) for v in dense])


def transposed(rows, columns, batch=1):
    """The view of matrices, one behind the other, whose rows become columns."""
    return partial(dml_jax.as_strided, sizes=(batch, columns, rows), strides=(rows * columns, 1, columns))


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "columns", "cut"),
    [
        (224, 5, "3x2x112x5x"),
        (7, 299, "3x7x1x299x"),
        (12, 400, "3x12x2x200x"),
        (5, 256, None),  # no good run
        (16, 240, None),  # too many rows
    ],
)
def test_runs_of_thin_matrices(rows, columns, cut, dtype):
    view, buffer = transposed(rows, columns, 3), random_bits((3 * rows * columns,), dtype)
    with use_form("apart"):
        assert_same_bits(jax.jit(lambda x: view(x))(buffer), buffer.reshape(3, rows, columns).swapaxes(1, 2))
        text = jax.jit(lambda x: view(x)).lower(buffer).as_text()
    assert cut in text if cut else not re.search(r"tensor<(\d+x){4}", text)


def test_the_length_of_runs():
    """The nearest to 240 of the divisors that are 8 or 16 times odd, or else of the odd ones."""
    assert {n: good_run(n * n) for n in (224, 299, 300, 320, 56)} == {224: 112, 299: 299, 300: 240, 320: 200, 56: 112}
    assert good_run(256 * 256) is good_run(7 * 7) is None


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", ["bool", "uint8", "bfloat16", "float32", "complex64", "float8_e5m2"])
@pytest.mark.parametrize("rows", [2, 15, 16, 17, 31, 40])
def test_panels_of_matrices(dtype, rows):
    """Sixteen rows at a time: fewer than there are, as many, and a last panel that starts early."""
    buffer = random_bits((3 * rows * 70,), dtype)
    with use_form("panels"):
        turned = jax.jit(lambda x: transposed(rows, 70, 3)(x))(buffer)
        assert "while" in jax.jit(lambda x: transposed(rows, 70, 3)(x)).lower(buffer).as_text()
    assert_same_bits(turned, buffer.reshape(3, rows, 70).swapaxes(1, 2))


PIXELS = np.arange(2 * 5 * 3 * 7, dtype=np.uint16).reshape(2, 5, 3, 7)


@pytest.mark.parametrize(
    ("order", "is_matrix"),
    [
        ((0, 3, 1, 2), True),  # NHWC as NCHW
        ((0, 2, 3, 1), True),  # and back
        ((3, 0, 1, 2), True),
        ((1, 2, 3, 0), True),
        ((0, 1, 3, 2), True),
        ((0, 2, 1, 3), False),  # its elements are rows of 7
        ((3, 2, 1, 0), False),
        ((2, 0, 3, 1), False),
        ((0, 1, 2, 3), False),
    ],
)
def test_panels_take_what_is_a_transpose_of_matrices(order, is_matrix):
    view = PIXELS.transpose(order)
    with use_form("panels"):
        read = jax.jit(lambda x: dml_jax.as_strided(x, view.shape, [n // 2 for n in view.strides]))
        assert ("while" in read.lower(PIXELS.reshape(-1)).as_text()) == is_matrix
        assert_same_bits(read(PIXELS.reshape(-1)), view)


PERMUTED = {
    "pixels as planes": ((36, 53, 3), (2, 0, 1), ["matrices", "summed"]),
    "five planes as pixels": ((5, 64, 64), (1, 2, 0), ["summed"]),
    "nine planes as pixels": ((9, 28, 28), (1, 2, 0), ["summed"]),
    "channels first": ((14, 14, 96), (2, 0, 1), ["matrices", "matrices_apart"]),
    "channels last": ((40, 8, 8), (1, 2, 0), ["matrices_apart"]),
    "tokens last": ((197, 256), (1, 0), ["matrices"]),
    "few rows": ((8, 300), (1, 0), ["tiles", "element_tiles"]),
    "heads": ((40, 12, 20), (1, 0, 2), []),
    "windows": ((8, 7, 8, 7, 12), (0, 2, 1, 3, 4), []),
    "patches": ((3, 7, 16, 7, 16), (1, 3, 0, 2, 4), []),
}
ALL_FORMS = {
    f"{name}, {form}": (*case, form) for name, (*case, forms) in PERMUTED.items() for form in ["apart", *forms]
}
BARRIERS = {"apart": 2, "matrices": 1, "matrices_apart": 2, "summed": 0, "tiles": 0, "element_tiles": 0}


def permuted(array, order):
    """The view of a flat array that shows `array` with its dimensions in another order, behind the first."""
    shown = array.transpose(0, *(d + 1 for d in order))
    return shown, lambda x: dml_jax.as_strided(x, shown.shape, [n // array.itemsize for n in shown.strides])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float8_e5m2", "int16", "bfloat16"])
@pytest.mark.parametrize(("sizes", "order", "form"), ALL_FORMS.values(), ids=ALL_FORMS)
def test_dimensions_change_places_in_a_kernel_of_their_own(sizes, order, form, dtype):
    """On GPUs large enough for whole tiles, and for parts of them."""
    pictures = random_bits((2 * LARGE, *sizes), dtype)
    shown, view = permuted(pictures, order)
    with use_form(form):
        read = jax.jit(lambda x: view(x))
        text = read.lower(pictures.reshape(-1)).as_text()
        assert text.count("optimization_barrier") == BARRIERS[form]
        assert ("reduce_window" in text) == (form == "summed")
        assert_same_bits(read(pictures.reshape(-1)), shown)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
@pytest.mark.parametrize("channels", [3, 5, 7, 1, 8, 4, 6, 2, 12])
def test_pixels_of_a_few_channels(channels, dtype):
    """They become planes, and these become pixels. Tiles take 2, 3, 4, 6, 8 and 12 channels of whole words."""
    for side in (6, 5):
        pixels = random_bits((2, side * LARGE, 2 * side, channels), dtype)
        for array, order in ((pixels, (2, 0, 1)), (np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), (1, 2, 0))):
            shown, view = permuted(array, order)
            flat = array.reshape(-1)
            is_thin = channels in (2, 3, 4, 6, 8, 12) and pixels[0, ..., 0].size % (4 // array.itemsize) == 0
            assert changes(lambda x, view=view: view(x), "element_tiles", flat) == is_thin
            # XLA:GPU of jaxlib 0.11.2 gets words of bytes of three words wrong.
            is_known = channels % 3 or dtype != "uint8"
            assert changes(lambda x, view=view: view(x), "tiles", flat) == bool(is_thin and is_known)
            for form in ("element_tiles", "tiles"):
                with use_form(form):
                    assert_same_bits(jax.jit(lambda x, view=view: view(x))(flat), shown)


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


@pytest.mark.thinned(2)
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


@pytest.mark.thinned(2)
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


def test_narrow_integers_are_combined_as_wide_ones():
    x, updates = np.int8([[100, -100], [7, 1]]), np.int8([[100, -100], [2, 3], [60, 1]])
    add = partial(dml_jax.scatter_nd, indices=np.int32([[0], [1], [0]]), updates=updates, reduction="add")
    assert changes(add, "wide", x)
    expected = x.copy()
    np.add.at(expected, [0, 1, 0], updates)  # which wraps
    for form in ("plain", "wide"):
        with use_form(form):
            assert_same_bits(jax.jit(add)(x), expected)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("form", ["bounded", "indices_first"])
@pytest.mark.parametrize("width", [12, 16, 31, 32, 48, 64, 76, 77])
def test_rows_of_every_width_within_bounds(width, form):
    """The least and the greatest integers pass, and signalling NaNs."""
    at = RNG.integers(-50, 60, 40, dtype=np.int32)
    for dtype in ("uint8", "int16", "float32", "bool"):
        x = random_bits((50, width), dtype)
        expected = x[np.clip(np.where(at < 0, at + 50, at), 0, 49)]
        with use_form(form):
            assert_same_bits(jax.jit(lambda x, i: dml_jax.gather(x, i, 0))(x, at), expected)


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", ["uint8", "bool", "float8_e5m2", "int8"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("block", [2, 3, 4, 7, 14])
def test_bytes_of_rows_of_blocks_move_in_pairs(block, channels, dtype):
    """Where a row of a block is even; pixels of one channel are rows in both orders."""
    for order in ("DCR", "CRD"):
        attributes = {"block_size": block, "order": order, "data_format": "NHWC"}
        calls = [
            (partial(dml_jax.space_to_depth, **attributes), (2 * LARGE, 2 * block, 4 * block, channels)),
            (partial(dml_jax.depth_to_space, **attributes), (4 * LARGE, 2, 3, channels * block**2)),
        ]
        in_rows = block * channels % 2 == 0 and (order == "DCR" or channels == 1)
        for move, shape in calls:
            x = random_bits(shape, dtype)
            assert_forms_equal_plain(["summed"], [(move, x)])
            with use_form("summed"):
                assert ("xui16>" in jax.jit(lambda x, move=move: move(x)).lower(x).as_text()) == in_rows


@pytest.mark.exhaustive  # of the small ones of test_depth_and_space some run always
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("block", [3] if LARGE == 1 else [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14])
def test_large_pictures(dtype, block):
    side = 32 * block
    calls, back = [], []
    counts = [(2, (4 if block < 9 else 1) * LARGE), ((2 if block < 9 else 1) * LARGE, 3)]
    for (n, c), order, data_format in itertools.product(counts, ("DCR", "CRD"), ("NCHW", "NHWC")):
        space = (n, c, side, side) if data_format == "NCHW" else (n, side, side, c)
        attributes = {"block_size": block, "order": order, "data_format": data_format}
        calls.append((partial(dml_jax.space_to_depth, **attributes), random_bits(space, dtype)))
        back.append(partial(dml_jax.depth_to_space, **attributes))
    with use_form("plain"):
        depths = together(calls)
    in_words = ["words", "joined", "summed", "tiles", "element_tiles", "double_words"]
    forms = [*in_words, "rows_first", "halved", "ranges", "split", "apart"]
    for form in (None, *forms):
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


@pytest.mark.thinned
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


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", DTYPES)
def test_runs_are_joined(dtype):
    x, y = random_bits((1, 3, 5), dtype), random_bits((1, 4, 5), dtype)
    with use_form("flattened"):
        joined = jax.jit(lambda *x: dml_jax.join(x, -2))(x, y, x[:, :0])
    assert_same_bits(joined, np.concatenate([x, y], 1))


@pytest.mark.parametrize("dtype", sampled(DTYPES, SAMPLE))
def test_odd_numbers_of_elements_are_joined(dtype):
    """Of 35, 21 or 9 elements the last word is not full."""
    x = random_bits((5, 9), dtype)
    calls = [
        (lambda x: dml_jax.slice(x, (0, 1), (5, 7), (1, 1)), x),
        (lambda x: dml_jax.slice(x, (0, 0), (5, 9), (2, -4)), x),
        (lambda *parts: dml_jax.join(parts, 1), x[:3, :5], x[:3, 1:3]),
        (lambda x: dml_jax.fill_diagonals(x, begin=0, end=1, value=np.zeros((), dtype)), x),
    ]
    if dtype != "bool":
        calls += [(lambda x: dml_jax.pad(x, (0, 3), (0, 3)), x), (lambda x: dml_jax.upsample_2d(x[None], (1, 3)), x)]
    assert_forms_equal_plain(["joined"], calls)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex64"])
def test_copies_fanned_out(dtype):
    calls = [
        (partial(dml_jax.tile, repeats=repeats), random_bits(shape, dtype))
        for shape, repeats in (
            ((3, 8), (8, 1)),
            ((3, 5), (6, 2)),
            ((1, 8), (2, 3)),
            ((1, 3, 8), (1, 9, 1)),
            ((8,), (5,)),
        )
    ]
    assert_forms_equal_plain(["fanned_out"], calls)


@pytest.mark.parametrize("dtype", sampled([*DTYPES, "int4"], [*SAMPLE, "int4"]))
def test_fills(dtype):
    """Of 64 bytes and their multiples in four parts; of others of whole words in one."""
    value = np.asarray(-1.0 if jnp.issubdtype(dtype, jnp.inexact) else 1, dtype)
    for sizes in ((64,), (4, 48), (3, 4), (5, 7), (), (0, 64)):
        with use_form("fanned_out"):
            found = dml_jax.fill_value_constant(sizes, value, dtype)
        assert_same_bits(found, np.full(sizes, value))


@pytest.mark.parametrize("dtype", sampled(DTYPES, SAMPLE))
def test_one_hot_fanned_out(dtype):
    """The first dimension is cut in four, if it can be."""
    indices, values = RNG.integers(-1, 9, (8, 1, 12), dtype=np.int32), random_bits((2,), dtype)
    calls = [(lambda i, v: dml_jax.one_hot(i, v, 8, 1), indices, values)]
    calls += [(lambda i, v: dml_jax.one_hot(i[:3, :, :7], v, 5, 1), indices, values)]
    assert_forms_equal_plain(["fanned_out"], calls)
    assert changes(lambda i, v: dml_jax.one_hot(i, v, 8, 1), "fanned_out", indices, values)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "bfloat16", "float32", "complex64"])
def test_fills_are_cut_into_parts(dtype):
    def fill():
        return dml_jax.fill_value_constant((2**14,), 1, dtype)

    with use_form("fanned_out"):
        assert "concatenate" in jax.jit(fill).lower().as_text()
    assert chosen_on("cuda", lambda _: dml_jax.fill_value_constant((2**18,), 1, dtype), 0) == {"fanned_out"}
