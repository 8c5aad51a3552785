"""Resize by sizes against rationals: the nearest elements, and linear sums of integers without their fraction."""

import itertools
from fractions import Fraction
from math import ceil, floor, prod

import jax
import numpy as np
import pytest
from checks import spread
from onnx_calls import call, computed, model_of, run

from dml_jax.onnx import to_jax

HALF = Fraction(1, 2)
NOTHING = np.float32([])
# Where an element o of `m` lies among `n`, by ONNX's formulas.
LAWS = {
    "half_pixel": lambda o, n, m, scale: (o + HALF) / scale - HALF,
    "pytorch_half_pixel": lambda o, n, m, scale: (o + HALF) / scale - HALF if m > 1 else Fraction(0),
    "half_pixel_symmetric": lambda o, n, m, scale: Fraction(n, 2) * (1 - m / (scale * n)) + (o + HALF) / scale - HALF,
    "align_corners": lambda o, n, m, scale: o * (n - 1) / (scale * n - 1) if min(n, m) > 1 else Fraction(0),
    "asymmetric": lambda o, n, m, scale: o / scale,
    "tf_half_pixel_for_nn": lambda o, n, m, scale: (o + HALF) / scale,
}
NEAREST = {
    "round_prefer_floor": lambda x: ceil(x - HALF),
    "round_prefer_ceil": lambda x: floor(x + HALF),
    "floor": floor,
    "ceil": ceil,
}
BEFORE = (1, 2, 3, 5, 7, 10, 13, 20, 21, 24, 30, 40)
AFTER = (1, 2, 3, 5, 6, 7, 9, 12, 15, 22, 35, 47)
PAIRS = [*itertools.product(BEFORE, AFTER)]


def positions(law, n, m, scale=None):
    """What is not scaled stays, as in ONNX's reference."""
    scale = scale or Fraction(m, n)
    return [Fraction(o) if (m, scale) == (n, 1) else LAWS[law](Fraction(o), n, m, scale) for o in range(m)]


def nearest(law, rounding, n, m, scale=None):
    return [min(max(NEAREST[rounding](x), 0), n - 1) for x in positions(law, n, m, scale)]


def resized(x, sizes, **attributes):
    return call("Resize", x, NOTHING, NOTHING, np.int64(sizes), given=(1, 2, 3), **attributes)


def linear(x, axis, law, m, scale=None):
    """The sums along one axis, of rationals."""
    n, rows = x.shape[axis], np.moveaxis(x, axis, 0)
    made = []
    for at in positions(law, n, m, scale):
        before, behind = floor(at), at - floor(at)
        first, second = (rows[min(max(i, 0), n - 1)] for i in (before, before + 1))
        made.append(first * (1 - behind) + second * behind)
    return np.moveaxis(np.array(made, object).reshape(m, *rows.shape[1:]), 0, axis)


def cut_off(x, dtype):
    return np.array([int(number) for number in x.ravel()], dtype).reshape(x.shape)


@pytest.mark.parametrize(("law", "which"), spread(LAWS, LAWS, 6))
def test_the_nearest_element_is_that_of_rationals(law, which):
    """144 pairs of sizes, three of them as one node, with every rounding."""
    calls, wanted = [], []
    for rounding, three in [*itertools.product(NEAREST, zip(*[iter(PAIRS)] * 3, strict=True))][which]:
        before, after = zip(*three, strict=True)
        x = np.arange(prod(before), dtype=np.int32).reshape(before)
        calls.append(resized(x, after, coordinate_transformation_mode=law, nearest_mode=rounding))
        wanted.append(x[np.ix_(*(nearest(law, rounding, n, m) for n, m in three))])
    for one, made, expected in zip(calls, computed(calls), wanted, strict=True):
        np.testing.assert_array_equal(made, expected, err_msg=str(one.attributes | {"sizes": expected.shape}))


def test_whole_positions_and_ties():
    """Of 21 -> 6, element 2 lies at 2 * 21 / 6 = 7; of 20 -> 6, element 4 at 4.5 * 20 / 6 - 0.5 = 14.5."""
    x = np.arange(21, dtype=np.float32)
    floors = resized(x, [6], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    ties = resized(x[:20], [6], coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")
    made = computed([floors, ties])
    assert made[0].tolist() == [0, 3, 7, 10, 14, 17]
    assert made[1][4] == 15


@pytest.mark.thinned(2)
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_sizes_that_keep_the_aspect_ratio(policy):
    """Along some axes, whose order is any; the others stay."""
    rng = np.random.default_rng(0)
    calls, wanted = [], []
    for law, rounding in itertools.product(LAWS, NEAREST):
        n, asked, axes = rng.integers(1, 24, 3), rng.integers(1, 24, 2), rng.permutation(3)[:2]
        scales = [Fraction(int(m), int(n[d])) for m, d in zip(asked, axes, strict=True)]
        scale = (min if policy == "not_larger" else max)(scales)
        x = np.arange(prod(n), dtype=np.int32).reshape(n)
        attributes = {"coordinate_transformation_mode": law, "nearest_mode": rounding}
        calls.append(resized(x, asked, axes=axes.tolist(), keep_aspect_ratio_policy=policy, **attributes))
        rows = [[*range(size)] for size in n]
        for d in axes:
            size = int(n[d])
            rows[d] = nearest(law, rounding, size, floor(scale * size + HALF), scale)
        wanted.append(x[np.ix_(*rows)])
    for one, made, expected in zip(calls, computed(calls), wanted, strict=True):
        np.testing.assert_array_equal(made, expected, err_msg=str(one.attributes))


def test_scales_mean_the_float32_of_the_file():
    """A third as float32 is a little more, and float32 divides by it to whole numbers, as ONNX Runtime and torch do."""
    x, third = np.arange(9, dtype=np.float32), np.float32([1 / 3])
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "given": (1, 2)}
    assert run("Resize", x, NOTHING, third, **attributes).tolist() == [0, 3, 6]
    calls, wanted = [], []
    laws = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")  # one division, by few bits
    for n, scale, law, rounding in itertools.product((1, 4, 9, 20), (0.5, 0.75, 1.5, 2.25), laws, NEAREST):
        if int(n * scale):
            row, exact = np.arange(n, dtype=np.float32), Fraction(scale)
            attributes = {"coordinate_transformation_mode": law, "nearest_mode": rounding}
            calls.append(call("Resize", row, NOTHING, np.float32([scale]), given=(1, 2), **attributes))
            wanted.append(row[nearest(law, rounding, n, int(n * scale), exact)])
    for one, made, expected in zip(calls, computed(calls), wanted, strict=True):
        np.testing.assert_array_equal(made, expected, err_msg=str(one))


@pytest.mark.thinned(6)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.uint32, np.int64])
def test_linear_sums_of_integers_are_those_of_rationals(dtype):
    """The fraction is cut off: of 48 nothing, although floats make it 47.999996."""
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    calls, wanted = [], []
    for law, (n, m) in itertools.product(LAWS, PAIRS[1::26]):
        x = rng.integers(info.min, info.max, (2, n), dtype, endpoint=True)
        calls.append(resized(x, [2, m], mode="linear", coordinate_transformation_mode=law))
        wanted.append(cut_off(linear(x.astype(object), 1, law, m), dtype))
    for one, made, expected in zip(calls, computed(calls), wanted, strict=True):
        np.testing.assert_array_equal(made, expected, err_msg=str(one.attributes))


def test_linear_sums_along_several_dimensions():
    """Of sizes that have no common divisor, so that the unit is as great as it can be."""
    x = np.random.default_rng(0).integers(0, 256, (3, 31, 37), np.uint8)
    (made,) = computed([resized(x, [2, 29, 41], mode="linear")])
    exact = x.astype(object)
    for axis, m in enumerate((2, 29, 41)):
        exact = linear(exact, axis, "half_pixel", m)
    np.testing.assert_array_equal(made, cut_off(exact, np.uint8))


def test_linear_weights_far_from_the_first_element():
    """The rest of a position has as many digits there as before: float32 has three after 4000."""
    x = np.zeros(6000, np.float32)
    x[1::2] = 1
    (made,) = computed([resized(x, [4001], mode="linear", coordinate_transformation_mode="asymmetric")])
    exact = linear(x.astype(int).astype(object), 0, "asymmetric", 4001)
    np.testing.assert_allclose(made, exact.astype(float), atol=1e-6)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("attributes", [{"mode": "cubic"}, {"mode": "linear", "antialias": 1}], ids=str)
def test_one_number_everywhere_stays(attributes):
    """Weights of floats add up to a little less than 1, whose fraction is not cut off."""
    pictures = [np.full(n, number, np.uint8) for n in (7, 20, 21, 50) for number in (3, 100, 201, 255)]
    calls = [resized(x, [m], **attributes) for x in pictures for m in (6, 37)]
    for one, made in zip(calls, computed(calls), strict=True):
        assert set(made.tolist()) == {one.inputs[0][0]}, one


def test_nearest_has_no_filter():
    x = np.arange(12, dtype=np.float32)
    (made,) = computed([resized(x, [4], mode="nearest", antialias=1)])
    np.testing.assert_array_equal(made, x[1::3])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_other_dimensions_stay_sharded_on_an_explicit_mesh(mode):
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = np.random.default_rng(0).standard_normal((4 * jax.device_count(), 21)).astype(np.float32)
    (wanted,) = computed([resized(x, [len(x), 6], mode=mode)])
    function = to_jax(model_of([resized(x, [len(x), 6], mode=mode)])[0])
    with jax.set_mesh(mesh):
        made = jax.jit(function)(jax.device_put(x, jax.NamedSharding(mesh, jax.P("batch"))))
    assert jax.typeof(made).sharding.spec == jax.P("batch", None)
    np.testing.assert_allclose(made, wanted, rtol=1e-6)
