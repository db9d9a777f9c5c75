"""Prices: what a message costs, by model."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from app.http.admission.checks import CheckedRoute
from app.http.api.prices.schemas import PriceResponse
from app.http.dependencies import ReceiptReader, ServicesDep
from app.http.parameters import MomentParam, StorableText
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1/prices", tags=["receipts"])


@router.get("", summary="List prices")
async def list_prices(
    services: ServicesDep,
    _caller: ReceiptReader,
    model: Annotated[StorableText | None, Query(description="Any name of a model.")] = None,
    at: Annotated[MomentParam | None, Query(description="The moment; now by default.")] = None,
) -> Page[PriceResponse]:
    """The price of each model at a moment, by name: those of the operator, then those of the library."""
    moment, prices = at or datetime.now(UTC), services.prices
    names = prices.priced_models() if model is None else [model]
    found = [(name, prices.find_price(name, at=moment)) for name in names]
    return Page(items=[PriceResponse.of(name, price) for name, price in found if price is not None])
