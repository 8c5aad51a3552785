"""Interpolation of resample: nearest, linear, cubic and antialiased filters at every scale and offset."""

import itertools
from functools import partial
from math import prod

import jax
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, spread, together
from resample_cases import FILTERS, FLT_MAX, MODES, OFFSETS, X, oracle
from small_arrays import numbered

from dml_jax import resample, use_form

pytestmark = pytest.mark.device

OFFSET_PAIRS = [(0.5, -0.5), (0, 0), (0.5, 0), (-0.3, 1.7)]
SCALES = [0.1, 0.3, 0.4, 0.5, 0.75, 1, 1.1, 1.5, 2, 3, 7.3, FLT_MAX, float("inf")]
ROUNDINGS = [None, "increasing", "decreasing"]


@pytest.mark.thinned(6)
@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
@pytest.mark.parametrize("offsets", OFFSET_PAIRS, ids=str)
def test_every_scale_of_nearest(offsets, rounding):
    x, law = numbered((5,)), dict(zip(OFFSETS, offsets, strict=True)) | {"rounding": rounding}

    def calls():
        for scale in SCALES:
            for size in (int(min(5 * scale, 30)), int(min(5 * scale, 30)) + 3):
                sizes, scales = (size,), (scale,)
                yield partial(resample, sizes=sizes, scales=scales, **law), (x,), oracle(x, sizes, scales, **law)

    assert_calls_agree(calls())


@pytest.mark.thinned(2)
@pytest.mark.parametrize("offsets", OFFSET_PAIRS, ids=str)
def test_every_scale_of_linear(offsets):
    """Within the last bits of float32."""
    x, law = numbered((5,)) % 4, dict(zip(OFFSETS, offsets, strict=True)) | {"mode": "linear"}
    laws = [{"sizes": (int(min(5 * scale, 30)) + 3,), "scales": (scale,), **law} for scale in SCALES]
    for made, of in zip(together([(partial(resample, **of), x) for of in laws]), laws, strict=True):
        np.testing.assert_allclose(made, oracle(x, **of), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("offsets", "which"), spread(OFFSET_PAIRS, OFFSET_PAIRS, 4))
def test_every_scale_of_every_filter(offsets, which, exhaustive):
    """Of few and of many elements that make one, given as scales and as sizes."""
    x, law = numbered((11, 2)) % 4, dict(zip(OFFSETS, offsets, strict=True))
    laws = [
        {"sizes": (int(min(11 * scale, 30)) + more, 2), "scales": scales, **law, **one}
        for one in FILTERS[which]
        for scale, more in ((0.05, 2), (0.3, 3), (0.75, 1), (1, 2), (1.1, 0), (2, 3), (float("inf"), 1))
        for scales in ((scale, 1), None)
    ][:: 1 if exhaustive else 6]
    for made, of in zip(together([(partial(resample, **of), x) for of in laws]), laws, strict=True):
        wanted = oracle(x.astype(np.float64), **of)
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=5e-6, err_msg=str(of))


def test_positions_of_sizes_are_exact():
    """Where they lie halfway or on an element, which float32 misses in some of these pairs. A call takes four."""
    pairs = [*itertools.product((1, 14, 20, 21, 25, 26, 28, 36), (1, 2, 6, 7, 12, 15, 39))]
    edges = {"input_pixel_offsets": 0, "output_pixel_offsets": 0, "rounding": "decreasing"}
    laws = [({}, lambda o, n, m: (2 * o + 1) * n // (2 * m)), (edges, lambda o, n, m: o * n // m)]
    calls, wanted = [], []
    for (more, law), four in itertools.product(laws, zip(*[iter(pairs)] * 4, strict=True)):
        before, after = zip(*four, strict=True)
        x = np.arange(prod(before), dtype=np.int32).reshape(before)
        calls.append((partial(resample, sizes=after, **more), x))
        wanted.append(x[np.ix_(*([law(o, n, m) for o in range(m)] for n, m in four))])
    for made, expected in zip(together(calls), wanted, strict=True):
        assert_same_bits(made, expected)


def test_the_edge_where_no_element_is_inside():
    for mode in ("linear", "cubic"):
        for antialias in (False, True):
            more = {"mode": mode, "antialias": antialias, "exclude_outside": True}
            made = resample(np.float32([3, 5]), (9,), (0.5,), input_pixel_offsets=4, **more)
            assert made[0] == 3
            assert_same_bits(made[-3:], np.float32([5, 5, 5]))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("mode", MODES)
def test_several_dimensions(mode):
    def calls():
        for shape in [(1,), (3,), (2, 3), (1, 3, 2), (3, 1, 2, 2)]:
            rank = len(shape)
            for scales in ((2,) * rank, (0.5, 1, 4, 1)[:rank], (1, 2, 0.5, 4)[-rank:]):
                for sizes in ((3,) * rank, (5, 1, 4, 2)[:rank]):
                    x = numbered(shape) % 7
                    yield partial(resample, sizes=sizes, scales=scales, mode=mode), (x,), oracle(x, sizes, scales, mode)

    assert_calls_agree(calls())


def test_halves_go_up_unless_a_rounding_is_named():
    x = numbered((4,))
    assert_same_bits(resample(x, (2,), (0.5,)), np.float32([2, 4]))  # at 0.5 and 2.5
    assert_same_bits(resample(x, (2,), (0.5,), rounding="increasing"), np.float32([2, 4]))
    assert_same_bits(resample(x, (2,), (0.5,), rounding="decreasing"), np.float32([1, 3]))


@pytest.mark.thinned
@pytest.mark.parametrize("scale", [0.4, 0.5, 1, 1.5, 2, 3])
def test_the_nearest_is_a_rounding_of_shifted_offsets(scale):
    """RESAMPLE1 by RESAMPLE2: the halves are taken off the offset of the input, not of the output."""
    x, size = numbered((10,)), int(10 * scale)
    shifted = resample(x, (size,), (scale,), input_pixel_offsets=0, rounding="decreasing")
    assert_same_bits(resample(x, (size,), (scale,)), shifted)


def test_the_rounding_means_nothing_to_linear():
    for rounding in ROUNDINGS:
        assert_same_bits(
            resample(X, (8, 3), (2, 0.5), mode="linear", rounding=rounding), oracle(X, (8, 3), (2, 0.5), "linear")
        )


def test_each_dimension_has_a_loop_of_its_own_on_cpus():
    """Fused, each of 4 reads would compute the exponential again, one element after the other."""

    def resized(x):
        return resample(jax.nn.silu(x), (1, 16, 120, 140), mode="linear")

    def reading_loops():
        with jax.default_device(jax.devices("cpu")[0]):
            text = jax.jit(lambda x: resized(x)).lower(np.ones((1, 16, 60, 70), np.float32)).compile().as_text()
        loops = [loop for loop in text.split("\n}") if " gather(" in loop]
        return [" exponential(" in loop for loop in loops]

    assert reading_loops() == [False, False]
    with use_form("plain"):
        assert reading_loops() == [True]


def test_a_corner_lies_on_a_corner():
    """As ONNX's align_corners: no offsets, (sizes - 1) / (shape - 1), and FLT_MAX where one element is left."""
    corners = {"input_pixel_offsets": 0, "output_pixel_offsets": 0}
    x = np.float32([[1, 2], [3, 4]])
    assert_same_bits(resample(x, (1, 3), (FLT_MAX, 2), mode="linear", **corners), np.float32([[1, 1.5, 2]]))
    assert_same_bits(resample(x, (3, 1), (2, FLT_MAX), mode="linear", **corners), np.float32([[1], [2], [3]]))


def test_far_beyond_the_edges():
    """Positions beyond the integers are clamped before conversion."""
    x = numbered((3,))
    assert_same_bits(resample(x, (3,), (1e-38,)), np.float32([3, 3, 3]))
    for offset, edge in ((3e38, 1), (-3e38, 3)):
        for mode in MODES:
            made = resample(x, (2,), (1,), mode=mode, input_pixel_offsets=offset)
            assert_same_bits(made, np.full(2, edge, np.float32))
    assert_same_bits(resample(x, (2,), (1e-38,), mode="linear", output_pixel_offsets=3), np.float32([1, 1]))


def test_a_dimension_that_stays_is_left_alone_however_large():
    """Positions in float32 would not tell these elements apart."""
    count = 2**24 + 3
    x = np.arange(count, dtype=np.int32)
    assert_same_bits(jax.jit(lambda x: resample(x, (count,), (1,))[-3:])(x), x[-3:])
    shape = jax.eval_shape(lambda x: resample(x, (2**40, 4), (1, 2)), jax.ShapeDtypeStruct((2**40, 2), np.int8)).shape
    assert shape == (2**40, 4)


def test_a_shift_by_whole_elements():
    x = numbered((4,))
    assert_same_bits(resample(x, (4,), (1,), input_pixel_offsets=0, output_pixel_offsets=1), np.float32([1, 1, 2, 3]))
    made = resample(x, (4,), (1,), mode="linear", input_pixel_offsets=-1, output_pixel_offsets=0)
    assert_same_bits(made, np.float32([2, 3, 4, 4]))
