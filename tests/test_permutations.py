"""Split, transpose and merge of dimensions, shared by depth_to_space, space_to_depth and dense views."""

from functools import partial
from math import prod

import jax
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, sampled
from jax import lax
from variant_cases import chosen_on

from dml_jax.lowering.cpu import blocked_transpose
from dml_jax.lowering.registry import VARIANTS
from dml_jax.operations.depth_space import Blocks
from dml_jax.operations.permute import Permutation, PermuteCase, permute
from dml_jax.operations.strided_views import view
from dml_jax.operations.values.xla_workarounds import DROPS_BARRIERS
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


# Transposes by blocks of rows, where XLA drops the barrier before another transpose.


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="says what XLA:CPU does with a barrier")
def test_xla_drops_barriers_in_the_releases_that_are_said_to():
    """Dropped before XLA fuses, a barrier leaves one loop of two. If this fails, DROPS_BARRIERS is to be corrected."""
    program = jax.jit(lambda x: lax.optimization_barrier(x * 2) + 1).lower(np.ones(4096, np.float32)).compile()
    loops = sum("kind=kLoop" in line for line in program.as_text().splitlines())
    assert loops == (1 if DROPS_BARRIERS else 2)


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "order"),
    [
        ("blocked_transpose", np.uint8, (2048, 8192), (1, 0)),  # rows of 128 lines: a cache has 128 places for these
        ("blocked_transpose", np.float32, (3, 1024, 4096), (0, 2, 1)),
        ("blocked_transpose", np.float16, (300, 2, 82, 256), (3, 2, 1, 0)),
        ("unfused", np.uint8, (2048, 8193), (1, 0)),  # rows that lie at all places
        ("unfused", np.uint8, (48, 2**18), (1, 0)),  # few rows
        ("unfused", np.float32, (8192, 64), (1, 0)),  # short rows, of which a step of the loop moves little
    ],
)
def test_rows_that_share_places_of_a_cache_move_by_blocks(monkeypatch, name, dtype, shape, order):
    move = Permutation((shape,), order, (1,) * len(order))
    case = PermuteCase(move, jax.ShapeDtypeStruct((prod(shape),), dtype), is_operand=False, devices=1)
    for drops_barriers, expected in ((True, name), (False, "unfused")):
        monkeypatch.setattr(blocked_transpose, "DROPS_BARRIERS", drops_barriers)
        variants = [variant for variant in VARIANTS if (variant.operation, variant.platform) == ("permute", "cpu")]
        assert next(variant.name for variant in variants if variant.pays(case) and variant.run(case)) == expected
