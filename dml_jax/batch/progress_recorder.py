"""`Recorder`: a thread that records the number of rows on the disk at intervals."""

import threading
from collections.abc import Sequence
from types import TracebackType

from .journal import Journal
from .partial_output import PartialOutput


class Recorder:
    """Records rows while the `with` block runs, and the last ones when it ends.

    Rows are recorded once the disk has them, never before.

    Args:
      outputs: where they are written.
      journal: where they are recorded.
      first: the first row of the outputs that counts.
      rows: already recorded.
      seconds: between two records.
    """

    def __init__(self, outputs: Sequence[PartialOutput], journal: Journal, first: int, rows: int, seconds: float):
        self._outputs, self._journal, self._first, self._seconds = outputs, journal, first, seconds
        self._rows = self._recorded = rows
        self._end, self._error = threading.Event(), None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def rows(self) -> int:
        """The rows written so far, recorded or not."""
        return self._rows

    def wrote(self, rows: int) -> None:
        """Adds rows that were written after the others.

        Raises:
          Exception: the error that stopped the recording.
        """
        if self._error:
            raise self._error
        self._rows += rows

    def __enter__(self) -> "Recorder":
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()
        if self._error is None:  # else the disk may have lost what was written since the last record
            self._record()
        if self._error and error is None:
            raise self._error

    def _run(self) -> None:
        while self._error is None and not self._end.wait(self._seconds):
            self._record()

    def _record(self) -> None:
        if self._rows == self._recorded:
            return
        try:
            rows = min(output.sync() for output in self._outputs) - self._first
            if rows > self._recorded:
                self._journal.record(rows=rows)
                self._recorded = rows
        except BaseException as error:
            self._error = error
