"""Memory checks of a model before it runs: that it fits into the memory of the machine and of the device."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..compiled.compile import CompiledOperator
from ..core.memory_checks import check_bytes, device_limit, gib
from ..core.tensors.tensor_desc import span_bytes
from ..errors import ConstraintError
from ..graphs.working_set import working_set
from .commands import Buffers, Command, Dispatchable, Dispatchables, WriteFile
from .onnx_models import OnnxModel
from .output_files import encoding_bytes


def check_memory(
    buffers: Buffers, dispatchables: Dispatchables, commands: Sequence[Command] = (), limit: int | None = None
) -> None:
    """Compares the machine's memory with the bytes that a run holds throughout, plus the most of one dispatch.

    Args:
      buffers: by name; None for one that is at fault and not counted.
      dispatchables: by name; None for one that is at fault and not counted.
      commands: those that are not at fault.
      limit: bytes; by default the memory of the machine or container. Nothing is checked where that is unknown.

    Raises:
      ConstraintError: they need more.
    """
    taken = max(_meanwhile(buffers, dispatchables, commands), key=lambda parts: sum(parts.values()), default={})
    check_bytes({**_resource_sizes(buffers), **_owned_sizes(dispatchables), **taken}, "its buffers and tensors", limit)


def check_operator(
    name: str, operator: CompiledOperator, buffers: Buffers, dispatchables: Dispatchables, device: Any
) -> None:
    """Compares the bytes of a compiled operator, as XLA counts them, with the memory of the device or the machine.

    Args:
      name: of its dispatchable.
      operator: that is dispatched into bound outputs.
      buffers: all of the model, by name.
      dispatchables: all of the model, by name.
      device: of JAX, that it runs on.

    Raises:
      ConstraintError: it takes more than all the others leave.
    """
    needed, owned, limit = operator.memory(bound=True), _owned_sizes(dispatchables), device_limit(device)
    of, own = f"of dispatchable {name!r}", owned.get(_owner(name), 0)
    taken = {
        f"inputs {of}": needed.inputs - own,
        f"outputs {of}": needed.output,
        f"temporary arrays {of}": needed.allocated,
    }
    if limit is None:
        check_bytes({**_resource_sizes(buffers), **owned, **taken}, "its buffers and tensors")
    else:
        check_bytes({**owned, **taken}, "its tensors", limit, "the device")


def check_device(dispatchables: Mapping[str, Dispatchable | OnnxModel], device: Any) -> None:
    """Compares the tensors of the largest operator with the memory of the device, where it says how much it has.

    Raises:
      ConstraintError: they need more.
    """
    limit = device_limit(device)
    for name, dispatchable in dispatchables.items():
        if limit is not None and isinstance(dispatchable, Dispatchable) and not dispatchable.is_node:
            needed = sum(map(span_bytes, dispatchable.desc.ports().values()))
            if needed > limit:
                fact = f"needs {gib(needed)} for its tensors, and the device has {gib(limit)}"
                raise ConstraintError(f"dispatchable {name!r} {fact}")


def _resource_sizes(buffers: Buffers) -> dict[str, int]:
    return {f"resource {name!r}": buffer.size for name, buffer in buffers.items() if buffer}


def _owned_sizes(dispatchables: Dispatchables) -> dict[str, int]:
    """Each dispatchable has a copy of the inputs that it owns, even if several own the same buffer."""
    return {
        _owner(name): _copied_bytes(d, d.owned) + _copied_bytes(d, d.constants)
        for name, d in _dispatched_computations(dispatchables)
    }


def _owner(name: str) -> str:
    return f"inputs that dispatchable {name!r} owns"


def _copied_bytes(dispatchable: Dispatchable, ports: Mapping[str, Any]) -> int:
    tensors = dispatchable.desc.input_ports()
    return sum(span_bytes(tensors[port]) for port in ports)


def _dispatched_computations(dispatchables: Dispatchables) -> Iterator[tuple[str, Dispatchable]]:
    """Yields the dispatched computations. Inputs of an ONNX model have their buffers' sizes; the run decides others."""
    for name, dispatchable in dispatchables.items():
        if isinstance(dispatchable, Dispatchable) and not dispatchable.is_node:
            yield name, dispatchable


def _meanwhile(buffers: Buffers, dispatchables: Dispatchables, commands: Sequence[Command]) -> Iterator[dict[str, int]]:
    """Yields the bytes that are taken for a while and given back, by purpose."""
    for name, buffer in buffers.items():
        if buffer:
            yield {f"reading resource {name!r}": buffer.initial.temporary}
    for name, dispatchable in _dispatched_computations(dispatchables):
        yield {f"reading the constants of dispatchable {name!r}": _copied_bytes(dispatchable, dispatchable.constants)}
        taken = working_set(dispatchable.desc, {*dispatchable.owned, *dispatchable.constants})
        yield {f"{part} of dispatchable {name!r}": size for part, size in taken.items()}
    for command in commands:
        if isinstance(command, WriteFile):
            yield {f"writing {command.target!r}": encoding_bytes(command.target, command.dimensions)}
