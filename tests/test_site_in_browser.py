"""The site as a browser shows it: on a screen and on a phone, light and dark, what is copied and what is found."""

import doctest
import io
import re
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import PROGRAM, Browser
from svg_geometry import contrast, luminance
from test_code_blocks import sessions
from test_site import PAGES, enlarged_site

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[1]
RUNS = sorted(ROOT.glob("docs/benchmarks/*.json"))
SCREEN, PHONE = 1400, 420
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return enlarged_site(tmp_path_factory)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("needs Chromium, such as Debian's package chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


# What is looked at on every page: how far it scrolls sideways; of its pictures how much they are shrunk; and each
# table when its frame is scrolled to the right: how far, where its first cells are in the frame, and whether they hide
# the others.
LAYOUT = """[...document.querySelectorAll("article table:not(.indextable)")].map(table => {
    const frame = table.closest(".table-wrapper"), cells = [...table.querySelectorAll("tr > :first-child")];
    cells.at(-1).scrollIntoView({block: "center", behavior: "instant"});
    frame.scrollLeft = 1e6;
    const left = frame.getBoundingClientRect().left, places = cells.map(cell => cell.getBoundingClientRect());
    const {x, y, width, height} = places.at(-1);
    return {
        hidden: frame.scrollLeft,
        left: Math.max(...places.map(place => Math.abs(place.left - left))),
        part: Math.max(...places.map(place => place.width)) / frame.clientWidth,
        opaque: cells.every(cell => getComputedStyle(cell).backgroundColor.startsWith("rgb(")),
        above: cells.at(-1).contains(document.elementFromPoint(x + width - 2, y + height / 2)),
    };
})"""
# Of the page, or of what the theme lets scroll or cuts around the article.
SIDEWAYS = """(() => {
    let over = 0;
    for (let one = document.querySelector("[role=main]"); one; one = one.parentElement)
        if (!one.parentElement || getComputedStyle(one).overflowX !== "visible")
            over = Math.max(over, one.scrollWidth - one.clientWidth);
    return over;
})()"""
SHRUNK = "[...document.querySelectorAll('article img')].map(image => image.width / Math.min(720, image.naturalWidth))"
# The text of every block of code, and what its button copies.
COPIED = """(() => {
    let copied = null;
    document.addEventListener("copy", () => { copied = document.activeElement.value; });
    return [...document.querySelectorAll("article div.highlight pre")].map(block => {
        copied = null;
        block.parentElement.querySelector("button.copybtn")?.click();
        return [block.textContent, copied];
    });
})()"""


@pytest.fixture(scope="module")
def seen(browser, site):
    """What is found on each page: by width, and what is copied."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        browser.show(SCREEN, "light")
        browser.open(path)
        browser.run("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        one = found[str(path.relative_to(site))] = {"copied": browser.run(COPIED)}
        for width in (SCREEN, PHONE):
            browser.show(width, "light")
            one[width] = browser.run(f"({{sideways: {SIDEWAYS}, tables: {LAYOUT}, pictures: {SHRUNK}}})")
    assert {f"operators/{name}.html" for name in PAGES} < found.keys()
    return found


@pytest.mark.parametrize("width", [SCREEN, PHONE])
def test_no_page_scrolls_sideways(width, seen):
    assert {page: one[width]["sideways"] for page, one in seen.items() if one[width]["sideways"]} == {}


@pytest.mark.parametrize("width", [SCREEN, PHONE])
def test_the_first_column_of_a_table_stays_and_leaves_room(width, seen):
    tables = [(page, table) for page, one in seen.items() for table in one[width]["tables"]]
    wide = [(page, table) for page, table in tables if table["hidden"]]
    assert len(wide) > {SCREEN: 0, PHONE: 50}[width]
    assert [one for one in wide if one[1]["left"] > 1 or not one[1]["opaque"] or not one[1]["above"]] == []
    assert [one for one in wide if one[1]["part"] > 0.6] == []


@pytest.mark.parametrize("page", ["benchmarks", "benchmarks/devices", *(f"benchmarks/{path.stem}" for path in RUNS)])
def test_no_column_of_a_measurement_is_out_of_sight(page, seen):
    assert len(seen[f"{page}.html"][SCREEN]["tables"]) >= 1
    scrolls = page.endswith(("_costs", "_sharded"))  # eight columns of numbers; the first column stays
    assert [table for table in seen[f"{page}.html"][SCREEN]["tables"] if table["hidden"] and not scrolls] == []


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("page", ["operators/index", "operators/multihead_attention", "structs"])
def test_tables_of_operators_are_whole(page, width, browser, site):
    browser.show(width, "light")
    browser.open(f"{site}/{page}.html")
    assert {table["hidden"] for table in browser.run(LAYOUT)} == {0}


def test_pictures_are_not_shrunk_on_a_phone(seen):
    assert {
        page: one[PHONE]["pictures"] for page, one in seen.items() if any(n < 1 for n in one[PHONE]["pictures"])
    } == {}


def typed(text):
    """The lines of a block that one types, without prompts: commands, examples, or all of it."""
    if text.startswith("$ "):
        return "\n".join(command for command, _ in sessions(text)).splitlines()
    examples = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
    return [line for line in (examples or text).splitlines() if line.strip()]


def test_what_is_typed_is_copied_without_prompts_and_outputs(seen):
    blocks = [(page, text, copied) for page, one in seen.items() for text, copied in one["copied"]]
    kinds = {text[:2] for _, text, _ in blocks}
    assert {"$ ", ">>"} < kinds
    assert [one for one in blocks if one[2] is None] == []
    lines = [(page, typed(text), [line for line in copied.splitlines() if line]) for page, text, copied in blocks]
    assert [one for one in lines if one[1] != one[2]] == []


# The colours of every text that is seen, and of what is behind it.
COLOURS = """(() => {
    const found = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        let one = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !one.getClientRects().length) continue;
        const {color} = getComputedStyle(one);
        while (!getComputedStyle(one).backgroundColor.startsWith("rgb(")) one = one.parentElement;
        found.add(`${color} ${getComputedStyle(one).backgroundColor}`);
    }
    return [...found].map(colours => colours.match(/\\d+/g));
})()"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("page", ["index", "operators/gather", "model_files", "networks", "reference/functions"])
def test_text_has_contrast(page, scheme, browser, site):
    browser.show(SCREEN, scheme)
    browser.open(f"{site}/{page}.html")
    colours = [(hexadecimal(one[:3]), hexadecimal(one[3:])) for one in browser.run(COLOURS)]
    assert len(colours) >= 4
    assert [pair for pair in colours if contrast(*pair) < 4.5] == []


# What other libraries call it, and the page that comes first.
WORDS = {
    "pixel shuffle": "operators/depth_to_space",
    "pixel_shuffle": "operators/depth_to_space",
    "PixelShuffle": "operators/depth_to_space",
    "einops": "coming_from",
    "zarr": "batches",
    "SLURM": "cluster",
    "glossary": "glossary",
    "pixel_unshuffle": "operators/space_to_depth",
    "patch embedding": "operators/space_to_depth",
    "take_along_axis": "operators/gather_elements",
    "embedding": "operators/gather",
    "channels_last": "strides",
    "index_add_": "operators/scatter_nd",
    "segment_sum": "operators/scatter_nd",
    "im2col": "operators/unfold",
}
FIRST = """(async () => {
    while (Search.title?.innerText !== "Search Results") await new Promise(wait => setTimeout(wait, 20));
    return document.querySelector("ul.search a")?.getAttribute("href").replace(/[.]html.*/, "");
})()"""


@pytest.mark.parametrize("words", [*WORDS, *PAGES])
def test_a_search_finds_the_page_first(words, browser, site):
    browser.open(f"{site}/search.html?q={quote(words)}")
    assert browser.run(FIRST) == WORDS.get(words, f"operators/{words}")


# Pictures.

PLACE = """(async () => {
    const picture = document.querySelector("article img");
    await picture.decode();
    const {x, y, width, height} = picture.getBoundingClientRect();
    return {x: x + scrollX, y: y + scrollY, width, height};
})()"""


@pytest.mark.parametrize("page", ["operators/gather", "graphs", "benchmarks/h100"])
@pytest.mark.parametrize(("system", "switch"), [*product(SCHEMES, ("auto", *SCHEMES))])
def test_a_picture_follows_the_page(system, switch, page, browser, site):
    """Its ground is as dark as the page's, which follows the switch, or the system."""
    image = pytest.importorskip("PIL.Image")
    browser.show(PHONE, system)
    browser.open(f"{site}/{page}.html")
    browser.run(f"document.body.dataset.theme = '{switch}'")
    place = browser.run(PLACE)
    picture = image.open(io.BytesIO(browser.picture(**place))).convert("RGB")
    (ground,) = {hexadecimal(picture.getpixel((4, y))) for y in (20, 60)}
    page_ground = hexadecimal(re.findall(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor")))
    dark = (system if switch == "auto" else switch) == "dark"
    assert (luminance(ground) < 0.02, luminance(page_ground) < 0.02) == (dark, dark), (ground, page_ground)


def hexadecimal(channels):
    return "#" + "".join(f"{int(channel):02x}" for channel in channels)


GLYPHS = """[document.querySelector("#patch_1 path"), ...document.querySelectorAll("[id^=text] :is(path, use)")].map(
    one => getComputedStyle(one).fill.match(/\\d+/g))"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("chart", ["cpu", "h100", "devices_operators"])
def test_the_text_of_a_chart_has_contrast(chart, scheme, browser):
    browser.show(SCREEN, scheme)
    browser.open(ROOT / f"docs/benchmarks/{chart}.svg")
    ground, *letters = map(hexadecimal, browser.run(GLYPHS))
    assert (luminance(ground) < 0.02) == (scheme == "dark")
    assert len(letters) > 100
    assert min(contrast(letter, ground) for letter in {*letters}) >= 4.5
