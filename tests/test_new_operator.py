"""The guide to a new operator, docs/contributing.md: in a copy of this clone both examples pass the tests it names."""

import re
import shlex
import shutil
from types import SimpleNamespace

import pytest
from elementwise_cases import struct_of
from new_operator import GUIDE, GUIDE_TO_ROWS, ROOT, add_operator, add_row, blocks_to_paste, copy_clone, python
from operator_cases import Struct

from dml_jax.catalogue import FUNCTIONS

SOURCE, TEST, PAGE = blocks_to_paste(GUIDE)
COMMANDS, COMMANDS_OF_ROWS = (
    re.findall(r"^\| `pytest (.+?)` \|", guide, re.MULTILINE) for guide in (GUIDE, GUIDE_TO_ROWS)
)


ROWS = blocks_to_paste(GUIDE_TO_ROWS)


def headings(page):
    return re.findall(r"^## (.+)$", page, re.MULTILINE)


SECTIONS = headings(PAGE)[:-2]  # without those of the function and of the struct
PAGES = {path.stem: path.read_text() for path in ROOT.glob("docs/operators/*.md") if path.stem != "index"}


def test_the_page_of_the_example_has_sections():
    assert SECTIONS == ["Example", "Gradient", "On a mesh", "Where DirectML is silent"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_sections_of_the_example_in_their_order(name):
    wanted = [heading for heading in SECTIONS if name in FUNCTIONS or heading != "On a mesh"]
    assert [heading for heading in headings(PAGES[name]) if heading in SECTIONS] == wanted


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of this clone in which the steps before the tests were done: it has ROLL and the row TRUNC."""
    clone = tmp_path_factory.mktemp("clone")
    copy_clone(clone, "dml_jax", "docs", "tests", "benchmarks")
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, clone)
    add_operator(clone, "roll", SOURCE, PAGE)
    (clone / "tests/operators/test_roll.py").write_text(TEST)
    (reason,) = re.findall(r'`("roll": ".+",)`', GUIDE)
    pictures = clone / "tests/test_pictures.py"
    pictures.write_text(pictures.read_text().replace("WITHOUT = {\n", f"WITHOUT = {{\n    {reason}\n"))
    for file, row in zip(("dml_jax/operators/_unary.py", "tests/operators/test_unary.py"), ROWS, strict=True):
        add_row(clone / file, row)
    wrote = python(clone, "tests/example_models.py")
    for name in ("roll", "element_wise_trunc"):
        assert f"wrote {clone / 'docs/models' / name}.json" in wrote.stdout, wrote.stderr
    return clone


def passed(clone, command):
    """How many tests pass of those that a command of the guide runs, here in one process; none may fail."""
    options = re.sub(r"-n \w+", "-n 0", command)
    done = python(clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shlex.split(options))
    assert done.returncode == 0, done.stdout
    return int(re.search(r"(\d+) passed", done.stdout)[1])


def test_a_test_without_feature_levels_is_told_what_it_lacks():
    missing = "is not in tests/data/feature_levels.json: give"
    with pytest.raises(LookupError, match=rf"^ROLL {missing} `levels` in its Struct$"):
        Struct(SimpleNamespace(operator_type="ROLL"), breaks={}, examples=(), draw=None, expected=None)
    with pytest.raises(LookupError, match=rf"^ELEMENT_WISE_TRUNC {missing} `levels_of` in its row$"):
        struct_of("ELEMENT_WISE_TRUNC", SimpleNamespace(levels_of=None))


PROMISES = ("promises", "struct_promises", "transformations")


def test_the_guide_names_six_commands():
    assert [*map(shlex.split, COMMANDS)] == [
        ["-n", "0", "tests/operators/test_roll.py"],
        ["--exhaustive", "-n", "0", "-k", "roll", *(f"tests/test_{name}.py" for name in PROMISES)],
        ["--exhaustive", "-n", "auto", "-k", "roll or test_picture or test_site"],
        ["-n", "auto"],  # all tests, which would run this one again
    ]
    assert [*map(shlex.split, COMMANDS_OF_ROWS)] == [
        ["-n", "0", "tests/test_elementwise.py"],
        ["--exhaustive", "-n", "auto", "-k", "trunc or test_site"],
    ]


@pytest.mark.exhaustive
def test_the_example_passes_its_own_tests_and_those_of_pages(clone):
    assert passed(clone, COMMANDS[0]) > 0
    assert passed(clone, COMMANDS[1]) > 3
    of_pages = "-k 'roll or other_page' tests/test_new_operator.py tests/test_pictures.py"
    assert passed(clone, of_pages) == 2


def test_the_model_of_the_example_prints_what_the_guide_says(clone):
    command, line = re.search(r"`dml-jax (run docs/models/roll.json)` prints `(.+?)`", GUIDE).groups()
    assert line in python(clone, "-m", "dml_jax", *shlex.split(command)).stdout.splitlines()


@pytest.mark.exhaustive
def test_the_example_passes_the_tests_of_all_operators(clone):
    assert passed(clone, COMMANDS[2]) > 300


@pytest.mark.exhaustive
def test_of_all_tests_those_fail_that_the_guide_names(clone):
    """Of those that look at the whole catalogue at once; those that look at each operator pass above."""
    (row,) = re.findall(r"\| `pytest -n auto` \| everything\. (.+) \|", GUIDE)
    files = [f"tests/{name}.py" for name in ("test_schema", "test_public_api", "test_bench", "test_bench_meshes")]
    done = python(clone, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files)
    assert {*re.findall(r"^FAILED tests/(\w+)\.py", done.stdout, re.MULTILINE)} == {*re.findall(r"`(test_\w+)`", row)}


def test_the_row_passes_the_tests_of_rows(clone):
    assert passed(clone, f"{COMMANDS_OF_ROWS[0]} -k 'trunc or FLOAT32'") > 1


@pytest.mark.exhaustive
def test_the_row_passes_the_tests_of_all_operators(clone):
    assert passed(clone, COMMANDS_OF_ROWS[0]) > 30
    assert passed(clone, COMMANDS_OF_ROWS[1]) > 100
