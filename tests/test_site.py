"""The documentation site: built without a warning, with every public name, constraint and feature level on it.

Its pages list no operators by hand: a site with new operators needs nothing but a page of each. What is looked at is
such a site, as building two would take twice as long.
"""

import ast
import fcntl
import html
import importlib
import inspect
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from new_operator import GUIDE, add_operator, blocks_to_paste, copy_clone, python

from dml_jax import descs
from dml_jax.bench.results import Results
from dml_jax.catalogue import DESCS, FUNCTIONS, page_of
from dml_jax.catalogue import PAGES as OPERATORS
from dml_jax.core.structs.activation_table import ACTIVATIONS
from dml_jax.core.structs.feature_level_tables import columns
from dml_jax.core.tensors.tensor_desc import FIELDS, TENSOR

for package in ("sphinx", "furo", "myst_parser", "sphinx_copybutton", "onnx"):
    pytest.importorskip(package, reason="the site needs the extra docs")

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in ROOT.glob("docs/operators/*.md") if path.stem != "index"}


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site of a copy of this clone with two operators more."""
    return enlarged_site(tmp_path_factory)


def enlarged_site(factory):
    """The same, for other files of tests too, which build it once with this one."""
    return once(factory, "clone", enlarge) / "site"


def once(factory, name, make):
    """A folder that the first worker of a test run makes; the others wait."""
    base, run = factory.getbasetemp(), os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = (base.parent / f"{name}-{run}") if run else base / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            make(folder)
    return folder


# As `python -m sphinx`, without looking for garbage, which took a fifth of the time.
SPHINX = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"


def build(root, folder):
    """Builds the site of a clone; returns what is wrong with it."""
    built = python(root, "-c", SPHINX, "-q", "-W", "--keep-going", "docs", folder)
    return built.stderr if built.returncode else ""


class Tables(HTMLParser):
    """Collects the cells of every table that has an id: `tables[id]` is a list of rows, the head first."""

    def __init__(self):
        super().__init__()
        self.tables, self.rows, self.in_cell = {}, [], False

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attrs).get("id", ""), [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self.in_cell = False

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1][-1] += data


def operator_tables(site, kind):
    """The body of every table of a kind on the operators' pages, by the operator's name."""
    parser = Tables()
    for page in (site / "operators").glob("*.html"):
        parser.feed(page.read_text())
    bodies = {name: rows[1:] for name, rows in parser.tables.items() if name.startswith(f"{kind}.")}
    return {
        name.removeprefix(f"{kind}."): [[cell.strip() for cell in row] for row in rows] for name, rows in bodies.items()
    }


@pytest.mark.exhaustive
def test_the_site_is_built_without_a_warning(site):
    assert (site.parent / "failure").read_text() == ""
    assert (site / "index.html").exists()


@pytest.mark.exhaustive
def test_the_site_of_this_clone_is_built_without_a_warning(tmp_path):
    assert build(ROOT, tmp_path) == ""
    assert (tmp_path / "index.html").exists()


def entries(site):
    """The address of every name of Python that the site describes."""
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    return {
        name: item.uri for kind, items in inventory.items() if kind.startswith("py:") for name, item in items.items()
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", ["dml_jax", "dml_jax.batch", "dml_jax.layers", "dml_jax.onnx"])
def test_every_public_name_has_an_entry(site, module):
    found, public = entries(site), importlib.import_module(module).__all__
    assert [name for name in public if not found.get(f"{module}.{name}", "").startswith("reference/")] == []


def without_added(names):
    """The names without those of the two operators more, which stand behind the functions that this clone has."""
    return [name for name in names if name.lower() not in ("roll", "toy")]


@pytest.mark.exhaustive
def test_every_struct_has_an_entry(site):
    found = entries(site)
    assert [name for name in dir(descs) if not {f"dml_jax.{name}", f"dml_jax.descs.{name}"} & found.keys()] == []
    parser = Tables()
    parser.feed((site / "structs.html").read_text())
    rows = [row[1].strip() for row in parser.tables["structs"][1:]]
    assert without_added(rows) == without_added(cls.operator_type for cls in DESCS)


@pytest.mark.exhaustive
def test_every_constraint_is_on_the_operators_pages(site):
    expected = {name: {rule.name: rule.worded({}) for rule in one.rules} for name, one in FUNCTIONS.items()}
    expected |= {cls.operator_type: cls.wordings() for cls in DESCS}
    expected["TENSOR"] = {rule.name: rule.worded(FIELDS) for rule in TENSOR}
    found = operator_tables(site, "constraints")
    assert found.keys() - expected.keys() == {"roll", "ROLL", "TOY"} - expected.keys()
    assert {name: {rule: text for text, rule in found[name]} for name in expected} == expected


@pytest.mark.exhaustive
def test_every_signature_is_on_the_operators_pages(site):
    pages = "".join(page.read_text() for page in (site / "operators").glob("*.html"))
    texts = (re.sub("<.*?>", "", text).strip() for text in re.findall(r'(?s)(<dt class="sig .*?)</dt>', pages))
    defined = (ast.parse(f"def {html.unescape(text).removeprefix('dml_jax.')}: pass").body[0] for text in texts)
    shown = {function.name: function.args for function in defined}
    for name, function in FUNCTIONS.items():
        parameters, arguments = inspect.signature(function).parameters.values(), shown[name]
        assert [x.arg for x in (*arguments.args, *arguments.kwonlyargs)] == [x.name for x in parameters]
        assert len(arguments.kwonlyargs) == sum(x.kind is x.KEYWORD_ONLY for x in parameters)


@pytest.mark.exhaustive
def test_every_argument_is_explained_on_the_operators_pages(site):
    found = operator_tables(site, "arguments")
    for name, function in FUNCTIONS.items():
        assert [row[0] for row in found[name]] == [*inspect.signature(function).parameters]
        assert all(len(text) > 3 for _, text in found[name])


@pytest.mark.exhaustive
def test_every_feature_level_and_field_is_on_the_operators_pages(site):
    levels, fields = operator_tables(site, "feature-levels"), operator_tables(site, "fields")
    for cls in DESCS:
        assert levels[cls.operator_type] == [list(columns(row).values()) for row in cls.support]
        names, kinds = cls.directml_names(), cls.fields()
        shown = fields[cls.operator_type]
        assert [row[:2] for row in shown] == [[names[name], name] for name in kinds]
        assert [row[2].startswith(kinds[row[1]].kind) for row in shown] == [True] * len(kinds)


@pytest.mark.exhaustive
def test_every_activation_is_on_a_page(site):
    parser = Tables()
    parser.feed((site / "operators" / "activate.html").read_text())
    head, *rows = parser.tables["activations"]
    assert [row[0].strip() for row in rows] == [*ACTIVATIONS]
    assert all(len(row) == len(head) and row[1].strip() for row in rows)


@pytest.mark.exhaustive
def test_a_page_shows_what_its_code_prints_where_the_site_is_built(site):
    assert re.search(r"\d+ tokens per second on \w", (site / "language_models.html").read_text())


@pytest.mark.exhaustive
def test_each_stored_run_has_a_page_that_is_linked_and_in_the_side_bar(site):
    """With its device, its date, its versions and every case: `test_benchmarks_page.py` has the rest."""
    short, index = ((site / page).read_text() for page in ("benchmarks.html", "index.html"))
    article = short.partition('role="main"')[2].partition("</article>")[0]
    for file in (ROOT / "docs/benchmarks").glob("*.json"):
        run = Results.read(file)
        page = html.unescape((site / f"benchmarks/{file.stem}.html").read_text())
        assert all(word in page for word in (run.device, run.date[:10], *map(" ".join, run.versions.items())))
        assert f'href="benchmarks/{file.stem}.html"' in article
        assert f'<a class="reference internal" href="benchmarks/{file.stem}.html">' in index
        cases = sum(row.contender == "dml_jax" for row in run.rows)
        assert len(re.findall(r"<tr", page.partition("<details>")[2])) == cases + page.count("<details>")


@pytest.mark.exhaustive
def test_a_build_leaves_nothing_in_the_docs(site):
    """The pages of stored runs are made while they are read."""
    of_clone = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*")}
    added = {"docs/operators/roll.md", "docs/operators/toy.md"} - of_clone  # a clone may have the example already
    found = {path.relative_to(site.parent) for path in (site.parent / "docs").rglob("*")}
    left = {path.as_posix() for path in found if "__pycache__" not in path.parts} - of_clone
    assert left == added


# Pages and operators. Those of one file have one page, of its name.


def test_every_operator_has_a_page_and_every_page_an_operator():
    assert {*OPERATORS} == PAGES.keys()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_all_that_its_file_has(page):
    printed = re.findall(r"^```\{(function|struct|rows)\} (\w+)$", PAGES[page], re.MULTILINE)
    functions = [("function", name) for name, function in FUNCTIONS.items() if page_of(function) == page]
    structs = [("struct", cls.operator_type) for cls in DESCS if page_of(cls) == page]
    assert printed in (functions + structs, [*functions, ("rows", page)])


# A site with two operators more: that of docs/contributing.md, and one with fields of all kinds.

TOY = '''
"""TOY: one of everything that a field may hold."""

import enum
from typing import Annotated

from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.feature_level import FeatureLevel
from ..core.structs.fields import IndexInput, Inputs, OptionalInput, Outputs, counted_by, named
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANK_4, RANKS_1_TO_8, Support

__all__ = ["GameDesc", "ToyDesc", "ToyMode"]


class ToyMode(enum.IntEnum):
    """DML_TOY_MODE: how one plays."""

    FAIR = 0


class ToyDesc(OperatorDesc):
    """DML_TOY_OPERATOR_DESC: plays with `inputs` | `scale`.

    Args:
      scale: any sizes, or None.
      indices: any sizes.
      outputs: any sizes.
      repeats: how often.
    """

    inputs: Inputs
    scale: OptionalInput
    indices: IndexInput
    outputs: Outputs
    repeats: Annotated[tuple[int, ...], counted_by("RepeatsCount")]
    mode: Annotated[ToyMode, named(ToyMode, "DML_TOY_MODE_")]

    other_names = ("GAME",)
    support = (
        Support(FeatureLevel.of("3_0"), RANKS_1_TO_8, {"inputs": FLOATS, "outputs": ALL_TYPES}),
        Support(FeatureLevel.of("1_0"), RANK_4, {"inputs": FLOATS, "outputs": FLOATS}),
    )


GameDesc = ToyDesc
'''
TOY_PAGE = """
# toy

```{struct} TOY
```
"""


def enlarge(clone):
    """Copies this clone, adds both operators, and builds the site."""
    copy_clone(clone, "dml_jax", "docs", "benchmarks")
    source, _, page = blocks_to_paste(GUIDE)
    add_operator(clone, "roll", source, page)
    add_operator(clone, "toy", TOY, TOY_PAGE)
    (clone / "failure").write_text(build(clone, clone / "site"))


@pytest.mark.exhaustive
def test_new_operators_are_in_the_table_and_the_contents(site):
    index = (site / "operators/index.html").read_text()
    parser = Tables()
    parser.feed(index)
    rows = {name.strip(): cells for name, *cells in parser.tables[""]}
    assert rows["roll"] == ["moves every element of input by shifts, around the end of each dimension", "ROLL"]
    assert rows["toy"] == ["plays with inputs | scale", "TOY or GAME"]
    contents = re.findall(r'class="toctree-l2"><a class="reference internal" href="(\w+)\.html"', index)
    assert {"roll", "toy"} < {*contents}
    assert without_added(contents) == without_added(OPERATORS)


@pytest.mark.exhaustive
def test_new_operators_are_in_the_reference(site):
    found = entries(site)
    for page, names in {"functions": ["roll", "ToyMode"], "descriptors": ["RollDesc", "ToyDesc", "GameDesc"]}.items():
        assert [found[f"dml_jax.{name}"] for name in names] == [f"reference/{page}.html#dml_jax.{x}" for x in names]


@pytest.mark.exhaustive
def test_new_operators_print_all_kinds_of_fields_and_a_column_per_tensor_with_types_of_its_own(site):
    fields, levels = operator_tables(site, "fields"), operator_tables(site, "feature-levels")
    assert fields["ROLL"][2] == ["Shifts", "shifts", "int array counted by DimensionCount"]
    assert fields["TOY"] == [
        ["InputTensors", "inputs", "input tensor array counted by InputCount"],
        ["ScaleTensor", "scale", "input tensor, optional"],
        ["IndicesTensor", "indices", "input tensor of indices"],
        ["OutputTensors", "outputs", "output tensor array counted by OutputCount"],
        ["Repeats", "repeats", "uint array counted by RepeatsCount"],
        ["Mode", "mode", "enum: FAIR"],
    ]
    assert levels["TOY"][1] == ["1_0", "4", "FLOAT32, FLOAT16", "FLOAT32, FLOAT16"]
    assert [len(cells) for cells in levels["TOY"]] == [4, 4]


@pytest.mark.exhaustive
def test_the_example_of_a_new_operator_computes(site):
    """Its function, its struct, and its rule, in both."""
    code = """if True:
        import jax.numpy as jnp, dml_jax
        x = jnp.arange(6.0).reshape(2, 3)
        tensor = dml_jax.TensorDesc("FLOAT32", (2, 3))
        print(dml_jax.roll(x, (1, -1)).tolist(), dml_jax.RollDesc(tensor, tensor, (1, -1)).compute(x).tolist())
        for wrong in (lambda: dml_jax.roll(x, (1,)), lambda: dml_jax.RollDesc(tensor, tensor, (1,))):
            try:
                wrong()
            except dml_jax.ConstraintError as error:
                print(str(error).splitlines()[0])
    """
    line, *errors = python(site.parent, "-c", code).stdout.splitlines()
    assert line == " ".join(["[[4.0, 5.0, 3.0], [1.0, 2.0, 0.0]]"] * 2)
    assert errors == [
        "roll: shifts must have one entry per dimension of input, but there are 1 for 2 dimensions.",
        "ROLL: Shifts must have one entry per dimension of InputTensor, but there are 1 for 2 dimensions.",
    ]
