"""Forms that give way to another one under jax.vmap, which would run a loop or both branches for all of a batch."""

from collections.abc import Sequence

import jax
from jax.custom_batching import custom_vmap

from .forms import Form

__all__ = ["unless_mapped"]


def unless_mapped(form: Form, plain: Form) -> Form:
    """`form`, and under jax.vmap `plain`: loops and branches would go on for all of a batch until the last is done."""
    alone = custom_vmap(form)

    @alone.def_vmap
    def _(size: int, is_batched: Sequence[bool], *arrays: jax.Array) -> tuple[jax.Array, bool]:
        return jax.vmap(plain, [0 if each else None for each in is_batched], axis_size=size)(*arrays), True

    return alone
