"""How a run of `dml-jax bench` was measured, as its JSON keeps it."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

from .devices import cpu_model

GPUS = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem")  # of nvidia-smi
PACKAGE = Path(__file__).parent.parent


def setup(rounds: int, size: int | None) -> dict[str, Any]:
    """Returns the command, its effort, the system and the source; what is not known is left out.

    Args:
      rounds: samples of each implementation.
      size: MiB of data per case, if the command says it.
    """
    from ..bench.noise import told_by

    query = told_by("nvidia-smi", f"--query-gpu=name,{','.join(GPUS)}", "--format=csv,noheader")
    is_clone = (PACKAGE.parent / ".git").exists()  # else an installed package may lie in a clone of something else
    commit = is_clone and told_by(
        "git", "-C", str(PACKAGE), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"
    )
    found = {
        "command": shlex.join(["dml-jax", *sys.argv[1:]]),
        "rounds": rounds,
        "size": size,
        "python": platform.python_version(),
        "os": platform.platform(),
        "cpu": cpu_model(),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS"),
        "gpus": [dict(zip(("name", *GPUS), line.split(", "), strict=False)) for line in query.splitlines()],
        "commit": (commit or "").strip(),
    }
    return {name: value for name, value in found.items() if value}
