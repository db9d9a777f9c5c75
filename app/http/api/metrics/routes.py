"""Metrics for Prometheus, for operators."""

from datetime import UTC, datetime, timedelta
from typing import Final

from fastapi import APIRouter, Response

from app.http.admission.checks import CheckedRoute
from app.http.api.metrics.exposition import exposition
from app.http.dependencies import Admin, ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/metrics", tags=["health"])

PERIOD = timedelta(days=31)
_TEXT: Final = "text/plain"
_MEDIA_TYPE: Final = f"{_TEXT}; version=0.0.4; charset=utf-8"


@router.get(
    "",
    summary="Show metrics for Prometheus",
    response_class=Response,
    responses={200: {"description": "In Prometheus's text format.", "content": {_TEXT: {}}}},
)
async def metrics(services: ServicesDep, caller: Admin) -> Response:
    """How receipts compare with the provider's reports, over the last 31 days."""
    found = await services.statements.of(
        caller.account_id, since=datetime.now(UTC) - PERIOD, until=None, as_operator=True
    )
    return Response(exposition(found), media_type=_MEDIA_TYPE)
