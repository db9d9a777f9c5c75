"""The price list of this server."""

from app.billing.prices.price_file import read_prices
from app.billing.prices.price_list import PriceList
from app.settings import Settings


def price_list(settings: Settings) -> PriceList:
    """The operator's prices and those of the library; raises `PriceFileError`."""
    own = [] if settings.prices_file is None else read_prices(settings.prices_file)
    return PriceList(own, markup=settings.markup)
