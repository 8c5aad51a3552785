"""Scatters by DirectML's index rule, and their reductions, which combine updates with the elements of the table."""

from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...errors import DataTypeError
from ...lowering.partition import TableShards, known_shards
from ...lowering.plain.gather_scatter_dimension_numbers import Slices
from ...lowering.plain.scatter import scatter_slices
from ...lowering.plain.scatter_derivatives import reduce_slices
from ...lowering.plain.scatter_rows import Write
from ...lowering.values.bit_exact import index_dtype, is_key
from ..arguments.kinds import attribute
from ..arguments.static_values import as_name
from ..rules import Operands, Rule, one_of
from .index_rule import check_order, resolve
from .promises import Promises, show_indices

WriteMode = Literal["drop", "clip", "promise_in_bounds"]
WRITE_MODE = one_of("mode", get_args(WriteMode))

Name = Literal["add", "mul", "min", "max", "mean"]
ReductionName = Annotated[Name, attribute(as_name, *get_args(Name), shown="str")]
REDUCTION = one_of("reduction", (None, *get_args(Name)))


def _irreducible(x: Operands) -> str | None:
    """Returns why the elements of `input` do not have the reduction, or None if they do."""
    dtype, reduction = x["input"].dtype, x["reduction"]
    if reduction is None:
        return None
    if is_key(x["input"]):
        return f"it is {dtype}, whose elements are not numbers"
    if reduction in ("min", "max") and jnp.issubdtype(dtype, jnp.complexfloating):
        return f"it is {dtype}, whose numbers have no order"
    if reduction == "mean" and dtype == jnp.bool_:
        return "it is bool, which has no mean"
    return f"it is {dtype}, which has no zero" if dtype == jnp.float8_e8m0fnu else None


REDUCIBLE = Rule(
    "reducible(input)",
    "{input}.{dtype} must have numbers that {reduction} combines",
    _irreducible,
    DataTypeError,
)


def write(
    input: Any,
    indices: Any,
    updates: Any,
    slices: Slices,
    *,
    mode: str,
    reduction: str | None,
    include_self: bool = True,
    promises: Promises,
) -> jax.Array:
    """Copies `input` and writes one slice of `updates` per index tuple, as lax.scatter does.

    Args:
      input: the array to copy.
      indices: integers [..., coordinates of a tuple]; they may be negative or out of range.
      updates: the slices.
      slices: which dimensions of `input` the tuples address, and where the slices stand in `updates`.
      mode: a `WriteMode`: where an index out of range writes.
      reduction: how an update is combined with the element; None replaces the element.
      include_self: whether an element that is reduced takes part itself.
      promises: the caller's promises about the indices.
    """
    if 0 in updates.shape:
        return jnp.asarray(input)
    sizes = [input.shape[axis] for axis in slices.indexed]
    is_wide = indices.dtype == np.uint32 and index_dtype(sizes) == np.int32
    if mode == "drop" and is_wide and not promises.indices_are_sorted:
        # Indices beyond 31 bits become negative, and XLA drops these too. So the indices are not stored a second time.
        indices = lax.bitcast_convert_type(indices, jnp.int32)
    else:
        indices = resolve(indices, sizes)
    lax_mode = "fill" if mode == "drop" else mode
    how = Write(slices, lax_mode, promises.unique_indices, promises.indices_are_sorted, promises.deterministic)
    if shards := known_shards():
        of = shards.operands
        how = replace(how, shards=TableShards(of["input"], of["indices"], of["updates"]))
    indices = show_indices(indices, input.shape, how)
    if reduction is None:
        return scatter_slices(indices, input, updates, how)
    if reduction in ("add", "mul", "mean"):
        check_order(indices, input, how)
    return reduce_slices(indices, input, updates, how, reduction, include_self)
