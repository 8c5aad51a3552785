"""What `dml-jax run` and `dml-jax check` do with a .onnx file: arrays from .npy files, arrays to .npy files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..array_files import assigned, read_array, targets, write_arrays
from ..core.desc import OperatorDesc
from ..errors import ConstraintError, describe
from .backend import compute
from .descs import described
from .function import to_jax
from .graph import TensorSpec

__all__ = ["check_nodes", "run_file"]


def run_file(path: Path, given: Sequence[str], device: Any, folder: Path, say: Callable[[str], None]) -> None:
    """Runs a model once and writes every output, or nothing.

    Args:
      path: the model.
      given: .npy files, each "FILE", in order, or "NAME=FILE".
      device: of JAX.
      folder: where the outputs go.
      say: takes a line per file that was written.

    Raises:
      ConstraintError: the model, an input, or a file that cannot be written.
    """
    function = to_jax(path)
    files = assigned([spec.name for spec in function.inputs], given)
    written = targets(function.output_names, folder, [path, *files.values()])
    inputs = [_load(spec, files[spec.name]) for spec in function.inputs]
    with jax.default_device(device):
        results = compute(function, inputs)
    write_arrays({written[name]: y for name, y in zip(function.output_names, results, strict=True)})
    for name, result in zip(function.output_names, results, strict=True):
        say(f"Output {name!r} {describe(result)} written to {str(written[name])!r}")


def check_nodes(path: Path, level: Any) -> Iterator[tuple[str, str | ConstraintError]]:
    """The label of each node that DirectML has an operator for, and that operator, or why a feature level refuses it.

    Raises:
      ConstraintError: the model cannot be read.
    """
    for node in described(path):
        if not isinstance(node.desc, OperatorDesc):
            yield node.label, node.desc
            continue
        try:
            node.desc.validate(level)
            yield node.label, node.desc.operator_type
        except ConstraintError as error:
            yield node.label, error


def _load(spec: TensorSpec, path: Path) -> np.ndarray:
    """An array of a .npy file; numpy.save keeps of types such as bfloat16 only their size."""
    array = read_array(spec.name, path)
    nameless = array.dtype.kind == "V" and array.dtype.itemsize == spec.dtype.itemsize
    return array.view(spec.dtype) if nameless else array
