"""A run's files: uploads, and the files left in its workspace, one by one or as an archive."""

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response

from app.http.admission.checks import CheckedRoute
from app.http.api.files.schemas import FileListing
from app.http.dependencies import OpenExportReader, RunIdParam, RunReader, ServicesDep, run_key
from app.http.openapi.headers import ATTACHED
from app.http.streaming.line_export import LineExport
from app.workspaces.archive import ArchiveFormat

router = APIRouter(route_class=CheckedRoute, prefix="/v1/runs/{runId}", tags=["runs"])

_BINARY = "application/octet-stream"
_ARCHIVES: dict[ArchiveFormat, str] = {"zip": "application/zip", "tar": "application/x-tar"}


@router.get("/files", summary="List a run's files")
async def list_files(run_id: RunIdParam, services: ServicesDep, caller: RunReader) -> FileListing:
    """Uploads; after the run has ended, also the files it left in its workspace."""
    run = await services.runs.get(run_key(caller, run_id))
    return FileListing.of(await services.workspaces.listing(run.key))


@router.get(
    "/files/{path:path}",
    response_class=Response,
    responses={200: {"description": "The file.", "content": {_BINARY: {}}, **ATTACHED}},
    summary="Download a run's file",
)
async def download_file(
    run_id: RunIdParam,
    path: Annotated[str, Path(description="A `path` of the list.")],
    services: ServicesDep,
    caller: RunReader,
) -> Response:
    """The file's bytes, always as an attachment."""
    run = await services.runs.get(run_key(caller, run_id))
    content = await services.workspaces.read(run.key, path)
    name = quote(path.rpartition("/")[2], safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
    return Response(content, headers=headers, media_type=_BINARY)


@router.get(
    "/archive",
    response_class=Response,
    responses={
        200: {
            "description": "The archive.",
            "content": {media_type: {} for media_type in _ARCHIVES.values()},
            **ATTACHED,
        }
    },
    summary="Download all files of a run",
)
async def download_archive(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: RunReader,
    open_reader: OpenExportReader,
    form: Annotated[ArchiveFormat, Query(alias="format")] = "zip",
) -> LineExport:
    """All files of the list as one archive, with the same paths; every file has the same times and owner."""
    run = await services.runs.get(run_key(caller, run_id))
    pieces = services.workspaces.archive(run.key, form)
    # Read before the response begins, so that an error can still be a problem document.
    first = await anext(pieces)

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    scope = open_reader(caller, caller.account_id)
    return LineExport(all_pieces(), media_type=_ARCHIVES[form], filename=f"files.{form}", reader_scope=scope)
