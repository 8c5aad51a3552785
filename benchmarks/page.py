"""Writes the tables of README, benchmarks.md and forms.md from the stored results: `python -m benchmarks.page`."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from dml_jax.bench.measuring import Measured
from dml_jax.bench.report import BEST, WHICH, ratio, with_best
from dml_jax.bench.results import Results

from .targets import HEAD, LARGE, NARROW, PICTURES, TARGETS, verdict

__all__ = ["PAGES", "STORED", "rewritten"]

DOCS = Path(__file__).parent.parent / "docs"
PAGES, STORED = (DOCS / "benchmarks.md", DOCS / "forms.md", DOCS.parent / "README.md"), DOCS / "benchmarks"

# A table stands between two comments, the first of which names it: <!-- h200.json: operators --> ... <!-- end -->
TABLE = re.compile(r"(<!-- ([\w., ]+): ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FIRST = ["one each", "fresh", "jnp"]
COPY, SHORT = "copy", 24  # characters
SUMMED = [COPY, "jnp", "torch"]
# Operators that share a line of the summary, by what they do; each has a line of its own in the table "others".
OTHERS = {
    "other operators that move or choose": (
        "as_strided_scatter",
        "diagonal_matrix",
        "fill_diagonals",
        "fill_value_constant",
        "fill_value_sequence",
        "max_unpooling",
        "nonzero_coordinates",
        "one_hot",
        "select",
        "slice_grad",
        "top_k",
        "unfold",
    ),
    "operators that compute": (
        "activate",
        "add",
        "average_pooling",
        "cast",
        "clip",
        "cumulative_product",
        "cumulative_summation",
        "fold",
        "identity",
        "local_response_normalization",
        "max_pooling",
        "reduce",
        "resample",
        "value_scale_2d",
    ),
    "products of matrices": ("convolution", "gemm", "rnn"),
}
# Lines of the README: a text, where the cases are, and a pattern that begins their names.
SPEED = (
    ("rows that `gather` reads, of 4-byte elements", "moved", "gather rows .*float32"),
    ("the same of 1- and 2-byte elements, 128 bytes and more", "moved", rf"gather rows of \d{{3,}} bytes .*{NARROW}"),
    ("rows and elements that are scattered", "moved", "scatter_(nd|elements)"),
    ("depth to space and back, 4-byte elements", "moved", f"{PICTURES} .*float32"),
    ("the same of 1- and 2-byte elements", "moved", f"{PICTURES} .*{NARROW}"),
    ("views in another order, such as channels last as first", "moved", "as_strided (transposed|NHWC|real)"),
    ("gradients of `gather`, uniform ids", "gradients", "gather .*uniform"),
    ("the same with ids after Zipf's law, such as words", "gradients", "gather .*Zipf"),
    ("eager calls on 1 KB, whose arguments are checked", "calls", "."),
)
COLUMNS = {"h200": "on an NVIDIA H200", "cpu": "on two CPU cores"}

# One case: the contenders by name.
Case = Mapping[str, Measured]
Cases = Mapping[str, Case]


def rewritten(page: str, folder: Path) -> str:
    """The page with every table made anew from the files of `folder`."""

    def made(found: re.Match[str]) -> str:
        head, files, table, end = found.groups()
        return "\n".join([head, *TABLES[table](*(folder / file for file in files.split(", "))), "", end])

    return TABLE.sub(made, page)


def _speed(*files: Path) -> Iterator[str]:
    """A column for each device: the geometric mean of how many times as fast cases are, and the least and the most."""
    columns = []
    for file in files:
        cases, gradients = _read(file), _read(_beside(file, "_gradients"))
        calls = {name: case for name, case in cases.items() if _is_call(name)}
        of = {"moved": _large(_of_operators(cases)), "gradients": gradients, "calls": calls}
        columns.append([_spread(of[where], pattern) for _, where, pattern in SPEED])
    rows = [[text, *numbers] for (text, _, _), *numbers in zip(SPEED, *columns, strict=True)]
    yield from _lines(["times as fast as `jax.numpy`", *(COLUMNS[file.stem] for file in files)], rows)


def _spread(cases: Cases, pattern: str) -> str:
    meant = {name: case for name, case in cases.items() if re.match(pattern, name)}
    ratios = [other.seconds / ours.seconds for ours, other in _pairs(meant, "jnp")]
    return f"{_mean(meant, 'jnp')} ({min(ratios):.2f}-{max(ratios):.2f})"


def _summary(file: Path) -> Iterator[str]:
    """Geometric means: a line per operator, and one for each of the other groups."""
    cases, gradients, graphs = (_read(_beside(file, kind)) for kind in ("", "_gradients", "_graphs"))
    usual, large = _usual(_of_operators(cases)), _large(_of_operators(cases))
    of_each = _by_operator(usual)
    groups = {
        **{operator: _large(of) for operator, of in of_each.items() if operator not in sum(OTHERS.values(), ())},
        **{group: _joined(of_each, operators) for group, operators in OTHERS.items()},
        "shapes of real programs": {name: case for name, case in large.items() if _is_real(name)},
        "eager calls on 1 KB": {name: case for name, case in cases.items() if _is_call(name)},
        **{f"gradients, {d}": {n: c for n, c in gradients.items() if d in n} for d in ("float32", "bfloat16")},
        "graphs of three operators": graphs,
    }
    yield from _means(groups, SUMMED)


def _targets(file: Path) -> Iterator[str]:
    """What should be reached by the cases of a file and by gradients, and what is."""
    files = (file, _beside(file, "_gradients"))
    rows = [verdict(target, _of_operators(_read(one))) for one in files for target in TARGETS[one.stem]]
    yield from _lines([*HEAD], rows)


def _others(cases: Cases) -> Iterator[str]:
    """The same of every operator that shares a line there, all of its cases."""
    of_each = _by_operator(_usual(_of_operators(cases)))
    for group, operators in OTHERS.items():
        yield from (f"{group[0].upper()}{group[1:]}:", "")
        yield from _means({name: of_each[name] for name in operators if name in of_each}, [*SUMMED, "NumPy", "ORT"])
        yield ""


def _joined(of_each: Mapping[str, Cases], operators: Iterable[str]) -> Cases:
    return {name: case for operator in operators for name, case in of_each.get(operator, {}).items()}


def _means(groups: Mapping[str, Cases], summed: Sequence[str]) -> Iterator[str]:
    rows = [[name, str(len(of)), *(_mean(of, other) or "-" for other in summed)] for name, of in groups.items() if of]
    yield from _lines(["", "cases", *(f"x {name}" if name != COPY else "of a copy" for name in summed)], rows)


def _operators(cases: Cases) -> Iterator[str]:
    """A fold for each operator."""
    for operator, of in _by_operator(_of_operators(cases)).items():
        yield from _folded(_told(operator, of), _ratios(_without(operator, of)))


def _calls(cases: Cases) -> Iterator[str]:
    calls = {name.removesuffix(", call"): case for name, case in cases.items() if _is_call(name)}
    yield from _folded(f"{len(calls)} cases", _ratios(calls))


def _gradients(cases: Cases) -> Iterator[str]:
    """A fold for each operator."""
    for operator, of in _by_operator(cases).items():
        yield from _folded(_told(operator, of), _ratios(_without(f"{operator} gradient,", of)))


def _graphs(cases: Cases) -> Iterator[str]:
    yield from _ratios(_without("graph", cases))


def _networks(cases: Cases) -> Iterator[str]:
    """Beside a product of matrices with as many operations, and the geometric mean of all."""
    rows = [[name, f"{_ours(case).of_copy:.2f}", _times(case, "ONNX Runtime")] for name, case in cases.items()]
    means = [f"{geometric_mean([float(row[column]) for row in rows]):.2f}" for column in (1, 2)]
    named = [[name.removeprefix("network "), *numbers] for name, *numbers in rows]
    yield from _lines(["network", "of a matmul", "x ONNX Runtime"], [*named, ["geometric mean", *means]])


def _choices(file: Path) -> Iterator[str]:
    """A fold for each table of forms: what every choice gains, and how much longer it compiles."""
    rows: dict[str, list[list[str]]] = {}
    for row in json.loads(file.read_text())["rows"]:
        table, _, choice = row["row"].partition(" ")
        numbers = [f"{row[number]:.2f}" for number in ("mean", "least", "compiling")]
        breakable = choice.replace("/", "/<wbr>")  # lists of types are wider than a page
        rows.setdefault(table.partition("[")[0], []).append([breakable, *numbers])
    for table, of in rows.items():
        mean = geometric_mean([float(row[1]) for row in of])
        lines = _lines(["choice", "x plain", "the least", "compiling"], of)
        yield from _folded(f"{table}: {len(of)} choice{'s' * (len(of) > 1)}, {mean:.2f} x plain", lines)


def _read(file: Path) -> Cases:
    return dict(Results.read(file).by_case())


def _beside(file: Path, kind: str) -> Path:
    """h200_graphs.json is beside h200.json."""
    return file.with_stem(f"{file.stem}{kind}")


def _of_cases(table: Callable[[Cases], Iterator[str]]) -> Callable[[Path], Iterator[str]]:
    return lambda file: table(_read(file))


TABLES: Mapping[str, Callable[..., Iterator[str]]] = {
    "speed": _speed,
    "summary": _summary,
    "targets": _targets,
    "choices": _choices,
    "operators": _of_cases(_operators),
    "others": _of_cases(_others),
    "calls": _of_cases(_calls),
    "gradients": _of_cases(_gradients),
    "graphs": _of_cases(_graphs),
    "networks": _of_cases(_networks),
    "sharded": _of_cases(lambda cases: _ratios(cases)),
}

# Which cases.


def _of_operators(cases: Cases) -> Cases:
    """Those with data in memory, into bound outputs."""
    return {name: case for name, case in cases.items() if not _is_call(name) and "file" not in name}


def _by_operator(cases: Cases) -> dict[str, dict[str, Case]]:
    found: dict[str, dict[str, Case]] = {}
    for name, case in cases.items():
        found.setdefault(_ours(case).operator, {})[name] = case
    return dict(sorted(found.items()))


def _usual(cases: Cases) -> Cases:
    return {name: case for name, case in cases.items() if not _is_real(name)}


def _large(cases: Cases) -> Cases:
    return {name: case for name, case in cases.items() if _ours(case).moved >= LARGE}


def _is_real(name: str) -> bool:
    return " real " in name


def _is_call(name: str) -> bool:
    return name.endswith(", call")


def _without(prefix: str, cases: Cases) -> Cases:
    return {name.removeprefix(prefix).strip(): case for name, case in cases.items()}


# What is shown of them.


def _ours(case: Case) -> Measured:
    return case["dml_jax"]


def _shown(case: Case) -> dict[str, Measured]:
    return with_best(case)[0]


def _told(operator: str, cases: Cases) -> str:
    """How many cases, and the geometric mean of the large ones."""
    mean = _mean(_large(cases), COPY)
    count = f"{len(cases)} case{'s' * (len(cases) > 1)}"
    return f"{operator}: {count}{f', {mean} of a copy' if mean else ''}"


def _mean(cases: Cases, name: str) -> str:
    """The geometric mean of the parts of a copy, or of how many times as fast dml_jax is; empty for no case."""
    if name == COPY:
        found = [_ours(case).of_copy for case in cases.values()]
    else:
        found = [other.seconds / ours.seconds for ours, other in _pairs(cases, name)]
    return f"{geometric_mean(found):.2f}" if found else ""


def _pairs(cases: Cases, name: str) -> Iterator[tuple[Measured, Measured]]:
    """dml_jax and another contender whose result is right; torch is the best of its ways where it has several."""
    for case in cases.values():
        shown = _shown(case)
        other = shown.get(name) or (shown.get(BEST) if name == "torch" else None)
        if other and other.same_bits:
            yield _ours(case), other


def _ratios(cases: Cases) -> Iterator[str]:
    """A line for each case: the part of a copy, and how many times as fast dml_jax is as others."""
    found = {contender for case in cases.values() for contender in _shown(case)} - {"dml_jax"}
    others = sorted(found.difference([*FIRST, BEST]), key=str.lower)
    contenders = [*(c for c in FIRST if c in found), *others, *([BEST] if BEST in found else [])]
    which = [WHICH] if BEST in found else []
    rows = []
    for name, case in cases.items():
        ways = [with_best(case)[1]] if which else []
        rows.append([name, f"{_ours(case).of_copy:.2f}", *(_times(case, c) for c in contenders), *ways])
    yield from _lines(["case", "of a copy", *(f"x {c}" for c in contenders), *which], rows)


def _times(case: Case, contender: str) -> str:
    """How many times as fast dml_jax is, or that the other result differs."""
    return ratio(_ours(case), _shown(case).get(contender))


def _folded(summary: str, lines: Iterator[str]) -> Iterator[str]:
    """A fold, on GitHub as on the site; Markdown inside of it begins behind an empty line."""
    yield from ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def _lines(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table; numbers, which are what is short, are at the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["---", *("---:" if width <= SHORT else "---" for width in widths[1:])], *rows):
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page.read_text(), STORED))
