"""dml-jax bench --random and --costs: programs by seed, agreement of implementations, and reports."""

import csv
import io
import json
import signal
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import bench as run
from rich.console import Console

from benchmarks.page import TABLES
from dml_jax.bench import compile_costs, operators, random_program_section, random_programs, results, timing
from dml_jax.bench.case import Drawn
from dml_jax.bench.random_draws import Draws
from dml_jax.bench.random_programs import GROUPS, drawn
from dml_jax.command import bench_run

SIZE = 2**15
REDUCED = ("sum", "average", "max", "argmax", "sum_square", "log_sum_exp")
# How names of programs go on behind the operator and the group: each has twins of its own, or the usual ones.
KINDS = {
    ("depth_to_space", "space_to_depth"): ("blocks, ",),
    ("as_strided",): ("views, ",),
    ("gather",): ("rows, ", "gradients, "),
    ("gather_elements",): ("elements, ", "gradients, "),
    ("join", "pad", "slice", "split", "tile"): ("narrow, ",),
    ("reduce",): tuple(f"reductions, function={name} " for name in REDUCED),
    ("activate",): ("reductions, softmax", "reductions, gradient softmax"),
    ("cumulative_summation",): ("reductions, axis=0", "reductions, axis=1"),
    ("top_k",): ("reductions, axis=0 k=5:", "reductions, axis=1"),
    ("average_pooling", "max_pooling", "unfold"): ("windows, window_sizes", "windows, gradient window_sizes"),
    ("unfold",): ("windows, window_sizes=(5, 5) strides=(5, 5)",),  # side by side, and a remainder
    ("convolution",): ("windows, strides", "windows, gradient strides"),
}
NAMED = [f"{operator} {words}" for of, ways in KINDS.items() for operator in of for words in ways]
# Of seed 7 and 1 MiB, as NumPy 2.4 draws them on x86-64.
NAMES = [
    "space_to_depth blocks, block_size=16 order=CRD data_format=NHWC: int16 1x480x224x3",
    "as_strided views, sizes=(5, 7, 4, 1872) strides=(13104, 1872, 65520, 1): float32 262080",
    "gather rows, axis=0: bfloat16 19064x55, int32 9532",
    "gather_elements elements, axis=0: int16 41x12545, int32 41x12545",
]


# Programs.


@pytest.mark.thinned(9)
@pytest.mark.parametrize("begin", NAMED)
def test_all_contenders_compute_the_same(begin):
    """torch in every way that it has, and jax.numpy in the form that is right for numbers of 16 bits."""
    group = begin.split()[1].removesuffix(",")
    drawn = (GROUPS[group](Draws(seed, SIZE)) for seed in range(500))
    case = next(case for case in drawn if case.name.startswith(begin))
    arrays = case.make()
    found = random_program_section._implementations(peers=True)
    runs = {c.name: run for c in found if (run := c.start(case, [arrays, arrays]))}
    assert {"dml_jax", "plain", "jnp"} <= {*runs}
    assert any(name.startswith("torch ") for name in runs) == bool(find_spec("torch"))
    assert timing._compare(runs, case.tolerance) == dict.fromkeys(runs, True)
    if group in ("blocks", "elements", "reductions", "windows"):  # others do not read everything once
        assert case.moved == sum(x.nbytes for x in (*arrays, *jax.tree.leaves(case.call(*arrays))))


def test_a_seed_draws_the_same_programs_everywhere():
    """However long it draws: other machines and releases of NumPy must draw these names, too."""
    assert [case.name for case in drawn(7, 2**20, 0.001)][:4] == NAMES
    assert [case.name for case in islice(drawn(7, 2**20, 1000), 4)] == NAMES
    assert [case.name for case in islice(drawn(8, 2**20, 1000), 4)] != NAMES
    (rows,) = islice(drawn(7, 2**20, 1, ["rows"]), 1)
    for array, again in zip(rows.make(), rows.make(), strict=True):
        np.testing.assert_array_equal(array, again)


def test_every_group_has_a_program_and_then_the_time_decides(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(random_programs, "time", SimpleNamespace(monotonic=lambda: clock.now))
    found = []
    for case in drawn(0, SIZE, 10):
        found.append(case.group)
        clock.now += 20 if len(found) < 3 else 1
    assert found == [*GROUPS]
    clock.now, found = 0.0, []
    for case in drawn(0, SIZE, 10, ["rows", "views"]):
        found.append(case.group)
        clock.now += 2.5
    assert found == ["rows", "views"] * 2 + ["rows"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_numbers_differ_along_an_axis_as_far_as_there_are_any(dtype):
    for shape, axis in (((7, 1000), 1), ((1000, 7), 0)):
        array = Draws(0, SIZE).different(shape, jnp.dtype(dtype), axis).make().astype(np.float64)
        assert array.shape == shape
        assert np.isfinite(array).all()
        assert all(len({*line}) == 1000 for line in np.moveaxis(array, axis, 1))
        assert len({tuple(line) for line in np.moveaxis(array, axis, 1)}) == 7
        assert np.abs(array).min() >= float(jnp.finfo(dtype).tiny)


def test_sums_of_few_signs_are_exact():
    array = Draws(0, SIZE).few_signs((64, 4096), jnp.dtype("bfloat16")).make().astype(np.float64)
    assert {*np.unique(array)} == {-1, 0, 1}
    assert np.abs(np.cumsum(array, 1)).max() < 2**8


# The table.


def rows_of(name, **seconds):
    """A program's rows; of what is negative the bits differ."""
    return [
        timing.Measured(name, name.split()[0], who.replace("_", " ", 1) if "torch" in who else who,
                           2**20, abs(s), 0.9 * abs(s), abs(s), 0.5 if who == "dml_jax" else 1.0, s > 0)
        for who, s in seconds.items()
    ]  # fmt: skip


ROWS = [
    *rows_of("gather rows, a", dml_jax=2, plain=4, jnp=8, torch_embedding=1, torch_take=3),
    *rows_of("gather rows, b", dml_jax=2, plain=1, jnp=2, torch_embedding=-0.1, torch_take=4),
    *rows_of("pad narrow, c", dml_jax=1, plain=-9, jnp=1.5),
]


def test_a_group_has_geometric_means_and_its_worst():
    """Beside torch's best way that is right: 1/2 and 4/2; the fastest other is torch in one program, plain in one."""
    head, body = random_program_section.summary(ROWS)
    assert head == ["group", "programs", "of copy", "x jnp", "x plain", "x torch", "least", "below 0.9"]
    assert body == [
        ["rows", "2", "0.50", "2.00", "1.00", "1.00", "0.50", "100%"],
        ["narrow", "1", "0.50", "1.50", "-", "-", "1.50", "0%"],
        ["all", "3", "0.50", "1.82", "1.00", "1.00", "0.50", "67%"],
    ]
    assert [*random_program_section.slowest(ROWS)] == [
        ("0.50", "x plain", "gather rows, b"),
        ("0.50", "x torch", "gather rows, a"),
        ("1.50", "x jnp", "pad narrow, c"),
    ]


def test_the_slowest_and_those_of_other_bits_than_plain_have_names():
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(random_program_section._table("a title", ROWS, [], None))
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert lines[0] == "a title"
    assert lines[-4:] == [
        "0.50 x plain gather rows, b",
        "0.50 x torch gather rows, a",
        "1.50 x jnp pad narrow, c",
        "differs from plain pad narrow, c",
    ]


def test_the_page_has_the_same_table(tmp_path):
    file = tmp_path / "cpu_random.json"
    file.write_text(results.Results("a device", "2026-01-01T00:00:00", {"jax": "1.2"}, tuple(ROWS)).json())
    lines = [*TABLES["random"](file)]
    assert lines[0] == "Measured on a device, 2026-01-01: jax 1.2."
    assert "| narrow | 1 | 0.50 | 1.50 | - | - | 1.50 | 0% |" in lines
    assert lines[-1].startswith("| all | 3 |")


# The command.

QUICKLY = ("--random", 1, "--seconds", 1e-9, "--size", 1, "--rounds", 1, "--no-peers")


@pytest.fixture(autouse=True)
def not_interrupted(monkeypatch):
    monkeypatch.setattr(bench_run, "_interrupted", [])


def test_a_run_prints_groups_and_stores_every_program(tmp_path):
    files = [tmp_path / name for name in ("r.json", "r.csv")]
    done = run(*QUICKLY, "-k", "rows,", "-k", "narrow,", "--json", files[0], "--csv", files[1])
    assert done.exit_code == 0, done.output
    wanted = [case.name for case in drawn(1, 2**20, 1e-9) if case.group in ("rows", "narrow")]
    read = results.Results.read(files[0])
    assert [name for name, _ in read.by_case()] == wanted
    assert [row.contender for row in read.rows] == ["dml_jax", "plain", "jnp"] * 2
    assert len([*csv.DictReader(files[1].read_text().splitlines())]) == 6
    assert "random programs, seed 1, 1 MiB" in done.output
    for group, count in (("rows", 1), ("narrow", 1), ("all", 2)):
        assert any(line.split()[:2] == [group, str(count)] for line in done.output.splitlines())
    assert done.output.endswith(f"\n\n{random_program_section.LEGEND}\n")
    assert f"\n{random_program_section.SLOWEST} " in done.output


def changed(monkeypatch, group, make):
    """Lets a group draw programs whose first array `make` makes."""
    real = GROUPS[group]

    def draw(draws):
        program = real(draws)
        first, *others = program.arrays
        return replace(program, arrays=[replace(first, make=make), *others])

    monkeypatch.setitem(GROUPS, group, draw)


def test_other_programs_run_when_one_fails(monkeypatch, tmp_path):
    def make():
        raise MemoryError("no room for 1 TiB\nand more")

    changed(monkeypatch, "rows", make)
    done = run(*QUICKLY, "-k", "rows,", "-k", "narrow,", "--json", tmp_path / "r.json")
    assert done.exit_code == 1
    assert f"error: {program_named('rows')}: MemoryError: no room for 1 TiB\n" in done.output
    assert "error: 1 case failed, as said above; all others were measured" in done.output
    names = {row["case"] for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    assert names == {program_named("narrow")}


def program_named(group):
    return next(case.name for case in drawn(1, 2**20, 1) if case.group == group)


def test_an_interrupted_run_prints_and_stores_what_there_is(monkeypatch, tmp_path):
    case = next(case for case in drawn(1, 2**20, 1) if case.group == "rows")

    def make():
        signal.raise_signal(signal.SIGINT)
        return case.arrays[0].make()

    changed(monkeypatch, "rows", make)
    done = run(*QUICKLY, "-k", "rows,", "-k", "narrow,", "--json", tmp_path / "r.json")
    assert done.exit_code == 130
    stored = results.Results.read(tmp_path / "r.json")
    assert {row.operator for row in stored.rows} == {case.operator}
    assert stored.notes[-1] == "The run was interrupted, and has not all cases."
    assert any(line.split()[:2] == ["rows", "1"] for line in done.output.splitlines())
    assert "narrow" not in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--seconds", 3], 2, "--seconds is for --random only; leave it out"),
        (["--random", -1], 2, "-1 is not in the range x>=0"),
        (["--random", 1, "--seconds", 0], 2, "0.0 is not in the range x>0"),
        (["--random", 1, "--quick"], 2, "--quick is for runs without --random only; leave it out"),
        (["--random", 1, "--list"], 2, "--list is for runs without --random only; leave it out"),
        (["--random", 1, "--sharded"], 2, "--sharded is for runs without --random only; leave it out"),
        (["--costs", "--random", 1], 2, "--random is for runs without --costs only; leave it out"),
        (["--costs", "--compare", "old.json"], 2, "--compare is for runs without --costs only; leave it out"),
        ([*QUICKLY, "-k", "nothing"], 1, "no program that was drawn has what -k asks for in its name"),
    ],
)
def test_mistakes_are_told(arguments, code, message):
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert message in done.output


# Costs.


def test_costs_are_printed_and_stored(tmp_path):
    """A table of 4 MiB and as many bytes read from it, and an index for each 512 bytes, have to be in memory."""
    files = [tmp_path / name for name in ("r.json", "r.csv")]
    done = run("--costs", "-k", "gather rows of 512", "--rounds", 2, "--json", files[0], "--csv", files[1])
    assert done.exit_code == 0, done.output
    read = results.Results.read(files[0])
    assert read.rows == ()
    assert [(cost.contender, cost.floor) for cost in read.costs] == [
        (name, 2**23 + 2**15) for name in ("dml_jax", "jnp")
    ]
    for cost in read.costs:
        assert min(cost.tracing, cost.lowering, cost.compiling) > 0
        assert cost.peak >= cost.floor
    assert [line["contender"] for line in csv.DictReader(files[1].read_text().splitlines())] == ["dml_jax", "jnp"]
    lines = [line.split() for line in done.output.splitlines()]
    ours, other = read.costs
    ratios = [(1000, "tracing"), (1000, "lowering"), (1000, "compiling")]
    numbers = [n for k, name in ratios for n in (k * getattr(ours, name), getattr(other, name) / getattr(ours, name))]
    numbers += [ours.peak / ours.floor, other.peak / ours.peak]
    assert ["geometric", "mean", *(f"{number:.2f}" for number in numbers)] in lines
    assert done.output.endswith(f"\n\n{compile_costs.LEGEND}\n")


def test_costs_are_of_every_operator_and_of_a_gradient():
    *others, gradient = (job.name for job in compile_costs.costs_section().jobs)
    assert [name.split()[0] for name in others] == [*dict.fromkeys(case.operator for case in operators.quick())]
    assert "gather gradient" in gradient


def test_every_sample_traces_anew_and_temporary_arrays_count():
    traced = []

    @jax.jit
    def sorted_twice(x):
        traced.append(x)
        return jnp.sort(jnp.sort(x * 2)[::-1] * 3)

    numbers = Drawn((1000,), np.dtype(np.float32), lambda: np.arange(1000, dtype=np.float32))
    case = replace(next(operators.quick()), arrays=[numbers])
    (cost,) = compile_costs._measure(case, {"dml_jax": sorted_twice}, timing.Effort(3, 1e-4))
    assert len(traced) == 4  # and one that does not count
    assert cost.floor == 8000
    assert cost.peak > cost.floor


def test_medians_leave_the_first_time_out(monkeypatch):
    """Of sums 6, 12 and 30 seconds the quartiles are 6 and 30."""
    samples = iter([((99, 99, 99), 7, 7), ((1, 2, 3), 5, 4), ((2, 4, 6), 5, 4), ((5, 10, 15), 5, 4)])
    monkeypatch.setattr(compile_costs, "_compiled", lambda *_: next(samples))
    case = next(operators.quick())
    (cost,) = compile_costs._measure(case, {"dml_jax": case.call}, timing.Effort(3, 1e-4))
    kept = (1, 2, 3), (2, 4, 6), (5, 10, 15)
    assert cost == compile_costs.Cost(case.name, case.operator, "dml_jax", 2, 4, 6, 1.0, 5, 4, samples=kept)
