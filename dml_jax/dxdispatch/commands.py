"""The dispatchables and commands of a model file, read and checked against its buffers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from ..core.json_fields import as_object, shown
from ..core.structs.computation import Computation
from ..core.tensors.data_type import DataType
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import ConstraintError, Faults
from .json_fields import binding_fields, get, integer, look_up, only
from .nchw_images import PICTURES, picture_shape
from .onnx_dispatches import OnnxDispatch, read_onnx_dispatch
from .onnx_models import OnnxModel
from .resources import Buffer


@dataclass(frozen=True)
class Range:
    """Bytes [offset, offset + size) of a buffer."""

    buffer: str
    offset: int
    size: int

    def overlaps(self, other: "Range") -> bool:
        """Whether two ranges have a byte in common."""
        apart = self.offset + self.size <= other.offset or other.offset + other.size <= self.offset
        return self.buffer == other.buffer and not apart


@dataclass(frozen=True)
class Dispatchable:
    """An operator or a graph.

    Args:
      desc: its computation.
      owned: the ranges of its inputs that are handed over when it is initialised.
      is_node: whether it is named by graphs and dispatched by no command: nothing of it is initialised.
      source: the file that it comes from.
      constants: the files of its inputs that are constants.
    """

    desc: Computation[Any]
    owned: Mapping[str, Range]
    is_node: bool = False
    source: Path | None = None
    constants: Mapping[str, Path] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """The files that it is read from."""
        return [*([self.source] if self.source else []), *self.constants.values()]


@dataclass(frozen=True)
class Dispatch:
    """Runs a dispatchable on the ranges bound to its tensors, by our field names."""

    dispatchable: str
    bindings: Mapping[str, Range]


@dataclass(frozen=True)
class Print:
    """Prints a buffer's initial range, in its initial type."""

    buffer: str
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """Writes a buffer to a file of the folder that output goes to."""

    buffer: str
    target: str
    dimensions: tuple[int, ...]


Command = Dispatch | OnnxDispatch | Print | WriteFile
# By name; None for one that is at fault.
Buffers = Mapping[str, Buffer | None]
Dispatchables = Mapping[str, Dispatchable | OnnxModel | None]


def read_bindings(desc: Computation[Any], json: Any, buffers: Buffers, owned: bool) -> dict[str, Range]:
    """Reads the ranges that are bound to OWNED_BY_DML tensors, if `owned`, or to all other tensors.

    To an array of tensors a list is bound, with null for a tensor that is bound elsewhere.

    Raises:
      SeveralErrors: all bindings that are unknown, missing, misplaced, too small or misaligned.
    """
    json = as_object("'bindings'", json)
    fields, tensors = desc.fields_bound(), desc.ports()
    faults, ranges = Faults(), {}
    with faults.at():
        only(json, fields)
    for name, ports in fields.items():
        for port, bound in _one_by_one(name, ports, json.get(name), faults).items():
            with faults.at(desc.shown(port)):
                if bool(tensors[port].flags) is owned:
                    ranges[port] = _read_range(bound, tensors[port], buffers)
                elif bound is not None:
                    raise ConstraintError(_MISPLACED[owned])
    faults.finish()
    return ranges


def _one_by_one(name: str, ports: str | tuple[str, ...], json: Any, faults: Faults) -> dict[str, Any]:
    """Returns the binding of each port of a field."""
    if isinstance(ports, str):
        return {ports: json}
    bindings = [None] * len(ports) if json is None else json if isinstance(json, list) else [json]
    if len(bindings) != len(ports):
        faults.add(ConstraintError(f"a list of {len(ports)} must be bound, but there are {len(bindings)}", (name,)))
        return {}
    return dict(zip(ports, bindings, strict=True))


_MISPLACED = {
    False: "it is OWNED_BY_DML, and bound in 'bindings' of its dispatchable, once",
    True: "it is not OWNED_BY_DML, and bound in the dispatch command",
}


def _read_range(json: Any, tensor: TensorDesc, buffers: Buffers) -> Range:
    if json is None:
        raise ConstraintError("it is not bound")
    json = binding_fields(json)
    only(json, ("name", "elementCount", "elementOffset", "elementSizeInBytes", *_OF_OTHERS))
    name = get(json, "name", str)
    buffer = look_up("resource", name, buffers)
    if buffer.is_deferred:
        raise ConstraintError(f"{name!r} is deferred: only an output of an ONNX model can be bound to it")
    bits = 8 * integer(json, "elementSizeInBytes", 0) or (buffer.data_type or DataType.UINT8).bits
    offset, rest = divmod(integer(json, "elementOffset", 0) * bits, 8)
    if rest:
        raise ConstraintError("'elementOffset' must be even, as a byte holds two elements of 4 bits")
    count = integer(json, "elementCount", 0)
    end = offset + -(-count * bits // 8) if count else buffer.size
    if offset >= buffer.size or end > buffer.size:
        raise ConstraintError(f"bytes [{offset}, {end}) lie outside {name!r}, which has {buffer.size}")
    needed = tensor.total_tensor_size_in_bytes
    # A count binds whole groups of 4 bytes, and a tensor that has more elements, as far as the buffer goes.
    bound = Range(name, offset, min(max(-(-end // 4) * 4, offset + needed), buffer.size) - offset)
    if bound.size < needed:
        raise ConstraintError(f"{tensor.describe()} needs {needed} bytes, but {bound.size} of {name!r} are bound")
    alignment = max(tensor.guaranteed_base_offset_alignment, tensor.data_type.itemsize)
    if offset % alignment:
        raise ConstraintError(f"the offset must be a multiple of {alignment} bytes, but it is {offset}")
    return bound


# Fields that DxDispatch reads for HLSL and ONNX, and not for operators.
_OF_OTHERS = ("format", "counter", "counterOffsetBytes", "elementStride", "shape")


def read_command(json: Any, buffers: Buffers, dispatchables: Dispatchables) -> Command:
    """Reads one entry of `commands`.

    Raises:
      ConstraintError: its first fault.
      SkippedError: it refers to a part of the model that is at fault.
    """
    json = as_object("a command", json)
    kind = get(json, "type", str)
    if kind.lower() not in _READERS:
        raise ConstraintError(f"'type' must be one of {', '.join(_NAMES)}, but it is {kind!r}")
    return _READERS[kind.lower()](json, buffers, dispatchables)


def _read_dispatch(json: Mapping[str, Any], buffers: Buffers, dispatchables: Dispatchables) -> Dispatch | OnnxDispatch:
    only(json, ("type", "dispatchable", "bindings", "threadGroupCount"))
    groups = json.get("threadGroupCount", [1, 1, 1])
    if not isinstance(groups, list) or len(groups) != 3 or not all(type(n) is int and n >= 1 for n in groups):
        raise ConstraintError(f"'threadGroupCount' must be three integers of at least 1, but it is {shown(groups)}")
    name = get(json, "dispatchable", str)
    dispatchable = look_up("dispatchable", name, dispatchables)
    if isinstance(dispatchable, OnnxModel):
        return _read_onnx(name, dispatchable, json, buffers)
    desc = dispatchable.desc
    faults, bindings = Faults(), {}
    with faults.at(f"dispatchable {name!r}"):
        bindings = read_bindings(desc, json.get("bindings", {}), buffers, owned=False)
        _refuse_overlaps(desc, bindings)
    faults.finish()
    return Dispatch(name, bindings)


def _read_onnx(name: str, model: OnnxModel, json: Mapping[str, Any], buffers: Buffers) -> OnnxDispatch:
    try:
        return read_onnx_dispatch(name, model, json.get("bindings", {}), buffers)
    except ConstraintError as error:
        raise error.at(f"dispatchable {name!r}") from None


def _refuse_overlaps(desc: Computation[Any], bindings: Mapping[str, Range]) -> None:
    for output in desc.output_ports():
        for port, bound in bindings.items():
            if port != output and bound.overlaps(bindings[output]):
                fact = f"{desc.shown(port)} and {desc.shown(output)} share bytes of {bound.buffer!r}"
                if not desc.in_place:
                    raise ConstraintError(f"{desc.operator_type} does not execute in place, but {fact}")
                if not desc.may_share(output, port) or bound != bindings[output]:
                    rule = "executes in place on one whole binding of tensors that are described alike"
                    raise ConstraintError(f"{desc.operator_type} {rule}, but {fact} otherwise")


def _read_print(json: Mapping[str, Any], buffers: Buffers, _: Any) -> Print:
    only(json, ("type", "resource", "verbose"))
    name = get(json, "resource", str)
    buffer = look_up("resource", name, buffers)
    if buffer.data_type is None and not buffer.is_deferred:
        raise ConstraintError(f"{name!r} holds values of different types and cannot be printed")
    return Print(name, get(json, "verbose", bool, False))


def _read_write(json: Mapping[str, Any], buffers: Buffers, _: Any) -> WriteFile:
    only(json, ("type", "resource", "targetPath", "dimensions"))
    name, target = get(json, "resource", str), get(json, "targetPath", str)
    buffer = look_up("resource", name, buffers)
    suffix = Path(target).suffix.lower()
    dimensions = get(json, "dimensions", list, [])
    if len(dimensions) > 8 or not all(type(n) is int and 1 <= n < 2**32 for n in dimensions):
        raise ConstraintError(f"'dimensions' must be at most 8 sizes of at least 1, but they are {shown(dimensions)}")
    if buffer.is_deferred:
        if dimensions:
            raise ConstraintError(f"'dimensions' must be left out: {name!r} is deferred, and has those of the output")
    elif suffix in PICTURES:
        channels, *_ = picture_shape(dimensions, buffer.data_type)
        if PICTURES[suffix] == "JPEG" and channels == 4:
            raise ConstraintError(f"a JPEG picture has no transparency: write {Path(target).stem}.png, or 3 channels")
    elif suffix == ".npy" and (buffer.data_type is None or buffer.data_type.bits < 8):
        what = "values of different types" if buffer.data_type is None else buffer.data_type.name
        raise ConstraintError(f"{name!r} holds {what} and can only be written as raw bytes")
    _fits(dimensions, buffer.data_type, buffer.size)
    return WriteFile(name, target, tuple(dimensions))


def _fits(dimensions: Sequence[int], data_type: DataType | None, size: int) -> None:
    needed = (data_type or DataType.UINT8).byte_count(prod(dimensions))
    if dimensions and needed > size:
        raise ConstraintError(f"'dimensions' {list(dimensions)} take {needed} bytes of {size}")


_NAMES = ("dispatch", "print", "writeFile")
_READERS = {"dispatch": _read_dispatch, "print": _read_print, "writefile": _read_write}
