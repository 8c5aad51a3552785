"""Stored results: JSON and CSV with versions and device; the grouping of cases; and regressions."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import ConstraintError
from .compile_costs import Cost
from .timing import Measured, by_case

FORMAT, VERSION = "dml-jax bench", 2  # version 1 said neither, and had no notes, peak and control
OLD = "An older format of results does not say whether the machine was busy: measure again to know."

Key = tuple[str, str]  # a case and an implementation


@dataclass(frozen=True)
class Results:
    """One run of the benchmark.

    Args:
      device: what it ran on.
      date: when it ended, UTC.
      versions: of what was compared.
      rows: one per case and implementation.
      peak: bytes a second that the memory of the device moves by its data sheet; None where it is not known.
      notes: sentences that say what makes the numbers uncertain, such as a machine that was busy.
      costs: the same as rows, of what operators cost beside running.
      setup: how it was measured: the command, rounds, system, processor, GPUs, commit; older files have none.
      file: that it was read from, which is not stored.
    """

    device: str
    date: str
    versions: dict[str, str]
    rows: tuple[Measured, ...]
    peak: float | None = None
    notes: tuple[str, ...] = ()
    costs: tuple[Cost, ...] = ()
    setup: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = field(default=None, compare=False)

    @classmethod
    def now(cls, device: str, versions: dict[str, str], rows: Sequence[Measured | Cost], **rest: Any) -> "Results":
        costs = tuple(row for row in rows if isinstance(row, Cost))
        measured = tuple(row for row in rows if isinstance(row, Measured))
        return cls(device, datetime.now(UTC).isoformat(timespec="seconds"), versions, measured, costs=costs, **rest)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Reads what `json` made.

        Raises:
          ConstraintError: no such file, or something else.
        """
        try:
            content = json.loads(path.read_text())
            version = content.pop("version", 1)
        except OSError as error:
            raise ConstraintError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, AttributeError, TypeError):
            raise ConstraintError(f"{path} holds no results of this benchmark: it is no JSON object") from None
        if version not in (1, VERSION):
            raise ConstraintError(f"{path} has version {version} of the results, and versions up to {VERSION} are read")
        try:
            rows = tuple(Measured(**_with_samples(row)) for row in content["rows"])
            costs = tuple(Cost(**_with_samples(row)) for row in content.get("costs", ()))
            notes = (OLD,) if version == 1 else tuple(content.get("notes", ()))
            said = rows, content.get("peak"), notes, costs, content.get("setup", {}), path
            return cls(content["device"], content["date"], content["versions"], *said)
        except (KeyError, TypeError, AttributeError) as error:
            raise ConstraintError(f"{path} holds no results of this benchmark: {error}") from None

    def json(self) -> str:
        """The run as JSON, a line per row, so that `diff` compares two runs."""
        lists = {"rows": self.rows, "costs": self.costs}
        said = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in (*lists, "file")}
        head = json.dumps({"format": FORMAT, "version": VERSION, **said})[:-1]
        lines = {name: ",\n".join(json.dumps(asdict(row)) for row in rows) for name, rows in lists.items()}
        return ", ".join([head, *(f'"{name}": [\n{text}\n]' for name, text in lines.items())]) + "}\n"

    def csv(self) -> str:
        content, rows = io.StringIO(), self.rows or self.costs
        names = [field.name for field in fields(rows[0] if rows else Measured) if field.name != "samples"]
        writer = csv.DictWriter(content, ["device", "date", *names], lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows({"device": self.device, "date": self.date, **asdict(row)} for row in rows)
        return content.getvalue()

    def by_case(self) -> Iterator[tuple[str, dict[str, Measured]]]:
        """Pairs of a case and its rows by implementation, in order."""
        return by_case(self.rows)


def _with_samples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "samples": tuple(row.get("samples", ()))}


def regressions(old: Results, new: Results, tolerance: float) -> tuple[int, list[str]]:
    """Compares dml_jax with itself, in units of the copy of each run.

    Args:
      old: an earlier run.
      new: a later one.
      tolerance: the part of the old ratio that may be lost.

    Returns:
      How many cases both runs have, and a line for each that became slower.
    """
    before, after = ({(row.case, row.contender): row.of_copy for row in run.rows} for run in (old, new))
    shared, lost = slower(before, after, tolerance)
    was = "{}, {}: {:.2f} of a copy, and it was {:.2f}"
    return len(shared), [was.format(*one, after[one], before[one]) for one in lost]


def slower(old: Mapping[Key, float], new: Mapping[Key, float], tolerance: float) -> tuple[list[Key], list[Key]]:
    """The measurements of dml_jax that both runs have, and those of them that lost more than a part of their speed.

    Args:
      old: speeds by case and implementation.
      new: the same of a later run.
      tolerance: the part that may be lost.
    """
    shared = [one for one in old if one in new and one[1] in ("dml_jax", "fresh")]
    return shared, [one for one in shared if new[one] < old[one] * (1 - tolerance)]


LARGE = 2**24  # bytes moved: 16 MiB, of which the bandwidth decides, and not the time that a call takes
CALL, GRADIENT = ", call", "gradient"
CALLS, FILES = "eager calls on 1 KB", "from file to file"


def group_of(row: Measured) -> str:
    """An operator, its gradient, or what is measured in another way."""
    if row.case.endswith(CALL):
        return CALLS
    gradient = f"{row.operator} {GRADIENT}"
    return FILES if FILES in row.case else gradient if row.case.startswith(gradient) else row.operator
