"""What was measured, kept: JSON and CSV with versions and device, and the comparison with an older run."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import ConstraintError
from .measuring import Measured

__all__ = ["Results", "regressions"]


@dataclass(frozen=True)
class Results:
    """One run of the benchmark.

    Args:
      device: what it ran on.
      date: when it ended, UTC.
      versions: of what was compared.
      rows: one per case and contender.
    """

    device: str
    date: str
    versions: dict[str, str]
    rows: tuple[Measured, ...]

    @classmethod
    def now(cls, device: str, versions: dict[str, str], rows: Sequence[Measured]) -> "Results":
        return cls(device, datetime.now(UTC).isoformat(timespec="seconds"), versions, tuple(rows))

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Reads what `json` made.

        Raises:
          ConstraintError: no such file, or something else.
        """
        try:
            content = json.loads(path.read_text())
            rows = tuple(Measured(**row) for row in content["rows"])
            return cls(content["device"], content["date"], content["versions"], rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConstraintError(f"{path} holds no results of this benchmark: {error}") from None

    def json(self) -> str:
        """One line per row, so that two runs can be compared line by line."""
        head = json.dumps({"device": self.device, "date": self.date, "versions": self.versions})
        rows = ",\n".join(json.dumps(asdict(row)) for row in self.rows)
        return f'{head[:-1]}, "rows": [\n{rows}\n]}}\n'

    def csv(self) -> str:
        content = io.StringIO()
        head = ["device", "date", *(field.name for field in fields(Measured))]
        writer = csv.DictWriter(content, head, lineterminator="\n")
        writer.writeheader()
        writer.writerows({"device": self.device, "date": self.date, **asdict(row)} for row in self.rows)
        return content.getvalue()

    def by_case(self) -> Iterator[tuple[str, dict[str, Measured]]]:
        """Each case's contenders by name, in order."""
        cases: dict[str, dict[str, Measured]] = {}
        for row in self.rows:
            cases.setdefault(row.case, {})[row.contender] = row
        yield from cases.items()


def regressions(old: Results, new: Results, tolerance: float) -> tuple[int, list[str]]:
    """Compares dml_jax with itself, in units of the copy of each run.

    Args:
      old: an earlier run.
      new: a later one.
      tolerance: the part of the old ratio that may be lost.

    Returns:
      How many cases both runs have, and a line for each that became slower.
    """
    before: dict[Any, Measured] = {(row.case, row.contender): row for row in old.rows}
    lines, count = [], 0
    for row in new.rows:
        earlier = before.get((row.case, row.contender))
        if row.contender not in ("dml_jax", "fresh") or earlier is None:
            continue
        count += 1
        if row.of_copy < earlier.of_copy * (1 - tolerance):
            lines.append(f"{row.case}, {row.contender}: {row.of_copy:.2f} of a copy, and it was {earlier.of_copy:.2f}")
    return count, lines
