"""Ceilings of the memory, peaks of devices, and caches: bytes counted by hand, and in what XLA compiles."""

import json
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from commands import bench as run

from dml_jax.bench import bandwidth_ceilings, cache_bandwidth, results, run_picture, section, suites
from dml_jax.bench.timing import Effort, Measured

ROOT = Path(__file__).parent.parent
N = 2**22  # elements of an array
# Arrays that are read and written, and elements beside them: the factor, and the sums of 1024 rows.
BY_HAND = {"read": (1, 1024), "write": (1, 1), "copy": (2, 0), "scale": (2, 1), "triad": (3, 1)}
EXPECTED = {
    "read": lambda x: x.reshape(1024, -1).sum(axis=1),
    "write": lambda a: np.full(N, a),
    "copy": lambda x: -x,
    "scale": lambda a, x: a * x,
    "triad": lambda a, x, z: x + a * z,
}


def row(case, implementation, moved, seconds, operator=cache_bandwidth.OPERATOR):
    return Measured(case, operator, implementation, moved, seconds, 0.9 * seconds, 1.1 * seconds, 0.5, True)


# Ceilings.


def ceiling(name):
    """The case of N elements, and a run of it."""
    (case,) = (case for case in bandwidth_ceilings.cases(4 * N * BY_HAND[name][0]) if f" {name} " in case.name)
    return case, bandwidth_ceilings.JITTED.start(case, [case.make()])


@pytest.mark.device
@pytest.mark.parametrize("name", BY_HAND)
def test_a_ceiling_moves_the_bytes_that_are_counted_by_hand(name):
    """XLA counts them in what it compiled; the output is written into the donated one, and nothing lies between."""
    arrays, others = BY_HAND[name]
    case, made = ceiling(name)
    compiled = made.called.lower(made.out, *made.turns[0]).compile()
    memory = compiled.memory_analysis()
    assert case.moved == 4 * N * arrays
    assert compiled.cost_analysis()["bytes accessed"] == pytest.approx(case.moved + 4 * others, rel=1e-2)
    assert memory.alias_size_in_bytes == memory.output_size_in_bytes == made.out.nbytes
    assert memory.temp_size_in_bytes < case.moved / 100
    assert not re.search(r"constant\(\{", compiled.as_text())


@pytest.mark.device
@pytest.mark.parametrize("name", BY_HAND)
def test_a_ceiling_computes_what_its_name_says(name):
    case, made = ceiling(name)
    made.step(0)
    expected = EXPECTED[name](*(np.asarray(one, np.float64) for one in case.make()))
    np.testing.assert_allclose(made.value(10**9), expected, rtol=1e-5, atol=1e-3)


def test_every_kernel_is_counted_here():
    assert [*bandwidth_ceilings.KERNELS] == [*BY_HAND] == [*EXPECTED]


@pytest.mark.parametrize("sections", [suites.quick_suite(peers=False), suites.full_suite(2**20, peers=False)])
def test_a_run_begins_with_its_ceilings(sections):
    assert [job.name.split()[:2] for job in sections[0].jobs] == [["ceiling", name] for name in BY_HAND]


def test_a_ceiling_is_shown_in_gigabytes_a_second_and_beside_the_peak():
    rows = [replace(row("ceiling read float32 3 GB", "jax", 3 * 10**9, 1e-3), of_copy=1.06)]
    for peak, parts in ((None, []), (4e12, ["75%"])):
        shown = bandwidth_ceilings.table("title", rows, ["jax"], peak)
        cells = [[*column.cells] for column in shown.columns]
        assert cells == [["read float32 3 GB"], ["3000.0"], *([part] for part in parts), ["1.06"], ["±10%"]]


def test_the_table_of_operators_has_the_peak_where_it_is_known():
    ours = row("a case", "dml_jax", 10**9, 1e-3)
    assert section.columns(["dml_jax"], 2e12) == ["case", "of copy", "of peak", "spread"]
    assert section.cells("a case", {"dml_jax": ours}, ["dml_jax"], 2e12) == ["a case", "0.50", "50%", "±10%"]
    assert section.cells("a case", {"dml_jax": ours}, ["dml_jax"]) == ["a case", "0.50", "±10%"]


@pytest.mark.parametrize("peak", [None, 1e15])
def test_the_command_prints_and_stores_the_peak(peak, tmp_path, monkeypatch):
    monkeypatch.setattr(bandwidth_ceilings, "peak_of", lambda kind, devices: peak and peak * devices)
    done = run("--quick", "--rounds", 1, "--size", 1, "-k", "ceiling read", "--json", tmp_path / "r.json")
    assert done.exit_code == 0, done.output
    assert ("of peak" in done.output.replace(bandwidth_ceilings.LEGEND, "")) == (peak is not None)
    stored = results.Results.read(tmp_path / "r.json")
    assert stored.peak == peak
    assert [(r.operator, r.contender) for r in stored.rows] == [("ceiling", "jax")]


# Peaks.


def test_devices_have_their_own_names_and_no_other():
    kinds = [kind for peak in bandwidth_ceilings.PEAKS for kind in peak.kinds]
    assert len(kinds) == len({*kinds})
    for kind in ("cpu", "", "NVIDIA", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "TPU v3", "TPU7x", "gfx942"):
        assert bandwidth_ceilings.peak_of(kind) is None
    assert bandwidth_ceilings.peak_of("NVIDIA H100 80GB HBM3") == 3.35e12
    assert bandwidth_ceilings.peak_of("NVIDIA H200", 8) == 8 * 4.8e12
    assert bandwidth_ceilings.peak_of("TPU v5 lite") == 819e9 < bandwidth_ceilings.peak_of("TPU v5")


def test_the_page_has_every_peak_and_its_source():
    text = (ROOT / "docs/benchmarks/measuring.md").read_text()
    rows = re.findall(r"^\| `(.+)` \| ([\d,]+) \| ([\d-]+) \| \[.+\]\((https://\S+)\) \|$", text, re.MULTILINE)
    assert rows == [
        ("`, `".join(p.kinds), f"{p.bandwidth / 1e9:,.0f}", str(p.cache // 2**20) if p.cache else "-", p.source)
        for p in bandwidth_ceilings.PEAKS
    ]


# Caches.


@pytest.mark.device
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", ["copy", "read"])
def test_a_pass_moves_its_set_and_stays_in_the_loop(name, count, monkeypatch):
    """Each pass reads and writes the set: XLA counts those of a step, all steps, and no copy of the set.

    The sums of a read are an eighth of the set, which is read and written.
    """
    size, passes = 2**20, 64
    _, unroll = cache_bandwidth.LOOPS.get(jax.default_backend(), cache_bandwidth.LOOP)
    monkeypatch.setattr(cache_bandwidth, "LOOPS", {jax.default_backend(): (passes * size, unroll)})
    sets = cache_bandwidth.Sets(cache_bandwidth.KERNELS[name], size, count * size)
    compiled = sets.called.lower(sets.out, np.int32(0), sets.x, np.int32(1)).compile()
    moved = size if name == "copy" else size + 2 * size // 8
    assert (sets.count, sets.passes) == (count, passes)
    assert compiled.cost_analysis()["bytes accessed"] == pytest.approx(unroll * moved, rel=1e-2)
    assert f'"known_trip_count":{{"n":"{passes // unroll}"}}' in compiled.as_text()
    assert compiled.memory_analysis().temp_size_in_bytes < size / 100
    assert compiled.memory_analysis().alias_size_in_bytes == sets.out.nbytes + 4  # and the number of the next set
    assert cache_bandwidth.Sets(cache_bandwidth.KERNELS[name], size, size).count == 2


def passed_over(name, x, first, step, passes):
    """The output of a kernel, by a loop of NumPy."""
    out = np.zeros_like(x) if name == "copy" else np.zeros(x.shape[1] // 8, np.int32)
    for number in first + step * np.arange(passes, dtype=np.int32):
        at = number % len(x)
        if name == "copy":
            out[at] = ~x[at]
        else:
            out += x[at].reshape(8, -1).sum(axis=0, dtype=np.int32)
    return out


@pytest.mark.device
@pytest.mark.parametrize(("first", "step"), [(0, 0), (2, 0), (0, 1), (6, 1)])
@pytest.mark.parametrize("unroll", [1, 3])
@pytest.mark.parametrize("name", ["copy", "read"])
def test_warm_is_one_set_and_cold_is_every_set_in_turn(name, unroll, first, step, monkeypatch):
    monkeypatch.setattr(cache_bandwidth, "LOOPS", {jax.default_backend(): (5 * 256, unroll)})
    sets = cache_bandwidth.Sets(cache_bandwidth.KERNELS[name], 256, 8 * 256)
    values = np.random.default_rng(0).integers(-100, 100, sets.x.shape, np.int32)
    sets.x = jax.numpy.asarray(values)
    behind = sets.call(np.int32(first), np.int32(step))
    np.testing.assert_array_equal(sets.out, passed_over(name, values, first, step, 5))
    assert behind == first + 5 * step


@pytest.mark.parametrize(("step", "firsts"), [(0, [0, 0, 0, 0]), (1, [0, 5, 10, 15])])
def test_a_call_begins_behind_the_sets_of_the_last_one(step, firsts):
    called = []

    def call(first, step):
        called.append((first, step))
        return first + 5 * step

    made = cache_bandwidth.SetsRun(SimpleNamespace(call=call), step)
    for turn in range(4):
        made.step(turn)
    assert called == [(first, step) for first in firsts]


def test_seconds_of_caches_are_those_of_a_pass(monkeypatch):
    monkeypatch.setattr(cache_bandwidth, "COLD", 2**18)
    once = [replace(row("a case", "copy, cold", 2**14, 9.0), samples=(9.0,))]
    monkeypatch.setattr(cache_bandwidth, "measure_runs", lambda *_: once)
    (measured,) = cache_bandwidth.section(2**14).jobs[-1].measure(Effort(1, 1e-4))
    assert measured.samples == (measured.seconds,) == (9.0 / cache_bandwidth.MANY,)


PASSES = {"256 B": (256, 1e-6), "16 KiB": (2**14, 1.5e-6), "1 MiB": (2**20, 4e-6)}
ROWS = [row(f"caches {size}", name, *found) for size, found in PASSES.items() for name in cache_bandwidth.CURVES]


LARGER = [
    row(f"caches {mega} MiB", name, mega * 2**20, mega * 4e-6) for mega in (8, 64) for name in cache_bandwidth.CURVES
]


def test_sets_over_which_a_pass_mostly_starts_are_told_and_not_drawn():
    shown = [[*column.cells] for column in cache_bandwidth.table("title", ROWS, cache_bandwidth.CURVES).columns]
    assert shown[0] == ["256 B", "16 KiB", "1 MiB"]
    assert shown[1] == ["0.3", "10.9", "262.1"]
    assert shown[-1] == ["100%", "67%", "25%"]
    assert cache_bandwidth.points(ROWS, "read, warm") == [(2**20, pytest.approx(2**20 / 4e-6))]
    assert [size for size, _ in cache_bandwidth.points(ROWS[4:], "read, warm")] == [2**14, 2**20]


def test_caches_of_a_cpu_are_those_that_linux_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    monkeypatch.setattr(cache_bandwidth, "_CACHES", tmp_path)
    assert cache_bandwidth.cache_sizes("cpu") == {}
    for i, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "1024K")]):
        (tmp_path / f"index{i}").mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (tmp_path / f"index{i}" / name).write_text(f"{text}\n")
    assert cache_bandwidth.cache_sizes("cpu") == {"L1 cache": "48 KiB", "L2 cache": "1024 KiB"}
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert cache_bandwidth.cache_sizes("NVIDIA H100 80GB HBM3") == {"L2 cache": "51200 KiB"}
    assert cache_bandwidth.cache_sizes("TPU v4") == cache_bandwidth.cache_sizes("another") == {}


@pytest.mark.skipif(not find_spec("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*ROWS, *LARGER], [*cache_bandwidth.CURVES, "L1 cache", "working set", "1 MiB", "64 MiB"]),
        ([row("ceiling read", "jax", 2**20, 1e-3, "ceiling")], ["ceiling read", "0.5", "1", "2", run_picture.UNIT]),
    ],
    ids=["caches", "ceilings"],
)
def test_what_is_measured_is_drawn(rows, words, tmp_path):
    stored = results.Results("a device", "2026-01-01T00:00:00+00:00", {"L1 cache": "48 KiB"}, tuple(rows))
    run_picture.draw(stored, tmp_path / "c.svg")
    text = (tmp_path / "c.svg").read_text()
    assert "prefers-color-scheme: dark" in text
    for word in words:
        assert f"<!-- {word} -->" in text


@pytest.mark.exhaustive
@pytest.mark.device
def test_the_command_measures_caches(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_bandwidth, "COLD", 2**20)
    done = run("--caches", "--rounds", 2, "-k", "256 B", "-k", "6 KiB", "--json", tmp_path / "c.json", "--size", 1)
    assert done.exit_code == 0, done.output
    for word in ("working set", "16 KiB", "256 KiB", "empty pass"):
        assert word in done.output.replace(cache_bandwidth.LEGEND, "")
    stored = results.Results.read(tmp_path / "c.json")
    assert [r.contender for r in stored.rows] == cache_bandwidth.CURVES * 3
    assert [r.of_copy for r in stored.rows if r.contender == "copy, cold"] == [1.0] * 3
    assert cache_bandwidth.cache_sizes(jax.devices()[0].device_kind).items() <= stored.versions.items()
    assert "notes" in json.loads((tmp_path / "c.json").read_text())


def test_caches_are_listed_up_to_a_size():
    assert run("--caches", "--list").output.splitlines()[-1] == "caches 1024 MiB"
    listed = ["caches 256 B", *(f"caches {2**i} KiB" for i in range(4, 10)), "caches 1 MiB"]
    assert run("--caches", "--list", "--size", 1).output.splitlines() == listed


@pytest.mark.parametrize("option", [["--sharded"], ["--cpu-devices", 2]])
def test_caches_are_of_one_device(option):
    done = run("--caches", *option)
    assert done.exit_code == 2
    assert "--caches measures one device: leave out --sharded and --cpu-devices" in done.output
