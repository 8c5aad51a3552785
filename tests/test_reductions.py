"""Sums, products and extremes of scatters, and the sums that flow back through gathers, against exact numbers."""

import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits, sampled, together
from reduction_cases import (
    EVERY_REDUCTION,
    EVERY_TYPE,
    FLOATS,
    SAMPLE,
    WIDE,
    as_type,
    exact,
    oracle,
    reductions_of,
    scatters,
    small,
    unsigned,
)
from small_arrays import random_keys

import dml_jax

pytestmark = pytest.mark.device


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", sampled(EVERY_TYPE, SAMPLE))
def test_every_type_against_exact_numbers(dtype, exhaustive):
    """Whole numbers give the same bits; others are rounded once by narrow floats, and at every step by wide ones.

    A mean of either is a quotient, which XLA may compute as a product with 1 / n.
    """
    dtype, rng = np.dtype(getattr(ml_dtypes, dtype, dtype)), np.random.default_rng(1)
    reductions = reductions_of(dtype)
    some = list(scatters(rng))[:: 1 if dtype in ("float32", "int8") else 2]  # every shape and mode
    cases = [(*case, reduction) for case, reduction in itertools.product(some, reductions)]
    if not exhaustive:  # every shape, mode and reduction, but not all of their combinations
        cases = [case for n, case in enumerate(cases) if (n + n // len(reductions)) % len(reductions) == 1]
    cases = [
        (name, {**how, "include_self": n % 3 != 1}, *rest) for n, (name, how, *rest) in enumerate(cases)
    ]  # of every reduction with and without
    functions = [partial(getattr(dml_jax, name), reduction=r, **how) for name, how, *_, r in cases]
    program = jax.jit(lambda arrays: [f(*a) for f, a in zip(functions, arrays, strict=True)])
    for values in (
        (small,) if dtype.kind in "biuc" else (small, lambda rng, dtype, of: rng.normal(size=of).astype(dtype))
    ):
        arrays = [(values(rng, dtype, shape), at, values(rng, dtype, of)) for _, _, shape, at, of, _ in cases]
        with jax.enable_x64(dtype.name in WIDE):
            results = jax.device_get(program(arrays))
        for (name, how, *_, reduction), (x, at, updates), actual in zip(cases, arrays, results, strict=True):
            found = oracle(name, x, at, updates, reduction, **how)
            is_quotient = reduction == "mean" and dtype.kind not in "iu"
            if (values is small or reduction in ("min", "max")) and not is_quotient:
                assert_same_bits(unsigned(actual), unsigned(as_type(found, dtype)))
                continue
            most = oracle(name, abs(x), at, abs(updates), reduction, **how)
            info = ml_dtypes.finfo(dtype)
            if dtype.itemsize > 2:
                bound = 16 * info.eps * most
            else:  # half a unit in the last place
                bound = np.ldexp(0.51, np.maximum(np.frexp(found)[1] - 1, info.minexp) - info.nmant)
            assert (abs(exact(actual) - found) <= bound.astype(float)).all()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("form", ["plain", "sorted_segments", "chunked_scatter_add", "gather_side_sum"])
def test_a_long_sum_of_narrow_floats_is_rounded_once(form):
    """One by one in bfloat16 they would stop at 256."""
    ones, zero = np.ones(3000, jnp.bfloat16), np.zeros(1, jnp.bfloat16)
    at = np.zeros(3000, np.int32)
    with dml_jax.use_form(form):
        forward = partial(dml_jax.scatter_elements, axis=0, reduction="add"), zero, at, ones
        back = lambda ones: jax.vjp(lambda x: dml_jax.gather(x, at, 0), zero)[1](ones)[0], ones
        totals = together([forward, back])
    for total in totals:
        assert_same_bits(total, np.array([3008], jnp.bfloat16))


def test_every_gather_adds_narrow_floats_in_float32():
    """What 3,000 indices read, of each batch and each axis."""
    at, table = np.zeros((2, 3000), np.int32), jnp.zeros((2, 2), jnp.bfloat16)
    reads = {
        "gather": partial(dml_jax.gather, indices=at[0], axis=1),
        "gather_elements": partial(dml_jax.gather_elements, indices=at, axis=-1),
        "gather_nd": partial(dml_jax.gather_nd, indices=at[..., None], batch_dims=1),
    }
    ones = jnp.ones(at.shape, jnp.bfloat16)
    backs = [(lambda c, read=read: jax.vjp(read, table)[1](c)[0], ones) for read in reads.values()]
    for name, gradient in zip(reads, together(backs), strict=True):
        np.testing.assert_array_equal(gradient, np.array([[3008, 0]] * 2, jnp.bfloat16), name)


COMBINED = [*itertools.product(FLOATS, ["plain"]), *itertools.product(FLOATS[:3], ["sorted_segments"])]
COMBINED_SAMPLE = [
    *itertools.product(("float32", "bfloat16", "float8_e5m2"), ["plain"]),
    ("bfloat16", "sorted_segments"),
]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("case", sampled(COMBINED, COMBINED_SAMPLE), ids=str)
def test_extremes_of_special_numbers(case):
    """All triples: what is there, and two updates."""
    dtype, form = case
    special = as_type(np.array([np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf]), jnp.dtype(dtype))
    x, *two = np.array(list(itertools.product(special, repeat=3)), special.dtype).T
    at, updates = np.tile(np.arange(x.size, dtype=np.int32), 2), np.concatenate(two)
    ways = [{"reduction": r, "include_self": own, "axis": 0} for r in ("min", "max") for own in (True, False)]
    wanted = [as_type(oracle("scatter_elements", x, at, updates, **how), x.dtype) for how in ways]
    calls = [partial(dml_jax.scatter_elements, **how) for how in ways]
    with dml_jax.use_form(form):
        results = together([(call, x, at, updates) for call in calls])
    for expected, actual in zip(wanted, results, strict=True):
        nans, zero = np.isnan(expected), np.zeros_like(x)
        np.testing.assert_array_equal(np.isnan(actual), nans)
        assert_same_bits(np.where(nans, zero, actual), np.where(nans, zero, expected))


VIEWS = {"repeated": ((3000, 2), (0, 1)), "overlapping": ((40, 7), (1, 1)), "interleaved": ((5, 4), (2, 3))}


ADDED = list(itertools.product(["float32", "float16", "bfloat16", "float8_e5m2"], [False, True]))


@pytest.mark.parametrize("case", sampled(ADDED, [ADDED[0], ADDED[7]]), ids=str)
def test_the_gradient_of_a_view_is_added_in_float32(case):
    """Of elements that several coordinates see; ones, whose sums a narrow type would stop."""
    dtype, deterministic = jnp.dtype(case[0]), case[1]
    for sizes, strides in VIEWS.values():
        view = partial(dml_jax.as_strided, sizes=sizes, strides=strides, deterministic=deterministic)
        seen = np.lib.stride_tricks.as_strided(np.arange(64), sizes, [8 * s for s in strides])
        expected = np.bincount(seen.ravel(), minlength=64).astype(dtype)
        assert_same_bits(jax.jit(jax.vjp(view, jnp.zeros(64, dtype))[1])(jnp.ones(sizes, dtype))[0], expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_a_mean_of_integers_rounds_towards_minus_infinity(dtype):
    """Sums are of 32 bits at least: 100 numbers of 8 bits do not wrap, the two greatest of 32 bits do."""
    most, least = np.iinfo(dtype).max, np.iinfo(dtype).min
    many = np.full(100, most, dtype)
    rows = [many, np.full(100, least, dtype), np.arange(100, dtype=dtype), np.arange(-99, 1).astype(dtype)]
    x = np.array([1, 1, 0, 0], dtype)
    at = np.repeat(np.arange(4, dtype=np.int32), 100)
    found = dml_jax.scatter_elements(x, at, np.concatenate(rows), 0, reduction="mean")
    bits = 8 * max(4, x.itemsize)
    sums = [sum(map(int, [own, *row])) for own, row in zip(x, rows, strict=True)]
    wrapped = [(total + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for total in sums]
    assert (wrapped == sums) == (x.itemsize < 4)
    assert_same_bits(found, np.array([total // 101 for total in wrapped], dtype))


@pytest.mark.exhaustive
def test_what_no_update_addresses_keeps_its_bits():
    """Also where updates are left out; the one that is addressed does not."""
    x = np.uint32([0x7FC01234, 0x80000000, 0x00000001, 0x3F800000]).view(np.float32)
    calls, expected = [], []
    for dtype, reduction, is_unique in itertools.product((np.float32, jnp.bfloat16), EVERY_REDUCTION, (False, True)):
        table = x.view(dtype)
        at, updates = np.int32([len(table) - 1, 99]), np.array([2, 3], dtype)
        how = {"reduction": reduction, "include_self": False, "unique_indices": is_unique}
        calls.append((partial(dml_jax.scatter_elements, axis=0, **how), table, at, updates))
        calls.append((partial(dml_jax.scatter_nd, **how), table, at[:, None], updates))
        expected += 2 * [np.array([*table[:-1], 2], dtype)]
    for found, wanted in zip(together(calls), expected, strict=True):
        assert_same_bits(found, wanted)


def test_what_has_no_such_reduction_is_refused():
    e8, keys, of_complex = np.ones(3, jnp.float8_e8m0fnu), random_keys(3), np.ones(3, np.complex64)
    refused = [(x, r) for x in (e8, keys) for r in EVERY_REDUCTION] + [(of_complex, r) for r in ("min", "max")]
    refused.append((np.ones(3, bool), "mean"))
    functions = (partial(dml_jax.scatter_elements, axis=0), np.int32([0])), (dml_jax.scatter_nd, np.int32([[0]]))
    for function, at in functions:
        for x, reduction in refused:
            with pytest.raises(dml_jax.DataTypeError, match=re.escape(f"it is {x.dtype}, ")):
                function(x, at, updates=x[:1], reduction=reduction)
        with pytest.raises(
            dml_jax.ConstraintError, match="one of None, 'add', 'mul', 'min', 'max', 'mean', but it is 'sum'"
        ):
            function(of_complex, at, updates=of_complex[:1], reduction="sum")


def test_no_tracer_outlives_its_trace():
    x, at = np.ones((3, 2), np.float32), np.int32([[0], [1]])
    calls = [
        lambda x: dml_jax.gather(x, at, 0),
        lambda x: dml_jax.scatter_nd(x, at, x[:2], reduction="add"),
        lambda x: dml_jax.scatter_nd(x, at, x[:2]),
        lambda x: dml_jax.as_strided(x.ravel(), (2, 2), (1, 1)),
        lambda x: dml_jax.depth_to_space(jnp.tile(x[:1, :1].reshape(1, 1, 1), (4, 1, 1)), 2),
    ]
    with jax.checking_leaks():
        for call in calls:
            jax.jit(call)(x)
            jax.jit(lambda x, call=call: jax.vjp(call, x)[1](call(x)))(x)


@pytest.mark.exhaustive
def test_without_jit_and_with_numpy_arrays(exhaustive):
    x, at = np.float32([[1, 2], [3, 4]]), np.int32([[1]])
    every = (("mul", [9, 16]), ("min", [3, 4]), ("add", [6, 8]))
    with jax.disable_jit():
        for reduction, expected in every if exhaustive else every[:1]:  # which does most
            with dml_jax.use_form("sorted_segments"):
                found = dml_jax.scatter_nd(x, at, x[1:], reduction=reduction)
            assert_same_bits(found, np.float32([[1, 2], expected]))
            jax.grad(lambda x, r=reduction: dml_jax.scatter_nd(x, at, x[1:], reduction=r).sum())(x)
