"""What `dml-jax run` and `dml-jax check` do with a .onnx file: arrays from .npy files, arrays to .npy files."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..core.desc import OperatorDesc
from ..errors import ConstraintError, describe, suggestion
from ..files import write_whole
from .backend import compute
from .descs import described
from .errors import OnnxError
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
    files = _assigned(function.inputs, given)
    targets = _targets(function.output_names, folder, [path, *files.values()])
    inputs = [_load(spec, files[spec.name]) for spec in function.inputs]
    with jax.default_device(device):
        results = compute(function, inputs)
    _write_all({targets[name]: _encoded(y) for name, y in zip(function.output_names, results, strict=True)})
    for name, result in zip(function.output_names, results, strict=True):
        say(f"Output {name!r} {describe(result)} written to {str(targets[name])!r}")


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


def _assigned(specs: Sequence[TensorSpec], given: Sequence[str]) -> dict[str, Path]:
    """The file of each input: those with a name first, the others in order."""
    names = [spec.name for spec in specs]
    named: dict[str, Path] = {}
    unnamed = []
    for text in given:
        name = next((n for n in sorted(names, key=len, reverse=True) if text.startswith(f"{n}=")), None)
        if name in named:
            raise OnnxError(f"--input {text}: every input must be given once, but {name!r} is given twice")
        if name is None:
            _check_unnamed(text, names)
            unnamed.append(text)
        else:
            named[name] = Path(text[len(name) + 1 :])
    free = [name for name in names if name not in named]
    if len(unnamed) != len(free):
        wanted = ", ".join(names) or "none"
        short = len(unnamed) < len(free)
        fact = f"{free[len(unnamed)]!r} has none" if short else f"{unnamed[len(free)]} is left over"
        raise OnnxError(f"--input must give a file to each input of the model, {wanted}, but {fact}")
    return named | dict(zip(free, map(Path, unnamed), strict=True))


def _check_unnamed(text: str, names: Sequence[str]) -> None:
    """Whether it is a file, not NAME=FILE with a name that no input has."""
    name, equals, file = text.partition("=")
    if equals and not Path(text).exists() and Path(file).exists():
        raise OnnxError(f"--input {text}: no input is named {name!r}; {suggestion(name, names)}")


def _load(spec: TensorSpec, path: Path) -> np.ndarray:
    """An array of a .npy file; numpy.save keeps of types such as bfloat16 only their size."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise OnnxError(f"input {spec.name!r}: {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise OnnxError(f"input {spec.name!r}: {path} must be a .npy file of numbers, but {error}") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise OnnxError(f"input {spec.name!r}: {path} must be a .npy file, but it is an archive of several")
    nameless = array.dtype.kind == "V" and array.dtype.itemsize == spec.dtype.itemsize
    return array.view(spec.dtype) if nameless else array


def _targets(names: Sequence[str], folder: Path, read: Sequence[Path]) -> dict[str, Path]:
    """The file of each output, named as it, without what file names cannot have."""
    targets = {name: folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.npy" for name in names}
    owners: dict[str, str] = {}
    for name, path in targets.items():
        other = owners.setdefault(path.name.casefold(), name)
        if other != name:
            raise OnnxError(f"every output must have a file of its own, but {other!r} and {name!r} give {path.name!r}")
        if path.resolve() in {file.resolve() for file in read}:
            raise OnnxError(f"output {name!r} must not overwrite what is read, but {str(path)!r} is; use --output-dir")
    return targets


def _encoded(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _write_all(contents: dict[Path, bytes]) -> None:
    """Writes all files; after a failure none of them is there."""
    written: list[Path] = []
    for path, content in contents.items():
        try:
            write_whole(path, content)
            written.append(path)
        except OSError as error:
            for done in written:
                done.unlink()
            raise OnnxError(f"{path} cannot be written: {error.strerror or error}") from None
