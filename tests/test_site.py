"""The documentation site: built without a warning, with every public name, constraint and feature level on it."""

import fcntl
import importlib
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dml_jax.catalogue import DESCS, FUNCTIONS
from dml_jax.core.support import columns
from dml_jax.core.tensor import FIELDS, TENSOR

for package in ("sphinx", "furo", "myst_parser", "onnx"):
    pytest.importorskip(package, reason="the site needs the extra docs")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site: the first worker of a test run builds it, the others wait."""
    base, run = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = (base.parent / f"site-{run}") if run else base / "site"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", folder]
            built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            (folder / "failure").write_text(built.stderr if built.returncode else "")
    return folder


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


def test_the_site_is_built_without_a_warning(site):
    assert (site / "failure").read_text() == ""
    assert (site / "index.html").exists()


@pytest.mark.parametrize("module", ["dml_jax", "dml_jax.batch", "dml_jax.onnx"])
def test_every_public_name_has_an_entry(site, module):
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    entries = {
        name: item.uri for kind, items in inventory.items() if kind.startswith("py:") for name, item in items.items()
    }
    public = importlib.import_module(module).__all__
    missing = [name for name in public if not entries.get(f"{module}.{name}", "").startswith("reference/")]
    assert not missing


def test_every_constraint_is_on_the_operators_pages(site):
    expected = {name: {rule.name: rule.worded({}) for rule in FUNCTIONS[name].rules} for name in FUNCTIONS}
    expected |= {cls.operator_type: cls.wordings() for cls in DESCS}
    expected["TENSOR"] = {rule.name: rule.worded(FIELDS) for rule in TENSOR}
    found = operator_tables(site, "constraints")
    assert {name: {rule: text for text, rule in rows} for name, rows in found.items()} == expected


def test_every_feature_level_and_field_is_on_the_operators_pages(site):
    levels, fields = operator_tables(site, "feature-levels"), operator_tables(site, "fields")
    for cls in DESCS:
        assert levels[cls.operator_type] == [list(columns(row).values()) for row in cls.support]
        assert fields[cls.operator_type] == [[theirs, ours] for ours, theirs in cls.directml_names().items()]
