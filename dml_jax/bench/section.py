"""A section of a benchmark run: its jobs, each of which measures a case, and the table of their results."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.table import Table

from .case import Case
from .implementations import Implementation
from .timing import Effort, Measured, by_case, measure

BEST, WHICH = "best of torch", "which is"
LEGEND = """\
of copy          the bandwidth of dml_jax as a part of that of a copy of as many bytes: 1.00 is as fast as a copy; more
                 where it reads again what caches hold; below 1 MiB it is about the time that a call takes to start
of peak          the same as a part of the bandwidth on the data sheet of the device, where it is known
spread           half the distance of the quartiles of dml_jax's times, as a part of their median; ratios nearer to 1.00
                 than that say little, as do those within 0.1 of it, by which a copy may differ from itself
x NAME           how many times as fast dml_jax is as NAME, on the same data: above 1.00 it is faster; -: NAME has no
                 such case; differs: its bits are others
x fresh          the same, beside dml_jax without a preallocated output
x best of torch  the same, beside the fastest of the ways in which torch does it
which is         the name of that way; "compile" is what torch.compile makes of it"""


def columns(implementations: Sequence[str], peak: float | None = None) -> list[str]:
    """The headings: after dml_jax, how many times as fast it is as each other one, and the best of torch's."""
    others = dict.fromkeys(_grouped(name) for name in implementations[1:])
    ours = ["case", "of copy", *(["of peak"] if peak else []), "spread"]
    return [*ours, *(f"x {name}" for name in others), *([WHICH] if BEST in others else [])]


def cells(
    case: str, measured: Mapping[str, Measured], implementations: Sequence[str], peak: float | None = None
) -> list[str]:
    """The cells of a row; a dash if an implementation lacks the case, "differs" if its bits differ."""
    _, _, _, *others = columns(implementations)
    first, (shown, which) = implementations[0], with_best(measured)
    ours = measured[first]
    found = [which if name == WHICH else ratio(ours, shown.get(name.removeprefix("x "))) for name in others]
    return [case, f"{ours.of_copy:.2f}", *([of_peak(ours, peak)] if peak else []), spread_of(ours), *found]


def explained(legend: str, tables: Iterable[Any]) -> str:
    """The entries of a legend whose names are in a heading of tables, or of groups of them; NAME is any text.

    An entry begins with its names, between commas, and goes on in lines that begin with spaces.
    """
    parts = (part for table in tables for part in getattr(table, "renderables", [table]) if isinstance(part, Table))
    headings = [str(column.header) for table in parts for column in table.columns]

    def is_shown(entry: str) -> bool:
        names = entry.partition("  ")[0].replace("NAME", "").split(", ")
        return any(name in heading for name in names for heading in headings)

    return "\n".join(filter(is_shown, re.split(r"\n(?! )", legend)))


def of_peak(row: Measured, peak: float) -> str:
    """The bandwidth as a part of so many bytes a second."""
    return f"{row.moved / row.seconds / peak:.0%}"


def spread_of(row: Measured) -> str:
    """Half the distance of the quartiles, as a part of the median; of one sample it is not known."""
    return f"±{row.spread:.0%}" if row.high > row.low else "-"


def with_best(measured: Mapping[str, Measured]) -> tuple[dict[str, Measured], str]:
    """The implementations of a case with the best of torch's ways instead of all of them, and the name of that way.

    One whose result differs counts only where all do.
    """
    ways = [name for name in measured if _grouped(name) == BEST]
    others = {name: one for name, one in measured.items() if name not in ways}
    if not ways:
        return others, "-"
    best = min(ways, key=lambda name: (not measured[name].same_bits, measured[name].seconds))
    return {**others, BEST: measured[best]}, best.removeprefix(_PREFIX)


_PREFIX = "torch "


def _grouped(name: str) -> str:
    return BEST if name.startswith(_PREFIX) else name


def ratio(ours: Measured, other: Measured | None) -> str:
    """Speed-up of dml_jax over another implementation, as text."""
    if other is None:
        return "-"
    return f"{other.seconds / ours.seconds:.2f}" if other.same_bits else "differs"


def table(title: str, rows: Sequence[Measured], implementations: Sequence[str], peak: float | None = None) -> Table:
    """A line for each case.

    Args:
      title: above it.
      rows: what was measured.
      implementations: a column each.
      peak: bytes a second that the memory of the device moves by its data sheet, for a column; None for none.
    """
    lines = (cells(case, measured, implementations, peak) for case, measured in by_case(rows))
    return unframed(title, columns(implementations, peak), lines)


def unframed(title: str, headings: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """A table without a frame, in which names, in the first column, are left-aligned, and numbers right-aligned."""
    result = Table(title=title, title_justify="left", box=None, pad_edge=False)
    result.add_column(headings[0], overflow="fold")
    for heading in headings[1:]:
        result.add_column(heading, justify="right")
    for cells in lines:
        result.add_row(*cells)
    return result


def print_wide(table: Any) -> None:
    """Prints a table as wide as the terminal; of 200 columns where there is none."""
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)


@dataclass(frozen=True)
class Job:
    """A unit of work that can be measured, or skipped, on its own.

    Args:
      name: of the case.
      measure: returns a row for each implementation, of a type that the section's table knows.
      doing: says what is done right now, where that may take long.
      faults: sentences about rows that are wrong; the case counts as failed then.
    """

    name: str
    measure: Callable[[Effort], Sequence[Any]]
    doing: Callable[[], str] | None = None
    faults: Callable[[Sequence[Any]], Iterable[str]] = lambda rows: ()


@dataclass(frozen=True)
class Section:
    """Jobs that share implementations.

    Args:
      title: of the table.
      jobs: in order; where there are `seconds`, they are made while they are measured.
      implementations: the columns, the one that is compared with all others first.
      table: a table of rich's, of the title, the rows of all jobs, the implementations and the peak of the device.
      legend: the columns, a line each.
      seconds: for how long jobs are made; None for as many as there are.
    """

    title: str
    jobs: Iterable[Job]
    implementations: Sequence[str]
    table: Callable[[str, Sequence[Any], Sequence[str], float | None], Any] = table
    legend: str = LEGEND
    seconds: float | None = None

    def only(self, patterns: Sequence[str]) -> "Section":
        """The jobs whose name contains one of the patterns, where * is any text; all of them without patterns."""
        jobs = (job for job in self.jobs if is_named(job.name, patterns))
        return replace(self, jobs=jobs if self.seconds else [*jobs]) if patterns else self


def of_cases(
    title: str, cases: Iterable[Case], implementations: Sequence[Implementation], seconds: float | None = None
) -> Section:
    """A section of the cases of operators.

    Args:
      title: of the table.
      cases: a job each.
      implementations: this library first.
      seconds: of the section.
    """

    def job(case: Case) -> Job:
        return Job(case.name, lambda effort: measure(case, implementations, effort))

    jobs = map(job, cases)
    return Section(title, jobs if seconds else [*jobs], [one.name for one in implementations], seconds=seconds)


def is_named(case: str, patterns: Sequence[str]) -> bool:
    """Whether a name contains one of the patterns, where * is any text."""
    return any(fnmatch.fnmatchcase(case, f"*{part}*") for part in patterns)
