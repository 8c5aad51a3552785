"""Explicit meshes: dimensions that keep their sharding, and those along which devices would have to communicate."""

from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_is
from jax.sharding import PartitionSpec as P
from small_arrays import numbered, on_explicit_mesh

import dml_jax
from dml_jax import Activation, ConstraintError

pytestmark = pytest.mark.device

X, PICTURES, FILTER = numbered((4, 6)), numbered((2, 4, 6, 6)), numbered((2, 4, 2, 2))
ROWS, COLUMNS, NEITHER = ("d", None), (None, "d"), (None, None)
BATCHES, CHANNELS = ("d", None, None, None), (None, "d", None, None)
MODES = ("constant", "edge", "reflection", "symmetric", "wrap")
LENGTHS, LABELS = np.int32([[3], [6], [0], [9]]), np.int32([[0], [3], [-1], [4]])
RELU = Activation("ACTIVATION_RELU")

one_hot = partial(dml_jax.one_hot, values=np.float32([3, 5]), size=4, axis=1)
fill_diagonals = partial(dml_jax.fill_diagonals, begin=0, end=2, value=7)
fold = partial(dml_jax.fold, output_sizes=(4,), window_sizes=(2,))
fold_blocks = partial(dml_jax.fold, output_sizes=(6, 6), window_sizes=(3, 3), strides=(3, 3))
unfold = partial(dml_jax.unfold, window_sizes=(3,))
unfold_blocks = partial(dml_jax.unfold, window_sizes=(3, 3), strides=(3, 3))
reverse = partial(dml_jax.reverse_subsequences, axis=1)
value_scale_2d = partial(dml_jax.value_scale_2d, scale=2, bias=(10, 20, -30, 40))


def join(*inputs, **how):
    return dml_jax.join(inputs, 1, **how)


def normalize(across):
    return partial(dml_jax.local_response_normalization, local_size=2, cross_channel=across)


def window(*lines):
    """A slice: (offset, size, stride) of rows, and of columns."""
    return lambda x, **how: dml_jax.slice(x, *zip(*lines, strict=True), **how)


def placed(*lines):
    """A gradient of a slice: (size, offset, window size, stride) of rows, and of columns."""
    return lambda x, **how: dml_jax.slice_grad(x, *zip(*lines, strict=True), **how)


def align(x):
    return dml_jax.roi_align(x, np.float32([[0, 0, 2, 2], [1, 0, 3, 4]]), np.int32([0, 1]), (2, 2))


def pool(x):
    return dml_jax.roi_pooling(x, np.float32([[0, 0, 0, 2, 2], [1, 1, 0, 3, 4]]), (2, 2))


# By name: a call, its arrays, how each of them is sharded, and how each output is.
KEPT = {
    "activate": (partial(dml_jax.activate, activation=RELU), [X], [COLUMNS], COLUMNS),
    "add, of one": (partial(dml_jax.add, activation=RELU), [X, X], [ROWS, NEITHER], ROWS),
    "add, of the other": (partial(dml_jax.add, activation=RELU), [X, X], [NEITHER, ROWS], ROWS),
    "cast to bool": (partial(dml_jax.cast, dtype=bool), [X], [COLUMNS], COLUMNS),
    "cast to float16": (partial(dml_jax.cast, dtype=np.float16), [X], [COLUMNS], COLUMNS),
    "cast to uint8": (partial(dml_jax.cast, dtype=np.uint8), [X], [COLUMNS], COLUMNS),
    "clip": (partial(dml_jax.clip, min=2, max=9, scale=2), [X], [COLUMNS], COLUMNS),
    "cumulative_product": (partial(dml_jax.cumulative_product, axis=0), [X], [COLUMNS], COLUMNS),
    "cumulative_summation": (partial(dml_jax.cumulative_summation, axis=0), [X], [COLUMNS], COLUMNS),
    "fill_diagonals, batches": (fill_diagonals, [PICTURES], [BATCHES], BATCHES),
    "fill_diagonals, rows": (fill_diagonals, [X], [ROWS], ROWS),
    "fill_diagonals, columns": (fill_diagonals, [X], [COLUMNS], COLUMNS),
    "fold, batches": (fold, [numbered((2, 4, 3))], [("d", None, None)], ("d", None, None)),
    "fold, channels": (fold, [numbered((2, 4, 3))], [(None, "d", None)], (None, "d", None)),
    "fold, batches of blocks": (fold_blocks, [numbered((2, 18, 4))], [("d", None, None)], BATCHES),
    "fold, channels of blocks": (fold_blocks, [numbered((2, 18, 4))], [(None, "d", None)], CHANNELS),
    "identity": (partial(dml_jax.identity, scale=2), [X], [COLUMNS], COLUMNS),
    "join": (join, [X, X], [ROWS, ROWS], ROWS),
    "join, of one": (join, [X, X], [ROWS, NEITHER], ROWS),
    "join, along the axis": (join, [X, X], [COLUMNS, COLUMNS], COLUMNS),
    "local_response_normalization, rows": (
        normalize(True),
        [PICTURES],
        [(None, None, "d", None)],
        (None, None, "d", None),
    ),
    "local_response_normalization, channels": (normalize(False), [PICTURES], [CHANNELS], CHANNELS),
    "one_hot": (one_hot, [LABELS], [ROWS], ROWS),
    **{
        f"pad, {mode}": (partial(dml_jax.pad, start_padding=(0, 2), end_padding=(0, 3), mode=mode), [X], [ROWS], ROWS)
        for mode in MODES
    },
    "pad, evenly": (partial(dml_jax.pad, start_padding=(1, 0), end_padding=(1, 0)), [X], [ROWS], ROWS),
    "reduce, argmax": (partial(dml_jax.reduce, function="argmax", axes=(1,)), [X], [ROWS], ROWS),
    "reduce, sum": (partial(dml_jax.reduce, function="sum", axes=(1,)), [X], [ROWS], ROWS),
    "reverse_subsequences": (reverse, [X, LENGTHS], [ROWS, ROWS], ROWS),
    "reverse_subsequences, of one": (reverse, [X, LENGTHS], [ROWS, None], ROWS),
    "select": (dml_jax.select, [X > 9, X, -X], [ROWS, ROWS, NEITHER], ROWS),
    "select, of one": (dml_jax.select, [X > 9, X, -X], [None, ROWS, None], ROWS),
    "slice": (window((0, 4, 1), (1, 3, -1)), [X], [ROWS], ROWS),
    "slice, half": (window((0, 2, 1), (0, 6, 1)), [X], [ROWS], ROWS),
    "slice, backwards": (window((0, 4, -1), (0, 6, 1)), [X], [ROWS], ROWS),
    "slice, every other": (window((0, 4, 2), (0, 6, 1)), [X], [ROWS], ROWS),
    "slice_grad, columns": (placed((4, 0, 4, 1), (13, 1, 11, -2)), [X], [ROWS], ROWS),
    "slice_grad, moved": (placed((8, 1, 4, 1), (6, 0, 6, 1)), [X], [ROWS], ROWS),
    "slice_grad, backwards": (placed((4, 0, 4, -1), (6, 0, 6, 1)), [X], [ROWS], ROWS),
    "slice_grad, every other": (placed((8, 0, 7, 2), (6, 0, 6, 1)), [X], [ROWS], ROWS),
    "split": (partial(dml_jax.split, sizes=(2, 4), axis=1), [X], [ROWS], ROWS),
    "split, along the axis": (partial(dml_jax.split, sizes=(2, 4), axis=1), [X], [COLUMNS], COLUMNS),
    "tile": (partial(dml_jax.tile, repeats=(1, 2)), [X], [ROWS], ROWS),
    "top_k": (partial(dml_jax.top_k, axis=1, k=2), [X], [ROWS], ROWS),
    "unfold, batches": (unfold, [numbered((2, 4, 5))], [("d", None, None)], ("d", None, None)),
    "unfold, channels": (unfold, [numbered((2, 4, 5))], [(None, "d", None)], (None, "d", None)),
    "unfold, batches of blocks": (unfold_blocks, [PICTURES], [BATCHES], ("d", None, None)),
    "unfold, channels of blocks": (unfold_blocks, [PICTURES], [CHANNELS], (None, "d", None)),
    "value_scale_2d, batches": (value_scale_2d, [PICTURES], [BATCHES], BATCHES),
    "value_scale_2d, channels": (value_scale_2d, [PICTURES], [CHANNELS], CHANNELS),
    "value_scale_2d, rows": (value_scale_2d, [PICTURES], [(None, None, "d", None)], (None, None, "d", None)),
    "roi_align": (align, [PICTURES], [CHANNELS], CHANNELS),
    "roi_pooling": (pool, [PICTURES], [CHANNELS], CHANNELS),
}


def on_mesh(arrays, specs):
    return [x if spec is None else on_explicit_mesh(x, *spec) for x, spec in zip(arrays, specs, strict=True)]


def on_one_device(call, arrays):
    """The result on a CPU, as that of the mesh is."""
    with jax.default_device(jax.devices("cpu")[0]):
        return call(*arrays)


def assert_all_sharded(made, wanted, expected):
    assert {jax.typeof(output).sharding.spec for output in jax.tree.leaves(made)} == {P(*wanted)}
    assert_is(made, expected)


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_its_sharding(name):
    call, arrays, specs, wanted = KEPT[name]
    assert_all_sharded(call(*on_mesh(arrays, specs)), wanted, on_one_device(call, arrays))


@pytest.mark.parametrize("name", [name for name, (*_, wanted) in KEPT.items() if wanted == COLUMNS])
def test_what_gets_another_sharding(name):
    call, arrays, specs, _ = KEPT[name]
    assert_all_sharded(call(*on_mesh(arrays, specs), out_sharding=P(*ROWS)), ROWS, on_one_device(call, arrays))


# By name: a call, its arrays, how each of them is sharded, what it cannot keep, and what an output can be said to have.
NEEDED = {
    "convolution, channels": (dml_jax.convolution, [PICTURES, FILTER], [CHANNELS, None], "1 of input", BATCHES),
    "convolution, columns": (
        dml_jax.convolution,
        [PICTURES, FILTER],
        [(None, None, None, "d"), None],
        "3 of input",
        BATCHES,
    ),
    "convolution, filter": (dml_jax.convolution, [PICTURES, FILTER], [None, CHANNELS], "1 of filter", BATCHES),
    "cumulative_product": (partial(dml_jax.cumulative_product, axis=-1), [X], [COLUMNS], "1 of input", COLUMNS),
    "cumulative_summation": (partial(dml_jax.cumulative_summation, axis=-1), [X], [COLUMNS], "1 of input", COLUMNS),
    "fold": (partial(dml_jax.fold, output_sizes=(7,), window_sizes=(2,)), [X], [COLUMNS], "1 of input", ROWS),
    "join": (join, [X, X], [COLUMNS, NEITHER], r"1 of inputs\[0\]", COLUMNS),
    "local_response_normalization": (normalize(True), [PICTURES], [CHANNELS], "1 of input", CHANNELS),
    "max_unpooling": (
        partial(dml_jax.max_unpooling, output_sizes=(3, 4)),
        [X[:2, :3], np.int32([[5, 0, -1], [12, 7, -13]])],
        [ROWS, None],
        "0 of input",
        COLUMNS,
    ),
    **{
        f"pad, {mode}": (
            partial(dml_jax.pad, start_padding=(1, 0), end_padding=(0, 2), mode=mode),
            [X],
            [ROWS],
            "0 of input",
            COLUMNS,
        )
        for mode in MODES
    },
    "reverse_subsequences": (reverse, [X, LENGTHS], [COLUMNS, None], "1 of input", COLUMNS),
    "slice": (window((0, 3, 1), (0, 6, 1)), [X], [ROWS], "0 of input", COLUMNS),
    "slice, backwards": (window((1, 3, -1), (0, 6, 1)), [X], [ROWS], "0 of input", COLUMNS),
    "slice, every fourth": (window((0, 4, 4), (0, 6, 1)), [X], [ROWS], "0 of input", COLUMNS),
    "slice_grad": (placed((7, 1, 4, 1), (6, 0, 6, 1)), [X], [ROWS], "0 of input_gradient", NEITHER),
    "tile": (partial(dml_jax.tile, repeats=(2, 1)), [X], [ROWS], "0 of input", ROWS),
    "top_k": (partial(dml_jax.top_k, axis=1, k=4), [X], [COLUMNS], "1 of input", COLUMNS),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_needs_an_out_sharding(name):
    call, arrays, specs, lost, wanted = NEEDED[name]
    with pytest.raises(ConstraintError, match=f"dimension {lost} is sharded over 'd', along which the devices must"):
        call(*on_mesh(arrays, specs))
    assert_all_sharded(call(*on_mesh(arrays, specs), out_sharding=P(*wanted)), wanted, on_one_device(call, arrays))
