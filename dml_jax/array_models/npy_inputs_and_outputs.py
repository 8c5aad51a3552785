"""The .npy files that `dml-jax run` takes for the inputs of a model, and those that it writes for its outputs."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..atomic_write import write_whole
from ..errors import ConstraintError, suggestion
from ..npy_format import load_npy, npy_pieces


def assign_files(names: Sequence[str], given: Sequence[str], folder: Path) -> dict[str, Path]:
    """Returns the file of each input that has one.

    Args:
      names: the inputs.
      given: files, each "FILE", in the order of the inputs that have none by name, or "NAME=FILE".
      folder: that the names of files are relative to.

    Raises:
      ConstraintError: an input has two files, or a file has no input.
    """
    named: dict[str, Path] = {}
    unnamed = []
    for text in given:
        name = next((n for n in sorted(names, key=len, reverse=True) if text.startswith(f"{n}=")), None)
        if name in named:
            raise ConstraintError(f"--input {text}: every input must be given once, but {name!r} is given twice")
        if name is None:
            _check_unnamed(text, names, folder)
            unnamed.append(text)
        else:
            named[name] = Path(text[len(name) + 1 :])
    free = [name for name in names if name not in named]
    if len(unnamed) > len(free):
        inputs = f"the model's inputs are {', '.join(names)}" if names else "the model has no inputs"
        raise ConstraintError(f"too many --input: {inputs}, and nothing is left for {unnamed[len(free)]}")
    files = named | dict(zip(free, map(Path, unnamed), strict=False))
    return {name: folder / file for name, file in files.items()}


def _check_unnamed(text: str, names: Sequence[str], folder: Path) -> None:
    """Refuses NAME=FILE with a name that no input has; a file may have an = in its own name."""
    name, equals, file = text.partition("=")
    if equals and not (folder / text).exists() and (folder / file).exists():
        raise ConstraintError(f"--input {text}: no input is named {name!r}; {suggestion(name, names)}")


def read_array(name: str, path: Path) -> np.ndarray:
    """Reads the .npy file of an input.

    Raises:
      ConstraintError: it cannot be read, or is no .npy file.
      DataTypeError: it holds something else than numbers.
    """
    try:
        return load_npy(path)
    except ConstraintError as error:
        raise type(error)(f"input {name!r}: {path} {error}") from None


def output_paths(names: Sequence[str], folder: Path, read: Sequence[Path]) -> dict[str, Path]:
    """Returns the file of each output, named after it; other characters than letters, digits, ".", "_", "-" become "_".

    Args:
      names: the outputs.
      folder: where the files go.
      read: files that must not be overwritten.

    Raises:
      ConstraintError: two outputs map to the same file, or an output would overwrite an input file.
    """
    paths = {name: folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.npy" for name in names}
    owners: dict[str, str] = {}
    read_files = {file.resolve() for file in read}
    for name, path in paths.items():
        other = owners.setdefault(path.name.casefold(), name)
        if other != name:
            fact = f"{other!r} and {name!r} give {path.name!r}"
            raise ConstraintError(f"every output must have a file of its own, but {fact}")
        if path.resolve() in read_files:
            rule = f"output {name!r} must not overwrite what is read"
            raise ConstraintError(f"{rule}, but {str(path)!r} is; use --output-dir")
    return paths


def write_arrays(arrays: Mapping[Path, np.ndarray]) -> None:
    """Writes arrays to .npy files, all or nothing: on failure files already written are deleted.

    Raises:
      ConstraintError: one cannot be written.
    """
    written: list[Path] = []
    try:
        for path, array in arrays.items():
            _write(path, array)
            written.append(path)
    except BaseException:
        for done in written:
            done.unlink()
        raise


def _write(path: Path, array: np.ndarray) -> None:
    try:
        write_whole(path, *npy_pieces(array))
    except OSError as error:
        fact = f"{path} cannot be written" if path.parent.is_dir() else f"the folder {path.parent} cannot be made"
        raise ConstraintError(f"{fact}: {error.strerror or error}; --output-dir chooses another folder") from None
