"""The price list of this server."""

from app.billing.prices.price_file import read_prices
from app.billing.prices.price_list import PriceList
from app.platform.settings import Settings


def price_list(settings: Settings) -> PriceList:
    """The operator's prices and those of the library; raises `PriceFileError`."""
    if settings.prices_file is None:
        return PriceList(markup=settings.markup)
    own = read_prices(settings.prices_file)
    return PriceList(own.prices, operator_factors=own.factors, markup=settings.markup)
