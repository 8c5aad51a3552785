"""The progress file of a job: locked while the job runs, and a line for every number of rows that is safely written."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import BatchError
from .fsync import sync_data, sync_folder

__all__ = ["Journal", "Record", "progress_path", "read_record"]


def progress_path(output: Path, process: int, processes: int) -> Path:
    """Where a process records how far it is."""
    return output.with_name(f"{output.name}.progress{f'.{process}' if processes > 1 else ''}")


class Record:
    """The content of a progress file.

    Args:
      lines: JSON objects. The first has the job and the token of the partial output; others have row counts.
    """

    def __init__(self, lines: list[dict[str, Any]]):
        self._lines = lines

    @property
    def job(self) -> Mapping[str, Any] | None:
        """The job that the rows belong to; None if nothing is recorded."""
        return self._lines[0]["job"] if self._lines else None

    @property
    def token(self) -> str | None:
        """The token of the partial output that has the rows; None if nothing is recorded."""
        return self._lines[0]["token"] if self._lines else None

    @property
    def rows(self) -> int:
        """How many rows were recorded."""
        return max((line["rows"] for line in self._lines if isinstance(line.get("rows"), int)), default=0)

    @property
    def finished(self) -> Any:
        """What identifies the file that was about to be renamed; None if no run came so far."""
        return next((line["finished"] for line in self._lines if "finished" in line), None)


def read_record(path: Path) -> Record:
    """Reads the progress file of any process; the record is empty if there is no file."""
    try:
        return Record(_parsed(path.read_bytes()))
    except FileNotFoundError:
        return Record([])


class Journal(Record):
    """A progress file, opened and locked; the kernel unlocks it when the process ends, however it does.

    A line that was torn by a crash is passed over.

    Raises:
      BatchError: another process has it, or it cannot be written.
    """

    def __init__(self, path: Path):
        self.path = path
        self._file = _locked(path)
        super().__init__(_parsed(_content(self._file)))

    def begin(self, job: Mapping[str, Any], token: str) -> None:
        """Forgets everything, and records what is now worked on."""
        os.ftruncate(self._file, 0)
        self._lines = []
        self.record(job=job, token=token)
        sync_folder(self.path.parent)

    def record(self, **facts: Any) -> None:
        """Adds a line; it is on the disk when this returns."""
        torn = _content(self._file)[-1:] not in (b"", b"\n")
        try:
            os.write(self._file, b"\n" * torn + json.dumps(facts).encode() + b"\n")
            sync_data(self._file)
        except OSError as error:
            what = "what was recorded is kept: fix this and run the same again"
            raise BatchError(f"{self.path}: the progress cannot be written: {error.strerror}; {what}") from None
        self._lines.append(facts)

    def remove(self) -> None:
        """Deletes the file, when the job is finished."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Unlocks the file, and deletes it if nothing was recorded."""
        try:
            if not self._lines:
                self.remove()
        finally:
            os.close(self._file)


def _locked(path: Path) -> int:
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise BatchError(f"{path}: the progress cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except FileNotFoundError:  # the process that had it has ended and deleted it
            pass
        except BlockingIOError:
            os.close(file)
            raise BatchError(f"{path}: another process is writing this output; wait for it, or end it") from None
        except OSError as error:
            os.close(file)
            raise BatchError(f"{path}: the file system has no locks: {error.strerror}; choose another") from None
        os.close(file)


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _parsed(content: bytes) -> list[dict[str, Any]]:
    """Returns the lines that can be read; none if the first one cannot."""
    lines = []
    for text in content.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines if lines and {"job", "token"} <= lines[0].keys() else []
