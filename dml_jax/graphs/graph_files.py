"""Reads serialized graphs from files, and their constants from the files NAME.bin beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..core.tensors.int4_packing import as_elements
from ..core.tensors.tensor_desc import TensorDesc, span_bytes
from ..errors import ConstraintError, Faults
from .graph_desc import GraphDesc

# The largest file that flatbuffers' offsets can address.
SIZE_LIMIT = 2**31


def read_graph_file(path: Path) -> GraphDesc:
    """Reads a serialized graph.

    Raises:
      ConstraintError: the file cannot be read, or is no such graph, or one of other operators.
    """
    try:
        if path.stat().st_size >= SIZE_LIMIT:
            raise ConstraintError("a serialized graph must have less than 2 GiB")
        return GraphDesc.from_bytes(path.read_bytes())
    except OSError as error:
        raise ConstraintError(f"it cannot be read: {error.strerror or error}") from None


def constant_files(graph: GraphDesc, folder: Path) -> dict[str, Path]:
    """Returns the file NAME.bin of each constant; the sizes of all files are checked, and nothing is read.

    Args:
      graph: its inputs that are OWNED_BY_DML are the constants.
      folder: where the file of the graph lies.

    Raises:
      ConstraintError: every one that does not exist, lies elsewhere, or is too short or too long for its tensor.
    """
    faults = Faults()
    paths: dict[str, Path] = {}
    for name, tensor in owned_inputs(graph).items():
        with faults.at(f"constant {name!r:.60}"):
            paths[name] = _constant_file(name, tensor, folder)
    faults.finish()
    return paths


def owned_inputs(graph: GraphDesc) -> dict[str, TensorDesc]:
    """Returns the inputs that are OWNED_BY_DML, which are the constants."""
    return {name: tensor for name, tensor in graph.inputs.items() if tensor.flags}


def _constant_file(name: str, tensor: TensorDesc, folder: Path) -> Path:
    # Backslashes and colons name other folders on Windows, where such files come from.
    if any(character in name for character in "/\\:\0"):
        raise ConstraintError("it must be named as a file beside that of the graph")
    path = folder / f"{name}.bin"
    try:
        size, is_file = path.stat().st_size, path.is_file()
    except (OSError, ValueError) as error:  # ValueError: no file can have the name
        raise ConstraintError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    least, most = span_bytes(tensor), tensor.total_tensor_size_in_bytes
    if not is_file or not least <= size <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        fact = f"it has {size}" if is_file else "it is not a file"
        raise ConstraintError(f"{path} must have the {wanted} bytes of {tensor.describe()}, but {fact}")
    return path


def read_constants(files: Mapping[str, Path], tensors: Mapping[str, TensorDesc]) -> dict[str, np.ndarray]:
    """Reads the constants as flat buffers, which hold the elements of their tensors and nothing behind them.

    Args:
      files: as `constant_files` finds them.
      tensors: of the constants, among others.

    Raises:
      ConstraintError: one cannot be read, or changed since its size was checked.
    """
    return {name: _elements(name, tensors[name], path) for name, path in files.items()}


def _elements(name: str, tensor: TensorDesc, path: Path) -> np.ndarray:
    try:
        data = np.fromfile(path, np.uint8, span_bytes(tensor))
    except OSError as error:
        raise ConstraintError(f"{path} cannot be read: {error.strerror or error}", (f"constant {name!r}",)) from None
    if data.size < span_bytes(tensor):
        raise ConstraintError(f"{path} became shorter since it was checked", (f"constant {name!r}",))
    return as_elements(data, tensor.data_type, tensor.element_span)
