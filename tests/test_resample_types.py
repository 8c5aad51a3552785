"""Data types of resample: bits of every type, rounding of narrow types, infinities, and arrays without elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, refused_without_x64
from resample_cases import ALL_MODES, X, oracle

from dml_jax import resample

pytestmark = pytest.mark.device


def test_narrow_types_are_computed_in_float32_and_rounded_once():
    for dtype, numbers in (
        (jnp.bfloat16, [[1, 256, 512], [3, 255, 511]]),
        (np.float16, [[60000, 65504, 1], [0, 2049, 3]]),
    ):
        x = np.float32(numbers).astype(dtype)
        wide = oracle(x.astype(np.float32), (4, 6), (2, 2), "linear")
        assert_same_bits(resample(x, (4, 6), (2, 2), mode="linear"), wide.astype(dtype))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_integers_become_the_nearest_ones(dtype):
    """Halves the even ones."""
    assert_same_bits(resample(np.array([0, 1, 2, 3], dtype), (2,), (0.5,), mode="linear"), np.array([0, 2], dtype))
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max, 3], [1, 2, limits.max]], dtype)
    assert_same_bits(resample(x, (4, 12), (2, 4), mode="linear"), oracle(x, (4, 12), (2, 4), "linear"))


def test_an_infinite_element_stays_where_it_is():
    """Where a neighbour counts nothing it adds no NaN; where it counts, it wins."""
    x = np.float32([1, np.inf, 2, 3])
    edges = {"input_pixel_offsets": 0, "output_pixel_offsets": 0, "mode": "linear"}
    made = resample(x, (8,), (2,), **edges)
    assert_same_bits(made, np.float32([1, np.inf, np.inf, np.inf, 2, 2.5, 3, 3]))
    zero = resample(np.float32([-0.0, 1]), (2,), (2,), **edges)
    assert_same_bits(zero, np.float32([-0.0, 0.5]))


def test_elements_that_count_nothing():
    """On an element, cubic convolution copies it: its bits where every element is one, and beside infinities."""
    edges = {"input_pixel_offsets": 0, "output_pixel_offsets": 0, "mode": "cubic", "cubic_coefficient": -0.6}
    x = np.array([1, -0.0, np.nan, 2, 5, np.inf], np.float16).view(np.uint16)
    x[2] += 3  # a NaN of other bits
    assert_same_bits(resample(x.view(np.float16), (3,), (0.5,), **edges).view(np.uint16), x[::2])
    made = resample(np.float32([1, np.inf, 2, 3, 4, 6]), (12,), (2,), **edges)
    assert_same_bits(made[::2], np.float32([1, np.inf, 2, 3, 4, 6]))
    assert np.isfinite(made[7:]).all()
    # 40 elements are read at once, of which infinities outside the filter are none.
    far = np.float32([*[1] * 40, np.inf, *[1] * 39])
    made = resample(far, (4,), mode="linear", antialias=True, exclude_outside=True)
    assert_same_bits(np.isinf(made), np.array([False, True, True, False]))
    np.testing.assert_allclose(made[::3], 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_cubic_integers_stay_within_their_type(dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min, limits.max, limits.max, limits.min, 3], dtype)
    made = resample(x, (24,), mode="cubic")
    assert {limits.min, limits.max} <= {*made.tolist()}
    assert_same_bits(made, oracle(x, (24,), mode="cubic"))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, jnp.float8_e4m3fn])
@pytest.mark.parametrize("sizes", [(10,), (2,)], ids=str)
def test_narrow_floats_are_weighed_in_float32(dtype, sizes):
    x = (np.random.default_rng(0).normal(size=20)).astype(dtype)
    more = {"mode": "cubic", "antialias": True}
    wide = resample(x.astype(np.float32), sizes, **more)
    assert_same_bits(resample(x, sizes, **more), np.asarray(wide).astype(dtype))


def test_64_bit_data(x64):
    x = np.float64([1, 1 + 2.0**-40])
    with refused_without_x64("input of type float64"):
        assert_same_bits(resample(x, (4,), (2,)), oracle(x, (4,), (2,)))
        assert_same_bits(resample(x, (4,), (2,), mode="linear"), oracle(x, (4,), (2,), "linear"))


@pytest.mark.parametrize("mode", ALL_MODES)
def test_empty_arrays(mode):
    for x, sizes in ((X, (0, 3)), (X[:0], (0, 3)), (X[:, :0], (2, 0))):
        made = resample(x, sizes, (0.5, 0.5), mode=mode)
        assert made.shape == sizes
        back = jax.jit(jax.grad(lambda x, sizes=sizes: resample(x, sizes, (0.5, 0.5), mode=mode).sum()))(x)
        assert_same_bits(back, np.zeros_like(x))
    assert_same_bits(resample(np.float32(3), (), (), mode=mode), np.float32(3))
