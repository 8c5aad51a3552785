"""The devices that the command can run on: all of them, or the first whose name has a part in it."""

import os
import sys
from contextlib import suppress
from typing import Any

import click

__all__ = ["choose", "devices", "label"]


def devices() -> list[Any]:
    """The default backend's devices, then the CPU's; without any the command ends and says why."""
    import jax

    try:
        found = jax.devices()
    except (AssertionError, RuntimeError) as error:  # JAX asserts where JAX_PLATFORMS names a platform that is not here
        asked = os.environ.get("JAX_PLATFORMS")
        sys.exit(
            f"error: JAX finds no device{f' of JAX_PLATFORMS={asked}' if asked else ''}: {str(error) or 'none is here'}"
        )
    if found[0].platform != "cpu":
        with suppress(RuntimeError):  # JAX_PLATFORMS leaves it out
            found = [*found, *jax.devices("cpu")]
    return found


def label(device: Any) -> str:
    """A device as it is listed, and as `choose` reads it."""
    return f"{device.device_kind} ({device.platform}:{device.id})"


def choose(part: str) -> Any:
    """The first device whose label has the part in it, whatever its case.

    Raises:
      UsageError: there is none.
    """
    found = devices()
    for device in found:
        if part.casefold() in label(device).casefold():
            return device
    raise click.UsageError(f"no device matches {part!r}; there are {', '.join(map(label, found))}")
