"""Parallel efficiency of each operator on meshes of all devices, relative to the same call on one device."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import lcm
from statistics import geometric_mean
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.table import Table

from ..errors import ConstraintError
from .mesh_call_table import MeshCall, hashed_data, mesh_calls
from .parallel_efficiency import LINEAR, Alone, Looped, alone, scaled
from .section import Job, Section, unframed
from .timing import Effort, Measured

LEGEND = """\
worst, mean      the time of one device on the whole, divided by all devices' time times their number, which is 1.00 if
                 scaling is linear: of the worst program of the operator, and the geometric mean of all
programs         an Auto or Explicit mesh of one or two axes, forward or backward, each dimension sharded; local: those
                 without collectives
below 0.9        how many, by what explains it: a collective, bytes that every device has whole, calls below 0.05 ms"""

HEADINGS = ["worst", "mean", "programs", "local", "differ", "below 0.9", "collectives"]
GROUP = " on meshes"  # behind the operator's name, in rows
Arrays = list[Any]


@dataclass(frozen=True)
class Program:
    """An operator on a mesh.

    Args:
      operator: its name.
      is_backward: its transpose, by jax.vjp, instead of the call.
      kind: of the mesh's axes.
      axes: the sizes of the mesh.
      dims: the letters of the dimensions that its axes shard; one letter may have both.
    """

    operator: str
    is_backward: bool
    kind: AxisType
    axes: tuple[int, ...]
    dims: str

    @property
    def name(self) -> str:
        sizes, way = "x".join(map(str, self.axes)), "backward" if self.is_backward else "forward"
        places = [str(mesh_calls(8)[self.operator].divided.index(x)) for x in self.dims]
        return f"{self.operator} {way}, {self.kind.name} mesh of {sizes}, dimension {' and '.join(places)}"

    def spec(self, dims: str) -> PartitionSpec:
        """The PartitionSpec of an array whose dimensions have these letters."""
        names = ("a", "b")[: len(self.axes)]
        axes = dict(zip(self.dims, names, strict=True)) if len(self.dims) == len(names) else {self.dims: names}
        return PartitionSpec(*map(axes.get, dims))


def programs(devices: int) -> Iterator[Program]:
    """All programs, meshes of one axis first, Explicit before Auto; the first ones cover every operator."""
    meshes = [(devices,), (devices // 2, 2)] if devices % 4 == 0 else [(devices,)]
    calls = mesh_calls(8)
    for axes, kind, place, is_backward in product(meshes, (AxisType.Explicit, AxisType.Auto), range(4), (False, True)):
        for operator, call in calls.items():
            if place < len(call.divided) and not (is_backward and not _is_differentiable(operator)):
                dims = call.divided[place:] + call.divided[:place]
                yield Program(operator, is_backward, kind, axes, dims[: len(axes)])


def section(size: int) -> Section:
    """A job for each program; the operands and outputs of a call have about `size` bytes."""
    devices = jax.local_device_count()
    jobs = [Job(one.name, partial(measured, one, size)) for one in programs(devices)]
    return Section("operators on meshes", jobs, ["dml_jax"], table, LEGEND)


def measured(program: Program, size: int, effort: Effort) -> Sequence[Measured]:
    """The row of a program; one that XLA cannot run is left out, with a warning."""
    try:
        return [_measured(program, size, effort)]
    except jax.errors.JaxRuntimeError as error:
        warnings.warn(f"{program.name} is left out: {error}", stacklevel=2)
        return []


def _measured(program: Program, size: int, effort: Effort) -> Measured:
    call, n = sized(program.operator, size)
    baseline = _alone(program.operator, program.is_backward, size, effort)
    devices = np.array(jax.local_devices()).reshape(program.axes)
    mesh = jax.sharding.Mesh(devices, ("a", "b")[: len(program.axes)], axis_types=(program.kind,) * len(program.axes))
    step, arrays = placed(program, call, n, mesh)
    with jax.set_mesh(mesh):
        return scaled(program.name, f"{program.operator}{GROUP}", Looped(step, None, arrays), baseline, effort)


def sized(operator: str, size: int) -> tuple[MeshCall, int]:
    """The call of about so many bytes, and its batch: a multiple of 8 and of the devices."""
    least = lcm(8, jax.local_device_count())
    fewer, more = (_bytes(mesh_calls(k * least)[operator], k * least) for k in (1, 2))
    n = least * max(1, round(1 + (size - fewer) / (more - fewer)))
    return mesh_calls(n)[operator], n


def placed(program: Program, call: MeshCall, n: int, mesh: Any) -> tuple[Callable[..., Any], Arrays]:
    """The step of a program, and its operands on the mesh."""
    given, specs = call.shapes(n), [program.spec(one.dims) for one in call.operands]
    shapes = jax.eval_shape(call.leaves, *given)
    outputs = [_fitting(program.spec(dims), one) for dims, one in zip(call.outputs, shapes, strict=True)]
    put = [NamedSharding(mesh, spec) for spec in specs]
    described = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s) for x, s in zip(given, put, strict=True)]
    # Where it does not follow from the operands, the caller says the sharding of the output.
    for asked in (*(() if call.is_made else (None,)), max(outputs, key=len), PartitionSpec()):
        function = partial(call.leaves, out_sharding=None if asked is None else NamedSharding(mesh, asked))
        with suppress(ConstraintError), jax.set_mesh(mesh):
            found = jax.eval_shape(function, *described)
            break
    else:
        raise AssertionError(program.name)
    if program.kind == AxisType.Explicit:
        outputs = [one.sharding.spec for one in found]
    shardings = [NamedSharding(mesh, spec) for spec in outputs]
    operands = [
        jax.device_put(hashed_data(one.shape(n), one.kind), s) for one, s in zip(call.operands, put, strict=True)
    ]
    if not program.is_backward:
        return lambda out, *arrays: function(*arrays), operands
    gradients = [
        jax.device_put(hashed_data(one.shape, ""), s)
        for one, s in zip(shapes, shardings, strict=True)
        if _is_float(one)
    ]
    return partial(_pulled_back, function, len(operands)), [*operands, *gradients]


def _pulled_back(function: Callable[..., Any], count: int, out: None, *arrays: jax.Array) -> list[jax.Array]:
    """The gradients of the floats among the operands, by those of the floats among the outputs."""
    operands, gradients = list(arrays[:count]), list(arrays[count:])
    floats = [k for k, one in enumerate(operands) if _is_float(one)]

    def of_floats(*given: jax.Array) -> list[jax.Array]:
        by_place = dict(zip(floats, given, strict=True))
        results = function(*(by_place.get(k, one) for k, one in enumerate(operands)))
        return [one for one in results if _is_float(one)]

    results, pull_back = jax.vjp(of_floats, *(operands[k] for k in floats))
    return list(pull_back([g.astype(one.dtype) for g, one in zip(gradients, results, strict=True)]))


@cache
def _alone(operator: str, is_backward: bool, size: int, effort: Effort) -> Alone:
    """Measures the operator on one device."""
    call, n = sized(operator, size)
    operands = [hashed_data(one.shape(n), one.kind) for one in call.operands]
    if not is_backward:
        return alone(Looped(lambda out, *arrays: call.leaves(*arrays), None, operands), effort)
    shapes = jax.eval_shape(call.leaves, *operands)
    gradients = [hashed_data(one.shape, "") for one in shapes if _is_float(one)]
    return alone(Looped(partial(_pulled_back, call.leaves, len(operands)), None, [*operands, *gradients]), effort)


@cache
def _is_differentiable(operator: str) -> bool:
    call = mesh_calls(8)[operator]
    given = call.shapes(8)
    return all(any(map(_is_float, some)) for some in (given, jax.eval_shape(call.leaves, *given)))


def _is_float(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jnp.floating)


def _fitting(spec: PartitionSpec, shape: jax.ShapeDtypeStruct) -> PartitionSpec:
    """Drops the mesh axes that do not divide their dimension."""
    count = jax.local_device_count()
    return PartitionSpec(*(axes if n % count == 0 else None for axes, n in zip(spec, shape.shape, strict=True)))


def _bytes(call: MeshCall, n: int) -> int:
    arrays = [*call.shapes(n), *jax.eval_shape(call.leaves, *call.shapes(n))]
    return sum(one.size * one.dtype.itemsize for one in arrays)


def table(title: str, rows: Sequence[Measured], *_: Any) -> Table:
    """A line for each operator."""
    return unframed(title, ["operator", *HEADINGS], lines(rows))


def lines(rows: Sequence[Measured]) -> Iterator[list[str]]:
    """The cells of each operator."""
    for operator in dict.fromkeys(row.operator for row in rows):
        own = [row for row in rows if row.operator == operator]
        parts = [row.of_copy for row in own]
        reasons = [row.why.partition(" of ")[0] or "unexplained" for row in own if row.of_copy < LINEAR]
        below = ", ".join(f"{reasons.count(reason)} {reason}" for reason in dict.fromkeys(reasons))
        names = dict.fromkeys(name for row in own for name in row.collectives or ())
        local, differ = sum(not row.collectives for row in own), sum(not row.same_bits for row in own)
        yield [
            operator.removesuffix(GROUP),
            f"{min(parts):.2f}",
            f"{geometric_mean(parts):.2f}",
            *map(str, (len(own), local, differ)),
            below or "-",
            ", ".join(names) or "-",
        ]
