"""Metrics for Prometheus, for operators."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import structlog
from fastapi import APIRouter, Response

from app.db import StatementFailed
from app.errors import AppError
from app.http.admission.checks import CheckedRoute
from app.http.api.metrics.exposition import exposition
from app.http.dependencies import Admin, ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/metrics", tags=["health"])

log = structlog.get_logger(__name__)

PERIOD = timedelta(days=31)
_TEXT: Final = "text/plain"
_MEDIA_TYPE: Final = f"{_TEXT}; version=0.0.4; charset=utf-8"

_Part = TypeVar("_Part")


@router.get(
    "",
    summary="Show metrics for Prometheus",
    response_class=Response,
    responses={200: {"description": "In Prometheus's text format.", "content": {_TEXT: {}}}},
)
async def metrics(services: ServicesDep, caller: Admin) -> Response:
    """Workers and queue now, and how receipts compare with the provider's reports, over the last 31 days."""
    statement_of = partial(services.statements.of, caller.account_id, until=None, as_operator=True)
    # By account nothing is shown: each would be a series of its own.
    fleet, fleet_error = await _part("fleet", partial(services.fleet.snapshot, accounts=1))
    reconciliation, error = await _part(
        "reconciliation", partial(statement_of, since=datetime.now(UTC) - PERIOD)
    )
    if fleet_error is not None and error is not None:
        raise fleet_error
    available = {"fleet": fleet_error is None, "reconciliation": error is None}
    return Response(
        exposition(reconciliation=reconciliation, fleet=fleet, available=available), media_type=_MEDIA_TYPE
    )


async def _part(name: str, read: Callable[[], Awaitable[_Part]]) -> tuple[_Part | None, Exception | None]:
    """A part of the metrics, or why it cannot be read: that must not hide the others."""
    try:
        return await read(), None
    except (AppError, StatementFailed) as error:
        log.warning("metrics.part_failed", part=name, reason=str(error))
        return None, error
