"""Checks of the name of an output, before any work."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .array_files import files_of
from .errors import BatchError
from .jobs import Share, refuse_existing
from .npy_file import NpyFile


def check_output(output: Path, operands: Iterable[Any], share: Share, overwrite: bool) -> None:
    """Refuses an output that is an operand, which `overwrite` would lose, or that cannot be written.

    Raises:
      BatchError: it is the file of an operand, a folder, in no folder, or exists.
    """
    for path in _files(operands):
        if _same(path, output):
            raise BatchError(f"{output}: the output must not be an input; choose another name")
        if os.path.isdir(path) and Path(path).resolve() in output.resolve().parents:
            raise BatchError(f"{output}: the output must not be in an input; choose another folder")
    if not os.path.isdir(output.parent):
        raise BatchError(f"{output.parent}: the folder of the output must exist; make it first")
    if os.path.isdir(output):
        raise BatchError(f"{output}: the output must be a file, but it is a folder")
    refuse_existing(output, share, overwrite)


def _files(operands: Iterable[Any]) -> Iterator[str]:
    """Yields the files and folders among operands, in lists too."""
    for operand in operands:
        path = operand.path if isinstance(operand, NpyFile) else operand
        if isinstance(path, list | tuple):
            yield from _files(path)
        elif isinstance(path, str | os.PathLike):
            yield from (os.fspath(path), *files_of(os.fspath(path)))


def _same(a: str | os.PathLike[str], b: Path) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)
