"""Scatters that reduce, and what flows back through gathers: sums, products, extremes, promises and determinism."""

import itertools
import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from catalogue_cases import ORACLES
from checks import assert_same_bits, sampled, spread, together
from jax.experimental import checkify
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from small_arrays import random_keys

import dml_jax
from dml_jax.lowering import sample

pytestmark = pytest.mark.device

REDUCTIONS = ("add", "mul", "min", "max")
FLOAT8 = [name for name in dir(jnp) if name.startswith("float8_") and name != "float8_e8m0fnu"]
FLOATS = ["float32", "float16", "bfloat16", *FLOAT8]
INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]
WIDE = ["float64", "int64", "uint64", "complex128"]
EVERY_TYPE = [*FLOATS, *INTEGERS, "bool", "complex64", *WIDE]
# Of each way to add: narrow floats as float32, float8 through it, integers that wrap, words, and what needs x64.
SAMPLE = ["float32", "bfloat16", "float8_e5m2", "int8", "uint32", "bool", "complex64", "float64"]
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS)


# The oracle, without JAX: those of the operators list the updates that address an element; Python combines them.


def exact(array):
    """The numbers in float64 or complex128, integers and bools as Python's own."""
    return array.astype(object if array.dtype.kind in "biu" else np.complex128 if array.dtype.kind == "c" else float)


def combine(numbers, reduction):
    """A NaN wins, and -0.0 is less than 0.0; of bools "add" is or and "mul" is and."""
    if reduction in ("add", "mul") and not isinstance(numbers[0], bool):
        return sum(numbers[1:], numbers[0]) if reduction == "add" else math.prod(numbers[1:], start=numbers[0])
    nans = [number for number in numbers if number != number]
    choose = min if reduction in ("min", "mul") else max
    return nans[0] if nans else choose(numbers, key=lambda number: (number, math.copysign(1, number)))


def oracle(name, x, indices, updates, reduction, **how):
    """Exact, not yet of the type of `x`."""
    output, found = exact(x), ORACLES[name](x, indices, exact(updates), **how)
    for at, numbers in found.items():
        output[at] = combine([output[at], *numbers], reduction)
    return output


def as_type(numbers, dtype):
    """Rounds floats once, to even; integers wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        least, count = int(np.iinfo(dtype).min), 2 ** (8 * dtype.itemsize)
        return np.vectorize(lambda n: (n - least) % count + least, otypes=[object])(numbers).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype(dtype)


def unsigned(numbers):
    """Complex zeros without signs, which depend on the order."""
    return numbers + 0 if numbers.dtype.kind == "c" else numbers


SHAPES = [  # operator, attributes, shapes of input, indices and updates
    ("scatter_elements", {"axis": 0}, (4, 3), (7, 3), (7, 3)),
    ("scatter_elements", {"axis": -1}, (2, 5), (2, 9), (2, 9)),
    ("scatter_nd", {}, (5, 3), (12, 1), (12, 3)),
    ("scatter_nd", {}, (2, 3, 2), (3, 4, 2), (3, 4, 2)),
]


def scatters(rng):
    """(operator, attributes, shape of input, indices, shape of updates); all with duplicates and negative indices."""
    for (name, how, shape, *of, written), mode in itertools.product(SHAPES, ("drop", "clip", "promise_in_bounds")):
        sizes = np.int32([shape[how["axis"]]] if how else shape[: of[0][-1]])
        beyond = 0 if mode == "promise_in_bounds" else 2
        indices = rng.integers(-sizes - beyond, sizes + beyond, *of, dtype=np.int32)
        yield name, {**how, "mode": mode}, shape, indices, written


def small(rng, dtype, shape):
    """Small whole numbers, whose sums and products are exact; of integers any, as these wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        return rng.choice([0, 0, 1, -1, 1j, -1j, 1 + 1j, 1 - 1j], shape).astype(dtype) + 0  # no -0.0
    return rng.integers(0, 2, shape).astype(bool) if dtype.kind == "b" else rng.integers(-2, 3, shape).astype(dtype)


@pytest.mark.parametrize("dtype", sampled(EVERY_TYPE, SAMPLE))
def test_every_type_against_exact_numbers(dtype, exhaustive):
    """Whole numbers give the same bits; others are rounded once by narrow floats, and at every step by wide ones."""
    dtype, rng = np.dtype(getattr(ml_dtypes, dtype, dtype)), np.random.default_rng(1)
    reductions = REDUCTIONS[: 2 if dtype.kind == "c" else 4]
    some = list(scatters(rng))[:: 1 if dtype in ("float32", "int8") else 2]  # every shape and mode
    cases = [(*case, reduction) for case, reduction in itertools.product(some, reductions)]
    if not exhaustive:  # every shape, mode and reduction, and half of their combinations
        cases = [case for n, case in enumerate(cases) if (n + n // len(reductions)) % 2]
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
            if values is small or reduction in ("min", "max"):
                assert_same_bits(unsigned(actual), unsigned(as_type(found, dtype)))
                continue
            most = oracle(name, abs(x), at, abs(updates), reduction, **how)
            info = ml_dtypes.finfo(dtype)
            unit = np.ldexp(1.0, np.maximum(np.frexp(found)[1] - 1, info.minexp) - info.nmant)  # in the last place
            bound = 16 * info.eps * most if dtype.itemsize > 2 else 0.51 * unit
            assert (abs(exact(actual) - found) <= bound.astype(float)).all()


@pytest.mark.parametrize("form", ["plain", "runs", "copies", "chunks", "pulled"])
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


COMBINED = [(dtype, form) for dtype in FLOATS for form in ("plain", "runs")[: 2 if dtype in FLOATS[:3] else 1]]
COMBINED_SAMPLE = [("float32", "plain"), ("bfloat16", "plain"), ("bfloat16", "runs"), ("float8_e5m2", "plain")]


@pytest.mark.parametrize("case", sampled(COMBINED, COMBINED_SAMPLE), ids=str)
def test_extremes_of_special_numbers(case):
    """All triples: what is there, and two updates."""
    dtype, form = case
    special = as_type(np.array([np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf]), jnp.dtype(dtype))
    x, *two = np.array(list(itertools.product(special, repeat=3)), special.dtype).T
    at, updates = np.tile(np.arange(x.size, dtype=np.int32), 2), np.concatenate(two)
    wanted = {r: as_type(oracle("scatter_elements", x, at, updates, r, axis=0), x.dtype) for r in ("min", "max")}
    calls = [partial(dml_jax.scatter_elements, axis=0, reduction=r) for r in wanted]
    with dml_jax.use_form(form):
        results = together([(call, x, at, updates) for call in calls])
    for expected, actual in zip(wanted.values(), results, strict=True):
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


def test_what_has_no_such_reduction_is_refused():
    e8, keys, of_complex = jnp.ones(3, jnp.float8_e8m0fnu), random_keys(3), jnp.ones(3, "c8")
    refused = [(x, r) for x in (e8, keys) for r in REDUCTIONS] + [(of_complex, r) for r in ("min", "max")]
    functions = (partial(dml_jax.scatter_elements, axis=0), np.int32([0])), (dml_jax.scatter_nd, np.int32([[0]]))
    for function, at in functions:
        for x, reduction in refused:
            with pytest.raises(dml_jax.DataTypeError, match=re.escape(f"it is {x.dtype}, ")):
                function(x, at, updates=x[:1], reduction=reduction)
        with pytest.raises(dml_jax.ConstraintError, match="one of None, 'add', 'mul', 'min', 'max', but it is 'mean'"):
            function(of_complex, at, updates=of_complex[:1], reduction="mean")


def slopes_oracle(name, x, indices, updates, cotangent, reduction, **how):
    """The cotangents of `x` and `updates`, and how many of the numbers combined in each element are 0."""
    of_x, of_updates, zeros = np.zeros_like(exact(x)), np.zeros_like(exact(updates)), set()
    number = np.arange(updates.size).reshape(updates.shape)
    for at, found in ORACLES[name](x, indices, number, **how).items():
        numbers = [exact(x)[at], *(exact(updates).flat[i] for i in found)]
        ties = [each == combine(numbers, reduction) for each in numbers]
        others = [math.prod([*numbers[:i], *numbers[i + 1 :]]) for i in range(len(numbers))]
        slopes = {"add": [1] * len(numbers), "mul": others}.get(reduction, np.divide(ties, max(1, sum(ties))))
        of_x[at], *of_updates.flat[found] = exact(cotangent)[at] * np.array(slopes)
        zeros.add(numbers.count(0))
    return of_x, of_updates, zeros


HALF = [("bfloat16", r) for r in REDUCTIONS]
COMPLEX = [("complex64", r) for r in ("add", "mul")]


def pulled_back(function, x, indices, updates, cotangent):
    return jax.vjp(lambda x, updates: function(x, indices, updates), x, updates)[1](cotangent)


DERIVED = [*[("float32", r) for r in REDUCTIONS], *HALF, *COMPLEX]


# A part has every mode and three of the four shapes.
@pytest.mark.parametrize(("case", "which"), spread(DERIVED, [DERIVED[0], COMPLEX[1], HALF[2], DERIVED[3]], 4))
def test_derivatives_against_formulae(case, which):
    """Of sums 1, of products the product of all others, zeros or not, and of extremes a part for each that ties."""
    (dtype, reduction), rng, calls, expected = case, np.random.default_rng(1), [], []
    dtype = jnp.dtype(dtype)
    some = list(scatters(rng))[which]
    for name, how, shape, at, written in some:
        x, updates, cotangent = (small(rng, dtype, of) for of in (shape, written, shape))
        function = partial(getattr(dml_jax, name), reduction=reduction, **how)
        calls.append((partial(pulled_back, function), x, at, updates, cotangent))
        expected.append(slopes_oracle(name, x, at, updates, cotangent, reduction, **how))
    for found, (*exactly, _) in zip(together(calls), expected, strict=True):
        for actual, of in zip(found, exactly, strict=True):
            assert actual.dtype == dtype
            tolerance = 0 if reduction in ("add", "mul") else float(jnp.finfo(dtype).eps)
            np.testing.assert_allclose(exact(actual), of, rtol=tolerance, atol=0)
    assert set().union(*(zeros for *_, zeros in expected)) >= {0, 1, 2}


@pytest.mark.parametrize("reduction", sampled(REDUCTIONS, ["mul", "max"]))  # "add" is linear, and "min" is as "max"
def test_derivatives_under_vmap_and_forwards(reduction):
    rng = np.random.default_rng(3)
    x, updates, w = (small(rng, np.float32, (3, *of)) for of in ((4, 2), (6, 2), (4, 2)))
    at = rng.integers(-5, 6, (3, 6, 1), dtype=np.int32)
    function = partial(dml_jax.scatter_nd, reduction=reduction)

    def loss(x, at, updates, w):
        return (function(x, at, updates) * w).sum()

    found = jax.jit(jax.vmap(jax.grad(loss, (0, 2))))(x, at, updates, w)
    for n in range(3):
        of_x, of_updates, _ = slopes_oracle("scatter_nd", x[n], at[n], updates[n], w[n], reduction)
        np.testing.assert_allclose(found[0][n], of_x, rtol=1e-6)
        np.testing.assert_allclose(found[1][n], of_updates, rtol=1e-6)
    jacobians = [jac(lambda x, u: function(x, at[0], u), (0, 1)) for jac in (jax.jacfwd, jax.jacrev)]
    for forwards, backwards in zip(*together((jac, x[0], updates[0]) for jac in jacobians), strict=True):
        np.testing.assert_allclose(forwards, backwards, rtol=1e-6)


def test_second_derivatives(exhaustive):
    """Of a product; a sum has none."""
    x, updates = np.random.default_rng(4).normal(size=(2, 2, 3))
    function = partial(dml_jax.scatter_elements, indices=np.int32([[0, -1, 0], [2, 2, 9]]), axis=1, reduction="mul")
    with jax.enable_x64(True):
        check_grads(
            jax.jit(lambda x, u: function(x, updates=u)),
            (x, updates),
            order=2,
            modes=("fwd", "rev") if exhaustive else "rev",
        )


def test_the_transpose_of_add():
    x, updates, at = np.zeros((4, 3), np.float32), np.zeros((5, 3), np.float32), np.int32([[1], [-1], [1], [7], [0]])
    cotangent = np.arange(12, dtype=np.float32).reshape(4, 3)
    transpose = jax.linear_transpose(lambda x, u: dml_jax.scatter_nd(x, at, u, reduction="add"), x, updates)
    of_x, of_updates = transpose(jnp.asarray(cotangent))
    assert_same_bits(of_x, cotangent)
    assert_same_bits(of_updates, np.concatenate([cotangent[[1, 3, 1]], np.zeros((1, 3), np.float32), cotangent[:1]]))


COUNT = 1100  # three levels of blocks of the runs


def distributions():
    rng = np.random.default_rng(5)
    uniform, order = rng.integers(0, COUNT, COUNT), rng.permutation(COUNT)
    zipf = (rng.zipf(1.3, COUNT) - 1) % COUNT
    return [ids.astype(np.int32) for ids in (order, uniform, zipf, np.full(COUNT, 7), np.sort(zipf))]


def programs(forms, function, *arrays):
    """One per form, each other than the rest: a form that does not apply would be the plain one."""
    lowered = []
    for form in forms:
        with dml_jax.use_form(form):
            lowered.append(jax.jit(lambda *x: function(*x)).lower(*arrays))
    assert len({each.as_text() for each in lowered}) == len(lowered)
    return [each.compile() for each in lowered]


def rows(x, ids, **promises):
    return dml_jax.gather(x, ids, 0, **promises)


def elements(x, ids):
    return dml_jax.gather_elements(x, jnp.tile(ids[:, None], x.shape[1]), 0)


def flown_back(read, ids, cotangents):
    return [jax.vjp(lambda x: read(x, ids), jnp.zeros_like(c))[1](c)[0] for c in cotangents]


MANY = 10**6
MEETINGS = {
    "uniform": (lambda rng: rng.integers(0, MANY, MANY), False),
    "a permutation": (lambda rng: rng.permutation(MANY), False),
    "all dropped": (lambda rng: np.full(MANY, MANY), False),
    "multiples of 2**16 that are distinct": (lambda rng: np.arange(2000) * 2**16, False),
    "one row": (lambda rng: np.full(MANY, 7), True),
    "words of a text": (lambda rng: np.minimum(rng.zipf(1.3, MANY), MANY) - 1, True),
    "every fiftieth": (lambda rng: np.where(np.arange(MANY) % 50 == 49, 3, np.arange(MANY)), True),
    "the last hundredth": (lambda rng: np.where(np.arange(MANY) > MANY - MANY // 100, 3, np.arange(MANY)), True),
}


@pytest.mark.parametrize(("draw", "expected"), MEETINGS.values(), ids=MEETINGS)
def test_a_sample_tells_whether_many_updates_meet(draw, expected):
    rows = jnp.asarray(draw(np.random.default_rng(0)), np.int32)
    assert bool(sample.many_meet(rows, 2**28 if rows.size < MANY else MANY)) == expected


FORMS = [  # of what is read, with which promise; the forms of its gradient, and the widths of rows
    (rows, {}, ("plain", "runs", "copies", "chunks", "pulled", "sampled"), (1, 3, 4, 64)),
    (rows, {"unique_indices": True}, ("plain", "inverse"), (1, 3, 4, 64)),
    (elements, {}, ("plain", "parts", "copies"), (1, 3)),
    (elements, {}, ("plain", "numbered"), (4, 7)),
]
# By default, and by the number of the read: each with two types, and each width of rows once.
FEW = {
    "float32": {0: (4,), 1: (3, 64)},
    "bfloat16": {0: (64,), 2: (3,), 3: (7,)},
    "complex64": {1: (1,), 2: (1,)},
}


@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16", "float8_e5m2", "complex64"], FEW))
def test_forms_of_gradients(dtype, exhaustive):
    reads = FORMS if exhaustive else [(*FORMS[number][:3], widths) for number, widths in FEW[dtype].items()]
    dtype, rng, every = jnp.dtype(dtype), np.random.default_rng(6), distributions()
    for read, promises, forms, widths in reads:
        cotangents = [small(rng, dtype, (COUNT, width)) for width in widths]
        back = partial(flown_back, partial(read, **promises))
        for program, ids in itertools.product(
            programs(forms, back, every[0], cotangents), every[: 1 if promises else 5]
        ):
            for actual, cotangent in zip(program(ids, cotangents), cotangents, strict=True):
                expected = np.zeros_like(exact(cotangent))
                np.add.at(expected, ids, exact(cotangent))
                assert_same_bits(actual, as_type(expected, dtype))


SUMMED = list(itertools.product(("bfloat16", "float16", "float8_e4m3fn"), ("chunks", "pulled"), ("clip", "fill")))


@pytest.mark.parametrize("case", sampled(SUMMED, [SUMMED[0], SUMMED[3], SUMMED[4]]), ids=str)
def test_sums_of_many_turns_are_rounded_once(case):
    """Several chunks and a rest, many more updates than a row reads itself, and indices out of range."""
    dtype, form, mode = case
    dtype, rng = jnp.dtype(dtype), np.random.default_rng(12)
    updates, (count, info) = rng.normal(size=(600, 1024)).astype(dtype), (20, jnp.finfo(dtype))
    table = jnp.zeros((count, 1024), dtype)
    back = jax.jit(lambda ids, u: jax.vjp(lambda x: dml_jax.gather(x, ids, 0, mode=mode), table)[1](u)[0])
    with dml_jax.use_form(form):
        program = back.lower(np.zeros(600, np.int32), updates).compile()
    zipf = (rng.zipf(1.3, 600) - 1) % (count + 9)
    for ids in (zipf, rng.integers(0, count, 600), np.full(600, 7), np.full(600, count), -1 - zipf):
        ids = ids.astype(np.int32)
        at = np.where(ids < 0, ids + count, ids)
        is_inside, at = (at >= 0) & (at < count), np.clip(at, 0, count - 1)
        kept = np.ones_like(is_inside) if mode == "clip" else is_inside
        sums, most = np.zeros((2, count, 1024))
        np.add.at(sums, at[kept], exact(updates)[kept])
        np.add.at(most, at[kept], abs(exact(updates))[kept])
        unit = np.ldexp(1.0, np.maximum(np.frexp(sums)[1] - 1, info.minexp) - info.nmant)
        found = exact(np.asarray(program(ids, updates)))
        assert (abs(found - sums) <= unit / 2 + 600 * 2.0**-24 * most).all()


@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16"], ["bfloat16"]))
@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_an_element_that_many_neighbours_meet(mode, dtype):
    """Along the last axis `numbered` gives it several places; what is dropped may be met most often, too."""
    dtype, rng, shape = jnp.dtype(dtype), np.random.default_rng(13), (6, 70)
    cotangent, table = small(rng, dtype, shape), jnp.zeros((6, 30), dtype)
    read = partial(dml_jax.gather_elements, axis=1, mode=mode)
    back = lambda at, c: jax.vjp(lambda x: read(x, at), table)[1](c)[0]  # noqa: E731
    zipf = (rng.zipf(1.3, shape) - 1) % 33
    program = programs(("plain", "numbered"), back, zipf.astype(np.int32), cotangent)[1]
    for at in (zipf, rng.integers(0, 30, shape), np.full(shape, 29), np.full(shape, 30), np.repeat(zipf[:, :1], 70, 1)):
        kept, expected = (at < 30) | (mode == "clip"), np.zeros(table.shape)
        np.add.at(expected, (np.nonzero(kept)[0], np.minimum(at, 29)[kept]), exact(cotangent)[kept])
        assert_same_bits(program(at.astype(np.int32), cotangent), as_type(expected, dtype))


@pytest.mark.parametrize("form", ["chunks", "pulled", "numbered", "sampled"])
def test_loops_and_branches_inside_of_a_shard_map(form):
    """They need values that are typed alike: as different on every device, zeros that are added to included."""
    mesh = jax.make_mesh((1,), ("x",), (AxisType.Auto,), devices=jax.devices()[:1])
    ids, updates = np.arange(70, dtype=np.int32) % 7, np.ones((70, 70), jnp.bfloat16)
    read = rows if form != "numbered" else lambda x, ids: dml_jax.gather_elements(x, jnp.tile(ids, (70, 1)), 1)
    back = jax.shard_map(lambda i, u: flown_back(read, i, [u])[0], mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    found = programs(("plain", form), back, ids, updates)[1](ids, updates)
    expected = np.where(np.arange(70) < 7, 10, 0).astype(jnp.bfloat16)
    assert_same_bits(found, np.broadcast_to(expected if form == "numbered" else expected[:, None], (70, 70)))


@pytest.mark.parametrize("form", sampled(["chunks", "pulled"], ["chunks"]))
def test_one_update_that_goes_elsewhere_is_not_lost(form):
    """Where all go to one row they are added up by columns."""
    updates = np.random.default_rng(14).normal(size=(300, 64)).astype(jnp.bfloat16)
    read = lambda x, ids: dml_jax.gather(x, ids, 0)  # noqa: E731
    back = lambda ids, u: flown_back(read, ids, [u])[0][:40]  # noqa: E731
    program = programs(("plain", form), back, np.zeros(300, np.int32), updates)[1]
    for ids in np.where(np.arange(300) == np.array([[-1], [0], [150], [299]]), 3, 39).astype(np.int32):
        expected = np.zeros((40, 64))
        np.add.at(expected, ids, exact(updates))
        np.testing.assert_allclose(exact(np.asarray(program(ids, updates))), expected, rtol=2**-8, atol=1e-4)


WIDE_SUMS = list(itertools.product(("int8", "uint16"), REDUCTIONS))
REDUCED = [*HALF, *COMPLEX, ("float8_e5m2", "add"), *WIDE_SUMS]
UFUNCS = {"add": (64, np.add), "mul": (3, np.multiply), "min": (4, np.minimum), "max": (1, np.maximum)}


@pytest.mark.parametrize("case", sampled(REDUCED, [COMPLEX[1], WIDE_SUMS[0], *WIDE_SUMS[5:]]), ids=str)
def test_forms_of_every_reduction(case):
    """Of floats signs alone, so that a product of any length is exact."""
    dtype, reduction = case
    dtype, rng, every = jnp.dtype(dtype), np.random.default_rng(8), distributions()
    fast, signs = "wide" if dtype.kind in "iu" else "runs", [1, -1, 1j, -1j] if dtype.kind == "c" else [1, -1]
    width, ufunc = UFUNCS[reduction]
    kind = small if fast == "wide" else lambda _, dtype, shape: rng.choice(signs, shape).astype(dtype)
    x, updates = kind(rng, dtype, (2, COUNT, width))

    def function(ids, x, updates):
        return dml_jax.scatter_nd(x, ids[:, None], updates, reduction=reduction)

    for program, ids in itertools.product(programs(("plain", fast), function, every[0], x, updates), every):
        expected = exact(x)
        ufunc.at(expected, ids, exact(updates))
        assert_same_bits(unsigned(np.asarray(program(ids, x, updates))), unsigned(as_type(expected, dtype)))


def test_deterministic_sums_have_one_result():
    rng = np.random.default_rng(9)
    ids, (x, updates) = (rng.zipf(1.3, 5000) % 50).astype(np.int32), rng.normal(size=(2, 5000, 8)).astype(np.float32)

    def sums(x, updates, deterministic):
        read = partial(dml_jax.gather, indices=ids, axis=0, deterministic=deterministic)
        scattered = dml_jax.scatter_nd(x, ids[:, None], updates, reduction="add", deterministic=deterministic)
        return scattered, jax.vjp(read, x)[1](updates)[0]

    jitted, found = jax.jit(partial(sums, deterministic=True)), x[:50].astype(float)
    first, *others = [np.stack(jitted(x[:50], updates)) for _ in range(100)]
    for other in others:
        assert_same_bits(other, first)
    np.add.at(found, ids, updates.astype(float))
    np.testing.assert_allclose(first, np.stack([found, found - x[:50]]), atol=1e-3)
    if jax.default_backend() != "cpu":
        with dml_jax.use_form("runs"):
            assert_same_bits(np.stack(jax.jit(partial(sums, deterministic=False))(x[:50], updates)), first)


def adds_that_may_meet(function, *arrays):
    """The scatters of floats of a program for GPUs whose order of additions decides about the result."""
    text = jax.export.export(jax.jit(function), platforms=["cuda"])(*arrays).mlir_module()
    scatters = re.findall(r'"stablehlo.scatter".*?\}\) : .*?\n', text, re.DOTALL)
    adding = [each for each in scatters if re.search(r"stablehlo.add .*tensor<f32>", each)]
    return [each for each in adding if "unique_indices = true" not in each]


def test_deterministic_programs_for_gpus_have_no_atomic_additions():
    x, at, sums = np.ones(60, np.float32), np.arange(60, dtype=np.int32) % 7, {"reduction": "add"}
    calls = {name: partial(FLAGGED[name], i=at, **(sums if name in WRITES else {})) for name in (*READS, *WRITES)}
    calls["as_strided"] = partial(dml_jax.as_strided, sizes=(50, 3), strides=(1, 1))

    def both_ways(name, deterministic):
        call = partial(calls[name], deterministic=deterministic)
        return lambda x: jax.vjp(call, x)[1](call(x))[0]

    for name in calls:
        assert not adds_that_may_meet(both_ways(name, deterministic=True), x), name
    for name in ("gather_nd", "scatter_nd"):  # by default there are some
        assert adds_that_may_meet(both_ways(name, deterministic=False), x), name


X = np.arange(6, dtype=np.float32)
READS = {
    "gather": lambda x, i, **how: dml_jax.gather(x, i, 0, **how),
    "gather_elements": lambda x, i, **how: dml_jax.gather_elements(x, i, 0, **how),
    "gather_nd": lambda x, i, **how: dml_jax.gather_nd(x, i[:, None], **how),
}
WRITES = {
    "scatter_elements": lambda x, i, **how: dml_jax.scatter_elements(x, i, 2 * x[: i.size], 0, **how),
    "scatter_nd": lambda x, i, **how: dml_jax.scatter_nd(x, i[:, None], 2 * x[: i.size], **how),
}
FLAGGED = {**READS, **WRITES, "as_strided": lambda x, i, **how: dml_jax.as_strided(x, (3, 3), (1, 1), **how)}


@pytest.mark.parametrize("name", FLAGGED)
def test_flags_are_bools(name):
    function, at = FLAGGED[name], np.int32([0, 1])
    for flag in ("deterministic", "unique_indices", "indices_are_sorted")[: 1 if name == "as_strided" else 3]:
        assert_same_bits(function(X, at, **{flag: True}), function(X, at))
        for value in (0, 1, None, "yes", jnp.array(True)):
            with pytest.raises(dml_jax.DataTypeError, match=f"{name}: {flag} must be True or False"):
                function(X, at, **{flag: value})


def promised(function, *arrays):
    """What the only scatter of a program is promised: that indices are sorted, and unique."""
    text = jax.jit(function).lower(*arrays).as_text()
    (line,) = (line for line in text.splitlines() if '"stablehlo.scatter"' in line)
    return "indices_are_sorted = true" in line, "unique_indices = true" in line


@pytest.mark.parametrize("promises", [*itertools.product([False, True], repeat=2)])
def test_promises_reach_xla(promises):
    how = dict(zip(("indices_are_sorted", "unique_indices"), promises, strict=True))
    for name, function in READS.items():
        read = partial(function, i=np.int32([0, 1]), mode="fill", **how)
        assert promised(lambda u, read=read: jax.vjp(read, X)[1](u)[0], X[:2]) == promises, name
    for function, reduction in itertools.product(WRITES.values(), (None, *REDUCTIONS)):
        assert promised(partial(function, i=np.int32([0, 1]), reduction=reduction, **how), X) == promises
    # Along another axis than the last, as XLA is told about all indices in row-major order.
    lines, x, unsorted = np.int32([[0, 2], [1, 3]]), np.ones((4, 2), np.float32), (False, promises[1])
    assert promised(partial(dml_jax.scatter_elements, axis=0, reduction="add", **how), x, lines, x[:2]) == unsorted
    read = partial(dml_jax.gather_elements, indices=lines, axis=0, mode="fill", **how)
    assert promised(lambda u: jax.vjp(read, x)[1](u)[0], x[:2]) == unsorted


@pytest.mark.parametrize("name", READS)
def test_the_gradient_of_a_promised_permutation(name):
    order = np.random.default_rng(10).permutation(64).astype(np.int32)
    cotangent = jnp.arange(1, 65, dtype=np.float32)
    reads = [
        partial(READS[name], i=ids, mode=mode, unique_indices=True)
        for mode, ids in itertools.product(("clip", "fill"), (order, order - 64))
    ]
    backs = [(lambda c, read=read: jax.vjp(read, jnp.zeros(64))[1](c)[0], cotangent) for read in reads]
    for form in ("plain", "inverse"):
        with dml_jax.use_form(form):
            for gradient in together(backs):
                assert_same_bits(gradient[order], cotangent)


def reported(function, *arrays):
    return checkify.checkify(function, errors=checkify.user_checks)(*arrays)[0].get()


UNIQUE, SORTED = {"unique_indices": True}, {"indices_are_sorted": True}
PROMISES = [  # what is promised, the mode of a write, indices that keep the promise, and that do not
    (UNIQUE, "clip", [-1, 0, 4], [-1, 0, 5]),
    (UNIQUE, "clip", [9, 0, 4], [9, 0, 5]),
    (UNIQUE, "clip", [-9, 1, 4], [-9, 0, 4]),
    (UNIQUE, "drop", [9, 9, 5], [9, 5, 5]),
    (UNIQUE, "drop", [-7, -7, 0], [-6, -7, 0]),
    (SORTED, "clip", [0, 3, 3], [0, 3, 2]),
    (SORTED, "drop", [0, 5, 9], [1, 0, 9]),
]
UNDER = {
    "nothing": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda x, i: f(x, i).sum()),
    "vmap": lambda f: lambda x, i: jax.vmap(f, (None, 0))(x, jnp.stack([jnp.arange(3), i])),
}


def test_checkify_reports_broken_promises(exhaustive):
    """Every operator with every promise, and every promise under every transformation."""
    cases = itertools.product((*READS, *WRITES), PROMISES)
    some = itertools.islice(cases, 0, None, 1 if exhaustive else 3)  # every third one has all promises still
    for (name, (promises, mode, kept, broken)), under in zip(some, itertools.cycle(UNDER), strict=False):
        how = {"mode": mode, "reduction": "add"} if name in WRITES else {"mode": "fill" if mode == "drop" else mode}
        function = UNDER[under](partial(FLAGGED[name], **how, **promises))
        assert reported(function, X, np.int32(kept)) is None, (name, kept, under)
        message = f"{next(iter(promises))} was promised, but"
        assert message in (reported(function, X, np.int32(broken)) or ""), (name, broken, under)


X2, TUPLES, LINES = np.zeros((3, 4), np.float32), np.int32([[0, 9], [1, 0]]), np.int32([[0, 9], [1, 9], [2, 3]])
DROPPED = {
    "scatter_nd": (partial(dml_jax.scatter_nd, reduction="add"), X2, TUPLES, X2[0, :2]),
    "scatter_elements": (partial(dml_jax.scatter_elements, axis=1, reduction="add"), X2, LINES, X2[:, :2]),
    "gather_elements": (partial(dml_jax.gather_elements, axis=1, mode="fill"), X2, LINES),
}


@pytest.mark.parametrize("name", DROPPED)
def test_checkify_accepts_sorted_indices_of_which_some_are_dropped(name):
    function, *arrays = DROPPED[name]
    assert reported(partial(function, indices_are_sorted=True), *arrays) is None


@every_reduction
@pytest.mark.parametrize("name", WRITES)
def test_index_checks_of_reductions(name, reduction):
    checked = jax.jit(checkify.checkify(partial(WRITES[name], reduction=reduction), errors=checkify.index_checks))
    assert checked(X, np.int32([5, -6, 5]))[0].get() is None
    for index in (6, -7):
        assert "out-of-bounds" in checked(X, np.int32([5, index, 5]))[0].get()


# XLA:CPU copies a table of bfloat16 whose bits it writes as integers; of float16 it does not.
COPIED = 1 if jax.default_backend() == "cpu" else 0


NARROW = list(itertools.product([(np.float16, 0), (jnp.bfloat16, COPIED)], REDUCTIONS))


@pytest.mark.parametrize("case", sampled(NARROW, [NARROW[0], NARROW[7]]), ids=str)
def test_few_updates_of_a_donated_table_of_narrow_floats(case):
    """Are computed beside the table, not in a wide copy of it."""
    (dtype, copies), reduction = case
    table, rows = (jax.ShapeDtypeStruct((count, 64), dtype) for count in (1 << 16, 16))
    at = jax.ShapeDtypeStruct((16, 1), jnp.int32)
    function = jax.jit(partial(dml_jax.scatter_nd, reduction=reduction), donate_argnums=0)
    memory = function.lower(table, at, rows).compile().memory_analysis()
    size = table.size * table.dtype.itemsize
    assert memory.alias_size_in_bytes == size
    assert memory.temp_size_in_bytes < (copies + 1 / 4) * size


READ_ROWS = {
    "gather": lambda x, i, **how: dml_jax.gather(x, i, 0, **how),
    "gather_elements": lambda x, i, **how: dml_jax.gather_elements(x, jnp.tile(i[:, None], x.shape[1]), 0, **how),
    "gather_nd": lambda x, i, **how: dml_jax.gather_nd(x, i[:, None], **how),
}


def test_gradients_are_added_to_a_ref_in_place():
    """In every mode: XLA adds the updates to what the ref holds, and makes no table of zeros for them."""
    ids, rng, count = np.int32([1, 8191, -1, 1, 9000, 5]), np.random.default_rng(15), 1 << 13
    reads = [partial(f, i=ids, mode=m) for f in READ_ROWS.values() for m in ("clip", "promise_in_bounds", "fill")]
    kept = [ids < (count if read.keywords["mode"] != "clip" else 9001) for read in reads]
    totals, cotangents = [small(rng, np.float32, (len(reads), n, 16)) for n in (count, ids.size)]

    def added(totals, cotangents):
        refs = [jax.new_ref(total) for total in totals]
        for read, ref, cotangent in zip(reads, refs, cotangents, strict=True):
            jax.vjp(read, jnp.zeros((count, 16)))[1].with_refs(ref)(cotangent)
        return [jax.ref.freeze(ref) for ref in refs]

    program = jax.jit(added, donate_argnums=0).lower([*totals], [*cotangents]).compile()
    memory = program.memory_analysis()
    assert memory.alias_size_in_bytes == totals.nbytes
    assert memory.temp_size_in_bytes < totals[0].nbytes / 4
    expected = totals.copy()
    for total, cotangent, inside in zip(expected, cotangents, kept, strict=True):
        at = np.minimum(np.where(ids < 0, ids + count, ids), count - 1)
        np.add.at(total, at[inside], cotangent[inside])
    for actual, wanted in zip(program([*map(jnp.asarray, totals)], [*cotangents]), expected, strict=True):
        assert_same_bits(actual, wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_no_constant_of_the_size_of_the_indices_is_in_a_gradient(axis):
    """XLA would fold it while it compiles, for seconds."""
    at = jax.ShapeDtypeStruct((256, 1024), np.int32)

    def gradient(cotangent, at):
        table = jnp.zeros(at.shape, cotangent.dtype)
        return jax.vjp(lambda table: dml_jax.gather_elements(table, at, axis), table)[1](cotangent)[0]

    lowered = jax.jit(gradient).lower(jax.ShapeDtypeStruct(at.shape, jnp.bfloat16), at)
    for text in (lowered.as_text(), lowered.compile().as_text()):
        sizes = re.findall(r"constant dense<[^>]{100,}> : tensor<256x1024|\[256,1024[\d,]*\]\S* constant\(", text)
        assert not sizes


def test_what_is_dropped_multiplies_nothing():
    """Not even each other: their product would overflow."""
    far = np.int32([[9], [9], [9], [1]])
    product = lambda x, u: dml_jax.scatter_nd(x, far, u, reduction="mul").sum()  # noqa: E731
    x, updates = np.float32([1, 3, np.inf, 1]), np.float32([1e30, 1e30, np.inf, 2])
    of_input, of_updates = jax.grad(product, (0, 1))(x, updates)
    assert_same_bits(of_updates, np.float32([0, 0, 0, 3]))
    assert_same_bits(of_input, np.float32([1, 2, 1, 1]))


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


def test_sizes_that_have_no_number():
    """A promise is not checked there, a wish refused."""
    (n,) = jax.export.symbolic_shape("n")
    table, at = jax.ShapeDtypeStruct((n, 3), np.float32), jax.ShapeDtypeStruct((4,), np.int32)
    unique = jax.jit(lambda x, i: dml_jax.gather(x, i, 0, unique_indices=True))
    exported = jax.export.deserialize(jax.export.export(unique)(table, at).serialize())
    assert_same_bits(
        exported.call(np.eye(5, 3, dtype=np.float32), np.int32([1, 0, 2, -1])),
        np.eye(5, 3, dtype=np.float32)[[1, 0, 2, 4]],
    )
    huge = jax.ShapeDtypeStruct((1 << 16, 1 << 16), np.int8)
    tuples, update = jax.ShapeDtypeStruct((4, 2), np.int32), jax.ShapeDtypeStruct((4,), np.int8)
    write = partial(dml_jax.scatter_nd, unique_indices=True)
    assert jax.eval_shape(write, huge, tuples, update).shape == huge.shape
    with pytest.raises(
        dml_jax.ConstraintError, match=r"deterministic needs sizes that are known .* fewer than 2\*\*31"
    ):
        jax.export.export(jax.jit(lambda x, i: dml_jax.gather(x, i, 0, deterministic=True)))(table, at)
    product = lambda x: dml_jax.scatter_nd(x, jnp.zeros((1, 1), int), x[:1], reduction="mul").sum()  # noqa: E731
    with pytest.raises(dml_jax.ConstraintError, match="the derivative of mul needs sizes that are known while tracing"):
        jax.export.export(jax.jit(jax.grad(product)))(table)


def test_without_jit_and_with_numpy_arrays(exhaustive):
    x, at = np.float32([[1, 2], [3, 4]]), np.int32([[1]])
    every = (("mul", [9, 16]), ("min", [3, 4]), ("add", [6, 8]))
    with jax.disable_jit():
        for reduction, expected in every if exhaustive else every[:1]:  # which does most
            with dml_jax.use_form("runs"):
                found = dml_jax.scatter_nd(x, at, x[1:], reduction=reduction)
            assert_same_bits(found, np.float32([[1, 2], expected]))
            jax.grad(lambda x, r=reduction: dml_jax.scatter_nd(x, at, x[1:], reduction=r).sum())(x)
