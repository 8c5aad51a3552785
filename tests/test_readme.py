"""The README is short, and whatever it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
LINKS = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]


def anchors(page):
    """What a heading of a page is addressed by, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 110


@pytest.mark.parametrize("link", LINKS)
def test_a_link_leads_somewhere(link):
    path, _, anchor = link.partition("#")
    assert (ROOT / path).is_file()
    assert not anchor or anchor in anchors(ROOT / path)


def test_the_speed_of_gradients_is_that_of_the_tables():
    """The row "bfloat16" of both devices; its third number is beside jax.numpy."""
    page = (ROOT / "docs/benchmarks.md").read_text().partition("## Gradients")[2]
    rows = re.findall(r"^\| bfloat16 \| \d+ \| [\d.]+ \| ([\d.]+) ", page, re.MULTILINE)
    assert re.findall(r"(\d\.\d\d) times", TEXT.partition("```python")[0]) == rows[:2]


def test_contributing_has_a_layer_for_every_folder():
    page = (ROOT / "docs/contributing.md").read_text()
    layers = page[page.index("## Layers") : page.index("## Tests")]
    named = {name.strip("`/") for name in re.findall(r"`\w+/`", layers)}
    assert named == {path.parent.name for path in ROOT.glob("dml_jax/*/__init__.py")}


def test_there_are_links():
    assert len(LINKS) > 10
