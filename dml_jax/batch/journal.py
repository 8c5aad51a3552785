"""Progress file of a job: an append-only journal of the rows written, locked while the job runs."""

import fcntl
import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..regular_files import open_regular
from .errors import BatchError, os_errors_told
from .fsync import append, sync_data, sync_folder


def progress_path(output: Path | str, process: int, processes: int) -> Path:
    """The progress file of a process: beside its output, or in the current directory for one in a bucket."""
    output = Path(output.rpartition("/")[2]) if isinstance(output, str) else output
    return output.with_name(f"{output.name}.progress{f'.{process}' if processes > 1 else ''}")


@dataclass
class Record:
    """The content of a progress file: the facts of its lines, later ones in place of earlier.

    Attributes:
      job: the job that the rows belong to; None if nothing is recorded.
      token: of the partial output that has the rows; None if nothing is recorded.
      rows: how many were recorded.
      finished: the numbers that know the outputs which were about to be renamed; None if no run came so far.
    """

    job: Mapping[str, Any] | None = None
    token: str | None = None
    rows: int = 0
    finished: list[Any] | None = None


def read_record(path: Path) -> Record:
    """Reads the progress file of any process; the record is empty if there is no file.

    Raises:
      BatchError: it cannot be read.
    """
    told = os_errors_told(path, "the progress cannot be read")
    with told, suppress(FileNotFoundError), os.fdopen(open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return Record(**_parsed(file.read()))
    return Record()


class Journal(Record):
    """A progress file, opened and locked; the kernel unlocks it when the process ends, however it does.

    A line that is not as it was written is passed over: a crash has torn it, or somebody has changed it.

    Raises:
      BatchError: another process has it, or it cannot be written.
    """

    def __init__(self, path: Path):
        self.path = path
        with self._told():
            self._file = _locked(path)
            try:
                super().__init__(**_parsed(_content(self._file)))
            except BaseException:
                os.close(self._file)
                raise

    def begin(self, job: Mapping[str, Any], token: str) -> None:
        """Truncates the file, and records the job at hand."""
        with self._told():
            os.ftruncate(self._file, 0)
            super().__init__()
            self.record(job=job, token=token)
            sync_folder(self.path.parent)

    def record(self, **facts: Any) -> None:
        """Adds a line; it is on the disk when this returns."""
        with self._told("what was recorded is kept: fix this and run the same again"):
            size = os.fstat(self._file).st_size
            torn = size and os.pread(self._file, 1, size - 1) != b"\n"
            append(self._file, b"\n" * bool(torn) + _line(facts))
            sync_data(self._file)
        vars(self).update(facts)

    def remove(self) -> None:
        """Deletes the file, when the job is finished."""
        with self._told():
            self.path.unlink(missing_ok=True)

    def _told(self, then: str = "") -> AbstractContextManager[None]:
        return os_errors_told(self.path, "the progress cannot be written", then)

    def close(self) -> None:
        """Unlocks the file, and deletes it if nothing was recorded."""
        try:
            if self.job is None:
                self.remove()
        finally:
            os.close(self._file)


def _locked(path: Path) -> int:
    while True:
        file = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
        try:
            _lock(path, file)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except FileNotFoundError:  # the process that had it has ended and deleted it
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _lock(path: Path, file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BatchError(f"{path}: another process is writing this output; wait for it, or end it") from None
    except OSError as error:
        raise BatchError(f"{path}: the file system has no locks: {error.strerror}; choose another") from None


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _line(facts: Mapping[str, Any]) -> bytes:
    """Returns a line: a JSON object with a checksum."""
    return json.dumps({**facts, SUM: _checksum(facts)}).encode() + b"\n"


def _checksum(facts: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts).encode())


def _parsed(content: bytes) -> dict[str, Any]:
    """Returns the facts of all lines that are as they were written; none if there is no job among them."""
    known = {key: value for line in content.splitlines() for key, value in _facts(line).items()}
    return known if {"job", "token"} <= known.keys() else {}


def _facts(line: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(line)
        if not isinstance(facts, dict) or facts.pop(SUM, None) != _checksum(facts):
            return {}
    except (ValueError, RecursionError):  # no JSON, or nested too deep for any line of a job
        return {}
    return facts if all(key in _KINDS and _KINDS[key](value) for key, value in facts.items()) else {}


# The key of a line's checksum; and the values of the others.
SUM = "crc32"
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "job": lambda job: isinstance(job, dict),
    "token": lambda token: isinstance(token, str),
    "rows": lambda rows: type(rows) is int and rows >= 0,
    "finished": lambda known: isinstance(known, list),
}
