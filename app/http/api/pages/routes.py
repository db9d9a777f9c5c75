"""The web pages and their files."""

import gzip
import os
from collections.abc import MutableMapping
from functools import cache
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from starlette.datastructures import Headers
from starlette.staticfiles import NotModifiedResponse, StaticFiles

from app.errors import Forbidden
from app.http.admission.checks import CheckedRoute
from app.http.api.pages.headers import (
    DOCS_HEADERS,
    PAGE_HEADERS,
    SCRIPT_FOR_SITES_HEADERS,
    embedded_in,
)
from app.http.dependencies import ServicesDep
from app.platform.serialization.shipped import shipped_texts

WEB = Path(__file__).parents[3] / "web"


class EmbeddingRefused(Forbidden):
    """Pages of this `origin` may not embed the chat: `RUNTALLY_EMBED_ORIGINS` lists those that may."""

    code = "embedding_refused"


router = APIRouter(route_class=CheckedRoute, include_in_schema=False)


class PageFiles(StaticFiles):
    """The files of `app/web` and Swagger UI, served with the security headers of pages."""

    def __init__(self) -> None:
        super().__init__(directory=WEB, packages=[("fastapi_offline", "static")])

    async def get_response(self, path: str, scope: MutableMapping[str, Any]) -> Response:
        """A file, or 304. Those that a wheel has in its archive are sent from memory."""
        if scope["method"] not in {"GET", "HEAD"} or (packed := await run_sync(_packed, path)) is None:
            return await super().get_response(path, scope)
        tag = {"ETag": f'"{sha256(packed).hexdigest()[:32]}"'}
        response = Response(
            packed, headers={**PAGE_HEADERS, **tag}, media_type=guess_type(path)[0] or "text/plain"
        )
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
        response.headers["Content-Encoding"] = "gzip"
        return response

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """The file of a path, which may be compressed."""
        full_path, found = super().lookup_path(path)
        return (full_path, found) if found is not None else super().lookup_path(f"{path}.gz")

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, *args: Any, **kwargs: Any
    ) -> Response:
        """A file of the directory, or 304."""
        response = super().file_response(full_path, stat_result, *args, **kwargs)
        response.headers.update(PAGE_HEADERS)
        if str(full_path).endswith(".gz"):
            response.headers["Content-Encoding"] = "gzip"
        return response


def _packed(path: str) -> bytes | None:
    text = _packed_texts().get(f"app/web/{path}")
    return None if text is None else _compressed(text)


@cache
def _packed_texts() -> dict[str, str]:
    return shipped_texts("app/web/")


@cache
def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


files = PageFiles()


@router.get("/")
async def chat_page(request: Request) -> Response:
    """The chat page."""
    return await files.get_response("chat.html", request.scope)


@router.get("/approvals")
async def approvals_page(request: Request) -> Response:
    """The page of what waits for an answer."""
    return await files.get_response("approvals.html", request.scope)


@router.get("/device")
async def device_page(request: Request) -> Response:
    """The page where a person signs in a program that shows a code."""
    return await files.get_response("device.html", request.scope)


@router.get("/billing")
async def billing_page(request: Request) -> Response:
    """The billing page."""
    return await files.get_response("billing.html", request.scope)


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


@router.get("/console")
async def console_page(request: Request) -> Response:
    """The console."""
    return await files.get_response("console.html", request.scope)


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
