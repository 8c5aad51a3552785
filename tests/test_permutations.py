"""Split, transpose and merge of dimensions, shared by depth_to_space, space_to_depth and dense views."""

from functools import partial
from math import prod

import jax
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, sampled
from variant_cases import chosen_on

from dml_jax.lowering.plain.depth_space import Blocks
from dml_jax.lowering.plain.permute import Permutation, permute
from dml_jax.lowering.plain.strided_views import view
from dml_jax.strides.layout import Layout

RNG = np.random.default_rng(5)


def cut(sizes):
    """Neighbouring sizes in words of zero to three, none of them left."""
    words = []
    while sizes:
        count = int(RNG.integers(0, 4))
        words, sizes = [*words, tuple(sizes[:count])], sizes[count:]
    return tuple(words)


def drawn():
    """A permutation of up to six parts, some of size 1."""
    sizes = RNG.choice([1, 1, 2, 3, 4, 5], RNG.integers(1, 7)).tolist()
    order = tuple(RNG.permutation(len(sizes)).tolist())
    return Permutation(cut(sizes), order, tuple(map(len, cut(list(order)))))


DRAWN = [drawn() for _ in range(200)]


@pytest.mark.parametrize("part", sampled(range(9), [0]))
def test_a_permutation_splits_transposes_and_merges(part):
    calls = []
    for move in DRAWN[part::9]:
        x = np.arange(prod(move.parts), dtype=np.int32).reshape([prod(sizes) for sizes in move.source])
        expected = x.reshape(move.parts).transpose(move.order).reshape(move.shape)
        calls += [(partial(permute, permutation=move), (x,), expected), (move.inverse, (expected,), x)]
    assert_calls_agree(calls)


def test_the_flat_one_moves_the_same_with_the_fewest_parts():
    for move in DRAWN:
        x = np.arange(prod(move.parts), dtype=np.int32)
        flat = move.flat
        assert_same_bits(
            x.reshape(flat.parts).transpose(flat.order).ravel(), x.reshape(move.parts).transpose(move.order).ravel()
        )
        assert 1 not in flat.parts
        assert all(d + 1 != after for d, after in zip(flat.order, flat.order[1:], strict=False))


@pytest.mark.parametrize(
    ("move", "shape", "parts", "order"),
    [
        (Blocks("space", "DCR", "NCHW", 2), (5, 12, 7, 9), (5, 2, 2, 21, 9), (0, 3, 1, 4, 2)),
        (Blocks("depth", "DCR", "NHWC", 2), (5, 14, 18, 3), (35, 2, 9, 6), (0, 2, 1, 3)),
        (Blocks("space", "CRD", "NHWC", 3), (5, 7, 9, 9), (35, 9, 3, 3), (0, 2, 1, 3)),
    ],
    ids=["NCHW DCR", "NHWC DCR", "NHWC CRD of one channel"],
)
def test_flat_blocks(move, shape, parts, order):
    """Channels and rows, or pixels and channels, stay neighbours."""
    flat = move.permutation(shape).flat
    assert (flat.parts, flat.order) == (parts, order)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_view_that_an_operator_reads_is_not_isolated(platform):
    """Barriers and halves would keep XLA from fusing it with the operator."""
    layout, buffer = Layout((300, 500), (1, 300)), jax.ShapeDtypeStruct((150000,), np.uint16)
    read = partial(view, layout=layout)
    assert chosen_on(platform, read, buffer)
    assert not chosen_on(platform, partial(read, is_operand=True), buffer)
