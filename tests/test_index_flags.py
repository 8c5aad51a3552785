"""Flags of indices: `deterministic`, `unique_indices` and `indices_are_sorted`."""

import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, together
from jax import lax
from jax.experimental import checkify
from reduction_cases import EVERY_REDUCTION, FLAGGED, READS, WRITES, X, every_reduction

import dml_jax

pytestmark = pytest.mark.device


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
        with dml_jax.use_form("sorted_segments"):
            assert_same_bits(np.stack(jax.jit(partial(sums, deterministic=False))(x[:50], updates)), first)


def adds_that_may_meet(function, *arrays):
    """The scatters of floats of a program for GPUs whose order of additions decides about the result."""
    text = jax.export.export(jax.jit(function), platforms=["cuda"])(*arrays).mlir_module()
    scatters = re.findall(r'"stablehlo.scatter".*?\}\) : .*?\n', text, re.DOTALL)
    adding = [each for each in scatters if re.search(r"stablehlo.add .*tensor<f32>", each)]
    return [each for each in adding if "unique_indices = true" not in each]


@pytest.mark.exhaustive
def test_deterministic_programs_for_gpus_have_no_atomic_additions():
    x, at, sums = np.ones(60, np.float32), np.arange(60, dtype=np.int32) % 7, {"reduction": "add"}
    calls = {name: partial(FLAGGED[name], i=at, **(sums if name in WRITES else {})) for name in (*READS, *WRITES)}
    means = {"reduction": "mean", "include_self": False}
    calls |= {f"{name}, mean": partial(WRITES[name], i=at, **means) for name in WRITES}
    calls["as_strided"] = partial(dml_jax.as_strided, sizes=(50, 3), strides=(1, 1))

    def both_ways(name, deterministic):
        call = partial(calls[name], deterministic=deterministic)
        return lambda x: jax.vjp(call, x)[1](call(x))[0]

    for name in calls:
        assert not adds_that_may_meet(both_ways(name, deterministic=True), x), name
    for name in ("gather_nd", "scatter_nd", "scatter_nd, mean"):  # by default there are some
        assert adds_that_may_meet(both_ways(name, deterministic=False), x), name


@pytest.mark.parametrize("name", FLAGGED)
def test_flags_are_bools(name):
    function, at = FLAGGED[name], np.int32([0, 1])
    for flag in ("deterministic", "unique_indices", "indices_are_sorted")[: 1 if name == "as_strided" else 3]:
        assert_same_bits(function(X, at, **{flag: True}), function(X, at))
        for value in (0, 1, None, "yes", jnp.array(True)):
            with pytest.raises(dml_jax.DataTypeError, match=f"{name}: {flag} must be True or False"):
                function(X, at, **{flag: value})


def promised(function, *arrays):
    """What the scatters of a program, all alike, are promised: that indices are sorted, and unique."""
    text = jax.jit(function).lower(*arrays).as_text()
    lines = [line for line in text.splitlines() if '"stablehlo.scatter"' in line]
    (promises,) = {("indices_are_sorted = true" in line, "unique_indices = true" in line) for line in lines}
    return promises


@pytest.mark.thinned(2)
@pytest.mark.parametrize("promises", [*itertools.product([False, True], repeat=2)])
def test_promises_reach_xla(promises):
    how = dict(zip(("indices_are_sorted", "unique_indices"), promises, strict=True))
    for name, function in READS.items():
        read = partial(function, i=np.int32([0, 1]), mode="fill", **how)
        assert promised(lambda u, read=read: jax.vjp(read, X)[1](u)[0], X[:2]) == promises, name
    for function, reduction in itertools.product(WRITES.values(), (None, *EVERY_REDUCTION)):
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


def test_a_promise_costs_nothing_to_trace_but_for_checkify(monkeypatch):
    """A sort finds equal indices."""
    sort, sorts = lax.sort, []
    monkeypatch.setattr(lax, "sort", lambda *given: sorts.append(given) or sort(*given))
    read = partial(dml_jax.gather, indices=np.int32([5, 3, 6]), axis=0, unique_indices=True)
    jax.jit(read).lower(np.ones((37, 3), np.float32))
    assert not sorts
    assert reported(read, np.ones((37, 3), np.float32)) is None
    assert sorts


@pytest.mark.exhaustive
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


@pytest.mark.thinned
@every_reduction
@pytest.mark.parametrize("name", WRITES)
def test_index_checks_of_reductions(name, reduction):
    checked = jax.jit(checkify.checkify(partial(WRITES[name], reduction=reduction), errors=checkify.index_checks))
    assert checked(X, np.int32([5, -6, 5]))[0].get() is None
    for index in (6, -7):
        assert "out-of-bounds" in checked(X, np.int32([5, index, 5]))[0].get()


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
