"""Finds the arguments of `to_jax` that make a failed call work, by tracing the model with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..core.tensors.tensor_spec import TensorSpec
from .alike_nodes import NotTracedError
from .constant_work import leaving_out
from .errors import NotConstantError, static_text
from .sequence_pytrees import ContainerSpec
from .signature import X64

# Runs the model with names of inputs for `int32`, and with inputs by name.
Run = Callable[[Collection[str], Mapping[str, Any]], Any]


def cure_of_cut_inputs(
    run: Run, specs: Sequence[TensorSpec], declared: Collection[str], given: Mapping[str, Any]
) -> str:
    """Says how to call a model some of whose 64-bit inputs JAX has cut to 32 bits.

    int32 is tried before x64. If other inputs must be known, the text names them, too. Beside x64 it names an input
    that may be narrower than int32 instead, such as a mask that is added up.

    Args:
      run: the model.
      specs: its inputs.
      declared: names of those that were declared as int32.
      given: its inputs by name, some of them traced, or shapes and types alone.
    """
    traced = {s.name: s for s in specs if isinstance(given[s.name], (Tracer, jax.ShapeDtypeStruct))}
    traced = {name: spec for name, spec in traced.items() if not isinstance(spec, ContainerSpec)}
    cut = [name for name, spec in traced.items() if given[name].dtype != spec.dtype]
    structs = {name: jax.ShapeDtypeStruct(given[name].shape, given[name].dtype) for name in traced}
    can_be_int32 = all(traced[name].dtype == np.int64 for name in cut)
    if can_be_int32:
        error = failure(run, [*declared, *cut], {**given, **structs})
        inputs = error.inputs if isinstance(error, NotConstantError) else ()
        if error is None or inputs:
            names = [s.name for s in specs if s.name in {*declared, *cut}.difference(inputs)]
            arguments = [f"int32={names}"] * bool(names) + [static_text(inputs)] * bool(inputs)
            return f"say to_jax(model, {', '.join(arguments)})" + ", and give int32 arrays" * bool(names)
        if isinstance(error, NotConstantError):
            return f"say to_jax(model, int32={cut}), and give int32 arrays; then {error}"
    wide = {name: jax.ShapeDtypeStruct(given[name].shape, spec.dtype) for name, spec in traced.items()}
    with jax.enable_x64(True):
        error = failure(run, declared, {**given, **wide})
    if isinstance(error, NotConstantError) and error.inputs:
        return f"{X64}, and say to_jax(model, {static_text(error.inputs)})"
    if not can_be_int32:
        return X64
    if error is not None:
        return f"{X64}, or say to_jax(model, int32={cut})"
    names = [s.name for s in specs if s.name in {*declared, *cut}]
    for name in cut:
        narrow = {name: jax.ShapeDtypeStruct(structs[name].shape, np.int8)}
        if failure(run, names, {**given, **structs, **narrow}) is None:
            fit = f", or, if int8 or bool holds the numbers of {name!r}, give it so"
            return f"{X64}{fit}, and say to_jax(model, int32={names})"
    return X64


def failure(run: Run, int32: Collection[str], given: Mapping[str, Any]) -> Exception | None:
    """Returns the error of a call, or None; inputs that are shapes and types alone are traced.

    Where only the sizes are asked for, large constants are left out, unless the call fails without them.

    Raises:
      NotTracedError: only the sizes are asked for, and that takes long.
    """
    with leaving_out() as left_out:
        error = _traced_failure(run, int32, given)
    return _traced_failure(run, int32, given) if left_out and error else error


def _traced_failure(run: Run, int32: Collection[str], given: Mapping[str, Any]) -> Exception | None:
    structs = {name: value for name, value in given.items() if isinstance(value, jax.ShapeDtypeStruct)}
    try:
        jax.eval_shape(lambda traced: run(int32, {**given, **traced}), structs)
    except NotTracedError:
        raise
    except Exception as error:  # of any other kind: it must not hide the error that is to be explained
        return error
    return None


def with_inputs(error: NotConstantError, specs: Sequence[TensorSpec], behind: Collection[str]) -> NotConstantError:
    """Returns the error, with the inputs that must be known.

    Args:
      error: it may name none.
      specs: the inputs of the model.
      behind: names of values, inputs among them, that the value is computed from.
    """
    inputs = [s for s in specs if s.name in behind and not isinstance(s, ContainerSpec)]
    settings = [s.name for s in inputs if not jnp.issubdtype(s.dtype, jnp.floating) or s.sizes in ((), (1,))]
    return error.naming(settings)
