"""Markdown of the guide to HTML, under the content security policy of the pages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.http.api.guide.pages import GuidePage, guide_pages

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_OUTSIDE: Final = re.compile(r"https?://", re.IGNORECASE)
_PICTURE: Final = re.compile(r"(?:\.\./)+app/web/(pictures/.+)")
_NOT_SHIPPED: Final = re.compile(r"^!\[[^]]*\]\((?!(?:\.\./)+app/web/pictures/).*\)$", re.MULTILINE)
"""Clients install the wheel as well, which has to be small: it has the pictures of the tutorials only."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what is below it, until the next one."""

    id: str
    level: int
    heading: str
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as HTML, and its sections; the first is what the title names."""

    html: str
    sections: list[Section]


def render(page: GuidePage, root: str) -> RenderedPage:
    tokens = _MARKDOWN.parse(_NOT_SHIPPED.sub("", page.text))
    sections = [Section("", 1, page.title)]
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _plain(tokens[index + 1])
            token.attrs["id"] = anchor = _anchor(heading, sections)
            if token.tag != "h1":
                sections.append(Section(anchor, int(token.tag[1:]), heading))
        elif token.type in {"inline", "fence"} and tokens[index - 1].type != "heading_open":
            sections[-1].texts.append(_plain(token))
        elif token.tag in {"th", "td"} and (style := token.attrs.pop("style", None)):
            # The policy allows no inline styles.
            token.attrs["class"] = str(style).replace("text-align:", "align-")
        _lead(token.children or [], page, root)
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    # What is wider than the screen is scrolled, also by keyboard.
    html = html.replace("<pre>", '<pre tabindex="0">').replace("</table>", "</table></div>")
    return RenderedPage(html.replace("<table>", '<div class="scroll-x" tabindex="0"><table>'), sections)


def address_of(name: str, root: str) -> str:
    """Where a page of the guide is."""
    return f"{root}docs/guide/{name}" if name else f"{root}docs/guide"


def _lead(children: Sequence[Token], page: GuidePage, root: str) -> None:
    """Let links lead to pages of the guide or outside; what only a checkout has is text."""
    leads = []
    for token in children:
        if token.type == "link_open":
            href = _address(str(token.attrs["href"]), page, root)
            leads.append(href is not None)
            token.attrs = {} if href is None else {"href": href}
        if token.type in {"link_open", "link_close"}:
            is_link = leads[-1] if token.type == "link_open" else leads.pop()
            token.tag = "a" if is_link else "span"
        elif token.type == "image":
            token.attrs["src"] = _PICTURE.sub(rf"{root}assets/\1", str(token.attrs["src"]))


def _address(href: str, page: GuidePage, root: str) -> str | None:
    path, _, anchor = href.partition("#")
    if _OUTSIDE.match(href):
        return href
    after = f"#{anchor}" if anchor else ""
    if not path:
        return after
    name = "settings" if path.endswith(".env.example") else _resolved(path, page.name)
    known = name in guide_pages()
    return f"{address_of(name, root)}{after}" if known else None


def _resolved(path: str, name: str) -> str:
    """The name of the page to which a path leads from another page."""
    parts = name.split("/")[:-1]
    for part in path.removesuffix(".md").split("/"):
        if part == "..":
            if not parts:
                return "outside of docs"
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "" if parts == ["README"] else "/".join(parts)


def _anchor(heading: str, sections: Sequence[Section]) -> str:
    """As GitHub makes it, where the documents are read as well."""
    anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
    taken = {section.id for section in sections}
    numbers = (f"{anchor}-{number}" for number in range(1, len(sections) + 1))
    return anchor if anchor not in taken else next(each for each in numbers if each not in taken)


def _plain(token: Token) -> str:
    """The text without its marks."""
    if token.children is None:
        return token.content
    breaks = {"softbreak", "hardbreak"}
    return "".join(" " if child.type in breaks else child.content for child in token.children)
