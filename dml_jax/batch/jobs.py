"""A job of `map_batches` on the disk: opens it, resumes an earlier run, and finishes it."""

import json
import os
import re
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BatchError, os_errors_told
from .journal import Journal, progress_path, read_record
from .partial_output import Partial, create, file_size, is_output, job_of, partial_path, token_of
from .sources import without_paths

TOLD = 8  # differences that a message names
POLL, PATIENCE = 0.2, 300.0  # seconds between looks at the files of other processes, and to wait for the first


@dataclass(frozen=True)
class Share:
    """The part of the rows that one process writes: the parts are contiguous and differ by one row at most."""

    index: int = 0
    count: int = 1

    def rows(self, total: int) -> range:
        """The rows of this process."""
        return range(self.index * total // self.count, (self.index + 1) * total // self.count)


@dataclass(frozen=True)
class Job:
    """The output of a job and the inputs that it is computed from.

    Args:
      output: the file.
      dtype: of its elements.
      item: the shape of a row.
      total: the number of rows; None until an iterator ends.
      facts: what tells the job from others: inputs, function, attributes.
      resumable: whether the inputs can be read again.
      share: the part of this process.
    """

    output: Path
    dtype: np.dtype
    item: tuple[int, ...]
    total: int | None
    facts: Mapping[str, Any]
    resumable: bool
    share: Share

    @property
    def record(self) -> Mapping[str, Any]:
        """The job as its progress file records it."""
        output = {"dtype": str(self.dtype), "shape": [self.total, *self.item]}
        process = {"index": self.share.index, "of": self.share.count}
        return json.loads(json.dumps({**self.facts, "output": output, "process": process}))

    @property
    def name(self) -> str:
        """Returns a name that is the same for every process, wherever it has mounted the files."""
        known = {key: value for key, value in self.record.items() if key != "process"}
        return job_of({**known, "inputs": without_paths(known["inputs"])})

    def progress_paths(self) -> list[Path]:
        """The progress files of all processes."""
        return [progress_path(self.output, process, self.share.count) for process in range(self.share.count)]

    @property
    def size(self) -> int | None:
        """The size of the output in bytes; None until an iterator ends."""
        return file_size(self.dtype, self.item, self.total)

    @property
    def count(self) -> int | None:
        """How many rows this process writes; None until an iterator ends."""
        return None if self.total is None else len(self.share.rows(self.total))


class Run:
    """A job that this process works on: its progress file is locked and its partial output open.

    Attributes:
      done: rows of this process that earlier runs have written.
      is_finished: whether there is nothing left to do at all.
    """

    def __init__(self, job: Job, journal: Journal, partial: Partial | None, done: int):
        self.job: Job = job
        self.journal: Journal = journal
        self.done: int = done
        self._partial = partial

    @property
    def is_finished(self) -> bool:
        return self._partial is None

    @property
    def partial(self) -> Partial:
        """The partial output of a run that is not finished."""
        assert self._partial is not None
        return self._partial

    def finish(self, rows: int, waiting: Callable[[], None]) -> None:
        """Completes and renames the output, if every other process has written its part.

        Process 0 waits for the others. Another process that is not the last one returns.

        Args:
          rows: of the whole output.
          waiting: called again and again while it waits.
        """
        job, partial = self.job, self.partial
        while not is_output(job.output, partial.known_by()):
            if self._all_recorded(rows):
                self.journal.record(finished=partial.complete(rows))
                partial.rename()
            elif job.share.index:
                return
            else:
                waiting()
                time.sleep(POLL)
        self.clear()

    def clear(self) -> None:
        """Deletes the progress files of all processes; its own is last, and says that the output is complete."""
        for path in self.job.progress_paths():
            if path != self.journal.path:
                path.unlink(missing_ok=True)
        self.journal.remove()

    def _all_recorded(self, rows: int) -> bool:
        records = [read_record(path) for path in self.job.progress_paths()]
        shares = (Share(process, len(records)).rows(rows) for process in range(len(records)))
        pairs = zip(records, shares, strict=True)
        return all(record.token == self.journal.token and record.rows == len(share) for record, share in pairs)


def refuse_existing(output: Path, share: Share, overwrite: bool) -> None:
    """Refuses an output that exists, before any work, unless an earlier run of the job has left its progress file.

    Raises:
      BatchError: it exists.
    """
    progress = progress_path(output, share.index, share.count)
    if os.path.exists(output) and not overwrite and not os.path.lexists(progress):
        raise BatchError(f"{output}: {_EXISTS}")


_EXISTS = "the output exists; overwrite=True replaces it when the new one is complete"


@contextmanager
def opened(job: Job, *, overwrite: bool, restart: bool) -> Iterator[Run]:
    """Locks a job, and finds the rows that earlier runs have written.

    Raises:
      BatchError: the output exists, the progress belongs to another job, or to a process that is at work.
    """
    journal = Journal(progress_path(job.output, job.share.index, job.share.count))
    try:
        partial, done = _start(job, journal, overwrite, restart)
        try:
            yield Run(job, journal, partial, done)
        finally:
            if partial:
                partial.close()
    finally:
        journal.close()


def _start(job: Job, journal: Journal, overwrite: bool, restart: bool) -> tuple[Partial | None, int]:
    """Returns the partial output, or None if nothing is left to do, and how many rows it has of this process."""
    changed = None if journal.job is None else _differences(*_comparable(journal.job, job.record))
    same = changed == [] and not restart
    if same and not os.path.lexists(partial_path(job.output)) and _is_finished(job):
        # The last run was ended between the renaming and the end.
        return None, journal.rows if job.count is None else job.count
    if os.path.exists(job.output) and not overwrite:
        raise BatchError(f"{job.output}: {_EXISTS}")
    if changed and not restart and job.resumable:
        told = "; ".join(changed[:TOLD]) + (f"; and {len(changed) - TOLD} more" if changed[TOLD:] else "")
        again = "undo this change to continue, or start over with restart=True"
        raise BatchError(f"{journal.path}: this progress belongs to another job: {told}; {again}")
    _clear_strangers(job, restart)
    goes_on = same and job.count is not None and job.resumable and journal.rows <= job.count
    token = _token(job, journal if goes_on else None)
    if not goes_on or journal.token != token:
        journal.begin(job.record, token)
    partial = Partial(job.output, job.dtype, job.item, job.total)
    try:
        partial.check_room((job.count or 0) - journal.rows)
    except BaseException:
        partial.close()
        raise
    return partial, journal.rows


def _is_finished(job: Job) -> bool:
    return any(is_output(job.output, read_record(path).finished) for path in job.progress_paths())


def _token(job: Job, journal: Journal | None) -> str:
    """Returns the token of the partial output; process 0 makes a new one if none can be continued."""
    deadline = time.monotonic() + PATIENCE
    while True:
        token = token_of(job.output, job.size)
        if journal and journal.token and journal.rows == job.count and token == "" and _has_header(job):
            return journal.token  # only the renaming was left
        shared = job.share.count > 1 and token is not None and token.startswith(job.name)
        if token and (shared or (journal and journal.token == token)):
            return token
        if job.share.index == 0:
            return create(job.output, job.name, job.size)
        if time.monotonic() > deadline:
            path = partial_path(job.output)
            raise BatchError(f"{path}: process 0 has not begun this job in {PATIENCE:.0f} s; start it, then this again")
        time.sleep(POLL)


def _has_header(job: Job) -> bool:
    partial = Partial(job.output, job.dtype, job.item, job.total)
    try:
        return partial.is_complete()
    finally:
        partial.close()


def _clear_strangers(job: Job, restart: bool) -> None:
    """With `restart`, removes the progress files of a run with another number of processes.

    Raises:
      BatchError: there are some, and `restart` is not given.
    """
    names = re.compile(rf"{re.escape(progress_path(job.output, 0, 1).name)}(\.\d+)?")
    with os_errors_told(job.output.parent, "the folder of the output cannot be read"):
        paths = {job.output.with_name(name) for name in os.listdir(job.output.parent) if names.fullmatch(name)}
    for path in paths.difference(job.progress_paths()):
        if not restart:
            what = "it belongs to a run with another number of processes"
            raise BatchError(f"{path}: {what}; use the same number, or start over with restart=True")
        stranger = Journal(path)
        try:
            stranger.remove()
        finally:
            stranger.close()


def _comparable(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns two records, without their programs if other versions of JAX have made these."""
    program = old.get("program")
    if isinstance(program, dict) and program.get("made_by") != new["program"]["made_by"]:
        return {**old, "program": None}, {**new, "program": None}
    return old, new


def _differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Returns what differs between two records: "inputs[0].size was 10 and is 20"."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [d for k in keys for d in _differences(old.get(k), new.get(k), f"{where}.{k}".strip("."))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [d for i, (a, b) in pairs for d in _differences(a, b, f"{where}[{i}]")]
    is_same = old == new or (old != old and new != new)  # NaN
    return [] if is_same else [f"{where} was {_SHOWN.repr(old)} and is {_SHOWN.repr(new)}"]


_SHOWN = reprlib.Repr()  # of a file that anybody may have written: of any depth, with any characters
_SHOWN.maxstring = _SHOWN.maxlong = 500
