"""Operations on windows: their variants against loops over windows, and their sizes and shardings."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, exported
from jax.sharding import PartitionSpec as P
from operators import test_average_pooling, test_fold, test_lp_pooling, test_max_pooling, test_unfold
from small_arrays import numbered, on_explicit_mesh
from window_cases import filled

from dml_jax import ConstraintError, average_pooling, fold, lp_pooling, max_pooling, unfold, use_form

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


# All functions, of pictures of 4x6.

X = numbered((2, 3, 4, 6))
ATTRIBUTES = filled((2, 2), end_padding=(0, 1))
every_function = pytest.mark.parametrize(
    ("function", "oracle"),
    [
        (average_pooling, test_average_pooling.oracle),
        (partial(lp_pooling, p=1), partial(test_lp_pooling.oracle, p=1)),
        (max_pooling, test_max_pooling.oracle),
        (unfold, test_unfold.oracle),
    ],
    ids=["average_pooling", "lp_pooling", "max_pooling", "unfold"],
)


@every_function
def test_symbolic_channels_are_exported_and_symbolic_sizes_refused(function, oracle):
    assert_is(exported(partial(function, **ATTRIBUTES), "n, c, 4, 6").call(X), oracle(X, **ATTRIBUTES))
    with pytest.raises(ConstraintError, match="of known size, but spatial dimension 1 is symbolic, c"):
        exported(partial(function, **ATTRIBUTES), "2, 3, 4, c")


@every_function
def test_what_is_before_the_windows_keeps_its_sharding(function, oracle):
    made = function(on_explicit_mesh(X, "d", None, None, None), **ATTRIBUTES)
    assert {jax.typeof(one).sharding.spec[0] for one in jax.tree.leaves(made)} == {"d"}
    assert_is(made, oracle(X, **ATTRIBUTES))


@every_function
def test_a_sharded_spatial_dimension_needs_an_out_sharding(function, oracle):
    x, expected = on_explicit_mesh(X, None, None, None, "d"), oracle(X, **ATTRIBUTES)
    with pytest.raises(ConstraintError, match="dimension 3 of input is sharded over 'd', along which"):
        function(x, **ATTRIBUTES)
    wanted = P(*[None] * (jax.tree.leaves(expected)[0].ndim - 1), "d")
    made = function(x, **ATTRIBUTES, out_sharding=wanted)
    assert {jax.typeof(one).sharding.spec for one in jax.tree.leaves(made)} == {wanted}
    assert_is(made, expected)
