"""Checks, before memory is taken, that there is as much of it: in the machine, a container, or the device."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from ..errors import ConstraintError

__all__ = ["check_bytes", "check_program", "device_limit", "gib"]

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def check_bytes(needed: int, what: str, limit: int | None = None, where: str = "the machine") -> None:
    """Compares what a model needs for something with the memory of `where`.

    Args:
      needed: bytes.
      what: needs them.
      limit: bytes; what the machine or container has by default, and nothing is checked where that is unknown.
      where: they are.

    Raises:
      ConstraintError: it needs more.
    """
    limit = _available() if limit is None else limit
    if limit is not None and needed > limit:
        raise ConstraintError(f"the model needs {gib(needed)} for {what}, and {where} has {gib(limit)}")


def check_program(program: Any) -> None:
    """Compares what a compiled program holds while it runs with the memory of its device, or of the machine.

    Args:
      program: what jax.jit compiled, for one device.

    Raises:
      ConstraintError: it holds more.
    """
    parts = program.memory_analysis()
    if parts is None:  # not every platform tells
        return
    needed = parts.argument_size_in_bytes + parts.output_size_in_bytes + parts.temp_size_in_bytes
    (device,) = jax.tree.leaves(program.output_shardings)[0].device_set
    limit = device_limit(device)
    check_bytes(needed, "its tensors", limit, "the machine" if limit is None else "the device")


def device_limit(device: Any) -> int | None:
    """Bytes of memory that a device of JAX has; None where it does not say."""
    return (device.memory_stats() or {}).get("bytes_limit")


def gib(count: int) -> str:
    """Bytes in words."""
    return f"{count / 2**30:.1f} GiB"


def _available() -> int | None:
    """The machine's memory, or what a container may use of it."""
    limits = []
    with suppress(AttributeError, ValueError, OSError):  # no POSIX
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(ValueError, OSError):  # no container, or one without a limit
        limits.append(int(CONTAINER_LIMIT.read_text()))
    return min(limits, default=None)
