"""The JAX primitive of this library: a program that is chosen for a platform when it is lowered, and its transpose.

Only then JAX knows the platform and the number of devices. So one program is traced, and none of other platforms.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from operator import add
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..values.packed_words import becomes_words
from .forced_form import forced_form, under
from .mesh_types import undivided, varying_alike

# A move is linear in `data`; `where`, of integers and booleans, or None, says where elements go.
Move = Callable[..., jax.Array]
# `where`, the cotangent of the result, and arrays like `data`, to the cotangents of `data`.
Back = Callable[[Any, jax.Array, Sequence[jax.Array]], Sequence[jax.Array]]

WIDE = ("int64", "uint64", "float64", "complex128")


class Target(NamedTuple):
    """The target of lowering.

    Args:
      platform: as jax.lax.platform_dependent names it.
      devices: among which XLA may divide an array. An array on one device of eight makes a program of one device; so do
        an export, and a function inside of a jax.shard_map over all axes.
    """

    platform: str
    devices: int


def by_target(
    choose: Callable[[Target], Move],
    plain: Move,
    back: Back | None = None,
    result: Any = None,
    *,
    is_back_open: bool = False,
) -> Move:
    """A function of (where, *data) that runs `choose(target)`; its derivatives look into none of the functions.

    With f = by_target(lambda target: (lambda _, x: x + x) if target.platform == "cpu" else plain, plain, back), where
    plain is lambda _, x: 2 * x and back is lambda _, t, like: [2 * t], a CPU adds, others multiply, and the gradient of
    f(None, 3.0) is 2.0 on all.

    Args:
      choose: returns functions that compute the same as `plain`.
      plain: the meaning of them all. Batches of a symbolic size run it: jax.export cannot refine casts to words there.
      back: the transpose of a function that is linear in data; None for one that has the derivative of `plain`.
      result: shape and type of the result, if known: without a mesh, `plain` need not be traced for them. Those of
        several results are a tuple, and known.
      is_back_open: whether JAX looks into `back`, which may then call functions like this one, and read data that are
        constant: a product is linear in each of its factors.
    """

    def function(where: Any, *data: jax.Array) -> jax.Array:
        leaves, tree = jax.tree.flatten((where, *data))
        count, form = len(leaves) - len(data), forced_form()

        def of_leaves(move: Move) -> Move:
            return under(form, lambda *leaves: move(*jax.tree.unflatten(tree, leaves)))

        def of_target(target: Target) -> Move:
            return of_leaves(under(form, choose)(target))

        def back_of_leaves(indices: Sequence[Any], cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[Any]:
            assert back
            where, *_ = jax.tree.unflatten(tree, (*indices, *like))
            return under(form, back)(where, cotangent, like)

        call = _Call(of_target, of_leaves(plain), back_of_leaves if back else None, count, result, is_back_open)
        return _bind(call, varying_alike(*leaves))

    return function


def linear(forward: Move, back: Back, result: Any = None) -> Move:
    """`forward(where, *data)`, which JAX differentiates as a linear function whose transpose is `back`."""
    return by_target(lambda _: forward, forward, back, result)


def transpose_of(move: Move) -> Back:
    """The transpose that JAX finds for `move`; a scatter has one only after it was differentiated."""

    def back(where: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return jax.vjp(lambda *data: move(where, *data), *like)[1](cotangent)

    return back


def transposed(function: Callable[[jax.Array], jax.Array], of: Any, cotangent: jax.Array) -> jax.Array:
    """The transpose of a linear function. JAX adds up cotangents of operands that are the same on several devices."""
    like, _ = varying_alike(jnp.zeros(of.shape, of.dtype), cotangent)
    return jax.linear_transpose(function, like)(cotangent)[0]


def by_platform(x: jax.Array, *, cpu: Callable[[jax.Array], jax.Array], default: Callable[..., jax.Array]) -> jax.Array:
    """`cpu(x)` on CPUs and `default(x)` elsewhere, where both mean the same; it has the derivative of `default`."""

    def choose(target: Target) -> Move:
        return lambda _, x: cpu(x) if target.platform == "cpu" else default(x)

    return by_target(choose, lambda _, x: default(x))(None, x)


@dataclass(frozen=True, eq=False)
class _Call:
    """A function of flat arrays, the last of which are data.

    Args:
      choose: as of `by_target`.
      plain: as of `by_target`.
      back: of the first arrays, the cotangent and arrays like the data; None for the derivative of `plain`.
      count: of arrays that are no data.
      result: as of `by_target`.
      is_back_open: as of `by_target`.
    """

    choose: Callable[[Target], Callable[..., jax.Array]]
    plain: Callable[..., jax.Array]
    back: Callable[[Sequence[Any], jax.Array, Sequence[jax.Array]], Sequence[jax.Array]] | None
    count: int
    result: Any
    is_back_open: bool = False


_primitive = Primitive("dml_jax")
_primitive.multiple_results = True


def _bind(call: _Call, arrays: Sequence[Any]) -> Any:
    """Binds the primitive; on a mesh JAX finds the types of results, with their sharding, by tracing `plain`."""
    if call.result is not None and all(jax.typeof(x).sharding.mesh.empty for x in arrays):
        avals = tuple(ShapedArray(each.shape, each.dtype) for each in jax.tree.leaves(call.result))
    else:
        avals = tuple(jax.make_jaxpr(call.plain)(*arrays).out_avals)
    results = _primitive.bind(*arrays, call=call, avals=avals)
    return tuple(results) if isinstance(call.result, tuple) else results[0]


@_primitive.def_abstract_eval
def _abstract(*_: Any, call: _Call, avals: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
    return avals


@_primitive.def_impl
def _evaluate(*arrays: jax.Array, call: _Call, avals: Sequence[ShapedArray]) -> Sequence[jax.Array]:
    """Without jax.jit, as under jax.disable_jit."""
    devices = max((len(x.sharding.device_set) for x in arrays if isinstance(x, jax.Array)), default=1)
    platform = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    return jax.tree.leaves(call.choose(Target(platform, devices))(*arrays))


# Derivatives.


def _differentiate(primals: Sequence[Any], tangents: Sequence[Any], *, call: _Call, avals: Any) -> Any:
    """By data, and by floats in `where`: a derivative holds its point there, and may be differentiated again."""
    results, count = _primitive.bind(*primals, call=call, avals=avals), call.count if call.back else len(primals)
    is_zero, terms = [type(dot) is ad.Zero for dot in tangents], []
    if not all(is_zero[count:]):
        dots = map(ad.instantiate_zeros, tangents[count:])
        terms.append([_bind(call, varying_alike(*primals[:count], *dots))])
    moving = [
        at for at in range(count) if not is_zero[at] and jnp.issubdtype(jax.typeof(primals[at]).dtype, jnp.inexact)
    ]
    if moving:

        def of_moving(*values: Any) -> Sequence[jax.Array]:
            arrays = dict(enumerate(primals)) | dict(zip(moving, values, strict=True))
            return jax.tree.leaves(call.plain(*arrays.values()))

        at, dots = (tuple(each[n] for n in moving) for each in (primals, tangents))
        terms.append(jax.jvp(of_moving, at, dots)[1])
    if not terms:
        return results, [ad.Zero(aval.to_tangent_aval()) for aval in avals]
    return results, [reduce(add, parts) for parts in zip(*terms, strict=True)]


def _transpose(cotangents: Any, *arrays: Any, call: _Call, avals: Any) -> Sequence[Any]:
    """A linear function has one result."""
    (cotangent,), indices, data = cotangents, arrays[: call.count], arrays[call.count :]
    nothing = [None] * call.count
    if type(cotangent) is ad.Zero:
        return [*nothing, *(ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in data)]
    undefined = [at for at, x in enumerate(data) if ad.is_undefined_primal(x)]
    if call.is_back_open:
        assert call.back
        like = [ad.zeros_like_aval(x.aval) if ad.is_undefined_primal(x) else x for x in data]
        found = call.back(indices, cotangent, like)
        return [*nothing, *(x if at in undefined else None for at, x in enumerate(found))]
    of_data = [x.aval if ad.is_undefined_primal(x) else jax.typeof(x) for x in data]
    operands = varying_alike(*indices, cotangent)
    found = {at: _bind(_transpose_call(call, of_data, at), operands) for at in undefined}
    return [*nothing, *map(found.get, range(len(data)))]


def _transpose_call(call: _Call, data: Sequence[ShapedArray], at: int) -> _Call:
    """The call that computes the cotangent of one of the data. Its transpose is `call`: JAX looks into neither."""

    def backward(*arrays: jax.Array) -> jax.Array:
        assert call.back
        *indices, cotangent = arrays
        return call.back(indices, cotangent, [ad.zeros_like_aval(x) for x in data])[at]

    def forward(indices: Sequence[Any], cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        zeros = [cotangent if number == at else ad.zeros_like_aval(x) for number, x in enumerate(data)]
        return [_bind(call, varying_alike(*indices, *zeros))]

    result = jax.ShapeDtypeStruct(data[at].shape, data[at].dtype)
    return _Call(lambda _: backward, backward, forward, call.count, result)


ad.primitive_jvps[_primitive] = _differentiate
ad.primitive_transposes[_primitive] = _transpose


# Batches.


def _batch(arrays: Sequence[jax.Array], axes: Sequence[Any], *, call: _Call, avals: Any) -> tuple[Any, Any]:
    size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)
    has_words = any(becomes_words(x.dtype) for x in arrays)
    where = [axis if axis is None else 0 for axis in axes]
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True)]

    def mapped(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
        return jax.vmap(function, where, axis_size=size)

    def choose(target: Target) -> Callable[..., jax.Array]:
        return mapped(call.choose(target) if isinstance(size, int) or not has_words else call.plain)

    def back(indices: Sequence[Any], cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        of_data = where[call.count :]
        of_one = lambda indices, cotangent, like: tuple(call.back(indices, cotangent, like))  # noqa: E731 # type: ignore
        each = jax.vmap(of_one, (where[: call.count], 0, of_data), axis_size=size)(list(indices), cotangent, list(like))
        return [x if axis == 0 else x.sum(0) for x, axis in zip(each, of_data, strict=True)]

    result = jax.tree.map(lambda of: jax.ShapeDtypeStruct((size, *of.shape), of.dtype), call.result)
    each = replace(call, choose=choose, plain=mapped(call.plain), back=back if call.back else None, result=result)
    results = _bind(each, moved)
    return jax.tree.leaves(results), [0] * len(avals)


batching.primitive_batchers[_primitive] = _batch


# Programs.


def _lower(context: mlir.LoweringRuleContext, *operands: Any, call: _Call, avals: Sequence[ShapedArray]) -> Any:
    devices = _devices(context.module_context.axis_context)
    platforms = context.platforms or context.module_context.platforms
    lower = mlir.lower_fun(partial(_on_platforms, call, platforms, devices), multiple_results=True)
    if devices == 1:
        context = context.replace(avals_in=list(map(undivided, context.avals_in)))
    # A compiled operator computes with 64 bits, and is lowered when they are off again: a cast back would be cut.
    is_wide = any(str(getattr(x, "dtype", "")) in WIDE for x in (*avals, *context.avals_in))
    with jax.enable_x64(True) if is_wide else nullcontext():
        return lower(context, *operands)


def _on_platforms(call: _Call, platforms: Sequence[str], devices: int, *arrays: jax.Array) -> Sequence[jax.Array]:
    chosen = {platform: call.choose(Target(platform, devices)) for platform in platforms}
    if len(chosen) == 1:
        return jax.tree.leaves(chosen[platforms[0]](*arrays))
    return jax.tree.leaves(lax.platform_dependent(*arrays, **chosen, default=call.plain))


def _devices(context: Any) -> int:
    """How many devices XLA may divide an array among, by what JAX knows while it lowers."""
    if isinstance(context, mlir.SPMDAxisContext):
        return prod(n for name, n in context.mesh.shape.items() if name not in context.manual_axes)
    return context.num_devices if isinstance(context, mlir.ShardingContext) else jax.device_count()


mlir.register_lowering(_primitive, _lower)
