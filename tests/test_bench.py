"""The benchmark `dml-jax bench`: its cases, agreement of all implementations, its files, and its errors.

test_bench_timing.py has how a case is timed and how results are compared.
"""

import csv
import io
import itertools
import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from checks import sampled
from commands import bench as run
from rich.console import Group

import dml_jax
from dml_jax import ConstraintError
from dml_jax.bench import (
    gather_gradients,
    graph_fusion,
    implementations,
    onnx_image_networks,
    operators,
    peers,
    results,
    section,
    timing,
)
from dml_jax.bench.case import normal
from dml_jax.bench.operators import OPERATORS, docstring_examples
from dml_jax.catalogue import FUNCTIONS
from dml_jax.command import bench_run, bench_setup
from dml_jax.command.devices import measured_kind

# No library has the generator of `random_bits`, and the rules of DirectML's regions.
WITHOUT_TWIN = {"random_bits", "roi_pooling", "roi_align"}


def row(case="a case", contender="dml_jax", of_copy=0.5):
    return timing.Measured(case, "gather", contender, 2**20, 1e-3, 0.9e-3, 1.2e-3, of_copy, True)


def kept(*rows):
    return results.Results("a device", "2026-01-01T00:00:00+00:00", {"jax": "0.10.2"}, rows)


def test_the_cases_are_those_of_every_operator():
    listed = {"quick": [*operators.quick()], "full": [*operators.full(2**22)], "small": [*operators.small()]}
    for chosen in listed.values():
        names = [case.name for case in chosen]
        assert len(names) == len(set(names))
    assert {case.operator for case in listed["quick"]} == {*FUNCTIONS}
    assert {case.operator for case in listed["full"]} == {*FUNCTIONS}
    assert {case.operator for case in listed["small"]} == {n for n, one in OPERATORS.items() if "small" in one.plans}
    texts = " ".join(case.name for case in listed["full"])
    for part in ("uint8", "float16", "float32", "float64", "b=2", "b=3", "b=4", "b=8", "DCR", "CRD", "NCHW", "NHWC"):
        assert part in texts
    assert {case.moved for case in operators.sweep(2**20)} == {case.moved for case in operators.sweep(2**21)}


def test_every_row_is_of_an_operator_and_has_its_peers():
    rows = [name for family in operators.FAMILIES for name in family.OPERATORS]
    assert len(rows) == len(set(rows))
    assert {*rows} <= {*FUNCTIONS} == {*OPERATORS}
    assert {name for name, operator in OPERATORS.items() if not operator.jnp} == WITHOUT_TWIN
    assert {name for name, operator in OPERATORS.items() if not operator.torch} == WITHOUT_TWIN
    assert all(case.operator == name for name, one in OPERATORS.items() for case in one.plans["quick"](2**16))


GROWN = [
    (case, given)
    for operator in ("add", "roi_align", "grid_sample")
    for case, given in zip(
        docstring_examples.grown(operator)["full"](2**14), docstring_examples._calls(operator), strict=True
    )
]


@pytest.mark.parametrize(("case", "given"), GROWN, ids=[case.name for case, _ in GROWN])
def test_an_example_grows_to_the_size_that_is_asked_for(case, given):
    """And so does its result, which repeats that of the example."""
    arrays, one = case.make(), getattr(dml_jax, case.operator)(**given)
    made = case.call(*arrays)
    np.testing.assert_array_equal(made, np.tile(one, [n // m for n, m in zip(made.shape, one.shape, strict=True)]))
    assert 2**12 < max(x.nbytes for x in (*arrays, made)) <= 2**14
    assert case.moved == sum(x.nbytes for x in (*arrays, made))


@pytest.mark.parametrize("operator", ["lp_pooling", "random_bits", "value"])
def test_an_example_that_cannot_grow_makes_no_case(operator, monkeypatch):
    """Windows cover all its dimensions, an attribute has its size, or it calls nothing."""
    without = SimpleNamespace(__doc__="value(1) is 1")
    monkeypatch.setattr(docstring_examples, "FUNCTIONS", {**FUNCTIONS, "value": without})
    assert [*docstring_examples.grown(operator)["full"](2**20)] == []


def test_bytes_are_what_the_arrays_need():
    """Of operators that read and write everything once; a gather also reads its indices."""
    for case in operators.quick():
        arrays = case.make()
        written = sum(out.nbytes for out in jax.tree.leaves(case.output))
        if case.operator in ("depth_to_space", "space_to_depth", "join", "split", "tile", "pad"):
            assert case.moved == sum(array.nbytes for array in arrays) + written
        if case.operator == "slice":
            assert case.moved == 2 * written
        if case.operator == "gather_elements":
            assert case.moved == arrays[0].nbytes + arrays[1].nbytes + written


def test_arrays_are_made_as_they_are_described(exhaustive):
    """Cases know their bytes, and what they are called, before anything is made."""
    cases = [*operators.small(), *operators.full(2**16), *operators.real(2**16), *GRADIENTS]
    for case in cases[:: 1 if exhaustive else 7]:
        for described, made in zip(case.arrays, case.make(), strict=True):
            assert (described.shape, described.dtype) == (made.shape, made.dtype), case.name


def test_shapes_of_real_programs_have_names_of_their_own():
    """`-k real` takes them, and no other."""
    real, others = (
        [case.name for case in one] for one in (operators.real(2**26), [*operators.full(2**26), *operators.small()])
    )
    assert len(real) == len(set(real)) >= 100
    assert all(" real " in name for name in real)
    assert not any("real" in name for name in others)
    texts = " ".join(real)
    for part in ("b=14", "b=16", "b=5", "b=32", "270x479", "3x640x640", "bfloat16", "Zipf", "128256", "tubelets"):
        assert part in texts


FULL = {case.name: case for case in [*list(operators.full(2**16))[::9], *(case for case, _ in GROWN)]}
REAL = {case.name: case for case in operators.real(2**16)}
SMALL = [name for name in REAL if "224x224" in name or "ids" in name]


@pytest.mark.thinned(9)
@pytest.mark.parametrize("name", sampled({**FULL, **REAL}, [*list(FULL)[::2], *SMALL[::9]]))
def test_all_contenders_give_the_same_bits(name):
    case = {**FULL, **REAL}[name]
    arrays = case.make()
    with jax.enable_x64(case.needs_x64):
        runs = {c.name: r for c in peers.implementations(eager=False) if (r := c.start(case, [arrays, arrays]))}
        assert {"dml_jax", "fresh", *(["jnp"] if case.operator not in WITHOUT_TWIN else [])} <= set(runs)
        same = timing._compare(runs, case.tolerance)
    assert same == dict.fromkeys(runs, True)


TINY = {case.name: case for case in operators.full(2**16) if "float32" in case.name}


@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
def test_every_way_of_torch_is_taken():
    """A form that raises counts as a type that torch lacks: each has a case that it does."""
    for name, operator in OPERATORS.items():
        cases = [case for case in TINY.values() if case.operator == name]
        for way in [way for way in operator.torch if way != peers.COMPILED]:
            assert any(peers.torch_form(way, case, [case.make()]) for case in cases), (name, way)


@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
@pytest.mark.parametrize("name", ["NCHW CRD b=2", "NHWC CRD b=2"])
@pytest.mark.parametrize("operator", ["depth_to_space", "space_to_depth"])
def test_pixel_shuffle_takes_both_formats(operator, name):
    case = next(case for case in TINY.values() if case.operator == operator and name in case.name)
    arrays = case.make()
    run = peers.torch_form("pixel_shuffle" if operator == "depth_to_space" else "pixel_unshuffle", case, [arrays])
    np.testing.assert_array_equal(run.value(10**9), np.asarray(case.call(*arrays)).ravel())
    assert run.out.is_contiguous()


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
@pytest.mark.parametrize("name", [name for name, operator in OPERATORS.items() if "compile" in operator.torch])
def test_what_torch_compiles_gives_the_same_bits(name):
    case = next(case for case in TINY.values() if case.operator == name)
    arrays = case.make()
    run = peers._compiled(case, [arrays])
    np.testing.assert_array_equal(run.value(10**9), np.asarray(case.call(*arrays)).ravel())


@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
def test_what_torch_cannot_compile_is_left_out_and_told(monkeypatch):
    def fails(*_):
        raise RuntimeError("no compiler is here\nand more")

    monkeypatch.setattr("torch.compile", lambda function, **_: fails)
    monkeypatch.setattr("torch.compiler.reset", lambda: None)
    peers._compiles.cache_clear()
    case = next(case for case in TINY.values() if case.operator == "gather")
    with pytest.warns(UserWarning, match="torch.compile is left out of all cases: no compiler is here$"):
        assert peers._compiled(case, [case.make()]) is None
    monkeypatch.setattr(peers, "_compiles", lambda: True)
    with pytest.warns(UserWarning, match="left out of gather .*: no compiler is here$"):
        assert peers._compiled(case, [case.make()]) is None


OF_CUPY = {case.name: case for case in TINY.values() if OPERATORS[case.operator].cupy}


@pytest.mark.thinned
@pytest.mark.parametrize("name", sampled(OF_CUPY, list(OF_CUPY)[::4]))
def test_what_cupy_runs_is_right_as_numpy_runs_it(name):
    case = OF_CUPY[name]
    arrays = case.make()
    out, like = (implementations.host_arrays(case) for _ in range(2))
    OPERATORS[case.operator].cupy(np, case.attributes)(out, *arrays)
    OPERATORS[case.operator].numpy(case.attributes)(like, *arrays)
    np.testing.assert_array_equal(out, like)


class NumPyAsCuPy(SimpleNamespace):
    """The functions of CuPy that gradients are measured with, on the host."""

    asarray, asnumpy, arange, add = map(staticmethod, (np.array, np.asarray, np.arange, np.add))
    cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None))


GRADIENTS = [
    gather_gradients.of_rows(9, 4, 20, "float32", "Zipf", {}),
    gather_gradients.of_elements((5, 4), 0, "float32", "uniform"),
    gather_gradients.of_elements((5, 4), 1, "float32", "one id"),
]


def test_gradients_are_measured_in_every_distribution():
    names = [case.name for case in gather_gradients.cases(2**20)]
    for of in ("125000 of 125000x64", "8192 of 8192x4096", "256x8192 axis 1"):
        for dtype, kind in itertools.product(gather_gradients.DTYPES, ("uniform", "Zipf", "one id", "permutation")):
            assert any(name.endswith(f"{of} {dtype} {kind}") for name in names), (of, dtype, kind)
    assert any("promised" in name for name in names)
    assert any("labels" in name for name in names)


def test_every_contender_of_gradients_gives_the_same_bits(monkeypatch):
    """CuPy among them where JAX has a GPU, for all types that it has."""
    assert "CuPy" not in [implementation.name for implementation in gather_gradients.implementations(peers=False)]
    monkeypatch.setitem(sys.modules, "cupy", NumPyAsCuPy())
    monkeypatch.setattr(peers, "has_cupy", lambda: True)
    found = gather_gradients.implementations(peers=True)
    for case in GRADIENTS:
        runs = {c.name: run for c in found if (run := c.start(case, [case.make()]))}
        assert {"dml_jax", "deterministic", "jnp", "CuPy"} <= {*runs}
        assert not find_spec("torch") or "torch scatter_add_" in runs
        assert timing._compare(runs, case.tolerance) == dict.fromkeys(runs, True)
    of_cupy = found[-1]
    narrow = gather_gradients.of_rows(9, 4, 20, "bfloat16", "Zipf", {})
    assert of_cupy.name == "CuPy"
    assert of_cupy.start(narrow, [narrow.make()]) is None


def test_cupy_is_taken_where_it_is_installed_and_jax_has_a_gpu(monkeypatch):
    for installed, backend in ((True, "gpu"), (True, "cpu"), (False, "gpu")):
        monkeypatch.setattr(peers, "find_spec", lambda name, installed=installed: installed)
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        assert peers.has_cupy() == (installed and backend == "gpu")


@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
@pytest.mark.parametrize("section", [peers, gather_gradients, graph_fusion], ids=lambda one: one.__name__)
def test_a_torch_without_the_device_of_jax_is_left_out(section, monkeypatch):
    ask = {"eager": False} if section is peers else {"peers": True}
    for backend, is_taken in (("cpu", True), ("gpu", False)):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        names = [one.name for one in section.implementations(**ask)]
        assert any(name.startswith("torch") for name in names) == is_taken


def test_the_best_of_torch_counts_and_has_a_name():
    ours, slow, fast = row(), replace(row(contender="torch a"), seconds=3e-3), replace(row(contender="torch b"))
    named = ["dml_jax", "torch a", "torch b"]
    assert section.columns(named)[3:] == ["x best of torch", "which is"]
    assert section.cells("a case", {"dml_jax": ours, "torch a": slow, "torch b": fast}, named)[3:] == ["1.00", "b"]
    wrong = replace(fast, same_bits=False)
    assert section.cells("a case", {"dml_jax": ours, "torch a": slow, "torch b": wrong}, named)[3:] == ["3.00", "a"]
    assert section.cells("a case", {"dml_jax": ours, "torch b": wrong}, named)[3:] == ["differs", "b"]
    assert section.cells("a case", {"dml_jax": ours}, named)[3:] == ["-", "-"]


@pytest.mark.exhaustive
def test_a_network_is_measured_beside_onnx_runtime():
    case = next(case for case in onnx_image_networks.cases() if case.detail == "squeezenet")
    measured = timing.measure(
        case, onnx_image_networks.implementations(peers=True), timing.Effort(rounds=2, seconds=1e-4)
    )
    assert [(m.contender, m.same_bits) for m in measured] == [("dml_jax", True), ("ONNX Runtime", True)]


def test_numbers_to_compute_with_are_finite_and_of_either_sign():
    for kind in (2, 4, "bfloat16"):
        found = normal((300, 300), kind).make().astype(np.float64)
        assert found.shape == (300, 300)
        assert -7 < found.min() < -3
        assert 3 < found.max() < 7
        assert abs(found.mean()) < 0.1


def test_an_operator_that_makes_numbers_has_no_arrays():
    made = next(one for one in operators.quick() if one.operator == "fill_value_constant")
    assert made.make() == ()
    assert not made.needs_x64
    measured = timing.measure(made, implementations.own(eager=False), timing.Effort(rounds=1, seconds=1e-4))
    assert {m.contender for m in measured} >= {"dml_jax", "fresh", "jnp"}
    assert all(m.same_bits for m in measured)


def test_values_that_differ_are_told_and_not_compared():
    ours, other = row(), replace(row(contender="jnp"), same_bits=False)
    assert section.cells("a case", {"dml_jax": ours, "jnp": other}, ["dml_jax", "jnp", "torch"])[-2:] == [
        "differs",
        "-",
    ]
    faster = replace(other, same_bits=True, seconds=5e-4)
    assert section.cells("a case", {"dml_jax": ours, "jnp": faster}, ["dml_jax", "jnp"])[-1] == "0.50"


def test_results_are_kept(tmp_path):
    made, path = kept(row(), row(contender="jnp")), tmp_path / "r.json"
    path.write_text(made.json())
    assert results.Results.read(path) == made
    lines = list(csv.DictReader(io.StringIO(made.csv())))
    assert [line["contender"] for line in lines] == ["dml_jax", "jnp"]
    assert lines[0]["device"] == "a device"
    for wrong in ("{}", "[]", "no", json.dumps({**json.loads(made.json()), "rows": [{}]})):
        path.write_text(wrong)
        with pytest.raises(ConstraintError, match="holds no results of this benchmark"):
            results.Results.read(path)
    for absent in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ConstraintError, match=f"{absent} cannot be read: "):
            results.Results.read(absent)
    path.write_text(made.json().replace('"version": 2', '"version": 3').replace('"moved"', '"bytes"'))
    with pytest.raises(ConstraintError, match="has version 3 of the results, and versions up to 2 are read"):
        results.Results.read(path)


def test_a_run_keeps_its_samples_and_how_it_was_measured(tmp_path, monkeypatch):
    """Files from before have neither, and are read; CSV has no samples."""
    gpu = "NVIDIA L4, 580.1, 210 MHz, 405 MHz, 2040 MHz, 6251 MHz\n"
    told = {"nvidia-smi": gpu, "git": "0123abc-dirty\n"}
    monkeypatch.setattr("dml_jax.bench.noise.told_by", lambda command, *_: told[command])
    monkeypatch.setattr(sys, "argv", ["dml-jax", "bench", "-k", "gather rows"])
    jax.devices()  # reads XLA_FLAGS once
    monkeypatch.setenv("XLA_FLAGS", "--flag")
    monkeypatch.setattr(bench_setup, "PACKAGE", tmp_path / "package")
    assert "commit" not in bench_setup.setup(9, None)  # of what is no clone
    (tmp_path / ".git").write_text("")
    files = [tmp_path / name for name in ("r.json", "r.csv")]
    options = ("--quick", "--rounds", 2, "--no-peers", "-k", "gather rows", "--json", files[0], "--csv", files[1])
    assert run(*options).exit_code == 0
    read = results.Results.read(files[0])
    assert {name: read.setup[name] for name in ("command", "rounds", "XLA_FLAGS", "commit")} == {
        "command": "dml-jax bench -k 'gather rows'",
        "rounds": 2,
        "XLA_FLAGS": "--flag",
        "commit": "0123abc-dirty",
    }
    assert read.setup["gpus"] == [dict(zip(["name", *bench_setup.GPUS], gpu.strip().split(", "), strict=True))]
    assert {"python", "os", "cpu"} <= read.setup.keys()
    assert all(len(one.samples) == 2 and np.median(one.samples) == one.seconds for one in read.rows)
    assert "samples" not in files[1].read_text()
    content = json.loads(files[0].read_text())
    del content["setup"]
    for one in content["rows"]:
        del one["samples"]
    files[0].write_text(json.dumps(content))
    old = results.Results.read(files[0])
    assert old == replace(read, setup={}, rows=tuple(replace(one, samples=()) for one in read.rows))


def test_regressions_are_ratios():
    old, new = kept(row(of_copy=0.8), row("other")), kept(row(of_copy=0.6), row("new one"))
    assert results.regressions(old, new, 0.15) == (1, ["a case, dml_jax: 0.60 of a copy, and it was 0.80"])
    assert results.regressions(old, new, 0.3) == (1, [])


@pytest.mark.parametrize("jaxlib", ["0.10.2", "0.12.0"])
def test_another_jaxlib_is_told_as_its_copy_differs(jaxlib, capsys):
    old, new = (replace(kept(row()), versions={"jaxlib": version}) for version in ("0.10.2", jaxlib))
    bench_run._compare([old], new, None, 0.15)
    told = capsys.readouterr()
    assert ("the old run had jaxlib 0.10.2, which may copy faster or slower" in told.err) == (jaxlib != "0.10.2")
    assert "1 measurements, 0 slower" in told.out


def test_the_help_promises_the_time_that_the_page_does():
    page = (Path(__file__).parent.parent / "docs" / "benchmarks" / "measuring.md").read_text()
    for text in (page, run("--help").output):
        assert "two minutes on two cores" in " ".join(text.split())


def test_a_run_ends_with_a_legend_of_its_columns():
    done = run("--quick", "--rounds", 1, "--no-peers", "-k", "gather rows")
    assert done.exit_code == 0, done.output
    legend = done.output.rpartition("\n\n")[2]
    assert [line[:15].strip() for line in legend.splitlines() if line[0] != " "] == OURS
    assert all(name in done.output.replace(legend, "") for name in ("of copy", "spread", "x fresh", "x jnp"))


OURS = ["of copy", "spread", "x NAME", "x fresh"]  # columns that every run has


@pytest.mark.parametrize(
    ("implementations", "peak", "explained"),
    [
        (["dml_jax", "fresh"], None, OURS),
        (["dml_jax", "fresh", "torch NAME"], 1.0, [*OURS, "of peak", "x best of torch", "which is"]),
        (["dml_jax"], None, ["of copy", "spread"]),
    ],
)
def test_a_legend_explains_the_columns_of_its_tables(implementations, peak, explained):
    tables = [section.table("", [], implementations, peak), "no table"]
    entries = section.explained(section.LEGEND, tables).splitlines()
    assert {line[:15].strip() for line in entries if line[0] != " "} == {*explained}
    assert section.explained(section.LEGEND, [Group(*tables)]).splitlines() == entries


def test_a_cpu_is_named_by_its_model(monkeypatch, tmp_path):
    """JAX calls every CPU `cpu`; other systems than Linux, and Linux on some processors, tell no model."""
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr("dml_jax.command.devices._CPUINFO", info)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert measured_kind() == "aarch64 CPU"
    for content, kind in (("processor\t: 0\nmodel name\t: Xeon 4\n", "Xeon 4"), ("processor\t: 0\n", "aarch64 CPU")):
        info.write_text(content)
        assert measured_kind() == kind
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert measured_kind() == jax.devices()[0].device_kind


@pytest.mark.exhaustive
def test_the_quick_run_prints_writes_and_draws(tmp_path):
    files = [tmp_path / name for name in ("r.json", "r.csv", "r.svg")]
    done = run("--quick", "--rounds", 2, "--json", files[0], "--csv", files[1], "--picture", files[2])
    assert done.exit_code == 0, done.output
    others = (
        {"best of torch": find_spec("torch"), "ORT": find_spec("onnxruntime")} if jax.default_backend() == "cpu" else {}
    )
    wanted = ["x jnp", *(["x NumPy"] if jax.default_backend() == "cpu" else [])]
    for heading in [*wanted, *(f"x {name}" for name, found in others.items() if found)]:
        assert heading in done.output
    assert "differs" not in done.output.rpartition("\n\n")[0]
    read = results.Results.read(files[0])
    assert read.device.startswith(measured_kind())
    assert {r.operator for r in read.rows} == {*FUNCTIONS, "ceiling"}
    assert {r.contender for r in read.rows if "streamed from file to file" in r.case} == {"dml_jax", "memmap copy"}
    assert read.versions["jax"] == jax.__version__
    assert all(one.samples for one in read.rows)
    assert files[1].read_text().count("\n") == len(read.rows) + 1
    assert files[2].read_text().startswith("<?xml")

    again = run("--quick", "--rounds", 1, "--no-peers", "-k", "gather rows", "--compare", files[0], "--tolerance", 1)
    assert again.exit_code == 0
    assert "2 measurements, 0 slower by more than 100%" in again.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-k", "nothing"], 2, "no case has 'nothing' in its name; --list, with the same other options, shows them"),
        (["--quick", "--tolerance", "0.1"], 2, "--tolerance is for --compare only; leave it out"),
        (["--quick", "-k", "gather rows", "--compare", "none.json"], 1, "none.json cannot be read: No such file"),
        (["--quick", "-k", "gather rows", "--rounds", "1", "--no-peers", "--picture", "x.jpg"], 1, ".png or .svg"),
        (["--tolerance", "2"], 2, "2.0 is not in the range"),
    ],
)
def test_mistakes_are_told(arguments, code, message):
    done = run(*arguments)
    assert done.exit_code == code
    assert message in done.output


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, [("1 of 3", 2), ("3 of 3", 0)]), (180, [("1", 2), ("3", 1)])], ids=["jobs", "seconds"]
)
def test_where_no_terminal_shows_progress_a_line_does_now_and_then(seconds, told, monkeypatch, capsys):
    """The second case ends 20 seconds behind the first, and is not told."""
    clock = iter([0, 60, 80, 140])
    monkeypatch.setattr(bench_run, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    jobs = [section.Job("a case", lambda effort: [])] * 3
    bench_run._measured(section.Section("title", jobs, [], seconds=seconds), timing.Effort(1, 1), [], lambda _: None)
    lines = [f"title: {cases} cases, about {left} min left" for cases, left in told]
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize("option", ["--json", "--csv", "--picture"])
def test_files_that_cannot_be_written_are_told_before_anything_is_measured(option, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_run, "_measured", lambda *_: pytest.fail("it measured"))
    missing = tmp_path / "missing" / "x.svg"
    told = run("--quick", option, missing)
    assert told.exit_code == 1
    assert f"{missing} cannot be written: the folder '{missing.parent}' must exist; make it first" in told.output
    assert not missing.parent.exists()
    monkeypatch.setattr(bench_run.os, "access", lambda *_: False)
    told = run("--quick", option, tmp_path / "x.svg")
    assert told.exit_code == 1
    assert f"cannot be written: no permission in '{tmp_path}'" in told.output


def test_cases_are_listed_and_chosen():
    names = run("--list", "--size", 1).output.splitlines()
    assert len(names) > 200
    some = run("--list", "--size", 1, "-k", "gather_nd*float16").output.splitlines()
    assert some == [name for name in names if "gather_nd" in name and "float16" in name]
