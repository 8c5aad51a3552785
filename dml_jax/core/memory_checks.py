"""Memory checks: compares the bytes that a program needs with the memory of the machine, container or device."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from ..errors import ConstraintError

# Where Linux shows the control groups, which limit containers; and those that this process is in.
CONTROL_GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def check_bytes(needed: Mapping[str, int], what: str, limit: int | None = None, where: str = "the machine") -> None:
    """Compares the bytes that a model needs with the memory of `where`.

    Args:
      needed: bytes, by the name of the part that takes them.
      what: the name of the whole, for the message.
      limit: bytes; by default the memory of the machine or container. Nothing is checked where that is unknown.
      where: they are.

    Raises:
      ConstraintError: it needs more; it says which of `needed` takes the most.
    """
    limit, total = _available() if limit is None else limit, sum(needed.values())
    if limit is not None and total > limit:
        most = max(needed, key=lambda name: needed[name])
        fact = f"the model needs {gib(total)} for {what}, and {where} has {gib(limit)}"
        raise ConstraintError(f"{fact}: {gib(needed[most])} are for {most:.100}")


def check_program(program: Any) -> None:
    """Compares the bytes of a compiled program while it runs with the memory of its device, or of the machine.

    Args:
      program: compiled by jax.jit for one device.

    Raises:
      ConstraintError: it holds more.
    """
    (device,) = jax.tree.leaves(program.output_shardings)[0].device_set
    limit = device_limit(device)
    check_bytes(program_bytes(program), "its tensors", limit, "the machine" if limit is None else "the device")


def program_bytes(program: Any) -> dict[str, int]:
    """Returns the bytes of a compiled program by purpose; none where the platform does not tell."""
    parts = program.memory_analysis()
    if parts is None:
        return {}
    return {
        "inputs": parts.argument_size_in_bytes,
        "outputs": parts.output_size_in_bytes - parts.alias_size_in_bytes,
        "temporary arrays": parts.temp_size_in_bytes,
    }


def device_limit(device: Any) -> int | None:
    """Bytes of memory that a device of JAX has; None where it does not say."""
    return (device.memory_stats() or {}).get("bytes_limit")


def array_limit(needed: int) -> tuple[int | None, str]:
    """Bytes that arrays may take, None where that is unknown, and the name of the place that has them.

    The place is the machine or container; if they do not fit there, all devices together, if these have more.
    """
    limit = _available()
    if limit is None or needed <= limit:
        return limit, "the machine"
    here = sum(device_limit(device) or 0 for device in jax.local_devices())
    return max((limit, "the machine"), (here * jax.process_count(), "the memory of all devices together"))


def gib(count: int) -> str:
    """Bytes in words."""
    return f"{count / 2**30:.1f} GiB"


def _available() -> int | None:
    """The machine's memory, or the limit of a container or of this process (`ulimit -v`)."""
    limits = []
    with suppress(ImportError, ValueError, OSError):  # no POSIX
        import resource

        limits += [limit for limit in resource.getrlimit(resource.RLIMIT_AS)[:1] if limit != resource.RLIM_INFINITY]
    with suppress(AttributeError, ValueError, OSError):  # no POSIX
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _limit_files():
        with suppress(ValueError, OSError):  # no container, or one without a limit
            limits.append(int(file.read_text()))
    return min(limits, default=None)


def _limit_files() -> Iterator[Path]:
    """Yields the files with the limits of this process's control groups and of those around them, in both versions."""
    groups = [("memory", "/")]
    with suppress(OSError):
        # "5:cpu,memory:/a/b" of version 1, "0::/a/b" of version 2; in a container often the path outside of it.
        lines = (line.split(":", 2) for line in OWN_GROUPS.read_text().splitlines())
        groups += [(controllers, path) for _, controllers, path in lines]
    for controllers, path in groups:
        for group in [Path(path), *Path(path).parents]:
            below = str(group).lstrip("/")
            yield CONTROL_GROUPS / below / "memory.max"
            if "memory" in controllers.split(","):
                yield CONTROL_GROUPS / "memory" / below / "memory.limit_in_bytes"
