"""A run's files: uploads, and the files left in its workspace."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Response

from app.http.admission.checks import CheckedRoute
from app.http.api.files.schemas import FileListing
from app.http.dependencies import RunIdParam, RunReader, ServicesDep, run_key
from app.http.openapi.headers import ATTACHED

router = APIRouter(route_class=CheckedRoute, prefix="/v1/runs/{runId}/files", tags=["runs"])

_BINARY = "application/octet-stream"


@router.get("", summary="List a run's files")
async def list_files(run_id: RunIdParam, services: ServicesDep, caller: RunReader) -> FileListing:
    """Uploads; after the run has ended, also the files it left in its workspace."""
    run = await services.runs.get(run_key(caller, run_id))
    return FileListing.of(await services.workspaces.listing(run.key))


@router.get(
    "/{path:path}",
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
