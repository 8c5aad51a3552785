"""Variants of window operations, each against loops over windows, on every platform."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_sharded
from jax.sharding import PartitionSpec as P
from operators import test_fold, test_max_pooling, test_unfold
from small_arrays import on_explicit_mesh
from window_cases import filled

from dml_jax import average_pooling, fold, max_pooling, unfold, use_form

pytestmark = pytest.mark.device

# Windows next to each other. Then windows that are apart, whose sums have phases.
WINDOWS = [
    ((3, 4), filled((3, 3), start_padding=(1, 1), end_padding=(1, 1))),
    ((4, 3), filled((2, 3), dilations=(1, 2), start_padding=(0, 3), end_padding=(0, 2))),
    ((2, 5), filled((3, 2), dilations=(2, 1), start_padding=(4, 0), end_padding=(1, 6))),
    ((1, 1), filled((2, 2), start_padding=(1, 2), end_padding=(1, 2))),
    ((5, 7), filled((3, 2), strides=(2, 3), start_padding=(1, 0), end_padding=(1, 2))),
    ((6, 9), filled((5, 5), strides=(2, 3), dilations=(1, 2), start_padding=(2, 4), end_padding=(2, 3))),
    ((7,), filled((2,), strides=(3,), start_padding=(2,), end_padding=(1,))),
]
FORMS = pytest.mark.parametrize("form", ["slices", pytest.param("plain", marks=pytest.mark.exhaustive)])


def traced(form, function):
    """The function, traced in a form."""

    def call(*arrays):
        if form == "chosen":
            return function(*arrays)
        with use_form(form):
            return function(*arrays)

    return call


@pytest.mark.thinned
@pytest.mark.parametrize("form", ["chosen", "slices", "plain"])
def test_elements_are_copied_bit_for_bit(form):
    def calls():
        for number, (sizes, attributes) in enumerate(WINDOWS):
            dtype = [np.uint8, jnp.bfloat16, np.float32, np.float16][number % 4]
            bits = np.random.default_rng(number).integers(0, 256, (2, 3, *sizes, np.dtype(dtype).itemsize), np.uint8)
            x = bits.view(dtype)[..., 0]
            yield traced(form, partial(unfold, **attributes)), (x,), test_unfold.oracle(x, **attributes)

    assert_calls_agree(calls())


@pytest.mark.thinned
@pytest.mark.parametrize("form", ["chosen", "slices", "plain"])
def test_elements_are_added_up(form):
    def calls():
        for number, (sizes, attributes) in enumerate(WINDOWS):
            rng, dtype = np.random.default_rng(number), [np.int32, np.float16, np.float32][number % 3]
            columns = test_unfold.oracle(np.zeros((2, 3, *sizes), dtype), **attributes).shape
            x = rng.integers(-9, 9, columns).astype(dtype)
            call = partial(fold, output_sizes=sizes, **attributes)
            yield traced(form, call), (x,), test_fold.oracle(x, sizes, **attributes)

    assert_calls_agree(calls())


@FORMS
def test_the_greatest_elements(form):
    def calls():
        for number, (sizes, attributes) in enumerate(WINDOWS):
            x = np.random.default_rng(number).choice(np.float32([0, -0.0, 1, np.nan, -np.inf]), (2, 3, *sizes))
            yield traced(form, partial(max_pooling, **attributes)), (x,), test_max_pooling.oracle(x, **attributes)

    assert_calls_agree(calls())


@pytest.mark.thinned(2)
@FORMS
@pytest.mark.parametrize("pool", [average_pooling, lambda x, **given: max_pooling(x, **given)[0]], ids=["mean", "max"])
def test_derivatives_of_pooling(form, pool):
    """Against differences, of numbers whose order they do not change."""
    for sizes, attributes in WINDOWS[::4]:
        x = np.random.default_rng(0).permutation(6 * int(np.prod(sizes))).reshape(2, 3, *sizes).astype(np.float32)
        call = jax.jit(traced(form, partial(pool, **attributes)))
        value, back = jax.vjp(call, x)
        weights, step = np.random.default_rng(1).integers(1, 9, value.shape).astype(np.float32), np.float32(0.5)
        (found,) = back(weights)
        for at in list(np.ndindex(x.shape))[:: x.size // 9]:
            beside = x.copy()
            beside[at] += step
            after, before = (np.nan_to_num(np.asarray(one, np.float64), neginf=0) for one in (call(beside), value))
            np.testing.assert_allclose(found[at], ((after - before) * weights).sum() / step, rtol=1e-4, atol=1e-3)


def test_pictures_of_a_sharded_batch_stay_where_they_are():
    sizes, attributes = WINDOWS[0]
    x = np.random.default_rng(0).integers(1, 99, (2, 3, *sizes), np.int32)
    made = unfold(on_explicit_mesh(x, "d", None, None, None), **attributes)
    assert_sharded(made, P("d", None, None), test_unfold.oracle(x, **attributes))
