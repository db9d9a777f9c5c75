"""The web pages and their files."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from app.errors import Forbidden
from app.http.admission.checks import CheckedRoute
from app.http.api.pages.files import PageFiles
from app.http.api.pages.headers import (
    DOCS_HEADERS,
    PAGE_HEADERS,
    SCRIPT_FOR_SITES_HEADERS,
    embedded_in,
)
from app.http.dependencies import ServicesDep


class EmbeddingRefused(Forbidden):
    """Pages of this `origin` may not embed the chat: `RUNTALLY_EMBED_ORIGINS` lists those that may."""

    code = "embedding_refused"


router = APIRouter(route_class=CheckedRoute, include_in_schema=False)

files = PageFiles()


def _page(file: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return await files.get_response(file, request.scope)

    return page


for _path, _file in {
    "/": "chat.html",
    "/approvals": "approvals.html",
    "/device": "device.html",
    "/console": "console.html",
}.items():
    router.add_api_route(_path, _page(_file))


@router.get("/billing")
async def billing_page(request: Request, run: str = "") -> Response:
    """The billing page, of all charges or of one run."""
    return await files.get_response("run.html" if run else "billing.html", request.scope)


@router.get("/shared")
async def shared_page(request: Request) -> Response:
    """The page of a shared conversation, whose link has its token after `#`."""
    response = await files.get_response("shared.html", request.scope)
    response.headers["X-Robots-Tag"] = "noindex"
    return response


@router.get("/embed.js")
async def embedding_script(request: Request) -> Response:
    """The script by which a site embeds the chat."""
    response = await files.get_response("embed.js", request.scope)
    response.headers.update(SCRIPT_FOR_SITES_HEADERS)
    return response


@router.get("/embed")
async def embedded_page(request: Request, services: ServicesDep, origin: str = "") -> Response:
    """The chat with one graph, in a frame of a page of this origin."""
    if origin not in services.settings.embed_origins:
        raise EmbeddingRefused
    response = await files.get_response("frame.html", request.scope)
    # Set anew: the page is another one for each origin.
    for name in PAGE_HEADERS:
        del response.headers[name]
    response.headers.update(embedded_in(origin))
    return response


@router.get("/docs")
async def docs_page(request: Request) -> Response:
    """The API documentation page."""
    response = await files.get_response("docs.html", request.scope)
    response.headers.update(DOCS_HEADERS)
    return response


@router.get("/openapi.json")
async def api_document(request: Request) -> Response:
    """The OpenAPI document."""
    document: bytes = await request.app.document()
    return Response(document, media_type="application/json", headers={"Cache-Control": "no-cache"})
