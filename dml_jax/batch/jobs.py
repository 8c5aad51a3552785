"""A job of `map_batches` on the disk: opens it, resumes an earlier run, and finishes it."""

import hashlib
import json
import os
import re
import reprlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from .errors import BatchError, os_errors_told
from .journal import Journal, progress_path, read_record
from .partial_output import HEX, PartialOutput
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
    """The outputs of a job and the inputs that they are computed from.

    Args:
      outputs: at least one; the first names the progress files.
      total: the number of rows; None until an iterator ends.
      facts: inputs, function and attributes, which tell the job from others.
      resumable: whether the inputs can be read again.
      share: the part of this process.
    """

    outputs: Sequence[PartialOutput]
    total: int | None
    facts: Mapping[str, Any]
    resumable: bool
    share: Share

    @property
    def record(self) -> Mapping[str, Any]:
        """The job as its progress file records it."""
        outputs = [{"dtype": str(one.dtype), "shape": [self.total, *one.item]} for one in self.outputs]
        process = {"index": self.share.index, "of": self.share.count}
        return json.loads(json.dumps({**self.facts, "outputs": outputs, "process": process}))

    @property
    def name(self) -> str:
        """Returns a name that is the same for every process, wherever it has mounted the files."""
        known = {key: value for key, value in self.record.items() if key != "process"}
        facts = json.dumps({**known, "inputs": without_paths(known["inputs"])}, sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:HEX]

    def progress_paths(self, output: int = 0) -> list[Path]:
        """The progress files of all processes; the files of outputs behind the first are locks alone."""
        name, count = self.outputs[output].output, self.share.count
        return [progress_path(name, process, count) for process in range(count)]

    @property
    def count(self) -> int | None:
        """How many rows this process writes; None until an iterator ends."""
        return None if self.total is None else len(self.share.rows(self.total))


@dataclass
class Run:
    """A job that this process works on: its progress file is locked, and its outputs are open unless it is finished.

    Args:
      job: the job.
      journal: its progress file.
      is_finished: whether there is nothing left to do at all.
      done: rows of this process that earlier runs have written.
    """

    job: Job
    journal: Journal
    is_finished: bool
    done: int

    def finish(self, rows: int, waiting: Callable[[], None]) -> None:
        """Completes and renames the outputs, if every other process has written its part.

        Process 0 waits for the others. Another process that is not the last one returns.

        Args:
          rows: of the whole output.
          waiting: called again and again while it waits.
        """
        job = self.job
        finished = [output.known_by(rows) for output in job.outputs]
        while not all(one.is_known(one.output, known) for one, known in zip(job.outputs, finished, strict=True)):
            if self._all_recorded(rows):
                self.journal.record(finished=finished)  # from here on a later run completes them
                for output, known in zip(job.outputs, finished, strict=True):
                    output.complete(rows)
                    output.rename(known)
            elif job.share.index:
                return
            else:
                waiting()
                time.sleep(POLL)
        self.clear()

    def clear(self) -> None:
        """Deletes the progress files of all processes; its own is last, and says that the output is complete."""
        for path in chain.from_iterable(map(self.job.progress_paths, range(len(self.job.outputs)))):
            if path != self.journal.path:
                path.unlink(missing_ok=True)
        self.journal.remove()

    def _all_recorded(self, rows: int) -> bool:
        records = [read_record(path) for path in self.job.progress_paths()]
        shares = (Share(process, len(records)).rows(rows) for process in range(len(records)))
        pairs = zip(records, shares, strict=True)
        return all(record.token == self.journal.token and record.rows == len(share) for record, share in pairs)


EXISTS = "the output exists; overwrite=True replaces it when the new one is complete"
_STAYS = "the output exists; delete it, or choose another name"


@contextmanager
def opened(job: Job, *, overwrite: bool, restart: bool) -> Iterator[Run]:
    """Locks a job, finds the rows that earlier runs have written, and opens the outputs.

    Raises:
      BatchError: the output exists, the progress belongs to another job, or to a process that is at work.
    """
    with ExitStack() as stack:
        paths = [job.progress_paths(i)[job.share.index] for i in range(len(job.outputs))]
        journal, *locks = [stack.enter_context(closing(Journal(path))) for path in paths]
        for lock in locks:
            if lock.job is not None and not restart:
                raise BatchError(f"{lock.path}: this progress belongs to another job; {_AGAIN}")
        done = _start(job, journal, overwrite, restart)
        if done is None:
            yield Run(job, journal, True, journal.rows if job.count is None else job.count)
            return
        for output in job.outputs:
            start = done if job.total is None else job.share.rows(job.total).start + done
            output.open(start, alone=job.share.count == 1)
            stack.callback(output.close)
            output.check_room((job.count or 0) - done)
        yield Run(job, journal, False, done)


def _start(job: Job, journal: Journal, overwrite: bool, restart: bool) -> int | None:
    """Returns how many rows the partial outputs have of this process; None if nothing is left to do."""
    changed = None if journal.job is None else _differences(*_comparable(journal.job, job.record))
    same = changed == [] and not restart
    if same and _is_finished(job, journal.rows):
        return None
    for output in job.outputs:
        if output.exists() and not (overwrite and output.can_replace):
            raise BatchError(f"{output.output}: {EXISTS if output.can_replace else _STAYS}")
    if changed and not restart and job.resumable:
        told = "; ".join(changed[:TOLD]) + (f"; and {len(changed) - TOLD} more" if changed[TOLD:] else "")
        raise BatchError(f"{told}; {_AGAIN}; {journal.path} belongs to another job")
    _clear_strangers(job, restart)
    goes_on = same and job.count is not None and job.resumable and journal.rows <= job.count
    token = _token(job, journal if goes_on else None)
    if not goes_on or journal.token != token:
        journal.begin(job.record, token)
    return journal.rows


_AGAIN = "undo this change to continue, or start over with restart=True"


def _is_finished(job: Job, rows: int) -> bool:
    """Whether an earlier run has written and recorded all; it may have ended before it gave the outputs their names."""
    for record in map(read_record, job.progress_paths()):
        pairs = [*zip(job.outputs, record.finished or (), strict=False)]
        if len(pairs) == len(job.outputs) and all(_is_written(*pair, record.token) for pair in pairs):
            for output, known in pairs:
                if not output.is_known(output.output, known):
                    output.open(0)
                    with closing(output):
                        output.complete(rows if job.total is None else job.total)
                output.rename(known)
            return True
    return False


def _is_written(output: PartialOutput, known: list[int], token: str | None) -> bool:
    if output.is_known(output.output, known):
        return True
    # Another run may have made a file of the same number since; its token is another one.
    return output.is_known(output.path, known) and output.token() in (token, None)


def _token(job: Job, journal: Journal | None) -> str:
    """Returns the token of the partial outputs; process 0 makes new ones if none can be continued."""
    deadline = time.monotonic() + PATIENCE
    while True:
        tokens = {output.token() for output in job.outputs}
        token = tokens.pop() if len(tokens) == 1 else None
        shared = job.share.count > 1 and token is not None and token.startswith(job.name)
        if token and (shared or (journal and journal.token == token)):
            return token
        if job.share.index == 0:
            token = job.name + secrets.token_hex(HEX // 2)
            for output in job.outputs:
                output.create(token)
            return token
        if time.monotonic() > deadline:
            path = job.outputs[0].path
            raise BatchError(f"{path}: process 0 has not begun this job in {PATIENCE:.0f} s; start it, then this again")
        time.sleep(POLL)


def _clear_strangers(job: Job, restart: bool) -> None:
    """With `restart`, removes the progress files of a run with another number of processes.

    Raises:
      BatchError: there are some, and `restart` is not given.
    """
    first = progress_path(job.outputs[0].output, 0, 1)
    names = re.compile(rf"{re.escape(first.name)}(\.\d+)?")
    with os_errors_told(first.parent, "the folder of the output cannot be read"):
        paths = {first.with_name(name) for name in os.listdir(first.parent) if names.fullmatch(name)}
    for path in paths.difference(job.progress_paths()):
        if not restart:
            what = "it belongs to a run with another number of processes"
            raise BatchError(f"{path}: {what}; use the same number, or start over with restart=True")
        with closing(Journal(path)) as stranger:
            stranger.remove()


def _comparable(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns two records, without their programs if other versions of JAX have made these."""
    program = old.get("program")
    if isinstance(program, dict) and program.get("made_by") != new["program"]["made_by"]:
        return {**old, "program": None}, {**new, "program": None}
    return old, new


def _differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Returns the differences between two records: "inputs[0].size was 10 and is 20"."""
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
