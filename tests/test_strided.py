"""as_strided and as_strided_scatter: NumPy's views, and what XLA makes of each class of layouts."""

import re
from functools import partial

import chex
import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, sampled, together
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_moves import every_number
from numpy.lib import stride_tricks
from small_arrays import random_keys
from test_bits import DIRECTML, OTHERS, SAMPLE, type_named

import dml_jax
from dml_jax import ConstraintError
from dml_jax.strides.injective import collision


def numpy_view(buffer, sizes, strides, offset=0):
    """The oracle; NumPy cannot view float8_e5m2, but bytes."""
    images = buffer.view(np.uint8) if buffer.itemsize == 1 else buffer
    return stride_tricks.as_strided(images[offset:], sizes, [s * buffer.itemsize for s in strides]).view(buffer.dtype)


def numpy_scatter(buffer, updates, strides, offset=0):
    written = buffer.copy()
    images = written.view(np.uint8) if buffer.itemsize == 1 else written
    numpy_view(images, updates.shape, strides, offset)[...] = updates.view(images.dtype)
    return written


# Class: (sizes, strides, offset, elements of the buffer). What is read without computed offsets ...
MOVED = {
    "packed": ((2, 3, 4), (12, 4, 1), 0, 24),
    "packed, in a longer buffer": ((2, 3, 4), (12, 4, 1), 5, 40),
    "column-major": ((2, 3), (1, 2), 0, 6),
    "permuted": ((2, 3, 4, 5), (60, 1, 15, 3), 0, 120),
    "padded rows": ((3, 4), (6, 1), 0, 18),
    "padded rows, the last one cut": ((3, 4), (6, 1), 0, 16),
    "padded channels and rows": ((2, 3, 4, 5), (100, 30, 7, 1), 0, 200),
    "a window": ((2, 3), (6, 1), 8, 24),
    "a window at the end": ((2, 3), (6, 1), 15, 24),
    "a window across the array's edge": ((2, 3), (6, 1), 4, 24),
    "steps": ((4,), (3,), 0, 12),
    "steps, the last one cut": ((4,), (3,), 1, 11),
    "steps in padded rows": ((3, 2), (7, 3), 0, 21),
    "steps of rows": ((2, 2, 3), (24, 12, 2), 1, 48),
    "transposed window": ((3, 2), (1, 6), 8, 24),
    "one element": ((), (), 3, 5),
    "sizes of 1": ((1, 2, 1), (9, 4, 7), 0, 5),
    "empty": ((2, 0), (1, 1), 0, 3),
}
# ... the same, but read only: two coordinates share an element ...
REPEATED = {
    "broadcast row": ((2, 3), (0, 1), 0, 3),
    "broadcast column": ((2, 3), (1, 0), 0, 2),
    "broadcast scalar": ((2, 3), (0, 0), 4, 5),
    "broadcast in a padded window": ((3, 2, 4), (6, 0, 1), 1, 18),
}
# ... and what no split of the buffer parts.
INTERLEAVED = {
    "interleaved": ((2, 3), (3, 2), 0, 8),
    "interleaved in rows": ((3, 2, 3), (10, 3, 2), 1, 30),
    "interleaved rows": ((2, 3, 4), (15, 10, 1), 0, 40),
}
OVERLAPPING = {
    "windows": ((4, 3), (1, 1), 0, 6),
    "windows of rows": ((3, 2, 5), (5, 5, 1), 0, 20),
    "windows of a picture": ((3, 4, 2, 2), (6, 1, 6, 1), 1, 24),
    "far apart": ((3, 3), (4, 2), 0, 13),
}
READ = MOVED | REPEATED | INTERLEAVED | OVERLAPPING
WRITTEN = MOVED | INTERLEAVED

every_write = pytest.mark.parametrize("layout", WRITTEN.values(), ids=WRITTEN)


def reader(layout):
    sizes, strides, offset, _ = layout
    return partial(dml_jax.as_strided, sizes=sizes, strides=strides, offset=offset)


def writer(layout):
    _, strides, offset, _ = layout
    return partial(dml_jax.as_strided_scatter, strides=strides, offset=offset)


def operands(layout, dtype=np.float32):
    """A buffer, and updates for it."""
    buffer = np.arange(1, 1 + layout[3]).astype(dtype)
    return buffer, -np.arange(1, 1 + np.prod(layout[0], dtype=int)).reshape(layout[0]).astype(dtype)


def test_reads_and_writes_of_every_class_are_numpys():
    """Those that are random are called one by one."""
    reads = ((layout, operands(layout)[:1]) for layout in READ.values())
    assert_calls_agree((reader(layout), (x,), numpy_view(x, *layout[:3])) for layout, (x,) in reads)
    writes = ((layout, operands(layout)) for layout in WRITTEN.values())
    assert_calls_agree((writer(layout), xs, numpy_scatter(*xs, *layout[1:3])) for layout, xs in writes)


def test_random_layouts_are_numpys(exhaustive):
    dims = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=4)
    check = given(dims, st.integers(0, 5), st.integers(0, 5))(check_layout)
    settings(max_examples=150 if exhaustive else 15)(check)()


def check_layout(dims, offset, more):
    sizes, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    needed = offset + 1 + sum((n - 1) * s for n, s in dims) if 0 not in sizes else 0
    layout = (sizes, strides, offset, max(needed, 0) + more)
    buffer, updates = operands(layout)
    assert_same_bits(reader(layout)(buffer), numpy_view(buffer, sizes, strides, offset))
    if 0 in sizes or not collision(sizes, strides):
        assert_same_bits(writer(layout)(buffer, updates), numpy_scatter(buffer, updates, strides, offset))


LARGE = {
    "padded rows": ((64, 40), (48, 1), 3),
    "columns of a picture": ((40, 64), (1, 48), 3),
    "steps": ((900,), (3,), 1),
    "broadcast row": ((5, 600), (0, 1), 0),
    "short broadcast row": ((3, 8), (0, 1), 0),
    "windows": ((300, 7), (1, 1), 0),
    "interleaved": ((2, 300), (301, 2), 0),
}


def moves(pattern):
    """(what to call, its arrays, what NumPy makes of them): reads and writes of every class."""
    for key, (sizes, strides, offset) in LARGE.items():
        buffer = pattern[: offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))]
        read = partial(dml_jax.as_strided, sizes=sizes, strides=strides, offset=offset)
        yield read, (buffer,), numpy_view(buffer, sizes, strides, offset)
        if key in ("broadcast row", "short broadcast row", "windows"):
            continue
        updates = np.roll(pattern, 77)[: np.prod(sizes)].reshape(sizes)
        write = partial(dml_jax.as_strided_scatter, strides=strides, offset=offset)
        for more in (0, 48 - 40):  # with the last row cut, and with a whole one
            longer = pattern[: len(buffer) + more]
            yield write, (longer, updates), numpy_scatter(longer, updates, strides, offset)


@pytest.mark.thinned
@pytest.mark.parametrize("name", sampled(DIRECTML + OTHERS, SAMPLE))
def test_every_class_moves_bits(name):
    """NaN payloads and all, with zeros padded in and other elements beside them; alone and in one program."""
    dtype, has_type = type_named(name)
    with has_type:
        calls = list(moves(every_number(dtype).ravel()))
        results = together([(function, *arrays) for function, arrays, _ in calls])
        for result, (function, arrays, expected) in zip(results, calls, strict=True):
            assert_same_bits(result, expected)
            if dtype.name in ("bfloat16", "float8_e5m2", "uint8"):
                assert_same_bits(function(*arrays), expected)


def test_four_bit_integers_and_keys():
    four = np.arange(12).astype(ml_dtypes.int4)
    assert_same_bits(dml_jax.as_strided(four, (2, 3), (5, 1)), numpy_view(four, (2, 3), (5, 1)))
    keys = random_keys(8)
    taken = dml_jax.as_strided(keys, (2, 3), (5, 1))
    chex.assert_trees_all_equal(jax.random.key_data(taken[1]), jax.random.key_data(keys[5:8]))
    put = dml_jax.as_strided_scatter(keys, taken[::-1], (5, 1))
    chex.assert_trees_all_equal(jax.random.key_data(put[:3]), jax.random.key_data(keys[5:8]))


# Lowering.

CONSTANT = re.compile(r"dense<[^>]*> : tensor<([0-9x]*)x?[a-z]")


def stablehlo(function, *arrays):
    return jax.jit(function).lower(*arrays).as_text()


def optimised(calls):
    """The instructions that XLA compiles of (function, *arrays) calls, in one program."""
    functions, arrays = [call[0] for call in calls], [call[1:] for call in calls]
    program = jax.jit(lambda arrays: [f(*a) for f, a in zip(functions, arrays, strict=True)]).lower(arrays).compile()
    text = program.as_text()
    return set(re.findall(r"= \S+ ([a-z][\w-]*)\(", text))


COMPUTED = {"gather", "scatter", "iota", "while", "dynamic-slice", "call"}


@pytest.mark.parametrize("layout", (MOVED | REPEATED).values(), ids=MOVED | REPEATED)
def test_recognised_reads_compute_no_offsets(layout):
    buffer, _ = operands(layout)
    assert not re.findall(r"stablehlo\.(gather|iota)", stablehlo(reader(layout), buffer))


@pytest.mark.parametrize("layout", MOVED.values(), ids=MOVED)
def test_recognised_writes_compute_no_offsets(layout):
    buffer, updates = operands(layout)
    assert not re.findall(r"stablehlo\.(scatter|iota)", stablehlo(writer(layout), buffer, updates))


def test_xla_computes_no_offsets_of_what_is_recognised():
    assert not COMPUTED & optimised([(reader(of), operands(of)[0]) for of in (MOVED | REPEATED).values()])
    assert not COMPUTED & optimised([(writer(of), *operands(of)) for of in MOVED.values()])
    assert COMPUTED & optimised([(reader(of), operands(of)[0]) for of in INTERLEAVED.values()])


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("packed", "reshape"),
        ("column-major", "reshape slice transpose"),
        ("permuted", "reshape slice transpose"),
        ("padded rows", "reshape slice"),
        ("padded rows, the last one cut", "pad reshape slice"),
        ("a window", "reshape slice"),
        ("a window at the end", "reshape slice"),
        ("steps", "slice"),
        ("broadcast row", "broadcast_in_dim slice"),
    ],
)
def test_each_class_is_read_by_its_own_operations(name, operations):
    text = stablehlo(reader(READ[name]), operands(READ[name])[0])
    found = set(re.findall(r"stablehlo\.(\w+)", text)) - {"return", "constant", "slice", "reshape"}
    assert found == set(operations.split()) - {"slice", "reshape"}


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("packed, in a longer buffer", "dynamic_update_slice"),
        ("a window", "dynamic_update_slice"),
        ("steps in padded rows", "pad"),
    ],
)
def test_each_class_is_written_by_its_own_operations(name, operation):
    assert f"stablehlo.{operation}" in stablehlo(writer(MOVED[name]), *operands(MOVED[name]))


@pytest.mark.parametrize("layout", (INTERLEAVED | OVERLAPPING).values(), ids=INTERLEAVED | OVERLAPPING)
def test_computed_offsets_are_no_constants(layout):
    """They grow with the tensor and are made from iotas; rows are read whole where dimensions overlap in rows."""
    text = stablehlo(reader(layout), operands(layout)[0])
    assert "stablehlo.iota" in text
    assert "gather" in text
    for shape in CONSTANT.findall(text):
        assert np.prod([int(n) for n in shape.split("x") if n], dtype=int) <= 1


def test_windows_of_rows_are_read_as_rows():
    layout = OVERLAPPING["windows of rows"]
    assert "slice_sizes = array<i64: 1, 5>" in stablehlo(reader(layout), operands(layout)[0])


def test_offsets_are_as_wide_as_they_must_be():
    """Over an interleaved view whose last element has an offset above 2**31 - 1; traced only."""
    sizes, strides = (2, 3), (2**31 - 2, 2**30)
    buffer = jax.ShapeDtypeStruct((2**33,), jnp.uint8)
    read = lambda b: dml_jax.as_strided(b, sizes, strides)  # noqa: E731
    narrow = lambda b: dml_jax.as_strided(b, sizes, tuple(s // 4 for s in strides))  # noqa: E731
    for x64 in (False, True):
        with jax.enable_x64(x64):
            assert "xi32>) -> tensor<6xui8>" in jax.jit(narrow).lower(buffer).as_text()
    with jax.enable_x64(True):
        assert "xi64>) -> tensor<6xui8>" in jax.jit(read).lower(buffer).as_text()
    with pytest.raises(ConstraintError, match="needs 64-bit indices: enable jax_enable_x64"):
        jax.eval_shape(read, buffer)


FAR = [
    ((2, 3), (2**31, 1), 5),  # rows that far apart
    ((3, 2), (1, 1), 2**31 + 7),  # overlapping ones, that far out
    ((2, 2, 3), (2**31 + 1, 3, 2), 0),  # interleaved ones in rows that far apart
]


@pytest.mark.exhaustive
def test_elements_beyond_2_to_the_31():
    """2 GiB of uint8, x64 off."""
    buffer = np.zeros(2**31 + 64, np.uint8)
    buffer[:64], buffer[-64:] = range(64), range(100, 164)
    on_device = jnp.asarray(buffer)
    for sizes, strides, offset in FAR:
        found = dml_jax.as_strided(on_device, sizes, strides, offset=offset)
        assert_same_bits(found, numpy_view(buffer, sizes, strides, offset))


def test_writes_into_buffers_beyond_2_to_the_31():
    buffer, updates = jax.ShapeDtypeStruct((2**31 + 64,), jnp.uint8), jax.ShapeDtypeStruct((2, 3), jnp.uint8)
    write = lambda offset: lambda b, u: dml_jax.as_strided_scatter(b, u, (3, 2), offset=offset)  # noqa: E731
    for x64 in (False, True):
        with jax.enable_x64(x64):
            assert jax.eval_shape(write(0), buffer, updates) == buffer
    with jax.enable_x64(True):
        assert jax.eval_shape(write(2**31), buffer, updates) == buffer
    with pytest.raises(ConstraintError, match="needs 64-bit indices: enable jax_enable_x64"):
        jax.eval_shape(write(2**31), buffer, updates)


# Transformations; test_transformations.py has more.


@pytest.mark.thinned(5)
@pytest.mark.parametrize("layout", (REPEATED | OVERLAPPING).values(), ids=REPEATED | OVERLAPPING)
def test_the_gradient_counts_how_often_an_element_is_seen(layout):
    sizes, strides, offset, length = layout
    counts = np.zeros(length, np.float32)
    np.add.at(counts, numpy_view(np.arange(length), sizes, strides, offset), 1)
    assert_same_bits(jax.grad(lambda b: reader(layout)(b).sum())(np.zeros(length, np.float32)), counts)
    assert_same_bits(jax.linear_transpose(reader(layout), counts)(np.ones(sizes, np.float32))[0], counts)


def test_writing_and_reading_are_inverse():
    def both_ways(layout, buffer, updates):
        read, write = reader(layout), writer(layout)
        return read(write(buffer, updates)), write(buffer, read(buffer))

    arrays = [(layout, *operands(layout)) for layout in WRITTEN.values()]
    made = together((partial(both_ways, layout), buffer, updates) for layout, buffer, updates in arrays)
    for (_, buffer, updates), (read, written) in zip(arrays, made, strict=True):
        assert_same_bits(read, updates)
        assert_same_bits(written, buffer)


def test_a_symbolic_batch_of_buffers_is_exported(exhaustive):
    (b,) = jax.export.symbolic_shape("b")
    for layout in list(READ.values())[:: 1 if exhaustive else 6]:
        exported = jax.export.export(jax.jit(jax.vmap(reader(layout))))(
            jax.ShapeDtypeStruct((b, layout[3]), jnp.float32)
        )
        buffer, _ = operands(layout)
        assert_same_bits(exported.call(np.stack([buffer] * 3))[2], numpy_view(buffer, *layout[:3]))


def test_a_symbolic_length_that_is_long_enough_is_exported(exhaustive):
    for layout in list(READ.values())[:: 1 if exhaustive else 6]:
        sizes, strides, offset, length = layout
        (n,) = jax.export.symbolic_shape("n", constraints=[f"n >= {length}"])
        exported = jax.export.export(jax.jit(reader(layout)))(jax.ShapeDtypeStruct((n,), jnp.float32))
        buffer = np.arange(length + 2, dtype=np.float32)
        assert_same_bits(exported.call(buffer), numpy_view(buffer, sizes, strides, offset))


@pytest.mark.thinned(7)
@every_write
def test_numpy_arrays_are_written_while_jit_is_off(layout):
    buffer, updates = operands(layout)
    with jax.disable_jit():
        assert_same_bits(writer(layout)(buffer, updates), numpy_scatter(buffer, updates, layout[1], layout[2]))
