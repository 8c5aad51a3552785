"""Checks that run only under jax.experimental.checkify: elsewhere they cost nothing and have no effect."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir


def show_to_checkify(check: Callable[[jax.Array], None], array: jax.Array) -> jax.Array:
    """Returns `array` unchanged; under checkify `check(array)` runs, too, and calls debug_check. Not differentiable.

    An effect of debug_check stays in a program that is exported, which then cannot be serialized. So the check is
    hidden in a call that has none. Outside of checkify the call does nothing.
    """

    def checked(array: jax.Array) -> jax.Array:
        check(array)
        return array

    return _seen.bind(array, call_jaxpr=jax.make_jaxpr(checked)(array))[0]


class _Seen(Primitive):
    def bind(self, *arrays: Any, subfuns: Sequence[Any] = (), **params: Any) -> Any:
        """checkify binds a call with a function that checks instead of its `call_jaxpr`."""
        return subfuns[0].call_wrapped(*arrays) if subfuns else super().bind(*arrays, **params)


_seen = _Seen("dml_jax_seen_by_checkify")
_seen.multiple_results = True


@_seen.def_abstract_eval
def _abstract(array: Any, *, call_jaxpr: Any) -> Sequence[Any]:
    return [array]


@_seen.def_impl
def _evaluate(array: jax.Array, *, call_jaxpr: Any) -> Sequence[jax.Array]:
    return [array]


def _batch(arrays: Sequence[jax.Array], axes: Sequence[int], *, call_jaxpr: Any) -> tuple[Any, Sequence[int]]:
    array, check = jnp.moveaxis(arrays[0], axes[0], 0), jaxpr_as_fun(call_jaxpr)
    if array.shape[0] == 0:  # nothing to check, and checkify takes no batch of nothing
        return [array], [0]
    mapped = jax.make_jaxpr(jax.vmap(lambda array: check(array)[0]))(array)
    return _seen.bind(array, call_jaxpr=mapped), [0]


batching.primitive_batchers[_seen] = _batch
mlir.register_lowering(_seen, lambda context, array, *, call_jaxpr: [array])
