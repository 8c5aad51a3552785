"""Writes the tables of docs/benchmarks.md from the results stored beside it: `python -m benchmarks.page`."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean

from dml_jax.bench.measuring import Measured
from dml_jax.bench.results import Results

__all__ = ["PAGE", "rewritten"]

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

# A table stands between two comments, the first of which names it: <!-- h200.json: other cases --> ... <!-- end -->
TABLE = re.compile(r"(<!-- ([\w.]+): ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
DEPTH_SPACE = re.compile(r"(\w+_to_\w+ \w+ \w+) (b=\d) (uint8|float16|float32|float64) \d+ MiB")
FIRST = ["one each", "fresh", "jnp"]

# One case: the contenders by name.
Case = dict[str, Measured]


def rewritten(page: str, folder: Path) -> str:
    """The page with every table made anew from the files of `folder`."""

    def made(found: re.Match[str]) -> str:
        head, file, table, end = found.groups()
        cases: dict[str, Case] = {}
        for row in Results.read(folder / file).rows:
            cases.setdefault(row.case, {})[row.contender] = row
        return "\n".join([head, *TABLES[table](cases), "", end])

    return TABLE.sub(made, page)


def _depth_space(cases: dict[str, Case]) -> Iterator[str]:
    """One line per operator, format and order; a cell has the part of a copy, and how much plain jax.numpy takes."""
    cells: dict[str, dict[str, str]] = {}
    for name, case in _large_depth_space(cases).items():
        line, block, dtype = DEPTH_SPACE.fullmatch(name).groups()  # type: ignore[union-attr]
        cells.setdefault(line, {})[f"{dtype} {block}"] = f"{case['dml_jax'].of_copy:.2f} ({_times(case, 'jnp')})"
    columns = list(next(iter(cells.values())))
    yield from _lines(["", *columns], [[line, *(row.get(c, "-") for c in columns)] for line, row in cells.items()])


def _others(cases: dict[str, Case]) -> Iterator[str]:
    shown = {name: case for name, case in cases.items() if name not in _large_depth_space(cases)}
    yield from _ratios({name: case for name, case in shown.items() if not _is_call(name) and "file" not in name})


def _calls(cases: dict[str, Case]) -> Iterator[str]:
    yield from _ratios({name.removesuffix(", call"): case for name, case in cases.items() if _is_call(name)})


def _gradients(cases: dict[str, Case]) -> Iterator[str]:
    """The part of a copy of what has to move, and how many times as fast dml_jax is as others and deterministic."""
    rows = []
    for name, case in cases.items():
        torch = [contender for contender in case if contender.startswith("torch")]
        best = min(torch, key=lambda contender, case=case: case[contender].seconds, default="")
        ratios = [_times(case, contender) for contender in ("deterministic", "jnp", best)]
        rows.append([name.replace(" gradient,", ":"), f"{case['dml_jax'].of_copy:.2f}", *ratios, best[6:] or "-"])
    yield from _lines(["gradient", "of a copy", "x deterministic", "x jnp", "x best of torch", "which is"], rows)


def _graphs(cases: dict[str, Case]) -> Iterator[str]:
    yield from _ratios({name.removeprefix("graph "): case for name, case in cases.items()})


def _networks(cases: dict[str, Case]) -> Iterator[str]:
    """Beside a product of matrices with as many operations, and the geometric mean of all."""
    rows = [[name.removeprefix("network "), *_of_network(case)] for name, case in cases.items()]
    means = [f"{geometric_mean([float(row[column]) for row in rows]):.2f}" for column in (1, 2)]
    yield from _lines(["network", "of a matmul", "x ONNX Runtime"], [*rows, ["geometric mean", *means]])


def _of_network(case: Case) -> list[str]:
    return [f"{case['dml_jax'].of_copy:.2f}", _times(case, "ONNX Runtime")]


TABLES: dict[str, Callable[[dict[str, Case]], Iterator[str]]] = {
    "depth and space": _depth_space,
    "other cases": _others,
    "calls": _calls,
    "gradients": _gradients,
    "graphs": _graphs,
    "networks": _networks,
}


def _large_depth_space(cases: dict[str, Case]) -> dict[str, Case]:
    """The largest of each operator, format, order, block and type: smaller ones are of the sweep."""
    largest: dict[tuple[str, ...], str] = {}
    for name, case in cases.items():
        if found := DEPTH_SPACE.fullmatch(name):
            other = largest.setdefault(found.groups(), name)
            if case["dml_jax"].moved > cases[other]["dml_jax"].moved:
                largest[found.groups()] = name
    return {name: case for name, case in cases.items() if name in largest.values()}


def _is_call(name: str) -> bool:
    return name.endswith(", call")


def _ratios(cases: dict[str, Case]) -> Iterator[str]:
    found = {contender for case in cases.values() for contender in case} - {"dml_jax"}
    contenders = [*(c for c in FIRST if c in found), *sorted(found.difference(FIRST), key=str.lower)]
    rows = [
        [name, f"{case['dml_jax'].of_copy:.2f}", *(_times(case, c) for c in contenders)] for name, case in cases.items()
    ]
    yield from _lines(["case", "of a copy", *(f"x {c}" for c in contenders)], rows)


def _times(case: Case, contender: str) -> str:
    """How many times as fast dml_jax is."""
    return f"{case[contender].seconds / case['dml_jax'].seconds:.2f}" if contender in case else "-"


def _lines(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), PAGE.parent / "benchmarks"))
