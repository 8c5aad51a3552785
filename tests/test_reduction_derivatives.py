"""Derivatives of scatters that reduce, and gradients of gathers that are added to what is there."""

import itertools
import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import ORACLES
from checks import assert_same_bits, sampled, spread, together
from jax.test_util import check_grads
from reduction_cases import COMPLEX, EVERY_REDUCTION, HALF, combine, exact, scatters, small

import dml_jax

pytestmark = pytest.mark.device


def slopes_oracle(name, x, indices, updates, cotangent, reduction, include_self=True, **how):
    """The cotangents of `x` and `updates`, and how many of the numbers combined in each element are 0."""
    of_x, of_updates, zeros = np.zeros_like(exact(x)), np.zeros_like(exact(updates)), set()
    number = np.arange(updates.size).reshape(updates.shape)
    for at, found in ORACLES[name](x, indices, number, **how).items():
        kept = [exact(x)[at]] if include_self or not found else []
        numbers = [*kept, *(exact(updates).flat[i] for i in found)]
        ties, count = [each == combine(numbers, reduction) for each in numbers], np.full(len(numbers), len(numbers))
        others = [math.prod([*numbers[:i], *numbers[i + 1 :]]) for i in range(len(numbers))]
        slopes = {"add": count / count, "mul": others, "mean": 1 / count}.get(
            reduction, np.divide(ties, sum(ties) or 1)
        )
        flows = exact(cotangent)[at] * np.array(slopes)
        of_x[at], of_updates.flat[found] = flows[0] if kept else 0, flows[len(kept) :]
        zeros.add(numbers.count(0))
    return of_x, of_updates, zeros


def pulled_back(function, x, indices, updates, cotangent):
    return jax.vjp(lambda x, updates: function(x, indices, updates), x, updates)[1](cotangent)


DERIVED = [*[("float32", r) for r in EVERY_REDUCTION], *HALF, *COMPLEX]


# A part has every mode and three of the four shapes.
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("case", "which"), spread(DERIVED, [DERIVED[0], COMPLEX[1], HALF[2], DERIVED[3]], 4))
def test_derivatives_against_formulae(case, which):
    """Of sums 1, of products the product of all others, zeros or not, and of extremes a part for each that ties."""
    (dtype, reduction), rng, calls, expected = case, np.random.default_rng(1), [], []
    dtype = jnp.dtype(dtype)
    some = list(scatters(rng))[which]
    for number, (name, how, shape, at, written) in enumerate(some):
        x, updates, cotangent = (small(rng, dtype, of) for of in (shape, written, shape))
        how = {**how, "include_self": number % 2 == 0}
        function = partial(getattr(dml_jax, name), reduction=reduction, **how)
        calls.append((partial(pulled_back, function), x, at, updates, cotangent))
        expected.append(slopes_oracle(name, x, at, updates, cotangent, reduction, **how))
    for found, (*exactly, _) in zip(together(calls), expected, strict=True):
        for actual, of in zip(found, exactly, strict=True):
            assert actual.dtype == dtype
            tolerance = 0 if reduction in ("add", "mul") else float(jnp.finfo(dtype).eps)
            np.testing.assert_allclose(exact(actual), of, rtol=tolerance, atol=0)
    assert set().union(*(zeros for *_, zeros in expected)) >= {0, 1, 2}


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "reduction", sampled(EVERY_REDUCTION, ["mul", "max"])
)  # "add" is linear, and "min" is as "max"
@pytest.mark.parametrize("include_self", [True, False])
def test_derivatives_under_vmap_and_forwards(reduction, include_self):
    rng = np.random.default_rng(3)
    x, updates, w = (small(rng, np.float32, (3, *of)) for of in ((4, 2), (6, 2), (4, 2)))
    at = rng.integers(-5, 6, (3, 6, 1), dtype=np.int32)
    how = {"reduction": reduction, "include_self": include_self}
    function = partial(dml_jax.scatter_nd, **how)

    def loss(x, at, updates, w):
        return (function(x, at, updates) * w).sum()

    found = jax.jit(jax.vmap(jax.grad(loss, (0, 2))))(x, at, updates, w)
    for n in range(3):
        of_x, of_updates, _ = slopes_oracle("scatter_nd", x[n], at[n], updates[n], w[n], **how)
        np.testing.assert_allclose(found[0][n], of_x, rtol=1e-6)
        np.testing.assert_allclose(found[1][n], of_updates, rtol=1e-6)
    jacobians = [jac(lambda x, u: function(x, at[0], u), (0, 1)) for jac in (jax.jacfwd, jax.jacrev)]
    for forwards, backwards in zip(*together((jac, x[0], updates[0]) for jac in jacobians), strict=True):
        np.testing.assert_allclose(forwards, backwards, rtol=1e-6)


@pytest.mark.exhaustive
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


def test_gradients_are_those_of_torch():
    """Numbers without ties, which torch shares with an input that takes no part."""
    torch, rng = pytest.importorskip("torch"), np.random.default_rng(9)
    x, updates, w = (rng.normal(size=of).astype(np.float32) for of in ((4, 3), (7, 3), (4, 3)))
    at = rng.integers(0, 3, updates.shape)
    names = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax", "mean": "mean"}
    for (reduction, there), include_self in itertools.product(names.items(), (True, False)):
        how = {"axis": 0, "reduction": reduction, "include_self": include_self}
        found = pulled_back(partial(dml_jax.scatter_elements, **how), x, at.astype(np.int32), updates, w)
        leaves = [torch.from_numpy(each).requires_grad_() for each in (x, updates)]
        output = torch.scatter_reduce(leaves[0], 0, torch.from_numpy(at), leaves[1], there, include_self=include_self)
        output.backward(torch.from_numpy(w))
        for one, leaf in zip(found, leaves, strict=True):
            np.testing.assert_allclose(one, leaf.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_the_transpose_of_add():
    x, updates, at = np.zeros((4, 3), np.float32), np.zeros((5, 3), np.float32), np.int32([[1], [-1], [1], [7], [0]])
    cotangent = np.arange(12, dtype=np.float32).reshape(4, 3)
    transpose = jax.linear_transpose(lambda x, u: dml_jax.scatter_nd(x, at, u, reduction="add"), x, updates)
    of_x, of_updates = transpose(jnp.asarray(cotangent))
    assert_same_bits(of_x, cotangent)
    assert_same_bits(of_updates, np.concatenate([cotangent[[1, 3, 1]], np.zeros((1, 3), np.float32), cotangent[:1]]))


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
