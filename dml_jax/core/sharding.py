"""Sharding on meshes: an output's sharding follows from the operands, or is the caller's `out_sharding`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.errors import JaxRuntimeError
from jax.sharding import AxisType, NamedSharding, PartitionSpec, auto_axes, get_abstract_mesh, reshard

from ..errors import ConstraintError, DataTypeError, message
from ..operations.programs.forced_form import forcing
from ..operations.programs.partition import Shards, knowing
from .rules import Operands

OutSharding = NamedSharding | PartitionSpec | None
Arrays = Mapping[str, jax.Array]


@dataclass(frozen=True)
class Dims:
    """Names for the dimensions of an operator: dimensions of one name can be sharded alike without communication.

    Args:
      operands: a name per dimension, by operand. An operand that is not listed is never sharded.
      output: a name per dimension of the output, or of each output if there are several.
      local: the names along which the operator, applied to a part of the operands, gives that part of the output. Only
        operators whose lowering asks for `known_shards` list any.
      whole: the numbers of outputs that every device has whole, and whose sharding `output` and `out_sharding` are not.
    """

    operands: Mapping[str, Sequence[str]]
    output: Sequence[str]
    local: Sequence[str] = ()
    whole: Sequence[int] = ()


def names_of(x: Operands, operand: str) -> list[str]:
    """A name for each dimension of an operand."""
    return [f"{operand} {d}" for d in range(x[operand].ndim)]


def renamed(names: Sequence[str], axes: Iterable[int], word: str = "other") -> list[str]:
    """The names with other ones along some axes, -rank <= axis < rank, where an array has dimensions of its own."""
    others = {axis % len(names) for axis in axes}
    return [f"{word} {name}" if d in others else name for d, name in enumerate(names)]


def dims_of_input(x: Operands) -> Dims:
    """Of an operator whose output has the dimensions of `input`."""
    names = names_of(x, "input")
    return Dims({"input": names}, names)


def dims_of_sizes(x: Operands) -> Dims:
    """Of an operator that makes an output of `sizes`."""
    return Dims({}, [f"output {d}" for d in range(len(x["sizes"]))])


def as_out_sharding(operator: str, value: Any) -> OutSharding:
    """Returns a static sharding, or None.

    Raises:
      DataTypeError: anything else.
    """
    if value is None or isinstance(value, NamedSharding | PartitionSpec):
        return value
    rule = "out_sharding must be a jax.sharding.NamedSharding, or a PartitionSpec of the mesh that jax.set_mesh has set"
    raise DataTypeError(message(operator, rule, f"it is {type(value).__name__}", {"out_sharding": value}))


def has_mesh(out_sharding: OutSharding, arrays: Mapping[str, jax.Array | None]) -> bool:
    """Whether `on_mesh` is needed: `out_sharding` is given, or the mesh is Explicit. XLA handles an Auto mesh alone."""
    return out_sharding is not None or _explicit_mesh(_present(arrays), None) is not None


def on_mesh(
    operator: str,
    function: Callable[..., Any],
    dims: Dims,
    out_sharding: OutSharding,
    cure: str = "or out_sharding must say it",
    /,
    **arrays: jax.Array | None,
) -> Any:
    """Computes `function(*arrays)`, one array or several, with the sharding `out_sharding`, or the one that follows.

    Args:
      operator: its name, for messages.
      function: computes the operator. XLA partitions it on an Explicit mesh too, as it does on an Auto mesh.
      dims: the names of the dimensions.
      out_sharding: of each output, or None.
      cure: the end of the rule of the error.
      arrays: the operands by port; None for one that is left out.

    Raises:
      ConstraintError: no sharding of the output follows from those of the operands on an Explicit mesh, neither by the
        names nor by the rules of JAX, or `out_sharding` does not fit.
    """
    present = _present(arrays)
    mesh = _explicit_mesh(present, out_sharding)
    results = jax.eval_shape(function, *jax.tree.map(_without_sharding, tuple(arrays.values())))
    sizes = [result.shape for n, result in enumerate(jax.tree.leaves(results)) if n not in dims.whole]
    if out_sharding is not None:
        out_sharding = _fitting(operator, out_sharding, mesh, sizes, present)
    if mesh is None:
        return lax.with_sharding_constraint(function(*arrays.values()), _of_each(results, dims, out_sharding))
    if out_sharding is not None:
        shardings = _of_each(results, dims, out_sharding)
    else:
        axes_of, fact = _follow_dims(dims, mesh, sizes, present)
        if fact is None:
            shardings = _of_each(results, dims, NamedSharding(mesh, _spec(dims.output, axes_of)))
            for operand, names in dims.operands.items():  # one that every device has is cut, which costs nothing
                arrays[operand] = reshard(present[operand], NamedSharding(mesh, _spec(names, axes_of)))
            if dims.local and axes_of.keys() <= set(dims.local) and set(mesh.axis_types) == {AxisType.Explicit}:
                function = _knowing(_shards(dims, axes_of), function)
        elif (shardings := _infer_shardings(function, tuple(arrays.values()))) is None:
            rule = f"the sharding of the output must follow from the operands', {cure}"
            raise ConstraintError(message(operator, f"on an Explicit mesh {rule}", fact, present))
    partitioned: Any = auto_axes(function, axes=_explicit_axes(mesh), out_sharding=shardings)
    if AxisType.Manual in mesh.axis_types:
        # JAX forgets that residuals are Auto when they leave a jax.shard_map over some axes: only operands may leave.
        partitioned = jax.checkpoint(partitioned, prevent_cse=False)
    return partitioned(*arrays.values())


def on_any_mesh(operator: str, function: Callable[..., Any], dims: Dims, **arrays: jax.Array | None) -> Any:
    """Computes `function(*arrays)` for a caller without `out_sharding`; on an Explicit mesh as `on_mesh` does.

    Raises:
      ConstraintError: no sharding of the output follows from those of the operands.
    """
    if not has_mesh(None, arrays):
        return function(*arrays.values())
    return on_mesh(operator, function, dims, None, f"jax.reshard {_listed(arrays)} to one that does", **arrays)


def _listed(arrays: Mapping[str, Any]) -> str:
    return " or ".join(name for name, array in arrays.items() if array is not None)


@contextmanager
def wording_refusals(operator: str, arrays: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Raises a ConstraintError where JAX refuses to compute arrays that are sharded on an Explicit mesh.

    Args:
      operator: its name, for messages.
      arrays: returns the operands by port; other values than arrays may be among them.

    Raises:
      ConstraintError: JAX cannot tell the sharding of a result.
    """
    try:
        yield
    except (ConstraintError, ArithmeticError, MemoryError, JaxRuntimeError):
        raise
    except Exception as error:  # JAX has no public type of error for this
        sharded = {name: x for name, x in arrays().items() if isinstance(x, jax.Array) and is_sharded(x)}
        if not sharded or not re.search("shard|mesh", f"{type(error).__name__}: {error}", re.IGNORECASE):
            raise
        rule = "on an Explicit mesh JAX must know the sharding of every result: jax.reshard the arrays to one that fits"
        fact = str(error).partition("\n")[0].rstrip(".")
        raise ConstraintError(message(operator, rule, fact, sharded)) from error


def is_sharded(array: jax.Array) -> bool:
    """Whether an array is divided over Explicit axes of a mesh."""
    sharding = jax.typeof(array).sharding
    return AxisType.Explicit in sharding.mesh.axis_types and any(axes is not None for axes in sharding.spec)


def _present(arrays: Mapping[str, jax.Array | None]) -> dict[str, jax.Array]:
    return {name: jnp.asarray(array) for name, array in arrays.items() if array is not None}


def _explicit_axes(mesh: Any) -> tuple[str, ...]:
    return tuple(n for n, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit)


def _spec(names: Sequence[str], axes_of: Mapping[str, Any]) -> PartitionSpec:
    return PartitionSpec(*map(axes_of.get, names))


def _of_each(results: Any, dims: Dims, sharding: Any) -> Any:
    """Returns the sharding of each output."""
    leaves, structure = jax.tree.flatten(results)
    whole = NamedSharding(sharding.mesh, PartitionSpec())
    return jax.tree.unflatten(structure, [whole if n in dims.whole else sharding for n in range(len(leaves))])


def _without_sharding(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _explicit_mesh(arrays: Arrays, out_sharding: OutSharding) -> Any:
    """Returns the Explicit mesh of the arrays, the one that is set, or that of `out_sharding`; None without one."""
    meshes = [*(jax.typeof(array).sharding.mesh for array in arrays.values()), get_abstract_mesh()]
    if isinstance(out_sharding, NamedSharding):
        meshes.append(out_sharding.mesh)
    return next((mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types), None)


def _follow_dims(
    dims: Dims, mesh: Any, sizes: Sequence[Sequence[Any]], arrays: Arrays
) -> tuple[Mapping[str, Any], str | None]:
    """Returns the mesh axes that shard each dimension, by the name of the dimension, and why they do not do for all."""
    axes_of: dict[str, Any] = {}
    for operand, names in dims.operands.items():
        for d, (name, axes) in enumerate(zip(names, jax.typeof(arrays[operand]).sharding.spec, strict=True)):
            if axes is None:
                continue
            what = f"dimension {d} of {operand} is sharded over {axes!r}"
            if name not in dims.output:
                return {}, f"{what}, along which the devices must communicate"
            if axes_of.setdefault(name, axes) != axes:
                return {}, f"{what}, and the same dimension of another operand over {axes_of[name]!r}"
    return axes_of, _no_fit(mesh, _spec(dims.output, axes_of), sizes)


def _infer_shardings(function: Callable[..., Any], arrays: Sequence[jax.Array | None]) -> Any:
    """Returns the shardings of the outputs that JAX infers, as for any function of jax.numpy; None where it refuses.

    It looks at the plain form, of numbers of common types: other ones would be moved as integers of other sizes.
    """

    def plain(*arrays: jax.Array | None) -> Any:
        return function(*jax.tree.map(_of_common_type, arrays))

    try:
        with forcing("plain"):
            outputs = jax.eval_shape(plain, *arrays)
    except Exception:  # JAX has no public type of error for this; whatever else is wrong was raised before
        return None
    return jax.tree.map(lambda output: output.sharding, outputs)


def _of_common_type(array: jax.Array) -> jax.Array:
    common = {jnp.floating: jnp.float32, jnp.integer: jnp.int32}
    return next((array.astype(t) for kind, t in common.items() if jnp.issubdtype(array.dtype, kind)), array)


def _shards(dims: Dims, axes_of: Mapping[str, Any]) -> Shards:
    return Shards({n: _spec(names, axes_of) for n, names in dims.operands.items()}, _spec(dims.output, axes_of))


def _knowing(shards: Shards, function: Callable[..., Any]) -> Callable[..., Any]:
    def known(*arrays: Any) -> Any:
        with knowing(shards):
            return function(*arrays)

    return known


def _fitting(
    operator: str, asked: NamedSharding | PartitionSpec, mesh: Any, sizes: Sequence[Sequence[Any]], arrays: Arrays
) -> NamedSharding:
    """Returns the sharding that is asked for, with its mesh.

    Raises:
      ConstraintError: the output cannot have it.
    """
    if isinstance(asked, NamedSharding):
        sharding_mesh, spec = asked.mesh, asked.spec
    else:
        sharding_mesh, spec = mesh or get_abstract_mesh(), asked
    fact = _other_mesh(mesh, sharding_mesh, arrays) or _no_fit(sharding_mesh, spec, sizes)
    if fact:
        rule = "out_sharding must be a sharding that the output can have"
        raise ConstraintError(message(operator, rule, fact, {**arrays, "out_sharding": asked}))
    return asked if isinstance(asked, NamedSharding) else NamedSharding(sharding_mesh, spec)


def _other_mesh(mesh: Any, asked: Any, arrays: Arrays) -> str | None:
    """Returns why a sharding does not fit the mesh of the operands, or None if it does."""
    if mesh is None:
        return None
    if get_abstract_mesh().empty and _explicit_mesh(arrays, None) is None:
        return "no operand is on its Explicit mesh: put them there, or call under jax.set_mesh"
    alike = all(getattr(mesh, what) == getattr(asked, what) for what in ("axis_sizes", "axis_names", "axis_types"))
    return None if alike else f"its mesh is {asked}, and that of the operands is {mesh}"


def _no_fit(mesh: Any, spec: PartitionSpec, sizes: Sequence[Sequence[Any]]) -> str | None:
    """Returns why one of several outputs cannot have a sharding, or None if all can."""
    return next(filter(None, (_misfit(mesh, spec, of_one) for of_one in sizes)), None)


def _misfit(mesh: Any, spec: PartitionSpec, sizes: Sequence[Any]) -> str | None:
    """Returns why an output cannot have a sharding, or None if it can."""
    if mesh.empty:
        return "there is no mesh: pass a NamedSharding, or call under jax.set_mesh"
    if spec.unreduced or spec.reduced:
        return "a result that is still to be added up is none"
    if len(spec) > len(sizes):
        return f"the output has {len(sizes)} dimensions and the sharding {len(spec)}"
    used: list[str] = []
    for d, axes in enumerate(spec):
        if axes is PartitionSpec.UNCONSTRAINED:
            if _explicit_axes(mesh):
                return f"dimension {d} is UNCONSTRAINED, which only Auto meshes know"
            continue
        names = axes if isinstance(axes, tuple) else () if axes is None else (axes,)
        for name in names:
            if fact := _unfit_axis(mesh, name):
                return fact
            if name in used:
                return f"{name!r} would shard two dimensions of the output"
            used.append(name)
        size, parts = sizes[d], prod(mesh.shape[name] for name in names)
        if size % parts != 0:
            return f"dimension {d} of the output has size {size}, and {axes!r} has {parts} devices"
    return None


def _unfit_axis(mesh: Any, name: str) -> str | None:
    """Returns why an output cannot be sharded over an axis of the mesh, or None if it can."""
    if name not in mesh.axis_names:
        return f"the mesh has no axis {name!r}, only {mesh.axis_names}"
    kind = mesh.axis_types[mesh.axis_names.index(name)]
    if kind == AxisType.Manual:
        return f"{name!r} is a Manual axis of jax.shard_map here, where every device has its own output"
    if kind != AxisType.Explicit and _explicit_axes(mesh):
        return f"{name!r} is an Auto axis beside Explicit ones, which only jax.lax.with_sharding_constraint names"
    return None
