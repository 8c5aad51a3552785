"""Paths as inputs: which library opens which, and the files of a folder or a pattern."""

import glob
import os
import re
from collections.abc import Callable

from .errors import BatchError
from .hdf5_array import Hdf5Array
from .npy_array import NpyArray
from .npy_file import NpyFile
from .picture import Picture
from .stored_array import StoredArray, told
from .zarr_array import ZarrArray, is_zarr

# The arrays by their paths; groups are their arguments. Any other path is one of a .npy file.
FORMATS: dict[str, Callable[..., StoredArray]] = {
    r"(\w+://.+|.+\.zarr/?|.+\.zarr/.+)": ZarrArray,
    r"(.+\.(?:h5|hdf5|hdf|he5|nc))(?::(.+))?": Hdf5Array,
    r"(.+\.(?:png|jpg|jpeg|webp|bmp|tif|tiff))": Picture,
}


def opened(given: str | os.PathLike[str] | NpyFile) -> StoredArray:
    """Opens the array of a path.

    Raises:
      BatchError: it cannot be opened, or its library is missing.
    """
    if isinstance(given, NpyFile):
        return NpyArray(given)
    path = os.fspath(given)
    if is_zarr(path):
        return ZarrArray(path)
    for pattern, open_array in FORMATS.items():
        if match := re.fullmatch(pattern, path, re.DOTALL | re.IGNORECASE):
            return open_array(*match.groups())
    return NpyArray(NpyFile(path))


def is_named_otherwise(path: str) -> bool:
    """Whether a path is by its name one of another format than .npy."""
    return any(re.fullmatch(pattern, path, re.DOTALL | re.IGNORECASE) for pattern in FORMATS)


def is_npy(path: str) -> bool:
    """Whether a path names a .npy file, as every path does that names no other format."""
    return not (is_named_otherwise(path) or is_zarr(path) or _is_folder(path) or _is_pattern(path))


def parts_of(path: str) -> list[str] | None:
    """Returns the files of a folder, or those that a pattern such as pictures/*.png matches; None for other paths.

    Raises:
      BatchError: there are none.
    """
    if _is_folder(path):
        with told(path):
            found = [os.path.join(path, name) for name in os.listdir(path) if name[0] != "."]
    elif _is_pattern(path):
        found = glob.glob(path)
    else:
        return None
    if not found:
        raise BatchError(f"{path}: an input cannot be read: there is no file")
    return sorted(found)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not path.rstrip("/").lower().endswith(".zarr") and not is_zarr(path)


def _is_pattern(path: str) -> bool:
    return "://" not in path and glob.has_magic(path) and not os.path.lexists(path)
