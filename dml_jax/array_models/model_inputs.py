"""The arrays that a model runs on: read from files, or made where there is none, as a benchmark needs no data."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.memory_checks import check_bytes
from ..core.tensors.tensor_spec import TensorSpec
from ..errors import ConstraintError, DataTypeError
from .npy_inputs_and_outputs import read_array

Shape = tuple[int, ...]


def make_inputs(
    inputs: Sequence[TensorSpec],
    files: Mapping[str, Path],
    shapes: Mapping[str, Shape],
    make: Callable[[TensorSpec, Shape], Any] = lambda spec, shape: jnp.zeros(shape, spec.dtype),
) -> dict[str, jax.Array]:
    """The array of each input, on JAX's default device; x64 must be on.

    Args:
      inputs: of a model.
      files: .npy files by input.
      shapes: of those others. A size that neither these nor the model say is that of an input with a file, where the
        model has one name for both, or 1.
      make: makes those others; by default zeros, what D3D12 gives DxDispatch unless memory is reused.

    Raises:
      ConstraintError: a file cannot be read, a rank is not known, or there is too little memory.
      DataTypeError: a file has another type.
    """
    read = {spec.name: _read(spec, files[spec.name]) for spec in inputs if spec.name in files}
    sizes = _named_sizes(inputs, read)
    generated = {spec.name: shapes.get(spec.name) or _shape(spec, sizes) for spec in inputs if spec.name not in read}
    types = {spec.name: spec.dtype for spec in inputs}
    needed = {f"input {name!r}": prod(shape) * types[name].itemsize for name, shape in generated.items()}
    check_bytes(needed, "its generated inputs")
    arrays = {name: jnp.asarray(array) for name, array in read.items()}
    arrays |= {spec.name: jnp.asarray(make(spec, generated[spec.name])) for spec in inputs if spec.name in generated}
    return {spec.name: arrays[spec.name] for spec in inputs}


def _read(spec: TensorSpec, path: Path) -> np.ndarray:
    """Reads a .npy file; it names a type such as bfloat16 only by its size."""
    array = read_array(spec.name, path)
    if array.dtype.kind == "V" and array.dtype.itemsize == spec.dtype.itemsize:
        array = array.view(spec.dtype)
    if array.dtype != spec.dtype:
        raise DataTypeError(f"input {spec.name!r}: its type must be {spec.dtype}, but it is {array.dtype}")
    return array


def _named_sizes(inputs: Sequence[TensorSpec], arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Returns the sizes that have names, as far as arrays fix them."""
    specs = [spec for spec in inputs if spec.name in arrays]
    pairs = (pair for spec in specs for pair in zip(spec.sizes or (), arrays[spec.name].shape, strict=False))
    return {size: n for size, n in pairs if isinstance(size, str)}


def _shape(spec: TensorSpec, sizes: Mapping[Any, int]) -> Shape:
    """Returns the shape of an input without a file."""
    if spec.sizes is None:
        rule = f"input {spec.name!r}: the model must say how many dimensions it has"
        raise ConstraintError(f"{rule}, but does not: give a file, or its sizes as --binding-shape {spec.name}=1x3x8")
    return tuple(n if isinstance(n, int) and n >= 0 else sizes.get(n, 1) for n in spec.sizes)
