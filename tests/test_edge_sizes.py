"""Operators on the least there is: scalars, arrays without elements, and batches of no examples."""

import inspect

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from catalogue_cases import CASES, ORACLES, VARIANTS, WITHOUT_EFFECT
from checks import assert_is, assert_same_bits, spread, together

import dml_jax
from dml_jax import Activation, ConstraintError
from dml_jax.catalogue import FUNCTIONS

pytestmark = pytest.mark.device

MAPPED = {name: call for name, call in VARIANTS.items() if call.leaves}


def with_promises(call):
    """The call, and the same with each promise that its function takes."""
    promises = [name for name in ("unique_indices", "indices_are_sorted", "deterministic") if name in call.function.kinds]
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
