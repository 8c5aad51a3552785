"""Ports: single arrays and tensors by name. A sequence of them, `inputs`, has the ports `inputs[0]`, `inputs[1]`, …

It has a file of its own because `dml-jax batch` reads it before it imports JAX.
"""

from collections.abc import Mapping
from typing import Any


def ports_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the value of each port; a tuple is a sequence, and anything else has one port."""
    ports: dict[str, Any] = {}
    for name, value in arguments.items():
        ports |= (
            {f"{name}[{i}]": element for i, element in enumerate(value)} if isinstance(value, tuple) else {name: value}
        )
    return ports


def by_argument(ports: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of ports as `ports_of` takes them.

    Args:
      ports: a value per port.
      like: says which arguments there are, and which of them are tuples, and how long.

    Returns:
      A value, or a tuple of them, per argument of `like`; None for an argument without a port.
    """
    return {
        name: tuple(ports[f"{name}[{i}]"] for i in range(len(value))) if isinstance(value, tuple) else ports.get(name)
        for name, value in like.items()
    }


def argument_of(port: str) -> str:
    """Returns the argument that a port belongs to: `inputs` of `inputs[0]`."""
    return port.partition("[")[0]
