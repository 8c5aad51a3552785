"""Several runs of the benchmark beside each other: which cases count, how runs are named, the table and its picture."""

import itertools
import json
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from commands import bench

from dml_jax import ConstraintError
from dml_jax.bench import results, run_comparison, run_picture
from dml_jax.bench.results import LARGE
from dml_jax.bench.run_comparison import LEGEND, compared
from dml_jax.bench.timing import Measured
from dml_jax.command import bench_run

DATE = "2026-01-01T00:00:00+00:00"


def row(case, of_copy=0.5, moved=LARGE, contender="dml_jax"):
    return Measured(case, case.partition(" ")[0], contender, moved, 1e-3, 0.9e-3, 1.2e-3, of_copy, True)


def run_of(*rows, device="A", date=DATE, jaxlib="1", dml_jax="1", **rest):
    return results.Results(device, date, {"jaxlib": jaxlib, "dml_jax": dml_jax}, rows, **rest)


def lines(*runs):
    head, body = compared(runs).table()
    return [head, *body]


def mean(*values):
    return f"{np.exp(np.mean(np.log(values))):.2f}"


# Which cases count.


def test_the_cases_that_all_runs_have_count():
    first = run_of(row("pad a", 0.2), row("pad b", 0.4), row("pad c", 0.9), row("tile a", 0.8))
    second = run_of(row("tile a", 0.4), row("pad b", 0.1), row("pad a", 0.3), device="B")
    third = run_of(row("pad a", 1.2), row("pad b", 1.3), row("tile a", 1.5), row("tile d", 9.0), device="C")
    ratio = np.sqrt(0.3 * 0.1 / (0.2 * 0.4))
    assert lines(first, second, third) == [
        ["operator", "cases", "A", "B", "x first", "C", "x first"],
        ["pad", "2", mean(0.2, 0.4), mean(0.3, 0.1), f"{ratio:.2f}", mean(1.2, 1.3), f"{np.sqrt(1.56 / 0.08):.2f}"],
        ["tile", "1", "0.80", "0.40", "0.50", "1.50", f"{1.5 / 0.8:.2f}"],
        ["all operators", "3", mean(0.2, 0.4, 0.8), mean(0.3, 0.1, 0.4), "0.57", mean(1.2, 1.3, 1.5), "3.32"],
    ]


def test_small_cases_calls_and_files_do_not_count_with_large_ones():
    rows = [row("pad a", 0.2), row("pad b", 0.9, moved=LARGE - 1), row("top_k a", 0.3, moved=9)]
    apart = [row("pad c, call", 0.7, moved=9), row("pad d, streamed from file to file", 0.6)]
    gradient = row("pad gradient, a", 0.8)
    table = lines(run_of(*rows, *apart, gradient, row("pad a", 9.0, contender="jnp")))[1:]
    assert table == [
        ["pad", "1", "0.20"],
        ["pad gradient", "1", "0.80"],
        ["top_k", "1", "0.30"],
        ["all operators", "3", mean(0.2, 0.8, 0.3)],
        ["from file to file", "1", "0.60"],
        ["eager calls on 1 KB", "1", "0.70"],
    ]
    assert lines(run_of(*apart))[1:] == table[-2:]


def test_the_cases_of_one_operator_have_a_row_each():
    rows = row("network resnet50", 0.5, moved=9), row("network vgg19", 0.004)
    assert lines(run_of(*rows))[1:] == [["resnet50", "1", "0.50"], ["vgg19", "1", "0.004"]]


def test_runs_of_other_sizes_are_compared_by_names_without_numbers():
    """`b=2` and `float32` are not of the size. Where one run has more cases, it is not known which are meant."""

    def of_size(mega, device, *more):
        names = [f"pad b={b} of {mega}x3 float{bits} {mega} MiB" for b in (2, 3) for bits in (16, 32)]
        rows = [row(name, 0.1 * i * mega, LARGE * mega) for i, name in enumerate(names, 1)]
        rows += [row(f"tile of {n} {mega} MiB", n * mega, LARGE * mega + n) for n in (1, 2)][:: 2 * (mega > 1) - 1]
        return run_of(*rows, row("same", moved=9), *more, device=device)

    small, large = of_size(1, "A"), of_size(8, "B", row("pad b=2 of 9x3 float16 9 MiB", 9.0))
    comparison = compared([small, large])
    shown = {name: [f"{number:.2f}" for number in numbers] for name, numbers in comparison.means().items()}
    assert shown["pad"] == [mean(0.2, 0.3, 0.4), mean(1.6, 2.4, 3.2)]
    assert shown["tile"] == [mean(1, 2), mean(8, 16)]
    assert [[row.of_copy for row in match] for match in comparison.matches["tile"]] == [[1, 8], [2, 16]]
    (note,) = comparison.notes
    assert (
        "The runs differ in size (names of cases that all have: 1 of 8). So the 6 cases are compared whose names"
        in note
    )
    assert "With the same --size" in note
    one_by_one = compared([small, replace(small, device="B")])
    assert one_by_one.notes == []
    assert [*map(len, one_by_one.matches.values())] == [4, 1, 2, 7]


def test_runs_without_a_common_case_are_told():
    told = "no case is in each of the runs A; B: compare runs of the same cases, all with --quick"
    with pytest.raises(ConstraintError, match=told):
        compared([run_of(row("pad a")), run_of(row("tile a"), device="B")])


# What runs are called.


@pytest.mark.parametrize(
    ("others", "title", "names"),
    [
        ([{"device": "B"}], "jaxlib 1, dml_jax 1", ["A", "B"]),
        ([{"jaxlib": "2"}, {"dml_jax": "2"}], "A", [f"jaxlib {a}, dml_jax {b}" for a, b in ("11", "21", "12")]),
        (
            [{"date": "2026-02-03T04:05:06+00:00"}],
            "A, jaxlib 1, dml_jax 1",
            [DATE[:10] + " 00:00:00", "2026-02-03 04:05:06"],
        ),
        ([], "A, jaxlib 1, dml_jax 1", [DATE[:10] + " 00:00:00"]),
    ],
)
def test_runs_are_called_by_what_differs(others, title, names):
    comparison = compared([run_of(row("pad a"), **one) for one in ({}, *others)])
    assert (comparison.title, [*comparison.names]) == (title, names)


def test_runs_that_are_alike_are_called_by_their_files(stored):
    options = stored(*(run_of(*CASES, device=device) for device in "AAB"))
    runs = [*map(results.Results.read, options[1::2])]
    assert compared(runs).names == ["A, 0.json", "A, 1.json", "B, 2.json"]
    assert compared(runs[1:]).names == ["A", "B"]
    assert compared([runs[0], replace(runs[0], file=None)]).names == ["0.json", "this run"]


def test_a_version_that_a_run_does_not_tell_is_left_out():
    without = replace(run_of(row("pad a"), device="B"), versions={})
    assert compared([run_of(row("pad a")), without]).names == ["A, jaxlib 1, dml_jax 1", "B"]


def test_a_run_beside_itself_is_told():
    with pytest.raises(
        ConstraintError, match="each run must be compared once, but two of these are the same: 2026-01-01"
    ):
        compared([run_of(row("pad a"))] * 2)


# The command.


@pytest.fixture
def stored(tmp_path):
    """Writes runs, and returns the options that name them."""

    def write(*runs):
        paths = [tmp_path / f"{number}.json" for number in range(len(runs))]
        for path, one in zip(paths, runs, strict=True):
            path.write_text(one.json())
        return [*itertools.chain(*(("--compare", path) for path in paths))]

    return write


CASES = [row("gather rows", 0.8), row("pad b", 0.4)]


def test_stored_runs_are_shown_with_their_notes(stored):
    busy = "The machine was busy."
    runs = [run_of(*CASES, device=device, notes=(busy,) * (device != "A")) for device in "ABC"]
    done = bench("--no-measure", *stored(*runs))
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.output.splitlines()[1:3]] == [
        ["operator", "cases", "A", "B", "x", "first", "C", "x", "first"],
        ["gather", "1", "0.80", "0.80", "1.00", "0.80", "1.00"],
    ]
    assert done.output.endswith(f"\n\n{LEGEND}\nNote: B; C: {busy}\n")
    chosen = bench("--no-measure", "-k", "pad*b", *stored(*runs)).output
    assert "0.40" in chosen
    assert "0.80" not in chosen


def test_a_run_of_the_old_format_is_told(stored, tmp_path):
    options = stored(run_of(*CASES), run_of(*CASES, device="B"))
    content = json.loads(options[1].read_text())
    options[1].write_text(json.dumps({key: content[key] for key in ("device", "date", "versions", "rows")}))
    told = bench("--no-measure", *options).output
    assert told.endswith(f"Note: A: {results.OLD}\n")
    assert "measure again" in results.OLD


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--no-measure needs stored runs: --compare a.json --compare b.json"),
        (["--quick", "--compare", "a.json"], 2, "--quick is for a run that measures only; leave it out"),
        (["--compare", "a.json", "--csv", "b.csv"], 2, "--csv is for a run that measures only"),
        (["--compare", "none.json"], 1, "none.json cannot be read: No such file"),
        (["--compare", "none.json", "--picture", "a.gif"], 1, ".png or .svg"),
    ],
)
def test_mistakes_are_told(arguments, code, message):
    done = bench("--no-measure", *arguments)
    assert done.exit_code == code
    assert message in done.output


@pytest.fixture
def measured(monkeypatch):
    """Rows that the next run finds."""
    rows = []
    monkeypatch.setattr(bench_run, "_measured", lambda *_: rows)
    return rows


NEW = ("--quick", "--no-peers", "-k", "gather rows")


def test_one_stored_run_is_compared_case_by_case(stored, measured):
    measured += CASES
    done = bench(*NEW, *stored(run_of(*CASES)))
    assert done.exit_code == 0
    assert "2 measurements, 0 slower by more than 15%" in done.output
    assert "x first" not in done.output
    done = bench(*NEW, *stored(run_of(replace(CASES[0], of_copy=1.0), CASES[1])))
    assert done.exit_code == 1
    assert done.output.endswith("slower: gather rows, dml_jax: 0.80 of a copy, and it was 1.00\n")


def test_a_new_run_is_the_last_of_several_and_must_not_be_slower_than_one_of_its_device(stored, measured, tmp_path):
    measured += CASES
    assert bench(*NEW, "--json", tmp_path / "new.json").exit_code == 0
    here, faster = results.Results.read(tmp_path / "new.json").device, [replace(CASES[0], of_copy=1.0), CASES[1]]
    runs = [run_of(*CASES, device=here), run_of(*faster, device="B")]
    done = bench(*NEW, *stored(*runs))
    assert done.exit_code == 0, done.output
    assert "slower:" not in done.output
    last = bench(*NEW, *stored(runs[0], run_of(*faster, device=here, jaxlib="2")))
    assert last.exit_code == 1
    assert last.output.count("slower: gather rows, dml_jax") == 1
    cells = next(line.split() for line in done.output.splitlines() if line.startswith("gather  "))
    assert cells == ["gather", "1", "0.80", "1.00", "1.25", "0.80", "1.00"]


def test_a_note_is_told_once_of_several_runs(stored, measured, monkeypatch, tmp_path):
    monkeypatch.setattr("dml_jax.bench.noise.notes", lambda _: ["the machine was asleep"])
    measured += CASES
    assert bench(*NEW, "--json", tmp_path / "new.json").exit_code == 0
    here = results.Results.read(tmp_path / "new.json").device
    faster = [run_of(replace(CASES[0], of_copy=1.0), CASES[1], device=here, jaxlib="0.1", date=date) for date in "12"]
    told = bench(*NEW, *stored(*faster)).output
    assert told.count("slower: gather rows") == 2
    for note in ("the machine was asleep", "the old run had jaxlib 0.1", "that is uncertain"):
        assert told.count(f"Note: {note}") == 1


def test_stored_runs_that_cannot_be_compared_are_told_before_anything_is_measured(stored, monkeypatch):
    monkeypatch.setattr(bench_run, "_measured", lambda *_: pytest.fail("it measured"))
    done = bench(*NEW, *stored(run_of(CASES[0]), run_of(CASES[1], device="B")))
    assert done.exit_code == 1
    assert "no case is in each of the runs A; B" in done.output


# The picture.

matplotlib = pytest.mark.skipif(not find_spec("matplotlib"), reason="matplotlib is not installed")


@matplotlib
def test_stored_runs_are_drawn_with_a_dark_page_in_mind(stored, measured, tmp_path):
    options, picture = stored(*(run_of(*CASES, device=device) for device in "AB")), tmp_path / "p.svg"
    described = run_comparison.described(compared([run_of(*CASES, device=device) for device in "AB"]))
    for first in (("--no-measure",), NEW):
        measured[:] = CASES
        assert bench(*first, *options, "--picture", picture).exit_code == 0
        text = picture.read_text()
        assert "prefers-color-scheme: dark" in text
        assert (f"<dc:description>{described}</dc:description>" in text) == (first != NEW)
        assert "<dc:description>operator; cases; A" in text


@matplotlib
@pytest.mark.parametrize("more", [0, 60])
def test_a_run_has_a_bar_for_each_case_sorted_with_its_quartiles(more, monkeypatch, tmp_path):
    """Many cases are named by their operators, which are sorted, too. A case of one sample has no quartiles."""
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    once = replace(row("tile a", 2.0), low=1e-3, high=1e-3)
    rows = [row("pad a", 0.5), row("pad b", 0.05), once, *(row(f"join {i}", 0.1) for i in range(more))]
    run_picture.draw(run_of(), tmp_path / "p.png")  # of nothing that is beside a copy
    run_picture.draw(run_of(*rows, row("tile a", 9.0, contender="jnp")), tmp_path / "p.png")
    (axes,) = drawn[1].axes
    names = ["tile", "pad", "join"] if more else ["tile a", "pad a", "pad b"]
    assert [text.get_text() for text in axes.get_yticklabels()] == names
    bars = sorted(axes.patches, key=lambda bar: bar.get_y())
    assert [bar.get_x() + bar.get_width() for bar in bars] == pytest.approx([2.0, 0.5, 0.05, *[0.1] * more])
    whiskers = [line[:, 0].tolist() for lines in axes.collections for line in lines.get_segments()]
    assert whiskers[1] == pytest.approx([0.5 / 1.2, 0.5 / 0.9])
    assert whiskers[0] == [2.0, 2.0]
    assert len(axes.get_xticks()) >= 3


LONG = "SPACE_TO_DEPTH, GATHER, DEPTH_TO_SPACE of 64x4x512x512 float32"


@matplotlib
@pytest.mark.parametrize("names", [["a"], ["local_response_normalization", *map(str, range(50))], [LONG, f"{LONG} 2"]])
@pytest.mark.parametrize("spread", [1.5, 50, 10**5])
def test_no_text_of_a_picture_is_on_another_or_outside(names, spread, tmp_path, monkeypatch):
    """And it is as wide as a phone, with letters of 8 points."""
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    rows = [row(f"op {name}", spread ** (-number / len(names))) for number, name in enumerate(names)]
    devices = ["A", "two cores of an Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 2 cores, and more"]
    runs = [run_of(*rows, device=device, jaxlib=version) for device in devices for version in "12"]
    run_comparison.draw(compared(runs), tmp_path / "p.png")
    run_picture.draw(run_of(*rows, device=devices[1]), tmp_path / "p.png")
    for figure in drawn:
        check_texts(figure, len(names))


def check_texts(figure, count):
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(import_module("matplotlib.text").Text) if text.get_text()]
    boxes = [text.get_window_extent() for text in texts if text.get_visible()]
    assert len(boxes) > count
    assert figure.bbox.width / figure.dpi * 96 <= 400
    assert min(text.get_fontsize() for text in texts) >= 8
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
