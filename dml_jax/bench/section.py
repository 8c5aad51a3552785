"""A section of a run: jobs, each of which measures a case, and the table that shows what they found."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .case import Case
from .contenders import Contender
from .measuring import Effort, measure
from .report import LEGEND, table

__all__ = ["Job", "Section", "is_named", "of_cases"]


@dataclass(frozen=True)
class Job:
    """What can be measured, or left out, on its own.

    Args:
      name: of the case.
      measure: returns a row for each contender, of a type that the section's table knows.
    """

    name: str
    measure: Callable[[Effort], Sequence[Any]]


@dataclass(frozen=True)
class Section:
    """Jobs that share contenders.

    Args:
      title: of the table.
      jobs: in order; where there are `seconds`, they are made while they are measured.
      contenders: the columns, the one that is compared with all others first.
      table: a table of rich's, of the title, the rows of all jobs, the contenders and the peak of the device.
      legend: the columns, a line each.
      seconds: for how long jobs are made; None for as many as there are.
    """

    title: str
    jobs: Iterable[Job]
    contenders: Sequence[str]
    table: Callable[[str, Sequence[Any], Sequence[str], float | None], Any] = table
    legend: str = LEGEND
    seconds: float | None = None

    def only(self, patterns: Sequence[str]) -> "Section":
        """The jobs whose name contains one of the patterns, where * is any text; all of them without patterns."""
        jobs = (job for job in self.jobs if is_named(job.name, patterns))
        return replace(self, jobs=jobs if self.seconds else [*jobs]) if patterns else self


def of_cases(
    title: str,
    cases: Iterable[Case],
    contenders: Sequence[Contender],
    seconds: float | None = None,
    **how: Any,
) -> Section:
    """A section of the cases of operators.

    Args:
      title: of the table.
      cases: a job each.
      contenders: this library first.
      seconds: of the section.
      how: of `measure`.
    """

    def job(case: Case) -> Job:
        return Job(case.name, lambda effort: measure(case, contenders, effort, **how))

    jobs = map(job, cases)
    return Section(title, jobs if seconds else [*jobs], [one.name for one in contenders], seconds=seconds)


def is_named(case: str, patterns: Sequence[str]) -> bool:
    """Whether a name contains one of the patterns, where * is any text."""
    return any(fnmatch.fnmatchcase(case, f"*{part}*") for part in patterns)
