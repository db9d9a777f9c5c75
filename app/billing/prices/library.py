"""The public price list (genai-prices, offline); the only module that imports it."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import genai_prices
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ClauseEquals, ClauseOr, ClauseStartsWith, TieredPrices

from app.billing.prices.model_names import release_of, undated_name
from app.billing.prices.model_price import Factors, ModelPrice, Rate

LIBRARY_VERSION = f"genai-prices {genai_prices.__version__}"

_PROVIDER = "anthropic"
_THOUSAND = Decimal(1_000)


def library_name(model: str) -> str | None:
    """The library's name of a model, without a release date; None if the list has no such model."""
    found = _models_by_name().get(undated_name(model))
    return None if found is None else undated_name(found.id)


@lru_cache(maxsize=1024)
def model_key(model: str) -> str:
    """One name for all spellings of a model, without its release date."""
    return library_name(model) or undated_name(model)


@lru_cache(maxsize=1024)
def release_key(model: str) -> str:
    """One name for all spellings of a release: that of the model, and the date if there is one."""
    release = release_of(model)
    return model_key(model) if release is None else f"{model_key(model)}-{release}"


def library_models() -> list[str]:
    """All models of the list, by their names without release dates."""
    return sorted({undated_name(model.id) for model in _models_by_name().values()})


def library_price(name: str, *, at: datetime) -> ModelPrice | None:
    """The list's price of a model at a moment; `name` is from `library_name`."""
    return _compiled(_Listed(_models_by_name()[name].get_prices(at)))


class _Listed:
    """A price object of the library, compared by identity: they live as long as the program."""

    def __init__(self, prices: Any) -> None:
        self.prices = prices

    def __hash__(self) -> int:
        return id(self.prices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Listed) and other.prices is self.prices


@lru_cache(maxsize=1)
def _models_by_name() -> dict[str, Any]:
    """The library finds models by patterns; only the names that the patterns are made of are used here.

    A pattern "starts with claude-sonnet-4-5" would also price `claude-sonnet-4-50`.
    """
    provider = next(each for each in get_snapshot().providers if each.id == _PROVIDER)
    return {
        name: model
        for model in provider.models
        for name in {undated_name(model.id), *_names(model.match)}
        if not name.endswith("-2025")
    }


def _names(clause: Any) -> Iterator[str]:
    match clause:
        case ClauseOr():
            for each in clause.or_:
                yield from _names(each)
        case ClauseEquals():
            yield undated_name(clause.equals)
        case ClauseStartsWith():
            yield clause.starts_with.rstrip("@")
        case _:
            pass


@lru_cache(maxsize=256)
def _compiled(listed: _Listed) -> ModelPrice | None:
    prices = listed.prices
    plain, output = prices.input_mtok, prices.output_mtok
    if plain is None or output is None:
        return None
    # A kind without a price of its own costs as much as plain input.
    written = plain if prices.cache_write_mtok is None else prices.cache_write_mtok
    read = plain if prices.cache_read_mtok is None else prices.cache_read_mtok
    kept = written if prices.cache_write_1h_mtok is None else prices.cache_write_1h_mtok
    per_thousand = prices.web_searches_kcount
    searches = {} if per_thousand is None else {"web_search_requests": per_thousand / _THOUSAND}
    return ModelPrice(
        version=LIBRARY_VERSION,
        input=_rate(plain),
        output=_rate(output),
        cache_read=_rate(read),
        cache_write_5m=_rate(written),
        cache_write_1h=_rate(kept),
        extras=Factors(server_tools=searches),
    )


def _rate(price: Decimal | TieredPrices) -> Rate:
    if isinstance(price, TieredPrices):
        return Rate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
    return Rate(price)
