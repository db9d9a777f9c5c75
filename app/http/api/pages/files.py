"""The files of the pages: scripts and style sheets that a page names are sent with all that they import."""

import gzip
import os
import re
from collections.abc import MutableMapping
from functools import cache, lru_cache
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final

from anyio.to_thread import run_sync
from fastapi import Response
from starlette.datastructures import Headers
from starlette.staticfiles import NotModifiedResponse, StaticFiles

from app.http.api.pages.headers import PAGE_HEADERS
from app.http.api.pages.joined import joined_script, joined_sheet
from app.platform.serialization.shipped import shipped_texts

WEB: Final = Path(__file__).parents[3] / "web"
_NAMED: Final = re.compile(r'(?:href|src)="[^"]*\bassets/([\w./-]+\.(?:js|css))"')
_KEPT: Final = 256
"""More than a wheel has files."""


class PageFiles(StaticFiles):
    """The files of `app/web` and Swagger UI, served with the security headers of pages."""

    def __init__(self) -> None:
        super().__init__(directory=WEB, packages=[("fastapi_offline", "static")])

    async def get_response(self, path: str, scope: MutableMapping[str, Any]) -> Response:
        """A file, or 304. Those that are joined, or that a wheel has in its archive, are sent from memory."""
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


def sent_text(path: str) -> str | None:
    """What is sent of a script or style sheet that a page names; None of other files."""
    if path not in _named():
        return None
    return joined_sheet(path, _text) if path.endswith(".css") else joined_script(path, _text, apart=_named())


def _packed(path: str) -> bytes | None:
    if path in _named():
        return _joined(path, _last_change())
    text = _archived().get(f"app/web/{path}")
    return None if text is None else _compressed(text)


@lru_cache(maxsize=_KEPT)
def _joined(path: str, _changed: int) -> bytes:
    return _compressed(sent_text(path) or "")


def _last_change() -> int:
    """When a file of the pages was last changed: in a checkout they are edited while a server runs."""
    return 0 if _archived() else max(path.stat().st_mtime_ns for path in WEB.rglob("*.*s"))


@lru_cache(maxsize=_KEPT)
def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


@cache
def _named() -> frozenset[str]:
    """The scripts and style sheets of our own that a page names."""
    names = {name for page in WEB.glob("*.html") for name in _NAMED.findall(page.read_text("utf-8"))}
    return frozenset(name for name in names if (WEB / name).exists() or f"app/web/{name}" in _archived())


@cache
def _archived() -> dict[str, str]:
    return shipped_texts("app/web/")


def _text(path: str) -> str:
    if (text := _archived().get(f"app/web/{path}")) is not None:
        return text
    file = WEB / path
    return file.read_text("utf-8") if file.exists() else _decompressed(file.with_name(f"{file.name}.gz"))


def _decompressed(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode()
