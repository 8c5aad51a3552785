"""Markdown tables of a stored run of the benchmark: geometric means, and every case beside every implementation."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from dml_jax.bench import (
    bandwidth_ceilings,
    cache_bandwidth,
    compile_costs,
    device_transfers,
    mesh_scaling,
    sharded_training,
)
from dml_jax.bench.results import CALL, CALLS, FILES, LARGE, Results, group_of
from dml_jax.bench.section import BEST, WHICH, ratio, with_best
from dml_jax.bench.timing import Measured

COPY = "copy"
MULTIPLIED = {"convolution", "gemm", "network", "rnn"}  # compared with a product of matrices instead of a copy
FIRST = ["one each", "fresh", "jnp"]
SHORT = 24  # characters
MEMORY = {"Ceilings": bandwidth_ceilings, "Caches": cache_bandwidth}
KINDS = (
    "gradients",
    "graphs",
    "networks",
    "quantised",
    "exported",
    "sharded",
    "random",
    "caches",
    "costs",
)  # what a run is of, at the end of its file's name
HEAD = """\
# {title}

{run}

* **of a copy** is the fraction of memory bandwidth that dml_jax reaches: a copy of as many bytes has 1.00.
  Convolutions, `gemm`, `rnn` and networks are compared with one product of matrices that has as many multiplications.
* **x NAME** is how many times as fast dml_jax is as NAME. `-`: NAME has no such case. `differs`: its result is another.

[How it is measured](measuring.md) says more.
"""

# One case: the implementations by name.
Case = Mapping[str, Measured]
Cases = Mapping[str, Case]


def ours(case: Case) -> Measured:
    return case["dml_jax"]


def grouped(cases: Cases) -> dict[str, dict[str, Case]]:
    """The cases of each operator, in alphabetical order; then eager calls, and those from file to file."""
    groups: dict[str, dict[str, Case]] = {}
    for name, case in cases.items():
        groups.setdefault(group_of(ours(case)), {})[name] = case
    last = (FILES, CALLS)
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name in last, name))}


def large(cases: Cases) -> Cases:
    return {name: case for name, case in cases.items() if ours(case).moved >= LARGE}


def counted(cases: Cases) -> Cases:
    """The cases that a mean counts: the large ones, or all if none is large."""
    return large(cases) or cases


def page(file: Path) -> str:
    """The page of a stored run, in Markdown: device, date, versions, means of operators, every case, and all notes."""
    run = Results.read(file)
    head = HEAD.format(title=_title(file, run), run=measured_on(run))
    return "\n".join(
        [head, *_picture(file), *_as_printed(run), *_sharded(run), *_sections(grouped(of_operators(run))), *_notes(run)]
    )


def _notes(run: Results) -> Iterator[str]:
    if run.notes:
        yield from ("## Notes", "", *(f"* {note}" for note in run.notes), "")


def _sharded(run: Results) -> Iterator[str]:
    """What one run has of transfers, and a line for each operator on meshes."""
    for name, of, is_meant in (
        ("transfers", device_transfers, lambda row: row.operator == device_transfers.OPERATOR),
        ("operators on meshes", mesh_scaling, lambda row: row.operator.endswith(mesh_scaling.GROUP)),
    ):
        if found := [row for row in run.rows if is_meant(row)]:
            yield from (f"## {name[0].upper()}{name[1:]}", "", "```text", of.LEGEND, "```", "")
            yield from (*rows([name, *of.HEADINGS], [*of.lines(found)]), "")


def _title(file: Path, run: Results) -> str:
    return f"{run.device[:1].upper()}{run.device[1:]}: {kind_of(file)}"


def kind_of(file: Path) -> str:
    """Of what a stored run is, by its name."""
    kind = file.stem.rpartition("_")[2]
    return kind if kind in KINDS else "operators"


def _picture(file: Path) -> Iterator[str]:
    picture = file.with_suffix(".svg")
    if picture.exists():
        yield f"![The run as a picture]({picture.name})\n"


def _as_printed(run: Results) -> Iterator[str]:
    """The tables of ceilings, of caches and of costs, as the command prints them."""
    of_memory = [(name, of, [r for r in run.rows if r.operator == of.OPERATOR]) for name, of in MEMORY.items()]
    for title, section, found in (*of_memory, ("Costs", compile_costs, run.costs)):
        if found:
            columns = section.table(title, found, list(dict.fromkeys(row.contender for row in found)), run.peak).columns
            body = [list(map(str, line)) for line in zip(*(column.cells for column in columns), strict=True)]
            text = ["```text", section.LEGEND, "```", ""]
            yield from (f"## {title}", "", *text, *rows([str(column.header) for column in columns], body), "")


def _sections(groups: Mapping[str, Cases]) -> Iterator[str]:
    if not groups:
        return
    yield from (
        "## Means",
        "",
        "Geometric means of the cases that move 16 MiB and more, or of all where there are none.",
        "",
    )
    yield from means({name: counted(cases) for name, cases in groups.items() if name != FILES})
    yield from ("", "## Every case", "")
    for name, cases in groups.items():
        count = f"{len(cases)} case{'s' * (len(cases) > 1)}"
        yield from folded(
            f"{name}: {count}, {mean(counted(cases), COPY)} {_unit(cases)}", ratios(_shortened(name, cases))
        )


def measured_on(run: Results) -> str:
    """Device, date and versions, and what makes the numbers uncertain, in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return " ".join([f"Measured on {run.device}, {run.date[:10]}: {versions}.", *noted(run.notes)])


def noted(notes: Sequence[str]) -> Iterator[str]:
    """How many notes there are on what is uncertain, and the worst of them; nothing if there are none."""
    if notes:
        yield f"{f'{len(notes)} notes, the worst' if len(notes) > 1 else 'A note'}: {max(notes, key=percent)}"


def percent(note: str) -> int:
    """The largest percentage that a note has."""
    return max(map(int, re.findall(r"(\d+) ?%", note)), default=0)


def of_operators(run: Results) -> dict[str, Case]:
    """The cases that dml_jax has, by name: not ceilings, nor caches."""
    return {name: case for name, case in run.by_case() if "dml_jax" in case}


def _shortened(group: str, cases: Cases) -> Cases:
    """Without the words that the title of the fold says."""
    return {re.sub(rf"^{group},? |{CALL}$", "", name): case for name, case in cases.items()}


def means(groups: Mapping[str, Cases], implementations: Iterable[str] = ()) -> Iterator[str]:
    """A row for each group: how many cases it has, and the geometric means of the fraction of a copy and beside others.

    Args:
      groups: cases by the name of their row; those without any have no row.
      implementations: a column each; all that any case has if none is named.
    """
    together = {name: case for cases in groups.values() for name, case in cases.items()}
    names = [*implementations] or _implementations(together)
    body = []
    for name, cases in groups.items():
        if cases:
            body.append([name, str(len(cases)), *(mean(cases, other) or "-" for other in (COPY, *names))])
    yield from rows(["", "cases", _unit(together), *(f"x {name}" for name in names)], body)


def mean(cases: Cases, name: str) -> str:
    """The geometric mean of the fractions of a copy, or of how many times as fast dml_jax is; empty for no case."""
    if name == COPY:
        found = [ours(case).of_copy for case in cases.values()]
    else:
        found = [other.seconds / first.seconds for first, other in pairs(cases, name)]
    return f"{geometric_mean(found):.2f}" if found else ""


def pairs(cases: Cases, name: str) -> Iterator[tuple[Measured, Measured]]:
    """dml_jax and another implementation whose result is right; torch is the best of its ways where it has several."""
    for case in cases.values():
        shown = _shown(case)
        other = shown.get(name) or (shown.get(BEST) if name == "torch" else None)
        if other and other.same_bits:
            yield ours(case), other


def ratios(cases: Cases) -> Iterator[str]:
    """A row for each case: the fraction of a copy, and how many times as fast dml_jax is as others."""
    names = _implementations(cases)
    which = [WHICH] if BEST in names else []
    body = []
    for name, case in cases.items():
        ways = [with_best(case)[1].replace("_", "_<wbr>")] if which else []  # long names are wider than a page
        body.append(
            [name, f"{ours(case).of_copy:.2f}", *(ratio(ours(case), _shown(case).get(n)) for n in names), *ways]
        )
    yield from rows(["case", _unit(cases), *(f"x {name}" for name in names), *which], body)


def _implementations(cases: Cases) -> list[str]:
    """Whom dml_jax is compared with: first itself and jax.numpy, last the best of torch."""
    found = {implementation for case in cases.values() for implementation in _shown(case)} - {"dml_jax"}
    others = sorted(found.difference([*FIRST, BEST]), key=str.lower)
    return [*(name for name in FIRST if name in found), *others, *([BEST] if BEST in found else [])]


def _unit(cases: Cases) -> str:
    rows = [ours(case) for case in cases.values()]
    scaled = [row.collectives is not None or row.operator == sharded_training.OPERATOR for row in rows]
    if all(scaled):
        return "of linear"
    if any(scaled):
        return "of a copy, or of linear"
    return "of a matmul" if {row.operator for row in rows} <= MULTIPLIED else "of a copy"


def _shown(case: Case) -> dict[str, Measured]:
    return with_best(case)[0]


def folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    """A fold; Markdown inside of it begins behind an empty line."""
    yield from ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def rows(head: list[str], body: list[list[str]]) -> Iterator[str]:
    """A table; numbers, which are what is short, are at the right."""
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    for row in (head, ["---", *("---:" if width <= SHORT else "---" for width in widths[1:])], *body):
        yield f"| {' | '.join(row)} |"
