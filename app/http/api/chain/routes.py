"""The hash chain of the caller's account, and the roots that seal it."""

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.billing.chain.service import AccountChains
from app.http.admission.checks import CheckedRoute
from app.http.api.chain.schemas import PublicKeyResponse, RootResponse
from app.http.dependencies import OpenExportReader, ReceiptReader, ServicesDep
from app.http.openapi.headers import EXPORTED
from app.http.response_model import Page
from app.http.streaming.line_export import LineExport
from app.platform.pagination import MAX_PAGE

JSON_LINES = "text/jsonl"

_BLOCK = 50
"""Lines that are sent at once."""

router = APIRouter(route_class=CheckedRoute, prefix="/v1/chain", tags=["receipts"])


@router.get(
    "",
    summary="Export the hash chain",
    response_class=Response,
    responses={
        200: {"description": "The export, for the verifier.", "content": {JSON_LINES: {}}, **EXPORTED}
    },
)
async def export_chain(
    services: ServicesDep, caller: ReceiptReader, *, open_reader: OpenExportReader
) -> LineExport:
    """Every receipt and ledger entry of the key's account with its hash, and all signed roots."""
    database, as_of = await services.reading.choose()
    records = AccountChains(database).records(caller.account_id)
    # Read before the response begins, so that an error can still be a problem document.
    first = [await anext(records), await anext(records)]

    async def lines() -> AsyncIterator[str]:
        block = [_line(record) for record in first]
        async for record in records:
            block.append(_line(record))
            if len(block) >= _BLOCK:
                yield "".join(block)
                block.clear()
        yield "".join(block)

    reader_scope = open_reader(caller, caller.account_id)
    return LineExport(
        lines(), media_type=JSON_LINES, filename="chain.jsonl", reader_scope=reader_scope, as_of=as_of
    )


@router.get("/roots", summary="List signed roots")
async def list_roots(
    services: ServicesDep,
    _caller: ReceiptReader,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
) -> Page[RootResponse]:
    """The signed statements about all chains, newest first; keep the newest to compare it later."""
    roots, next_cursor = await services.chains.roots(limit=limit, cursor=cursor)
    return Page(items=[RootResponse.of(root) for root in roots], next_cursor=next_cursor)


@router.get("/keys", summary="List the keys of roots")
async def list_sealing_keys(services: ServicesDep, _caller: ReceiptReader) -> Page[PublicKeyResponse]:
    """The public keys that verify roots, the newest first; none if roots are not signed."""
    keys = services.chain.public_keys
    return Page(items=[PublicKeyResponse(id=name, pem=pem) for name, pem in keys.items()])


def _line(record: dict[str, object]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
