"""Transformations of resample: gradients, vmap, export with symbolic sizes, and Explicit meshes."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits, assert_sharded, exported, together
from jax.sharding import PartitionSpec as P
from resample_cases import ALL_MODES, FILTERS, X, oracle
from small_arrays import numbered, on_explicit_mesh

from dml_jax import ConstraintError, resample

pytestmark = pytest.mark.device


def matrix(input_size, *args, **kwargs):
    """The matrix of a call along one dimension, a row per element of the input."""
    return np.stack([oracle(one, *args, **kwargs) for one in np.eye(input_size, dtype=np.float32)])


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("sizes", "scales", "more"),
    [
        ((3,), (0.5,), {}),
        ((12,), (2,), {}),
        ((9,), (1.5,), {"rounding": "increasing"}),
        ((40,), (2,), {}),
        ((120,), (20,), {}),
        ((12,), (2,), {"mode": "linear"}),
        ((3,), (0.5,), {"mode": "linear"}),
        ((60,), (4,), {"mode": "linear"}),
        ((96,), (16,), {"mode": "linear"}),
        ((4,), (1,), {"mode": "linear", "input_pixel_offsets": -0.75}),
    ],
    ids=str,
)
def test_the_gradient_is_the_transpose(sizes, scales, more):
    """Of few and of many elements made of one."""
    weights = numbered(sizes) % 5
    found = jax.jit(jax.grad(lambda x: (resample(x, sizes, scales, **more) * weights).sum()))(numbered((6,)))
    assert_same_bits(found, matrix(6, sizes, scales, **more) @ weights)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("more", FILTERS[:8], ids=lambda more: "-".join(map(str, more.values())))
def test_the_gradient_of_every_filter_is_the_transpose(more):
    """Of few and of many elements that make one, against float64."""

    def gradient(x, sizes):
        return jax.grad(lambda x: (resample(x, sizes, **more) * (numbered(sizes) % 5)).sum())(x)

    shapes = [((23, 3), (2, 5)), ((6, 4), (13, 4)), ((5,), (1,)), ((1,), (7,))]
    found = together([(partial(gradient, sizes=sizes), numbered(shape)) for shape, sizes in shapes])
    for made, (shape, sizes) in zip(found, shapes, strict=True):
        each = np.eye(prod(shape)).reshape(-1, *shape)
        wanted = [(oracle(one, sizes, **more) * (numbered(sizes) % 5)).sum() for one in each]
        np.testing.assert_allclose(made, np.reshape(wanted, shape), rtol=1e-5, atol=1e-5)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("count", [5, 64])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
def test_narrow_sums_are_rounded_once(dtype, count):
    """Of 1 and many halves of its last bit: added one by one, each is lost."""
    cotangents = np.full(count, float(ml_dtypes.finfo(dtype).eps) / 2, np.float32)
    cotangents[0] = 1
    for scale in (count, 1.5):  # of which the second repeats the edge
        (found,) = jax.vjp(lambda x, s=scale: resample(x, (count,), (s,)), np.ones(1, dtype))[1](
            cotangents.astype(dtype)
        )
        assert_same_bits(found, cotangents.sum(dtype=np.float64, keepdims=True).astype(np.float32).astype(dtype))


def test_symbolic_sizes_of_what_is_left():
    for scales in ((1, 1.5), None):
        call = exported(lambda x, s=scales: resample(x, (x.shape[0], 9), s), "n, 6").call
        assert_same_bits(call(X), oracle(X, (4, 9), scales))
    with pytest.raises(ConstraintError, match="must be known while tracing where they are resampled, but those of dim"):
        exported(lambda x: resample(x, (2 * x.shape[0], 6), (2, 1)), "n, 6")


# Explicit meshes.


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_dimension_that_is_left_keeps_its_sharding_without_communication(mode):
    x = on_explicit_mesh(X, "d", None)
    function = partial(resample, sizes=(4, 9), scales=(1, 1.5), mode=mode)
    made = function(x)
    assert jax.typeof(made).sharding.spec == P("d", None)
    np.testing.assert_allclose(made, oracle(X, (4, 9), (1, 1.5), mode), rtol=1e-6)
    assert not communicates(function, x)


def communicates(function, x):
    text = jax.jit(function).lower(x).compile().as_text()
    return any(word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all"))


def test_a_repeated_dimension_keeps_its_sharding():
    function, x = partial(resample, sizes=(8, 6), scales=(2, 1)), on_explicit_mesh(X, "d", None)
    assert jax.typeof(function(x)).sharding.spec == P("d", None)
    assert_same_bits(function(x), X.repeat(2, 0))
    assert not communicates(function, x)


@pytest.mark.parametrize("mode", ALL_MODES)
def test_another_sharded_dimension_needs_an_out_sharding(mode):
    x = on_explicit_mesh(X, None, "d")
    with pytest.raises(ConstraintError, match="dimension 1 of input is sharded over 'd', along which"):
        resample(x, (4, 3), (1, 0.5), mode=mode)
    made = resample(x, (4, 4), (1, 0.5), mode=mode, out_sharding=P(None, "d"))
    assert_sharded(made, P(None, "d"), oracle(X, (4, 4), (1, 0.5), mode))


def test_signs_of_zeros_that_devices_read_for_each_other():
    x = np.full((4, 6), -0.0, np.float32)
    made = resample(on_explicit_mesh(x, None, "d"), (4, 8), (1, 1.25), out_sharding=P(None, "d"))
    assert_same_bits(made, np.full((4, 8), -0.0, np.float32))
