"""Prices as data: the shipped factors, and an operator's own prices in a YAML file with effective dates.

prices:
  - model: claude-sonnet-5-5 # also its dated releases; a name with a date means that release alone
    since: 2026-12-01T00:00:00Z
    input: "1.80"            # dollars per million tokens, quoted
    output: "9.00"
    cache_read: "0.18"       # default: the price of plain input
    cache_write_5m: "2.25"
    cache_write_1h: "3.60"
    web_search: "0.008"      # dollars per search
    long_context:            # prices of all tokens of a message with more prompt tokens than this
      above: 200000
      input: "3.60"
      output: "13.50"
factors:                     # see factors.yaml, which is read by the same rules
  - models: [claude-sonnet-5-5]
    inference_geo: {us: "1.05"}
"""

import difflib
import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.billing.prices.library import (
    LIBRARY_VERSION,
    library_models,
    library_name,
    model_key,
    release_key,
)
from app.billing.prices.model_names import undated_name
from app.billing.prices.model_price import DatedFactors, Factors, ModelPrice, OperatorPrice, Rate
from app.billing.prices.usage_reading import DIMENSIONS
from app.errors import OperatorError
from app.platform.serialization.strict_yaml import YamlDocument, YamlInvalid
from app.requests.dollars import Dollars

_KINDS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ALWAYS = datetime.min.replace(tzinfo=UTC)


class PriceFileError(OperatorError):
    """The price file is wrong; the text names RUNTALLY_PRICES_FILE and the key."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"RUNTALLY_PRICES_FILE: {problem}")


class PriceData(NamedTuple):
    """The content of a price file."""

    prices: list[OperatorPrice]
    factors: list[DatedFactors]


_Price = Annotated[Dollars, Field(ge=0)]
_Name = Annotated[str, Field(min_length=1)]
_Values: TypeAlias = dict[_Name, _Price]


def _written_as_date(value: object) -> object:
    # A number would be read as seconds since 1970: 20271201 would be a day of that year.
    if isinstance(value, date) or (isinstance(value, str) and _DATE.match(value)):
        return value
    raise ValueError("is no date such as 2026-12-01, and no time such as 2026-12-01T00:00:00Z")


_Moment = Annotated[datetime, BeforeValidator(_written_as_date)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Rates(_Strict):
    cache_read: _Price | None = None
    cache_write_5m: _Price | None = None
    cache_write_1h: _Price | None = None


class _LongContext(_Rates):
    above: Annotated[int, Field(ge=1, strict=True)]
    input: _Price | None = None
    output: _Price | None = None


class _Entry(_Rates):
    model: _Name
    since: _Moment
    input: _Price
    output: _Price
    web_search: _Price | None = None
    long_context: _LongContext | None = None
    unlisted: bool = False
    """The price library does not know this model, and that is not a spelling mistake."""

    def price(self, version: str) -> ModelPrice:
        rates: dict[str, Any] = {kind: self._rate(kind) for kind in _KINDS}
        searches = {} if self.web_search is None else {"web_search_requests": self.web_search}
        return ModelPrice(version=version, extras=Factors(server_tools=searches), **rates)

    def _rate(self, kind: str) -> Rate:
        base = getattr(self, kind)
        if base is None:
            return self._rate("input")
        higher = None if self.long_context is None else getattr(self.long_context, kind)
        if self.long_context is None or higher is None:
            return Rate(base)
        return Rate(base, ((self.long_context.above, higher),))


class _FactorEntry(_Strict):
    models: list[_Name] = []
    since: _Moment = _ALWAYS
    inference_geo: _Values = {}
    service_tier: _Values = {}
    speed: _Values = {}
    server_tools: _Values = {}

    def dated(self, version: str) -> DatedFactors:
        factors = {name: getattr(self, name) for name in DIMENSIONS if getattr(self, name)}
        return DatedFactors(
            frozenset(map(model_key, self.models)),
            _utc(self.since),
            Factors(factors, self.server_tools),
            version,
        )


class _File(_Strict):
    prices: list[_Entry] = []
    factors: list[_FactorEntry] = []


def read_prices(path: Path) -> PriceData:
    """Read an operator's price file; raises `PriceFileError`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PriceFileError(f"cannot be read: {error.strerror}") from error
    parsed = _parsed(content)
    _check(parsed)
    version = f"file {hashlib.sha256(content).hexdigest()[:12]}"
    prices = [OperatorPrice(entry.model, _utc(entry.since), entry.price(version)) for entry in parsed.prices]
    return PriceData(prices, [entry.dated(version) for entry in parsed.factors])


@lru_cache(maxsize=1)
def shipped_factors() -> list[DatedFactors]:
    """The factors that come with this release."""
    content = files(__package__).joinpath("factors.yaml").read_bytes()
    return [entry.dated(LIBRARY_VERSION) for entry in _parsed(content).factors]


def _parsed(content: bytes) -> _File:
    try:
        document = YamlDocument.read(content)
    except YamlInvalid as error:
        raise PriceFileError(f"is not valid YAML: {error}") from error
    try:
        return _File.model_validate(document.value)
    except ValidationError as error:
        raise PriceFileError(document.problems(error, _File)[0]) from error


def _check(parsed: _File) -> None:
    """Refuse entries of which one would silently win, and names that no model has."""
    seen: set[tuple[str, datetime]] = set()
    for number, entry in enumerate(parsed.prices):
        key = (release_key(entry.model), _utc(entry.since))
        if key in seen:
            problem = f"prices.{number}: there is another price of {entry.model} since {entry.since}"
            raise PriceFileError(problem)
        seen.add(key)
        if not entry.unlisted:
            _check_name(f"prices.{number}.model", entry.model, known=())
    own = {undated_name(entry.model) for entry in parsed.prices}
    for number, factors in enumerate(parsed.factors):
        for name in factors.models:
            _check_name(f"factors.{number}.models", name, known=own)
    _check_factors(parsed.factors)


def _check_factors(entries: Iterable[_FactorEntry]) -> None:
    seen: set[tuple[str, datetime, str, str]] = set()
    for number, entry in enumerate(entries):
        names = [(kind, value) for kind in (*DIMENSIONS, "server_tools") for value in getattr(entry, kind)]
        keys = {
            (model_key(model), _utc(entry.since), kind, value)
            for model in entry.models or ("",)
            for kind, value in names
        }
        if twice := keys & seen:
            _, since, kind, value = min(twice)
            raise PriceFileError(
                f"factors.{number}.{kind}.{value}: there is another one for the same models since {since}"
            )
        seen |= keys


def _check_name(key: str, name: str, *, known: Iterable[str]) -> None:
    if library_name(name) or undated_name(name) in known:
        return
    close = difflib.get_close_matches(undated_name(name), library_models(), n=1)
    hint = f"did you mean {close[0]}?" if close else "is it spelt correctly?"
    raise PriceFileError(
        f"{key}: no price list knows {name}; {hint} If it is a new model, set `unlisted: true` in its price"
    )


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
