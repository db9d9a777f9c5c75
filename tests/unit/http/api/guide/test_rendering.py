"""The guide: which pages it has, and what becomes of their Markdown."""

import re

import pytest

from app.http.api.guide.pages import GuidePage, guide_pages
from app.http.api.guide.rendering import render
from app.http.api.guide.routes import _page, _search_index
from tests.architecture.tree import ROOT

PAGES = guide_pages()


def rendered(text: str, name: str = "api/runs") -> str:
    return render(GuidePage(name, "Runs", "Reference", text), "../../../").html


def test_the_guide_has_every_document_but_those_of_the_code_in_four_parts() -> None:
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    names = {f"{name or 'README'}.md" for name in PAGES}

    of_the_code = ("decisions/", "ARCHITECTURE.md", "PRIOR_SYSTEMS.md", "TIMELINE.md", "TOUR.md")
    assert {name for name in there if not name.startswith(of_the_code)} == names - {"settings.md"}
    parts = list(dict.fromkeys(page.part for page in PAGES.values()))
    assert parts == ["", "Tutorials", "How to", "Reference", "Explanation"]
    assert PAGES["OPERATIONS"].part == "How to"


def test_the_page_of_settings_has_each_with_its_default() -> None:
    variables = re.findall(r"^([A-Z_0-9]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    rows = re.findall(r"^\| `([A-Z_0-9]+)` \| (?:`(.*?)`)? \| (.+) \|$", PAGES["settings"].text, re.MULTILINE)

    assert [(name, default) for name, default, _ in rows] == variables
    assert all(meaning for _, _, meaning in rows)


@pytest.mark.parametrize(
    ("link", "html"),
    [
        ("[a](../operations/fleet.md#a-b)", '<a href="../../../docs/guide/operations/fleet#a-b">a</a>'),
        ("[a](billing.md)", '<a href="../../../docs/guide/api/billing">a</a>'),
        ("[a](../README.md)", '<a href="../../../docs/guide">a</a>'),
        ("[a](../../.env.example)", '<a href="../../../docs/guide/settings">a</a>'),
        ("[a](#the-request)", '<a href="#the-request">a</a>'),
        ("[a](https://focus.finops.org)", '<a href="https://focus.finops.org">a</a>'),
        ("[a](../decisions/0061-x.md)", "<span>a</span>"),
        ("[`a`](../../app/events.py)", "<span><code>a</code></span>"),
        ("[a](../../../../etc/passwd)", "<span>a</span>"),
        (
            "![a](../../app/web/pictures/chat.avif)",
            '<img src="../../../assets/pictures/chat.avif" alt="a" />',
        ),
    ],
)
def test_links_lead_to_pages_or_outside_and_others_are_text(link: str, html: str) -> None:
    assert rendered(link) == f"<p>{html}</p>\n"


def test_a_picture_that_no_wheel_has_is_left_out() -> None:
    assert rendered("a\n\n![b](../pictures/chat.png)\n\nc") == "<p>a</p>\n<p>c</p>\n"


def test_every_picture_of_a_page_is_there() -> None:
    shown = {src for page in PAGES.values() for src in re.findall(r'src="([^"]+)"', render(page, "").html)}

    assert {f"assets/pictures/{path.name}" for path in (ROOT / "app/web/pictures").iterdir()} == shown


def test_html_in_a_document_is_text_and_nothing_has_a_style_of_its_own() -> None:
    assert rendered("<script>a</script>") == "<p>&lt;script&gt;a&lt;/script&gt;</p>\n"
    assert '<th class="align-right">' in rendered("| a |\n| --: |\n| 1 |\n")
    assert all("style=" not in render(page, "").html for page in PAGES.values())


def test_headings_have_the_anchors_that_links_name() -> None:
    found = render(
        GuidePage("a", "A", "", "# A\n\nBefore.\n\n## Two `words`!\n\n```sh\nls\n```\n\n## Two words\n"), ""
    )

    assert 'id="two-words"' in found.html
    assert [(each.id, each.heading, each.texts) for each in found.sections] == [
        ("", "A", ["Before."]),
        ("two-words", "Two words!", ["ls\n"]),
        ("two-words-1", "Two words", []),
    ]


def test_every_link_between_pages_has_its_page_and_its_heading() -> None:
    pages = {name: render(page, "/") for name, page in PAGES.items()}
    anchors = {name: set(re.findall(r'<h\d id="([^"]+)"', page.html)) for name, page in pages.items()}
    links = [
        (name, target.removeprefix("/") if found else name, anchor)
        for name, page in pages.items()
        for found, target, anchor in re.findall(r'<a href="(?:(/docs/guide)([^"#]*))?#([^"]+)">', page.html)
    ]

    assert len(links) > 300
    assert [link for link in links if link[2] not in anchors.get(link[1], set())] == []


def test_pages_and_the_index_are_made_once() -> None:
    assert _page("OPERATIONS") is _page("OPERATIONS")
    assert _search_index() is _search_index()
