"""Metrics for Prometheus, for operators."""

from typing import Final

from fastapi import APIRouter, Response

from app.http.admission.checks import CheckedRoute
from app.http.dependencies import MetricsReader, ServicesDep
from app.platform.metrics.exposition import CONTENT_TYPE

router = APIRouter(route_class=CheckedRoute, prefix="/metrics", tags=["health"])

_TEXT: Final = "text/plain"


@router.get(
    "",
    summary="Show metrics for Prometheus",
    response_class=Response,
    responses={200: {"description": "In Prometheus's text format.", "content": {_TEXT: {}}}},
)
async def metrics(services: ServicesDep, _caller: MetricsReader) -> Response:
    """This process, and the runs, webhooks and reports of all processes on its database."""
    return Response(await services.exposition.text(), media_type=CONTENT_TYPE)
