"""Lists and chooses the devices that the command runs on, and divides a CPU into several."""

import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

CPU_DEVICES = click.IntRange(1, 4096)  # as many as any host has cores


def arrange_cpu_devices(count: int | None) -> None:
    """Divides the CPU into `count` devices of JAX; None means one per core, unless the environment sets a number.

    XLA gives an operator the square root of the cores as threads on each device, or one: several use all cores.

    Raises:
      UsageError: this process uses another number already.
    """
    import jax

    said: Any = jax.config  # whose types do not name its settings
    is_forced = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if count is None and (is_forced or said.jax_num_cpu_devices > 0):
        return
    try:
        jax.config.update("jax_num_cpu_devices", count or cores())
    except RuntimeError:  # as JAX runs already, where Python calls the command
        used = len(jax.devices("cpu"))
        if count not in (None, used):
            have = f"this process uses {used} already"
            raise click.UsageError(f"--cpu-devices {count}: {have}; start another one") from None


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measured_kind() -> str:
    """Returns the kind of the measured device. JAX calls every CPU `cpu`, so a CPU has the model name of Linux."""
    import jax

    return cpu_model() if jax.default_backend() == "cpu" else jax.devices()[0].device_kind


def cpu_model() -> str:
    """Returns the model name of Linux, or what there is instead."""
    named = re.search(r"^model name\s*: (.+)", _CPUINFO.read_text() if _CPUINFO.exists() else "", re.MULTILINE)
    return named[1] if named else f"{platform.machine()} CPU"


_CPUINFO = Path("/proc/cpuinfo")


def devices() -> list[Any]:
    """Returns the devices of the default backend, then the CPU's; without any the command ends and says why."""
    import jax

    try:
        available = jax.devices()
    except (AssertionError, RuntimeError) as error:  # JAX asserts where JAX_PLATFORMS names a platform that is not here
        asked = os.environ.get("JAX_PLATFORMS")
        sys.exit(
            f"error: JAX finds no device{f' of JAX_PLATFORMS={asked}' if asked else ''}: {str(error) or 'none is here'}"
        )
    if available[0].platform != "cpu":
        with suppress(RuntimeError):  # JAX_PLATFORMS leaves it out
            available = [*available, *jax.devices("cpu")]
    return available


def local_devices() -> int:
    """Returns how many devices of the default backend this process has."""
    import jax

    return jax.local_device_count()


def label(device: Any) -> str:
    """Returns the name of a device, as it is listed and as `choose` searches it."""
    return f"{device.device_kind} ({device.platform}:{device.id})"


def choose(part: str) -> Any:
    """Returns the first device whose label contains `part`, in upper or lower case.

    Raises:
      UsageError: there is none.
    """
    candidates = devices()
    for device in candidates:
        if part.casefold() in label(device).casefold():
            return device
    raise click.UsageError(f"no device matches {part!r}; there are {', '.join(map(label, candidates))}")
