"""Writes tables of README.md and docs, and pictures, from the stored runs: `python -m benchmarks.page`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from dml_jax.bench import compile_costs, random_program_section, run_comparison, run_picture
from dml_jax.bench.device_transfers import OPERATOR as TRANSFER
from dml_jax.bench.device_transfers import lines
from dml_jax.bench.results import CALL, CALLS, FILES, Results
from dml_jax.bench.run_comparison import Comparison, compared
from dml_jax.bench.sharded_training import OPERATOR as TRAINED

from .tables import (
    COPY,
    Cases,
    counted,
    folded,
    grouped,
    kind_of,
    large,
    mean,
    means,
    measured_on,
    noted,
    of_operators,
    pairs,
    percent,
    rows,
)

DOCS = Path(__file__).parent.parent / "docs"
STORED = DOCS / "benchmarks"
COMPARED = STORED / "devices.md"
PAGES = (DOCS / "benchmarks.md", DOCS.parent / "README.md", COMPARED, STORED / "networks.md")

# A table stands between two comments, the first of which names it: <!-- h100.json: summary --> ... <!-- end -->
TABLE = re.compile(r"(<!-- ([\w., ]+): ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SUMMED = ["jnp", "torch"]
# Operators that share a row of the summary.
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
        "grid_sample",
        "identity",
        "local_response_normalization",
        "lp_pooling",
        "max_pooling",
        "random_bits",
        "reduce",
        "resample",
        "roi_align",
        "roi_pooling",
        "value_scale_2d",
    ),
    "products of matrices": ("convolution", "gemm", "rnn"),
}
# Rows of gradients and of graphs: a name, and a pattern that the cases have.
TYPES = {dtype: rf"\b{dtype}\b" for dtype in ("float32", "bfloat16", "float16", "uint8")}
GRADIENTS = {
    **TYPES,
    "uniform ids": "uniform$",
    "ids after Zipf's law, such as words": "Zipf$",
    "one id": "one id$",
    "a permutation": "(?<!promised) permutation$",
    "a permutation, `unique_indices=True`": "promised permutation$",
    "labels": "labels of",
}
# Rows of the README: a text, where the cases are, and a pattern that begins their names.
PICTURES, NARROW = "(depth_to_space|space_to_depth)", "(uint8|float16|bfloat16)"
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
    ("whole ONNX networks of 16-bit floats, beside torch.compile", "networks", ".*float16"),
)
PEERS = {"networks": "torch.compile"}  # of other rows jax.numpy
COLUMNS = {"h100": "on an NVIDIA H100", "cpu": "on two CPU cores"}


def rewritten(page: str, folder: Path) -> str:
    """The page with every table made anew from the files of `folder`."""

    def made(found: re.Match[str]) -> str:
        head, files, table, end = found.groups()
        return "\n".join([head, *TABLES[table](*(folder / file for file in files.split(", "))), "", end])

    return TABLE.sub(made, page)


def comparisons(page: str, folder: Path) -> Iterator[tuple[Path, Comparison]]:
    """The comparisons of runs that the page has, and the file of the picture of each."""
    for _, files, table, _ in TABLE.findall(page):
        if table == "devices":
            paths = [folder / file for file in files.split(", ")]
            yield _picture_of(*paths), compared([*map(Results.read, paths)])


def _picture_of(file: Path, *_: Path) -> Path:
    return file.with_name(f"{COMPARED.stem}_{kind_of(file)}.svg")


def _devices(*files: Path) -> Iterator[str]:
    """A column for each run, as `dml-jax bench --compare` prints them."""
    comparison = compared([*map(Results.read, files)])
    yield from rows(*comparison.table())
    notes = [re.sub(r"--\w+", r"`\g<0>`", note) for note in comparison.notes]
    yield from ("", *(line for summary in noted(notes) for line in folded(summary, (f"* {note}" for note in notes))))
    yield f"![The same as a picture]({_picture_of(*files).name})"


def _speed(*files: Path) -> Iterator[str]:
    """A column for each device: the geometric mean of how many times as fast cases are, and the least and the most."""
    columns = []
    for file in files:
        cases, gradients = _read(file), _read(file.with_stem(f"{file.stem}_gradients"))
        calls = {name: case for name, case in cases.items() if name.endswith(CALL)}
        moved = {name: case for name, case in large(cases).items() if not name.endswith(CALL)}
        exported = file.with_stem(f"{file.stem}_exported")
        networks = _read(exported) if exported.exists() else {}
        of = {"moved": moved, "gradients": gradients, "calls": calls, "networks": networks}
        columns.append([_spread(of[where], pattern, PEERS.get(where, "jnp")) for _, where, pattern in SPEED])
    body = [[text, *numbers] for (text, _, _), *numbers in zip(SPEED, *columns, strict=True) if {*numbers} != {"-"}]
    yield from rows(["times as fast as `jax.numpy`", *map(_column, files)], body)


def _column(file: Path) -> str:
    """The device, and how uncertain the run was."""
    notes = Results.read(file).notes
    worst = f", cases [uncertain](docs/benchmarks.md) by up to {max(map(percent, notes))}%" if notes else ""
    return f"{COLUMNS[file.stem]}{worst}"


def _spread(cases: Cases, pattern: str, peer: str) -> str:
    meant = {name: case for name, case in cases.items() if re.match(pattern, name)}
    found = [other.seconds / ours.seconds for ours, other in pairs(meant, peer)]
    return f"{mean(meant, peer)} ({min(found):.2f}-{max(found):.2f})" if found else "-"


def _summary(cases: Cases) -> Iterator[str]:
    """A row per operator, for what several have in common, for shapes of real programs, and for eager calls."""
    groups: dict[str, Cases] = {name: counted(of) for name, of in grouped(cases).items()}
    last = {name: groups.pop(name) for name in (FILES, CALLS) if name in groups}
    shared = {name: _joined(groups.pop(operator, {}) for operator in operators) for name, operators in OTHERS.items()}
    real = {"shapes of real programs": {name: case for name, case in large(cases).items() if " real " in name}}
    yield from means({**groups, **shared, **real, **last}, SUMMED)


def _joined(groups: Iterable[Cases]) -> Cases:
    return {name: case for of in groups for name, case in of.items()}


def _grouped_by(patterns: Mapping[str, str], summed: Sequence[str]) -> Callable[[Cases], Iterator[str]]:
    """A table with a row for each pattern, of the cases that have it."""

    def table(cases: Cases) -> Iterator[str]:
        groups = {name: {n: case for n, case in cases.items() if re.search(p, n)} for name, p in patterns.items()}
        yield from means({name: counted(of) for name, of in groups.items()}, summed)

    return table


def _on_each(columns: Mapping[str, str]) -> Callable[..., Iterator[str]]:
    """A table of the networks that all devices have, and of their geometric mean; columns without numbers are left out.

    Args:
      columns: the implementation, or the copy, by the title of each column.
    """

    def table(*files: Path) -> Iterator[str]:
        found = {file.stem.partition("_")[0]: _read(file) for file in files}
        shown = [
            (f"{title}, {device}", cases, column)
            for device, cases in found.items()
            for title, column in columns.items()
            if mean(cases, column)
        ]
        common = [name for name in next(iter(found.values())) if all(name in cases for cases in found.values())]
        groups = {**{name.partition(" ")[2]: (name,) for name in common}, "geometric mean": tuple(common)}
        body = []
        for row, names in groups.items():
            body.append([row, *(mean({n: cases[n] for n in names}, column) or "-" for _, cases, column in shown)])
        yield from (*map(_run, files), "", *rows(["network", *(title for title, *_ in shown)], body))

    return table


def _exported(*files: Path) -> Iterator[str]:
    """For each run a row for each module of torch, with a column for each type and each way of torch's."""
    for file in files:
        cases = _read(file)
        networks: dict[str, dict[str, Cases]] = {}
        for name, case in cases.items():
            network, dtype = name.partition(" ")[2].split(", ")
            networks.setdefault(network, {})[dtype] = {name: case}
        dtypes = sorted({dtype for of in networks.values() for dtype in of})
        columns = [(dtype, name) for dtype in dtypes for name in ("eager torch", "torch.compile")]
        every = {dtype: {n: c for of in networks.values() for n, c in of.get(dtype, {}).items()} for dtype in dtypes}
        body = [
            [network, *(mean(of.get(dtype, {}), name) or "-" for dtype, name in columns)]
            for network, of in [*networks.items(), ("geometric mean", every)]
        ]
        titles = [f"x {name}, {dtype}" for dtype, name in columns]
        yield from (measured_on(Results.read(file)), "", *rows(["network", *titles], body))


def _random(file: Path) -> Iterator[str]:
    """A row for each group of random programs."""
    yield from (_run(file), "", *rows(*random_program_section.summary(Results.read(file).rows)))


def _costs(*files: Path) -> Iterator[str]:
    """A row for each run: the geometric means of what its page has."""
    yield from (*map(_run, files), "")
    last = []
    for run in map(Results.read, files):
        columns = compile_costs.table("", run.costs, ["dml_jax", "jnp"], None).columns
        last.append([run.device, *(str([*column.cells][-1]) for column in columns[1:])])
    yield from rows(["geometric mean", *(str(column.header) for column in columns[1:])], last)


def _curve(file: Path) -> Iterator[str]:
    """The picture of a run."""
    yield from (_run(file), "", f"![Bandwidth over the size of the working set](benchmarks/{file.stem}.svg)")


def _run(file: Path) -> str:
    return measured_on(Results.read(file))


def _read(file: Path) -> Cases:
    return of_operators(Results.read(file))


def _of_cases(table: Callable[[Cases], Iterator[str]]) -> Callable[[Path], Iterator[str]]:
    """A table of one run, below the line that says where it was measured."""

    def below(file: Path) -> Iterator[str]:
        yield from (_run(file), "", *table(_read(file)))

    return below


def _sharded(file: Path) -> Iterator[str]:
    """The part of linear scaling of each kind of program: the least and the mean; and in a line what was moved."""
    run = Results.read(file)
    devices = int(run.device.partition(" devices on ")[0].rpartition(" ")[2])
    cases = [case for case in _read(file).values() if "dml_jax" in case]
    groups: dict[str, list[float]] = {}
    for case in cases:
        ours = case["dml_jax"]
        if "one device" in case:
            groups.setdefault("batches", []).append(case["one device"].seconds / (devices * ours.seconds))
        elif ours.operator == TRAINED:
            name = ours.case.removeprefix(f"{TRAINED} ").partition(",")[0]
            groups.setdefault(name, []).append(ours.of_copy)
        else:
            way = "backward" if " backward, " in ours.case else "forward"
            name = f"operators on meshes, {way}, {'with collectives' if ours.collectives else 'without collectives'}"
            groups.setdefault(name, []).append(ours.of_copy)
    body = [[name, str(len(p)), f"{min(p):.2f}", f"{geometric_mean(p):.2f}"] for name, p in groups.items()]
    moved = [row for row in run.rows if row.operator == TRANSFER]
    told = [f"{name} {speed} GB/s" for name, _, speed, *_ in lines(moved)]
    yield from (measured_on(run), "", *rows(["", "programs", "least of linear", "mean"], body))
    if told:
        yield from ("", f"Transfers: {'; '.join(told)}.")


TABLES: Mapping[str, Callable[..., Iterator[str]]] = {
    "devices": _devices,
    "speed": _speed,
    "summary": _of_cases(_summary),
    "gradients": _of_cases(_grouped_by(GRADIENTS, [*SUMMED, "deterministic"])),
    "graphs": _of_cases(_grouped_by(TYPES, ["one each", *SUMMED])),
    "networks": _on_each({"of a matmul": COPY, "x ONNX Runtime": "ONNX Runtime"}),
    "quantised": _on_each({"x floats": "floats", "x constants": "constants", "x ONNX Runtime": "ONNX Runtime"}),
    "exported": _exported,
    "sharded": _sharded,
    "random": _random,
    "caches": _curve,
    "costs": _costs,
}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page.read_text(), STORED))
    for picture, comparison in comparisons(COMPARED.read_text(), STORED):
        run_comparison.draw(comparison, picture)
    for picture in STORED.glob("*.svg"):
        if (run := picture.with_suffix(".json")).exists():
            run_picture.draw(Results.read(run), picture)
