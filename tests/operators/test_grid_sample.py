"""grid_sample: output[n, c, p] = the sum over the neighbours of grid[n, p] of their weights times input[n, c, e]."""

import itertools
from functools import partial
from math import floor, prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits, sampled, spread, together
from jax.test_util import check_grads
from operator_cases import Call
from oracles import clamp, coordinates
from small_arrays import numbered

from dml_jax import DataTypeError, grid_sample

pytestmark = pytest.mark.device

A = -0.75


def thrown_back(at, size, align_corners):
    """Step by step, at the outermost elements or at their edges."""
    low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
        if low == high:
            return low
    return at


def weight(distance, mode):
    if mode == "bilinear":
        return max(0, 1 - distance)
    if distance <= 1:
        return (A + 2) * distance**3 - (A + 3) * distance**2 + 1
    return A * distance**3 - 5 * A * distance**2 + 8 * A * distance - 4 * A if distance < 2 else 0


def along(coordinate, size, mode, padding_mode, align_corners):
    """The elements along a dimension, None for a zero, and how much each counts."""
    at = (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2
    if mode == "nearest":
        at = clamp(thrown_back(at, size, align_corners), size) if padding_mode == "reflection" else at
        parts = {round(at): 1}
    else:
        parts = {i: w for i in range(floor(at) - 1, floor(at) + 3) if (w := weight(abs(i - at), mode))}
    for i, w in parts.items():
        if padding_mode == "zeros":
            yield (i if 0 <= i < size else None), w
        else:
            yield clamp(int(thrown_back(i, size, align_corners)) if padding_mode == "reflection" else i, size), w


def oracle(input, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """In Python's floats, rounded once."""
    batch, channels, *sizes = input.shape
    output = np.zeros((batch, channels, *grid.shape[1:-1]), input.dtype)
    for n, *p in coordinates((batch, *grid.shape[1:-1])):
        at = [float(one) for one in reversed(grid[n, *p])]
        taps = itertools.product(
            *(along(*one, mode, padding_mode, align_corners) for one in zip(at, sizes, strict=True))
        )
        inside = [
            (tuple(i for i, _ in tap), prod(w for _, w in tap)) for tap in taps if all(i is not None for i, _ in tap)
        ]
        for c in range(channels):
            if mode == "nearest":
                output[n, c, *p] = input[n, c, *inside[0][0]] if inside else 0
            else:
                output[n, c, *p] = sum(float(input[n, c, *e]) * w for e, w in inside)
    return output


X = numbered((2, 2, 3, 4))
# Positions that 24 bits hold exactly, inside and beyond each end, so that all forms have the same bits.
GRID = np.float32([-1, 0.5, 0.25, -0.25, 0, 1, -1.5, 0.5, 0.75, 2, 0.5, -0.5]).reshape(1, 3, 2, 2)
GRID = np.concatenate([GRID, GRID[:, ::-1] / 2])
CASE = Call(grid_sample, {"input": X, "grid": GRID}, is_linear=False)
SMALL = {"input": X[:, :, :1, :2], "grid": np.float32(2 * GRID)}
VARIANTS = {
    "border": {"padding_mode": "border"},
    "reflection": {"padding_mode": "reflection", "grid": 2 * GRID},
    "aligned": {"align_corners": True, "padding_mode": "reflection", "grid": 2 * GRID},
    "nearest": {"mode": "nearest"},
    "nearest reflection": {"mode": "nearest", "padding_mode": "reflection", **SMALL},
    "bicubic": {"mode": "bicubic", **SMALL},
    "bicubic aligned": {"mode": "bicubic", "padding_mode": "reflection", "align_corners": True, **SMALL},
    "one dimension": {"input": X[..., 0], "grid": GRID[:, :, 0, :1]},
    "three dimensions": {"input": X[:, :1, None], "grid": np.repeat(GRID, 2, -1)[:, :, None, :, :3]},
}
BREAKS = {
    "numbers(input)": {"input": jax.random.split(jax.random.key(0), X.shape)},
    "weighable(input)": {"input": X.astype(np.int32)},
    "float(grid)": {"grid": GRID.astype(np.int32)},
    "minimum_rank(input, 3)": {"input": X[0, 0], "grid": GRID[0, 0]},
    "same_rank(grid, input)": {"grid": GRID[0]},
    "same_batch": {"grid": GRID[:1]},
    "coordinates": {"grid": GRID[..., :1]},
    "short": {"input": X[:, :, :0]},
    "one_of(mode)": {"mode": "linear"},
    "one_of(padding_mode)": {"padding_mode": "wrap"},
}
STRUCTS = ()


# Against the oracle, and torch.

SHAPES = [
    ((2, 3, 4, 5), (2, 6, 7, 2)),
    ((1, 2, 1, 3), (1, 4, 5, 2)),
    ((2, 1, 4, 5, 3), (2, 4, 3, 5, 3)),
    ((1, 1, 6), (1, 9, 1)),
]
WAYS = [
    {"mode": mode, "padding_mode": padding, "align_corners": aligns}
    for mode, padding, aligns in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
]


def drawn(shape, points, dtype=np.float32):
    rng = np.random.default_rng(3)
    return rng.normal(size=shape).astype(dtype), (rng.normal(size=points) * 1.5).astype(np.float32)


@pytest.mark.parametrize(("shapes", "which"), spread(SHAPES, SHAPES, 4))
def test_every_way_is_that_of_loops(shapes, which):
    x, grid = drawn(*shapes)
    found = together([(partial(grid_sample, **way), x, grid) for way in WAYS[which]])
    for way, actual in zip(WAYS[which], found, strict=True):
        expected = oracle(x.astype(np.float64), grid, **way)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=str(way))


@pytest.mark.parametrize(("shapes", "which"), spread(SHAPES[:3], SHAPES[:3], 3))
def test_every_way_is_that_of_torch_with_its_gradients(shapes, which):
    """Which has no cubic one of three dimensions."""
    torch = pytest.importorskip("torch")
    x, grid = drawn(*shapes)
    for way in (one for one in WAYS[which] if one["mode"] != "bicubic" or x.ndim == 4):
        leaves = [torch.from_numpy(each).requires_grad_() for each in (x, grid)]
        wanted = torch.nn.functional.grid_sample(*leaves, **way)
        wanted.backward(wanted.detach())
        found, wanted = jax.jit(both_ways(way))(x, grid), (wanted.detach(), *(leaf.grad for leaf in leaves))
        for one, other in zip(found, wanted, strict=True):
            most = 1e-5 * max(1, abs(other.numpy()).max())  # slopes are differences of greater numbers
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=most, err_msg=str(way))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(dtype):
    """So is what flows back to an element that many positions read: 3,000 times 1, which would stop at 2048 and 256."""
    x, grid = drawn(*SHAPES[0], dtype)
    for mode in ("bilinear", "bicubic"):
        exact = oracle(x.astype(np.float64), grid, mode)
        np.testing.assert_allclose(
            np.asarray(grid_sample(x, grid, mode=mode)).astype(np.float64),
            exact,
            rtol=0.51 * float(jnp.finfo(dtype).eps),
            atol=1e-5,
        )
    centre = np.zeros((1, 3000, 1), np.float32)
    ones = np.ones((1, 1, 3000), dtype)
    for mode in ("bilinear", "nearest", "bicubic"):
        pull_back = jax.jit(
            jax.vjp(lambda x, mode=mode: grid_sample(x, centre, mode=mode), np.ones((1, 1, 3), dtype))[1]
        )
        assert_same_bits(pull_back(ones)[0], np.array([[[0, 3000, 0]]], dtype))


def test_the_nearest_element_is_copied_bit_by_bit():
    x = np.uint16([0x7E01, 0x8000, 0x0001, 0xFC00]).reshape(1, 1, 2, 2)
    grid = np.float32([[[[-0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]]])
    for dtype in (np.float16, np.int16, np.uint16, ml_dtypes.bfloat16):
        assert_same_bits(grid_sample(x.view(dtype), grid, mode="nearest"), x.view(dtype))


# Derivatives.


def both_ways(way):
    """A function that returns the result and what flows back from it."""

    def function(x, grid):
        output, pull_back = jax.vjp(partial(grid_sample, **way), x, grid)
        return output, *pull_back(output)

    return function


@pytest.mark.parametrize("which", sampled(range(len(WAYS)), [5]))
def test_derivatives_are_those_of_differences(which, exhaustive):
    """In float64, with --exhaustive twice; at positions that lie between elements."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1, 2, 3, 4))
    grid = (rng.integers(-9, 9, (1, 5, 1, 2)) + rng.uniform(0.2, 0.8, (1, 5, 1, 2))) / 12
    with jax.enable_x64(True):
        order, modes = (2, ("fwd", "rev")) if exhaustive else (1, "rev")
        check_grads(jax.jit(partial(grid_sample, **WAYS[which])), (x, grid), order, modes, atol=1e-4, rtol=1e-4)


@pytest.mark.exhaustive
def test_far_positions_are_finite_and_so_are_their_derivatives(exhaustive):
    x, grid = drawn(*SHAPES[0])
    far = np.float32([1e38, -1e38, 3.4e38, 1e30, -(2.0**24), 2.0**24 + 2, 7, -9])
    grid = np.resize(far, grid.shape)
    ways = WAYS if exhaustive else WAYS[::4]
    assert {"zeros", "border", "reflection"} == {way["padding_mode"] for way in ways}
    for way, found in zip(ways, together([(both_ways(way), x, grid) for way in ways]), strict=True):
        for each in found:
            assert np.isfinite(each).all(), way
        if way["padding_mode"] == "zeros":
            assert not found[0].any()
        if way["padding_mode"] == "border":
            inside = grid_sample(x, np.clip(grid, -1, 1), **{**way, "align_corners": True})
            np.testing.assert_allclose(found[0], inside, rtol=1e-5)


def test_a_reflection_is_exact_however_far():
    """2 ** 24 + 2 is 2 modulo 4, which 1 throws back to 0; 1e38 is a multiple of 4."""
    x = np.float32([[[3, 5, 7, 9]]])
    grid = np.float32([2.0**24 + 2, 1e38, -(2.0**25), 5, -2.5]).reshape(1, -1, 1)
    near = np.float32([0, 0, 0, 1, 0.5]).reshape(1, -1, 1)
    for aligns in (False, True):
        how = {"padding_mode": "reflection", "align_corners": aligns}
        assert_same_bits(grid_sample(x, grid, **how), grid_sample(x, near, **how))


# What is no number.


def test_positions_that_are_no_numbers_read_nothing_outside():
    """They are NaN of what is weighed; others stay what they are."""
    x, grid = drawn(*SHAPES[0])
    broken = grid.copy()
    broken[:, 0, 0, 0] = np.nan
    for way in WAYS[::4]:
        found, wanted = grid_sample(x, broken, **way), np.array(grid_sample(x, grid, **way))
        wanted[:, :, 0, 0] = found[:, :, 0, 0]
        assert_same_bits(found, wanted)
        assert way["mode"] == "nearest" or way["padding_mode"] == "zeros" or np.isnan(found[:, :, 0, 0]).all()


def test_numbers_that_cannot_be_weighed_are_refused():
    with pytest.raises(
        DataTypeError, match=r'input.dtype must be a floating-point type unless mode is "nearest", but it is int8'
    ):
        grid_sample(X.astype(np.int8), GRID)
