"""The README is short, and whatever it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
LINKS = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
FOLDERS = re.findall(r"^\| (`[^|]+/`) \|", TEXT, re.MULTILINE)


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


@pytest.mark.parametrize("row", FOLDERS)
def test_the_map_names_folders_that_exist(row):
    first, *others = (name.strip("`").rstrip("/") for name in row.split(", "))
    inside = Path(first).parent if "/" in first else Path()
    for name in (first, *others):
        assert any((ROOT / folder / name).is_dir() for folder in (inside, "")), name


def test_there_are_links_and_a_map():
    assert len(LINKS) > 10
    assert 5 < len(FOLDERS) <= 10
