"""Checks, before any buffer is made, that a model fits into the memory of the machine and of the device."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from ..errors import ConstraintError
from .commands import Dispatchable
from .onnx_models import OnnxModel
from .resources import Buffer

__all__ = ["check_bytes", "check_device", "check_memory", "check_program"]


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


def check_bytes(needed: int, what: str, limit: int | None = None, where: str = "the machine") -> None:
    """Compares what a model needs for something with the memory of `where`; `limit` is as above.

    Raises:
      ConstraintError: it needs more.
    """
    limit = _available() if limit is None else limit
    if limit is not None and needed > limit:
        raise ConstraintError(f"the model needs {_gib(needed)} for {what}, and {where} has {_gib(limit)}")


def check_device(dispatchables: Mapping[str, Dispatchable | OnnxModel], device: Any) -> None:
    """Compares the tensors of the largest operator with the memory of the device, where it says how much it has.

    Raises:
      ConstraintError: they need more.
    """
    limit = (device.memory_stats() or {}).get("bytes_limit")
    for name, dispatchable in dispatchables.items():
        if limit is not None and _tensors(dispatchable) > limit:
            needed, there = _gib(_tensors(dispatchable)), _gib(limit)
            raise ConstraintError(f"dispatchable {name!r} needs {needed} for its tensors, and the device has {there}")


def check_program(program: Any) -> None:
    """Compares what a compiled program holds while it runs with the memory of its device, or of the machine.

    Args:
      program: what jax.jit compiled, for one device.

    Raises:
      ConstraintError: it holds more.
    """
    parts = program.memory_analysis()
    needed = parts.argument_size_in_bytes + parts.output_size_in_bytes + parts.temp_size_in_bytes
    (device,) = jax.tree.leaves(program.output_shardings)[0].device_set
    limit = (device.memory_stats() or {}).get("bytes_limit")
    check_bytes(needed, "its tensors", limit, "the machine" if limit is None else "the device")


def _tensors(dispatchable: Dispatchable | OnnxModel) -> int:
    if isinstance(dispatchable, OnnxModel):  # its inputs are as large as their buffers; the rest the run decides
        return 0
    ports = {} if dispatchable.is_node else dispatchable.desc.ports()
    return sum(tensor.element_span * tensor.data_type.itemsize for tensor in ports.values())


def _available() -> int | None:
    """The machine's memory, or what a container may use of it."""
    limits = []
    with suppress(AttributeError, ValueError, OSError):  # no POSIX
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(ValueError, OSError):  # no container, or one without a limit
        limits.append(int(CONTAINER_LIMIT.read_text()))
    return min(limits, default=None)


CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
