"""Operators on scalars, arrays without elements, and empty batches."""

import inspect
from contextlib import nullcontext, suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import CASES, ORACLES, VARIANTS, WITHOUT_EFFECT
from checks import assert_is, sampled, together

import dml_jax
from dml_jax import Activation, ConstraintError
from dml_jax.catalogue import FUNCTIONS
from dml_jax.lowering.use_form import form_names

pytestmark = pytest.mark.device

ARRAYS = {name: call for name, call in CASES.items() if call.leaves}
VARIANTS_OF = {
    name: {variant: one for variant, one in VARIANTS.items() if one.function is call.function}
    for name, call in ARRAYS.items()
}
# The call of each operator, and with --exhaustive all its variants.
every_operator = pytest.mark.parametrize(
    "calls",
    [
        *(pytest.param([call], id=name) for name, call in ARRAYS.items()),
        *(
            pytest.param([*calls.values()], id=f"{name}, all", marks=pytest.mark.exhaustive)
            for name, calls in VARIANTS_OF.items()
        ),
    ],
)


def with_promises(call):
    """The call, and the same with each promise that its function takes."""
    promises = [
        name for name in ("unique_indices", "indices_are_sorted", "deterministic") if name in call.function.kinds
    ]
    return [call, *(call.changed(**{name: True}) for name in promises)]


def gradient(function, call):
    """The gradient of the sum of what a function makes, in the arrays of the call that are floats."""

    def computed(*leaves):
        def total(*floats):
            taken = iter(floats)
            results = function(*(next(taken) if i in call.floats else x for i, x in enumerate(leaves)))
            return sum(y.astype(jnp.float32).sum() for y in jax.tree.leaves(results))

        return jax.grad(total, range(len(call.floats)))(*(leaves[i] for i in call.floats))

    return computed


# Batches of no examples.


@pytest.mark.thinned(8)
@every_operator
def test_a_batch_of_no_examples(calls):
    """Of all arrays and of each alone, with every promise: results, and gradients, of the right shapes and types."""
    programs, wanted = [], []
    for call in (promised for one in calls for promised in with_promises(one)):
        made = jax.eval_shape(call, *call.leaves)
        for alone in (None, *range(len(call.leaves))):
            axes = [0 if alone in (None, i) else None for i in range(len(call.leaves))]
            batch = [
                np.zeros((0, *x.shape), x.dtype) if axis == 0 else x for axis, x in zip(axes, call.leaves, strict=True)
            ]
            mapped = jax.vmap(call, axes)
            programs.append((mapped, *batch))
            wanted.append([((0, *y.shape), y.dtype) for y in jax.tree.leaves(made)])
            if call.floats:
                programs.append((gradient(mapped, call), *batch))
                wanted.append([(batch[i].shape, batch[i].dtype) for i in call.floats])
    for results, shapes in zip(together(programs), wanted, strict=True):
        assert [(y.shape, y.dtype) for y in jax.tree.leaves(results)] == shapes


# Arrays without elements.


def emptied(call):
    """The call with a dimension of size 0 in one array, or in all that have its size, where the rules allow it."""
    for which, array in enumerate(call.leaves):
        for axis, size in enumerate(array.shape):
            alike = [x.take([], x.shape.index(size)) if size in x.shape else x for x in call.leaves]
            alone = [*call.leaves]
            alike[which] = alone[which] = array.take([], axis)
            for leaves in (alone, alike):
                with suppress(ConstraintError):
                    jax.eval_shape(call, *leaves)
                    yield leaves


def in_bfloat16(call, leaves):
    return call, [x.astype(jnp.bfloat16) if i in call.floats else x for i, x in enumerate(leaves)]


@pytest.mark.thinned(2)
@every_operator
def test_arrays_without_elements(calls):
    """Compares with the loop over elements, also of bfloat16; gradients have the arrays' shapes and types."""
    given = [(call, leaves) for call in calls for leaves in emptied(call)]
    given += [in_bfloat16(call, leaves) for call, leaves in given if call.floats]
    made = together([(call, *leaves) for call, leaves in given])
    for (call, leaves), results in zip(given, made, strict=True):
        arrays = jax.tree.unflatten(jax.tree.structure([*call.arrays.values()]), leaves)
        known = call.static | dict(zip(call.arrays, arrays, strict=True))
        oracle = ORACLES[call.function.__name__]
        assert_is(results, oracle(**{n: x for n, x in known.items() if n not in WITHOUT_EFFECT}), known.get("input"))
    given = [(call, leaves) for call, leaves in given if call.floats]
    gradients = together([(gradient(call, call), *leaves) for call, leaves in given])
    for (call, leaves), found in zip(given, gradients, strict=True):
        assert [(x.shape, x.dtype) for x in found] == [(leaves[i].shape, leaves[i].dtype) for i in call.floats]


# Scalars.


RELU = Activation("ACTIVATION_RELU")
# Every function whose docstring takes any rank: a call of 1, and the result.
SCALARS = {
    "activate": (lambda x: dml_jax.activate(x, RELU), lambda x: x),
    "add": (lambda x: dml_jax.add(x, x), lambda x: x + x),
    "cast": (lambda x: dml_jax.cast(x, np.int32), np.int32),
    "clip": (lambda x: dml_jax.clip(x, 0, 1), lambda x: x),
    "identity": (lambda x: dml_jax.identity(x, 2.0), lambda x: x + x),
    "max_unpooling": (lambda x: dml_jax.max_unpooling(x, np.int32(0), ()), lambda x: x),
    "nonzero_coordinates": (dml_jax.nonzero_coordinates, lambda x: (np.uint32(1), np.zeros((1, 0), np.uint32))),
    "pad": (lambda x: dml_jax.pad(x, (), ()), lambda x: x),
    "reduce": (lambda x: dml_jax.reduce(x, "sum"), lambda x: x),
    "resample": (lambda x: dml_jax.resample(x, (), (), mode="linear"), lambda x: x),
    "select": (lambda x: dml_jax.select(np.array(True), x, x + x), lambda x: x),
    "slice": (lambda x: dml_jax.slice(x, (), (), ()), lambda x: x),
    "slice_grad": (lambda x: dml_jax.slice_grad(x, (), (), (), ()), lambda x: x),
    "tile": (lambda x: dml_jax.tile(x, ()), lambda x: x),
}


def test_every_function_of_any_rank_is_tried_with_scalars():
    assert {name for name, function in FUNCTIONS.items() if "any rank" in inspect.getdoc(function)} == {*SCALARS}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("form", sampled([None, *form_names()], [None]))
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_scalars(dtype, form):
    """Of 1, 2, 4 and 8 bytes, and batches of them."""
    x = np.ones((), dtype)
    with jax.enable_x64(True), dml_jax.use_form(form) if form else nullcontext():
        programs = [
            (called, one) for call, _ in SCALARS.values() for called, one in ((call, x), (jax.vmap(call), x[None]))
        ]
        made = together(programs)
    for one, mapped, (_, expected) in zip(made[::2], made[1::2], SCALARS.values(), strict=True):
        assert_is(one, jax.tree.map(np.asarray, expected(x)))
        assert_is(jax.tree.map(lambda y: y[0], mapped), one)
