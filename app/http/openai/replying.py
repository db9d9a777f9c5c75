"""What the responses of this wire have in common."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Request, Response

from app.http.dependencies import Location

IGNORED: Final = "Runtally-Ignored"


async def _approvals_page(request: Request, location: Location) -> str:
    """The URL of the page where a person answers what waits, by the address that the client has used."""
    return f"{str(request.base_url).removesuffix('/')}{location('/approvals')}"


ApprovalsPage: TypeAlias = Annotated[str, Depends(_approvals_page)]


def name_ignored(response: Response, names: Sequence[str]) -> None:
    """Name the parameters that had no effect."""
    if names:
        response.headers[IGNORED] = ", ".join(names)
