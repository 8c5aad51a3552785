"""Checks of the name of an output, before any work."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConstraintError
from .array_files import is_named_otherwise, parts_of
from .bucket_output import BucketOutput
from .errors import BatchError
from .jobs import EXISTS, Share
from .journal import progress_path
from .npy_file import NpyFile
from .npy_output import NpyOutput
from .partial_output import PartialOutput
from .zarr_array import is_zarr
from .zarr_output import ZarrOutput


def named(output: str | os.PathLike[str]) -> Path | str:
    """Returns the path of an output, or its URL if it is in a bucket."""
    return str(output).rstrip("/") if "://" in str(output) else Path(output)


def output_of(output: Path | str) -> type[PartialOutput]:
    """Returns the format of an output, by its name.

    Raises:
      BatchError: it is the name of a format that no output has.
    """
    if isinstance(output, str):
        if re.fullmatch(r"(s3|gs)://.+\.zarr", output):
            return BucketOutput
        raise BatchError(f"{output}: an output in a bucket must be an array of zarr, s3://…/x.zarr or gs://…/x.zarr")
    if output.suffix.lower() == ".zarr":
        return ZarrOutput
    if is_named_otherwise(str(output)):
        raise BatchError(f"{output}: an output must be a .npy file or an array of zarr, x.zarr")
    return NpyOutput


def check_outputs(outputs: Sequence[Path | str], operands: Iterable[Any], share: Share, overwrite: bool) -> None:
    """Refuses outputs that are operands, which `overwrite` would lose, or that cannot be written, before any work.

    One may exist if the progress file of the job is there: then it may have been interrupted when it was complete.

    Raises:
      BatchError: one is the file of an operand, a folder, in no folder, or exists.
      ConstraintError: several processes cannot share one, or two are the same.
    """
    if len({*outputs}) < len(outputs):
        raise ConstraintError(f"map_batches: output must be different paths, but it is {', '.join(map(str, outputs))}")
    paths = [*_files(operands)]
    for output in outputs:
        kind = output_of(output)
        if share.count > 1 and not kind.can_be_shared:
            rule = "map_batches: an output must be a .npy file if processes share it"
            raise ConstraintError(f"{rule}, but it is {output}; Ray writes chunks of zarr on several machines")
        for path in paths:
            if _same(path, output):
                raise BatchError(f"{output}: the output must not be an input; choose another name")
        if isinstance(output, str):
            continue
        for path in paths:
            if os.path.isdir(path) and Path(path).resolve() in output.resolve().parents:
                raise BatchError(f"{output}: the output must not be in an input; choose another folder")
        if not os.path.isdir(output.parent):
            raise BatchError(f"{output.parent}: the folder of the output must exist; make it first")
        if os.path.isdir(output) and not (kind is ZarrOutput and is_zarr(output)):
            raise BatchError(f"{output}: the output must be a file or an array of zarr, but it is a folder")
        has_begun = os.path.lexists(progress_path(outputs[0], share.index, share.count))
        if os.path.exists(output) and not (overwrite or has_begun):
            raise BatchError(f"{output}: {EXISTS}")


def _files(operands: Iterable[Any]) -> Iterator[str]:
    """Yields the files and folders among operands, in lists too."""
    for operand in operands:
        path = operand.path if isinstance(operand, NpyFile) else operand
        if isinstance(path, list | tuple):
            yield from _files(path)
        elif isinstance(path, str | os.PathLike):
            yield from (os.fspath(path), *(parts_of(os.fspath(path)) or ()))


def _same(a: str | os.PathLike[str], b: Path | str) -> bool:
    if isinstance(b, str):
        return os.fspath(a).rstrip("/") == b
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)
