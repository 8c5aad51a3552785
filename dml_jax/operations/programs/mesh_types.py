"""What JAX's types say of arrays on meshes: over which axes they are divided, or vary."""

from typing import Any

import jax
from jax import lax
from jax.sharding import PartitionSpec


def varying_alike(*tree: Any) -> Any:
    """Types all values as varying over the jax.shard_map axes over which any of them varies."""
    axes = [jax.typeof(x).manual_axis_type.varying for x in jax.tree.leaves(tree)]
    every = frozenset().union(*axes)

    def cast(x: jax.Array) -> jax.Array:
        missing = every - jax.typeof(x).manual_axis_type.varying
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return jax.tree.map(cast, tree) if every else tree


def undivided(aval: Any) -> Any:
    """The type on a mesh of one device, divided over no axis: what is chosen for it need not know of axes."""
    sharding = aval.sharding
    return aval.update(sharding=sharding.update(spec=PartitionSpec())) if any(sharding.spec) else aval
