"""Writes files so that they are complete, or not there at all."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, *pieces: bytes | memoryview) -> None:
    """Writes a file under a temporary name and renames it, so that `path` never holds half of it.

    Args:
      path: the file.
      pieces: its content, one after the other; none is copied.

    Raises:
      OSError: the folder cannot be written, or the disk is full; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".dml-")
    _unfinished.add(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(name)


# The temporary files of writes that go on.
_unfinished: set[str] = set()


def discard_unfinished() -> None:
    """Removes the temporary files of an interrupted write."""
    for name in _unfinished:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
