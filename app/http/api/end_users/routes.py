"""End users of the key's account: erase all that was said by and to one."""

from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Path, Response

from app.http.admission.checks import CheckedRoute
from app.http.api.end_users.archive import archive_of
from app.http.api.end_users.schemas import ErasureResponse, StartedErasure
from app.http.dependencies import ActorDep, Location, OpenExportReader, ReadWriter, RunReader, ServicesDep
from app.http.openapi.headers import ATTACHED, LOCATED
from app.http.parameters import uuid_in_path
from app.http.streaming.line_export import LineExport
from app.requests.attribution import EndUser
from app.runs.erasure.service import ErasureNotFound

_ZIP = "application/zip"

router = APIRouter(route_class=CheckedRoute, prefix="/v1", tags=["runs"])


EndUserParam: TypeAlias = Annotated[EndUser, Path(alias="endUser", description="As `endUser` of the runs.")]
JobId: TypeAlias = Annotated[UUID, uuid_in_path("jobId", ErasureNotFound)]


@router.delete(
    "/end-users/{endUser:path}", status_code=202, responses={202: LOCATED}, summary="Erase an end user"
)
async def erase_end_user(
    end_user: EndUserParam,
    services: ServicesDep,
    caller: ReadWriter,
    actor: ActorDep,
    response: Response,
    location: Location,
) -> StartedErasure:
    """Cancel the runs of an end user and delete all that was said in them, wherever it is kept.

    Receipts keep their numbers, with a hash in place of the end user. May be repeated.
    """
    erasure = await services.erasures.start(caller.account_id, end_user, by=actor)
    response.headers["Location"] = location(f"/v1/erasures/{erasure.id}")
    return StartedErasure(job_id=erasure.id)


@router.get(
    "/exports/end-users/{endUser:path}",
    response_class=Response,
    responses={200: {"description": "The archive.", "content": {_ZIP: {}}, **ATTACHED}},
    summary="Download everything about an end user",
)
async def export_end_user(
    end_user: EndUserParam, services: ServicesDep, caller: RunReader, open_reader: OpenExportReader
) -> LineExport:
    """Runs with requests, events and files, conversations, and requests of schedules, as a ZIP archive.

    With evidence and receipts for keys that may read them. An error aborts the response.
    """
    pieces = archive_of(services, caller, end_user)
    scope = open_reader(caller, caller.account_id)
    return LineExport(pieces, media_type=_ZIP, filename="end-user.zip", reader_scope=scope)


@router.get("/erasures/{jobId}", summary="How far an erasure has come")
async def get_erasure(job_id: JobId, services: ServicesDep, caller: RunReader) -> ErasureResponse:
    """It ends when nothing is left to erase; then nothing names the end user any more, also not this."""
    return ErasureResponse.of(await services.erasures.get(caller.account_id, job_id))
