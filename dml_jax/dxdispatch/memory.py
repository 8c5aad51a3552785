"""Checks, before any buffer is made, that a model fits into the memory of the machine and of the device."""

from collections.abc import Mapping
from typing import Any

from ..core.memory import check_bytes, device_limit, gib
from ..errors import ConstraintError
from .commands import Dispatchable
from .onnx_models import OnnxModel
from .resources import Buffer

__all__ = ["check_device", "check_memory"]


def check_memory(
    buffers: Mapping[str, Buffer | None],
    dispatchables: Mapping[str, Dispatchable | OnnxModel | None],
    limit: int | None = None,
) -> None:
    """Compares the buffers, and the largest operator's tensors on their way in and out, with the machine's memory.

    Args:
      buffers: by name; None for one that is at fault and not counted.
      dispatchables: by name; None for one that is at fault and not counted.
      limit: bytes; what the machine or container has by default, and nothing is checked where that is unknown.

    Raises:
      ConstraintError: they need more.
    """
    held = sum(buffer.size for buffer in buffers.values() if buffer)
    # A tensor is copied out of its buffer and to the device, or back.
    working = max((2 * _tensors(d) for d in dispatchables.values() if d), default=0)
    check_bytes(held + working, "its buffers and tensors", limit)


def check_device(dispatchables: Mapping[str, Dispatchable | OnnxModel], device: Any) -> None:
    """Compares the tensors of the largest operator with the memory of the device, where it says how much it has.

    Raises:
      ConstraintError: they need more.
    """
    limit = device_limit(device)
    for name, dispatchable in dispatchables.items():
        if limit is not None and _tensors(dispatchable) > limit:
            needed, there = gib(_tensors(dispatchable)), gib(limit)
            raise ConstraintError(f"dispatchable {name!r} needs {needed} for its tensors, and the device has {there}")


def _tensors(dispatchable: Dispatchable | OnnxModel) -> int:
    if isinstance(dispatchable, OnnxModel):  # its inputs are as large as their buffers; the rest the run decides
        return 0
    ports = {} if dispatchable.is_node else dispatchable.desc.ports()
    return sum(tensor.element_span * tensor.data_type.itemsize for tensor in ports.values())
