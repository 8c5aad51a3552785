"""Attention of floats of 16 bits as one operation, whose scores need not be in memory: forward, and its cotangents.

Queries (1, 2, 1000, 64) of float16 and as many keys have 2 million scores, 8 MB of float32, and an output of 256 KB.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.sharding import PartitionSpec

from .attention_steps import attention_steps
from .programs.partition import shard_mapped
from .programs.primitive import Move, by_target
from .programs.variant_selection import choose, known_bytes, shapes_of
from .values.accumulation_types import narrow_apart

Gives = Literal["attention", "attention_cotangents"]


class Seen(NamedTuple):
    """The arrays that say which keys a query sees and which count, as `attention_steps` takes them; None for none."""

    mask: Any
    kept: Any
    lengths: Any
    starts: Any


@dataclass(frozen=True)
class AttentionCase:
    """Attention, or its cotangents, for the choice between implementations.

    Args:
      gives: the output, or, from its cotangent, the cotangents of queries, keys, values and added arrays.
      numbers: the arguments of `attention_steps` that are no arrays, `starts` among them if it is an int.
      dtype: of 16 bits. The output is rounded to it; queries, keys and values have only numbers of it.
      seen: shapes and types of `Seen`.
      data: shapes and types of queries, keys, values, added arrays; for cotangents also of the output's cotangent.
      devices: among which XLA may divide an array.
    """

    gives: Gives
    numbers: Mapping[str, Any]
    dtype: Any
    seen: Seen
    data: Sequence[Any]
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of all arrays; 0 if one is empty, or if a size is symbolic."""
        return known_bytes(*self.data) if all(map(known_bytes, self.data)) else 0

    @property
    def output(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the output of attention."""
        query, _, value, *_ = self.data
        return jax.ShapeDtypeStruct((*query.shape[:3], value.shape[3]), self.dtype)

    @property
    def result(self) -> Any:
        """Shape and type, or a tuple of those."""
        return self.output if self.gives == "attention" else tuple(self.data[:-1])

    @property
    def plain(self) -> Callable[..., Any]:
        """The plain implementation: by `attention_steps`, or its transpose."""
        return self.meaning if self.gives == "attention" else cotangents_of(self.meaning)

    def meaning(self, seen: Seen, query: jax.Array, key: jax.Array, value: jax.Array, *added: jax.Array) -> jax.Array:
        """The output, by steps that have all scores in memory."""
        given = {name: array for name, array in seen._asdict().items() if array is not None}
        steps = attention_steps(query, key, value, added=added, **self.numbers, **given)
        return narrow_apart(steps.output, self.dtype)


def cotangents_of(move: Move) -> Callable[..., tuple[jax.Array, ...]]:
    """The transpose of a move: from (where, *data, cotangent of the result) to the cotangents of the data."""

    def cotangents(where: Any, *data: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vjp(partial(move, where), *data[:-1])[1](data[-1])

    return cotangents


def attend(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    dtype: Any,
    added: Sequence[jax.Array] = (),
    mask: Any = None,
    kept: Any = None,
    lengths: Any = None,
    starts: Any = None,
    sinks: Any = None,
    **numbers: Any,
) -> jax.Array:
    """Returns the output of `attention_steps`, rounded to a type; its arguments are the same.

    Args:
      dtype: of the output; it holds every number of queries, keys and values, whose type is as wide or wider.
    """
    arrays = {"mask": mask, "kept": kept, "lengths": lengths, "starts": starts}
    # The one variant, cuDNN through JAX, takes floats of 16 bits, and neither sinks nor a softcap.
    if jnp.finfo(dtype).bits != 16 or sinks is not None or numbers.get("softcap"):
        steps = attention_steps(query, key, value, added=added, sinks=sinks, **arrays, **numbers)
        return narrow_apart(steps.output, dtype)
    # An int is known while tracing, where a variant is chosen: cuDNN knows causal masks only from key 0 on.
    if isinstance(starts, int):
        numbers["starts"], arrays["starts"] = starts, None
    return _on_each_device(partial(_operation, numbers, dtype), Seen(**arrays), (query, key, value, *added))


def _on_each_device(operation: Callable[..., jax.Array], seen: Seen, data: Sequence[jax.Array]) -> jax.Array:
    """The operation on each device, of its rows of the batch and its heads, if an Explicit mesh divides only those.

    A query needs no other row and no other head, so the program of a device is one of a single device. Queries
    (8, 16, 512, 64) that are sharded as ("batch", "heads") over 4 x 2 devices are (2, 8, 512, 64) on each.
    """
    spec = PartitionSpec(*jax.typeof(data[0]).sharding.spec[:2], None, None)
    arrays = (seen, tuple(data))

    def part(x: jax.Array) -> PartitionSpec:  # of one row or head, which every device has; lengths have one dimension
        return PartitionSpec(*(axes if n != 1 else None for axes, n in zip(spec, x.shape, strict=False)))

    are_alike = all(jax.typeof(x).sharding.spec == part(x) for x in data[:3])
    if are_alike:
        operation = shard_mapped(operation, arrays, jax.tree.map(part, arrays), spec)
    return operation(*arrays)


def _operation(numbers: Mapping[str, Any], dtype: Any, seen: Seen, data: Sequence[jax.Array]) -> jax.Array:
    def case_of(gives: Gives, *arrays: jax.Array) -> Callable[[int], AttentionCase]:
        return partial(
            AttentionCase, gives, numbers, dtype, jax.tree.map(lambda x: shapes_of(x)[0], seen), shapes_of(*arrays)
        )

    @jax.custom_jvp
    def output(seen: Seen, *data: jax.Array) -> jax.Array:
        return choose("attention", case_of("attention", *data), is_opaque=False)(seen, *data)

    def differentiate(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        (seen, *data), (_, *dots) = primals, tangents
        # An array that does not vary, such as a constant bias, has a symbolic zero: nothing is computed for its part.
        moving = [at for at, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]
        if not moving:
            return output(seen, *data), jnp.zeros(data[0].shape[:3] + data[2].shape[3:], dtype)
        return output(seen, *data), slope(moving)((seen, data), *(dots[at] for at in moving))

    def slope(moving: Sequence[int]) -> Move:
        """The derivative at a point, (seen, data): linear in the tangents of those arrays that move."""

        def forward(point: Any, *dots: jax.Array) -> jax.Array:
            seen, data = point
            of_moving = lambda *arrays: case_of("attention", *data)(1).meaning(  # noqa: E731
                seen, *({**dict(enumerate(data)), **dict(zip(moving, arrays, strict=True))}.values())
            )
            return jax.jvp(of_moving, tuple(data[at] for at in moving), dots)[1]

        def back(point: Any, cotangent: jax.Array, _: Any) -> Sequence[jax.Array]:
            (seen, data), gives = point, "attention_cotangents"
            arrays = (*data, cotangent)
            found = choose(gives, case_of(gives, *arrays), is_opaque=False)(seen, *arrays)
            return [found[at] for at in moving]

        # The transpose is a choice of its own, so that cuDNN may compute the cotangents, too.
        return by_target(lambda _: forward, forward, back, is_back_open=True)

    output.defjvp(differentiate, symbolic_zeros=True)
    return output(seen, *data)
