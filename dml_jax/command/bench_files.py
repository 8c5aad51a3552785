"""The files of a run of `dml-jax bench`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..atomic_write import write_whole
from ..errors import ConstraintError

if TYPE_CHECKING:
    from ..bench.results import Results


@dataclass(frozen=True)
class Files:
    """What is written and read; None for none.

    Args:
      json: all that was measured.
      csv: the same.
      picture: bandwidths, or the comparison of several runs.
      old: the JSON of earlier runs, which this one is compared with.
    """

    json: Path | None
    csv: Path | None
    picture: Path | None
    old: Sequence[Path]

    def check(self) -> None:
        """Checks that all can be written, before anything is measured.

        Raises:
          ConstraintError: one cannot.
        """
        from ..bench.run_picture import check_drawable

        for path in filter(None, (self.json, self.csv, self.picture)):
            _check_writable(path)
        if self.picture:
            check_drawable(self.picture)

    def keep(self, results: Results) -> None:
        """Writes JSON and CSV."""
        for path, text in ((self.json, results.json), (self.csv, results.csv)):
            if path:
                write_whole(path, text().encode())

    def write(self, results: Results) -> None:
        """Writes each of them."""
        from ..bench.run_picture import draw

        self.keep(results)
        if self.picture and results.rows and len(self.old) < 2:
            draw(results, self.picture)


def _check_writable(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise ConstraintError(f"{path} cannot be written: the folder {str(folder)!r} must exist; make it first")
    if not os.access(folder, os.W_OK):
        raise ConstraintError(f"{path} cannot be written: no permission in {str(folder)!r}")
