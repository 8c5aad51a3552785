"""Whether a model fits the machine, before anything of it is made."""

import os
from collections.abc import Mapping
from math import prod

from ..errors import ConstraintError
from .buffers import Buffer
from .commands import Dispatchable

__all__ = ["check_memory"]


def check_memory(
    buffers: Mapping[str, Buffer | None], dispatchables: Mapping[str, Dispatchable | None], limit: int | None = None
) -> None:
    """Compares the buffers, and the largest operator's tensors, with the machine's memory.

    Args:
      buffers: by name; None for one that is at fault and not counted.
      dispatchables: by name; None for one that is at fault and not counted.
      limit: bytes; the machine's physical memory by default, and nothing is checked where it is unknown.

    Raises:
      ConstraintError: they need more.
    """
    limit = _physical() if limit is None else limit
    held = sum(buffer.size for buffer in buffers.values() if buffer)
    working = max((_tensors(d) for d in dispatchables.values() if d), default=0)
    if limit is not None and held + working > limit:
        needed, there = _gib(held + working), _gib(limit)
        raise ConstraintError(f"the model needs {needed} for its buffers and tensors, and the machine has {there}")


def _tensors(dispatchable: Dispatchable) -> int:
    desc = dispatchable.desc
    tensors = [getattr(desc, name) for name in desc.tensor_names()]
    return sum(prod(tensor.sizes) * tensor.data_type.itemsize for tensor in tensors)


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no POSIX
        return None


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
