"""`/docs/guide`: the documents as pages, with a search."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from html import escape
from itertools import groupby
from string import Template
from typing import Final

from anyio import to_thread
from fastapi import APIRouter, Response

from app.errors import NotFound
from app.http.admission.checks import CheckedRoute
from app.http.api.guide.pages import LAYOUT, guide_pages
from app.http.api.guide.rendering import RenderedPage, address_of, render
from app.http.api.pages.headers import PAGE_HEADERS

_HEADERS: Final = {**PAGE_HEADERS, "Content-Encoding": "gzip"}
"""Every browser reads gzip, and the pages' scripts come in nothing else."""

router = APIRouter(route_class=CheckedRoute, include_in_schema=False)


class GuidePageNotFound(NotFound):
    """There is no such page in the guide."""


@router.get("/docs/guide")
async def guide() -> Response:
    """The contents of the guide."""
    return Response(await to_thread.run_sync(_page, ""), media_type="text/html", headers=_HEADERS)


@router.get("/docs/guide/search.json")
async def guide_search() -> Response:
    """What the search looks through: each page with its sections."""
    return Response(await to_thread.run_sync(_search_index), media_type="application/json", headers=_HEADERS)


@router.get("/docs/guide/{name:path}")
async def guide_page(name: str) -> Response:
    """A page of the guide."""
    if not name or name not in guide_pages():
        raise GuidePageNotFound
    return Response(await to_thread.run_sync(_page, name), media_type="text/html", headers=_HEADERS)


@cache
def _page(name: str) -> bytes:
    page, names = guide_pages()[name], list(guide_pages())
    root = "../" * (name.count("/") + 2 if name else 1)
    rendered, place = render(page, root), names.index(name)
    layout = Template(LAYOUT.read_text("utf-8"))
    html = layout.substitute(
        root=root,
        title=escape(page.title),
        navigation="".join(_navigation(name, root)),
        contents="".join(_contents(rendered)),
        content=rendered.html,
        previous=_step(names[place - 1], root, "prev") if place else "",
        next=_step(names[place + 1], root, "next") if place + 1 < len(names) else "",
    )
    return gzip.compress(html.encode(), mtime=0)


def _navigation(name: str, root: str) -> Iterator[str]:
    for part, pages in groupby(guide_pages().values(), key=lambda page: page.part):
        yield f"<h2>{escape(part)}</h2>" if part else ""
        yield "<ul>"
        for page in pages:
            here = ' aria-current="page"' if page.name == name else ""
            yield f'<li><a href="{address_of(page.name, root)}"{here}>{escape(page.title)}</a></li>'
        yield "</ul>"


def _contents(rendered: RenderedPage) -> Iterator[str]:
    for section in rendered.sections:
        if section.level == 2:  # noqa: PLR2004 - h2
            yield f'<li><a href="#{section.id}">{escape(section.heading)}</a></li>'


def _step(name: str, root: str, rel: str) -> str:
    return f'<a rel="{rel}" href="{address_of(name, root)}">{escape(guide_pages()[name].title)}</a>'


@cache
def _search_index() -> bytes:
    pages = [
        {
            "name": page.name,
            "title": page.title,
            "sections": [
                [section.id, section.heading, " ".join(section.texts)]
                for section in render(page, "").sections
            ],
        }
        for page in guide_pages().values()
    ]
    return gzip.compress(json.dumps(pages).encode(), mtime=0)
