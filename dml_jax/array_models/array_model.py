"""`ArrayModel`: an ONNX model or a serialized graph, as `dml-jax run` runs both on arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.tensors.tensor_spec import TensorSpec


@dataclass(frozen=True)
class Program:
    """A model that is ready to run on its inputs, which are on the device.

    Args:
      run: returns the outputs, in order; x64 must be on.
      not_compiled: why it runs node by node; empty if it is compiled.
    """

    run: Callable[[], tuple[Any, ...]]
    not_compiled: str = ""


@dataclass(frozen=True)
class ArrayModel:
    """A model that is read, and not yet compiled.

    Args:
      path: the file that it comes from.
      inputs: what it takes, in order.
      outputs: names of what it gives, in order.
      files: all files that it is read from.
      prepare: compiles it for arrays, one per input; raises ConstraintError where they do not fit. x64 must be on.
      is_random: whether it draws random numbers.
    """

    path: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    files: tuple[Path, ...]
    prepare: Callable[[Sequence[Any]], Program]
    is_random: bool = False
