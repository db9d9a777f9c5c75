"""The pages of the guide: the Markdown of `docs/`, in the parts and the order of its README."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from app.platform.serialization.shipped import shipped_texts

LAYOUT: Final = Path(__file__).parents[3] / "web" / "guide.html"
"""What is around a page."""

_SETTINGS: Final = ".env.example"
_DOCUMENTS: Final = "docs/"
_OF_THE_CODE = ("decisions/", "ARCHITECTURE.md", "PRIOR_SYSTEMS.md", "TIMELINE.md", "TOUR.md")
OF_THE_CODE: Final = tuple(f"docs/{name}" for name in _OF_THE_CODE)
"""Documents for those who change it, who have a checkout."""
_PART: Final = re.compile(r"\*\*(.+?)\*\*:?(.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_SETTING: Final = re.compile(r"((?:^# .*\n)+)((?:^[A-Z_0-9]+=.*\n?)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GuidePage:
    """A page; its name is its path in `docs/` without the suffix, and empty for the contents."""

    name: str
    title: str
    part: str
    text: str


@cache
def guide_pages() -> dict[str, GuidePage]:
    """All pages by their names, in the order in which they are read: first the contents."""
    sources = dict(_sources())
    readme = sources.pop("README")
    pages = {"": GuidePage("", "Documentation", "", readme)}
    named = [(part, _name(path)) for part, text in _PART.findall(readme) for _, path in _LINK.findall(text)]
    for part, name in named:
        if (text := sources.pop(name, None)) is not None:
            title = _TITLE.search(text)
            pages[name] = GuidePage(name, title[1] if title else name, part, text)
    return pages


def _sources() -> Iterator[tuple[str, str]]:
    """The names and texts of the documents."""
    texts = shipped_texts(_SETTINGS, _DOCUMENTS)
    yield "settings", _settings(texts.pop(_SETTINGS))
    for path, text in texts.items():
        if not path.startswith(OF_THE_CODE):
            yield path.removeprefix(_DOCUMENTS).removesuffix(".md"), text


def _name(path: str) -> str:
    return "settings" if path.endswith(_SETTINGS) else path.removesuffix(".md")


def _settings(example: str) -> str:
    """A page of the settings, from the example, which has them all with their defaults."""
    lines = ["# Settings", "", "Variables of the environment, or lines of `.env`.", ""]
    lines += ["| setting | default | meaning |", "| --- | --- | --- |"]
    for comment, variables in _SETTING.findall(example):
        meaning = " ".join(comment.replace("# ", "").split()).replace("|", "\\|")
        for variable in variables.splitlines():
            name, _, default = variable.partition("=")
            lines.append(f"| `{name}` | {f'`{default}`' if default else ''} | {meaning} |")
    return "\n".join(lines)
