"""Compares stored benchmark runs, as a table and a picture; each number is bandwidth relative to a copy in its run."""

import re
import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TypeVar

from ..errors import ConstraintError
from .results import CALLS, FILES, LARGE, Results, group_of
from .run_picture import LABEL, LINE, MARKERS, NAME, SIZE, WIDTH, label_rows, lines, save
from .timing import Measured

LEGEND = """\
cases    that all runs have: of operators those that move 16 MiB and more, or all where there are none
NAME     the bandwidth of dml_jax as a part of that of a copy of as many bytes in this run, the geometric mean of
         these cases: 1.00 is as fast as a copy; convolution, gemm, rnn and networks are beside a product of matrices
x first  that part divided by the one of the first run: above 1.00 the run is nearer to its own copy"""
ALL = "all operators"
PACKAGES = ("jaxlib", "dml_jax")  # of which runs may have other versions
NUMBER = re.compile(r"(?<![a-wyzA-Z_=\d.])\d+")  # "b=2 of 64x3x512x512 float16" becomes "b=2 of NxNxNxN float16"

T = TypeVar("T")
Match = tuple[Measured, ...]  # the row of each run


@dataclass(frozen=True)
class Comparison:
    """Several runs, case by case.

    Args:
      title: what all runs have in common.
      names: of the runs: what differs.
      unit: what a row of the table is, such as an operator.
      matches: by row of the table, the cases that it counts.
      notes: sentences that say what makes the numbers uncertain.
    """

    title: str
    names: Sequence[str]
    unit: str
    matches: Mapping[str, Sequence[Match]]
    notes: Sequence[str]

    def means(self) -> dict[str, list[float]]:
        """Table row -> geometric mean of `of_copy`, one per run."""
        return {
            name: [geometric_mean([row.of_copy for row in rows]) for rows in zip(*matches, strict=True)]
            for name, matches in self.matches.items()
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Returns the headings, and the cells of each row."""
        first, *others = self.names
        body = []
        for name, (old, *new) in self.means().items():
            ratios = chain(*([_worded(mean), _worded(mean / old)] for mean in new))
            body.append([name, str(len(self.matches[name])), _worded(old), *ratios])
        return [self.unit, "cases", first, *chain(*([name, "x first"] for name in others))], body


def compared(runs: Sequence[Results]) -> Comparison:
    """Compares runs in the cases that all of them have.

    Runs with different --size have different case names; then cases are matched by name with numbers replaced by N, if
    each run has equally many.

    Raises:
      ConstraintError: the runs have no case in common, or a run is given twice.
    """
    ours = [[row for row in run.rows if row.contender == "dml_jax"] for run in runs]
    title, names = _named(runs)
    same, alike = _matches(ours, _name), _matches(ours, _kind)
    in_sizes = 2 * len(same) < len(alike)
    if not (matches := alike if in_sizes else same):
        raise ConstraintError(
            f"no case is in each of the runs {'; '.join(names)}: compare runs of the same cases, all with --quick, "
            "with --sharded or with neither, with the same -k, and best with the same --size"
        )
    sizes = f"""\
The runs differ in size (names of cases that all have: {len(same)} of {max(map(len, ours))}). So the {len(alike)} \
cases are compared whose names are the same but for numbers. With the same --size all are compared one by one."""
    said = _by([(name, note) for name, run in zip(names, runs, strict=True) for note in run.notes], itemgetter(1))
    notes = [f"{'; '.join(name for name, _ in pairs)}: {note}" for note, pairs in said.items()]
    return Comparison(title, names, *_in_rows(matches, _kind if in_sizes else _name), [*[sizes] * in_sizes, *notes])


def _named(runs: Sequence[Results]) -> tuple[str, list[str]]:
    """Returns the title (device and versions common to all runs) and a name per run: what differs, or file or time."""
    facets = [[run.device for run in runs]]
    for package in PACKAGES:
        facets.append([f"{package} {run.versions[package]}" if package in run.versions else "" for run in runs])
    differ = [facet for facet in facets if len({*facet}) > 1]
    files = [run.file.name if run.file else "this run" for run in runs]
    for last in ([files] if len({*files}) > 1 else []), [[run.date[:19].replace("T", " ") for run in runs]]:
        differ += last if len({*zip(*differ, strict=True)}) < len(runs) else []
    names = [", ".join(filter(None, parts)) for parts in zip(*differ, strict=True)]
    if len({*names}) < len(runs):
        raise ConstraintError(f"each run must be compared once, but two of these are the same: {'; '.join(names)}")
    return ", ".join(facet[0] for facet in facets if facet[0] and facet not in differ), names


def _worded(part: float) -> str:
    return f"{part:.2f}" if part >= 0.01 else f"{part:.1g}"


def _name(row: Measured) -> str:
    return row.case


def _kind(row: Measured) -> str:
    return NUMBER.sub("N", row.case)


def _matches(runs: Sequence[Iterable[Measured]], key_of: Callable[[Measured], Hashable]) -> list[Match]:
    """Matches rows by key across runs, if each run has equally many; within a key by size, the smallest first."""
    first, *others = (_by(rows, key_of) for rows in runs)
    shared = [key for key, rows in first.items() if all(len(run.get(key, ())) == len(rows) for run in others)]
    sorted_rows = [[sorted(run[key], key=lambda row: row.moved) for run in (first, *others)] for key in shared]
    return [match for columns in sorted_rows for match in zip(*columns, strict=True)]


def _by(rows: Iterable[T], key: Callable[[T], Hashable]) -> dict[Any, list[T]]:
    found: dict[Any, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _in_rows(matches: Iterable[Match], name: Callable[[Measured], str]) -> tuple[str, dict[str, list[Match]]]:
    """Groups matches to table rows: by operator, or by case if all have one operator. Returns the unit and the rows."""
    groups = _by(matches, lambda match: group_of(match[0]))
    if len(groups) == 1:
        ((group, only),) = groups.items()
        return group, _by(only, lambda match: name(match[0]).removeprefix(f"{group} "))
    groups = {group: _counted(members) for group, members in groups.items()}
    last = {group: groups.pop(group) for group in (FILES, CALLS) if group in groups}
    together = {ALL: [*chain(*groups.values())]} if len(groups) > 1 else {}
    return "operator", {**dict(sorted(groups.items())), **together, **last}


def _counted(matches: list[Match]) -> list[Match]:
    return [match for match in matches if min(row.moved for row in match) >= LARGE] or matches


def draw(comparison: Comparison, path: Path) -> None:
    """Draws a picture, PNG or SVG by the ending of `path`, which `check_drawable` accepts."""
    labels = [textwrap.fill(name, LABEL) for name in comparison.matches]
    names = [textwrap.fill(name, NAME) for name in (comparison.title, *comparison.names)]
    height = LINE * (sum(map(lines, labels + names)) + 5)
    save(lambda axes: _fill(axes, comparison, labels, names), (WIDTH, height), path, described(comparison))


def described(comparison: Comparison) -> str:
    """The table as a text."""
    head, body = comparison.table()
    return "\n".join("; ".join(row) for row in (head, *body))


def _fill(axes: Any, comparison: Comparison, labels: Sequence[str], names: Sequence[str]) -> None:
    """Plots a marker per row and run; each label is centred on the lines that it takes."""
    ends, (title, *names) = [*accumulate(map(lines, labels))], names
    places = [end - lines(label) / 2 for end, label in zip(ends, labels, strict=True)]
    axes.axvline(1, color="0.6", lw=1, zorder=1)
    for number, (name, means) in enumerate(zip(names, zip(*comparison.means().values(), strict=True), strict=True)):
        marker = MARKERS[number % len(MARKERS)]
        axes.scatter(means, places, s=18, marker=marker, color=f"C{number}", label=name, zorder=2)
    axes.set(xscale="log", ylim=(ends[-1], 0))
    label_rows(axes, places, labels)
    axes.figure.legend(loc="outside upper left", fontsize=SIZE, frameon=False, title=title, title_fontsize=SIZE)
