"""The glossary: guides link each of its words where they use it first."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text()
# What a word looks like in the text of a guide, where it has the sense of the glossary.
USES = {
    "fresh": r"\bfresh\b(?= memory| result|,)",
    "form": r"plain \[?form\b",
    "of a copy": r"\bof a copy\b(?! of)(?! in the buffer)",
    "promise": r"\b(unique|broken|the)\W+promises?\b|\[promises?\]|promises? about",
    "struct": r"\b[Ss]tructs? (alone|and ONNX)|\bnewest \W?struct",
    "variant": r"\b[Vv]ariants?\b",
}
# Pages that say themselves what a word means.
OWN = {"form": ["forms"], "variant": ["forms"], "fresh": ["jax_programs", "meshes"]}
GUIDES = sorted(
    {*DOCS.glob("*.md"), *DOCS.glob("benchmarks/*.md"), DOCS / "operators/index.md"}
    - {DOCS / f"{name}.md" for name in ("changelog", "contributing", "glossary")}
)


def test_each_word_has_a_heading_in_order():
    headings = re.findall(r"^## (.*)$", GLOSSARY, re.MULTILINE)
    assert headings == sorted(USES)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_first_use_is_a_link(path):
    prose = re.sub(r"(?s)^```.*?^```|<!--.*?-->|`[^`\n]*`", "", path.read_text(), flags=re.MULTILINE)
    missing = []
    for word, pattern in USES.items():
        first = re.search(pattern, prose)
        if first and path.stem not in OWN.get(word, ()):
            paragraph = prose[: prose.find("\n\n", first.end())]
            if f"glossary.md#{word.replace(' ', '-')}" not in paragraph:
                missing.append((word, prose[first.start() - 30 : first.end() + 30]))
    assert missing == []
