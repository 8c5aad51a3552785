"""A section of a run: jobs, each of which measures a case, and the table that shows what they found."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .case import Case
from .contenders import Contender
from .measuring import Effort, Measured, measure
from .report import LEGEND, table

__all__ = ["Job", "Section", "is_named", "of_cases"]


@dataclass(frozen=True)
class Job:
    """What can be measured, or left out, on its own.

    Args:
      name: of the case.
      measure: returns a row for each contender.
    """

    name: str
    measure: Callable[[Effort], Sequence[Measured]]


@dataclass(frozen=True)
class Section:
    """Jobs that share contenders.

    Args:
      title: of the table.
      jobs: in order; some sections make them while they are measured, as long as there is time.
      contenders: the columns, the one that is compared with all others first.
      table: a table of rich's, of the title, the rows of all jobs, the contenders and the peak of the device.
      legend: the columns, a line each.
    """

    title: str
    jobs: Iterable[Job]
    contenders: Sequence[str]
    table: Callable[[str, Sequence[Measured], Sequence[str], float | None], Any] = table
    legend: str = LEGEND

    def only(self, patterns: Sequence[str]) -> "Section":
        """The jobs whose name contains one of the patterns, where * is any text; all of them without patterns."""
        return replace(self, jobs=[job for job in self.jobs if is_named(job.name, patterns)]) if patterns else self


def of_cases(title: str, cases: Iterable[Case], contenders: Sequence[Contender], **how: Any) -> Section:
    """A section of the cases of operators.

    Args:
      title: of the table.
      cases: a job each.
      contenders: this library first.
      how: of `measure`.
    """

    def job(case: Case) -> Job:
        return Job(case.name, lambda effort: measure(case, contenders, effort, **how))

    return Section(title, [job(case) for case in cases], [one.name for one in contenders])


def is_named(case: str, patterns: Sequence[str]) -> bool:
    """Whether a name contains one of the patterns, where * is any text."""
    return any(fnmatch.fnmatchcase(case, f"*{part}*") for part in patterns)
