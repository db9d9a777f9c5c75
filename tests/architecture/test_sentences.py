"""No sentence of a tutorial or of a page that says how to do something is long."""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
_LISTED = (DOCS / "README.md").read_text("utf-8").partition("**Reference**")[0]
PAGES = sorted({DOCS / page for page in re.findall(r"\]\(([^)#]+)", _LISTED)} - {DOCS / "OVERVIEW.md"})
"""Tutorials and how-to: what stands before the reference in the list of all pages."""
_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_PARTS = re.compile(r"\n\s*\n|\n(?=[*|-]|\d+\. )|\|")
"""Between paragraphs, items of lists, and cells of tables."""
_NO_WORDS = re.compile(r"\]\([^)]*\)|`[^`]*`")
_MOST_WORDS = 30


def long_sentences(page: Path) -> list[str]:
    """Those with more words than a reader keeps in mind; names in code and addresses do not count."""
    text = re.sub(r"^#.*$", "", _BLOCK.sub("\n\n", page.read_text("utf-8")), flags=re.MULTILINE)
    sentences = [
        sentence
        for part in _PARTS.split(text)
        for sentence in re.split(r"(?<=[.:?])\s+", " ".join(_NO_WORDS.sub("", part).split()))
    ]
    return [sentence for sentence in sentences if len(sentence.split()) > _MOST_WORDS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_sentence_of_a_page_of_instructions_is_long(page: Path) -> None:
    assert long_sentences(page) == []


def test_every_tutorial_is_listed() -> None:
    assert set(TUTORIALS) <= set(PAGES)
