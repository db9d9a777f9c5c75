"""An operator's own prices: a YAML file with effective dates.

prices:
  - model: claude-sonnet-5-5
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
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.billing.prices.price_list import WEB_SEARCH_USD, ModelPrice, OperatorPrice, Rate
from app.errors import OperatorError
from app.requests import Dollars

_KINDS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


class PriceFileError(OperatorError):
    """The price file is wrong; the text names RUNTALLY_PRICES_FILE and the key."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"RUNTALLY_PRICES_FILE: {problem}")


_Price = Annotated[Dollars, Field(ge=0)]


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    cache_read: _Price | None = None
    cache_write_5m: _Price | None = None
    cache_write_1h: _Price | None = None


class _LongContext(_Rates):
    above: Annotated[int, Field(ge=1, strict=True)]
    input: _Price | None = None
    output: _Price | None = None


class _Entry(_Rates):
    model: Annotated[str, Field(min_length=1)]
    since: datetime
    input: _Price
    output: _Price
    web_search: _Price = WEB_SEARCH_USD
    long_context: _LongContext | None = None

    def price(self, version: str) -> ModelPrice:
        """Convert the entry to a price."""
        rates: dict[str, Any] = {kind: self._rate(kind) for kind in _KINDS}
        return ModelPrice(version=version, web_search=self.web_search, **rates)

    def _rate(self, kind: str) -> Rate:
        base = getattr(self, kind)
        if base is None:
            return self._rate("input")
        higher = None if self.long_context is None else getattr(self.long_context, kind)
        if self.long_context is None or higher is None:
            return Rate(base)
        return Rate(base, ((self.long_context.above, higher),))


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    prices: list[_Entry]


def read_prices(path: Path) -> list[OperatorPrice]:
    """Read a price file; raises `PriceFileError`."""
    try:
        content = path.read_bytes()
        parsed = _File.model_validate(yaml.safe_load(content))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise PriceFileError(problem) from error
    except yaml.YAMLError as error:
        problem = "is not valid YAML"
        raise PriceFileError(problem) from error
    except ValidationError as error:
        detail = error.errors(include_input=False)[0]
        key = ".".join(str(part) for part in detail["loc"])
        problem = f"{key}: {detail['msg'].removeprefix('Value error, ')}"
        raise PriceFileError(problem) from error
    version = f"file {hashlib.sha256(content).hexdigest()[:12]}"
    return [OperatorPrice(entry.model, _utc(entry.since), entry.price(version)) for entry in parsed.prices]


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
