from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from app.billing.prices.library import LIBRARY_VERSION
from app.billing.prices.price_file import PriceFileError, read_prices
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.usage.records import TokenUsage

WHOLE = """
prices:
  - model: claude-own-1
    unlisted: true
    since: 2026-12-01T00:00:00+01:00
    input: "2"
    output: "10"
    cache_read: "0.2"
    web_search: "0.005"
    long_context: {above: 1000, input: "4"}
  - {model: claude-own-2, unlisted: true, since: 2026-01-01T00:00:00, input: "1", output: "1"}
"""


TWICE = "{model: m, since: 2026-01-01, input: '2', output: '1', unlisted: true}"

SLOW = "{models: [claude-opus-4-8, claude-opus-5], speed: {slow: '2'}}"
OPUS = "{model: claude-opus-4-0, since: 2026-01-01, input: '2', output: '1'}"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    return path


def test_a_price_file_is_read(tmp_path: Path) -> None:
    one, two = read_prices(written(tmp_path, WHOLE)).prices

    assert (one.model, one.since) == ("claude-own-1", datetime(2026, 11, 30, 23, tzinfo=UTC))
    prices = PriceList([one, two])

    def cost(usage: TokenUsage) -> Decimal:
        return prices.quote(BilledUsage("claude-own-1", usage), at=datetime(2027, 1, 1, tzinfo=UTC)).cost_usd

    assert cost(TokenUsage(1000, 1000)) == Decimal("0.012")
    assert cost(TokenUsage(1001)) == Decimal("0.004004")
    assert cost(TokenUsage(0, 0, 500, 500, web_search_requests=2)) == Decimal("0.0111")
    assert two.since == datetime(2026, 1, 1, tzinfo=UTC)
    assert one.price.version == two.price.version
    assert one.price.version.startswith("file ")


def test_a_changed_file_has_another_version(tmp_path: Path) -> None:
    first = read_prices(written(tmp_path, WHOLE)).prices[0].price.version

    assert read_prices(written(tmp_path, WHOLE + "\n")).prices[0].price.version != first


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("prices: [{model: m, since: 2026-01-01, input: 2.0, output: '1'}]", "prices.0.input"),
        ("prices: [{model: m, since: 2026-01-01, input: '2', output: '1', x: 1}]", "prices.0.x"),
        (f"prices: [{TWICE}, {TWICE}]", "prices.1: there is another price of m since"),
        (f"prices: [{OPUS.replace('opus-4-0', 'oppus-4-5')}]", "did you mean claude-opus-4-5"),
        ("factors: [{models: [claude-opus-9], speed: {fast: '2'}}]", "factors.0.models"),
        ("factors: [{speed: {fast: 2.5}}]", "factors.0.speed.fast"),
        ("prices: [{model: m, since: 20271201, input: '2', output: '1'}]", "prices.0.since: is no date"),
        ("prices: [{model: m, since: '20271201', input: '2', output: '1'}]", "prices.0.since: is no date"),
        ("factors: [{since: 2027, speed: {fast: '2'}}]", "factors.0.since: is no date"),
        (f"prices: [{TWICE}, {TWICE.replace('m,', 'anthropic/m-latest,')}]", "prices.1: there is another"),
        (f"prices: [{OPUS}, {OPUS.replace('opus-4-0', 'opus-4')}]", "prices.1: there is another price"),
        (
            f"factors: [{SLOW}, {SLOW.replace(', claude-opus-5', '')}]",
            "factors.1.speed.slow: there is another",
        ),
        ("price: []", r"price: there is no such key; did you mean prices\? \(line 1"),
    ],
)
def test_an_error_names_the_wrong_key(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(PriceFileError, match=names) as caught:
        read_prices(written(tmp_path, text))

    assert "RUNTALLY_PRICES_FILE" in str(caught.value)


def test_a_version_names_the_file_whose_factors_apply(tmp_path: Path) -> None:
    text = "factors: [{models: [claude-opus-4-8], since: 2026-12-01, service_tier: {priority: '3'}}]"
    file = read_prices(written(tmp_path, text))
    prices = PriceList(file.prices, operator_factors=file.factors)

    def version(model: str, month: int) -> str:
        return prices.price_of(model, at=datetime(2027, month, 1, tzinfo=UTC)).version

    before = prices.price_of("claude-opus-4-8", at=datetime(2026, 11, 30, tzinfo=UTC))
    assert before.version == version("claude-sonnet-4-6", 1) == LIBRARY_VERSION
    assert version("claude-opus-4-8", 1) == f"{LIBRARY_VERSION}, {file.factors[0].version}"


def test_prices_and_factors_of_one_file_are_one_version(tmp_path: Path) -> None:
    file = read_prices(written(tmp_path, WHOLE + "factors: [{service_tier: {priority: '3'}}]"))
    prices = PriceList(file.prices, operator_factors=file.factors)
    own = prices.price_of("claude-own-2", at=datetime(2027, 1, 1, tzinfo=UTC))
    assert own.version == file.prices[0].price.version


@pytest.mark.parametrize(
    ("name", "served", "applies"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5", True),
        ("claude-sonnet-4-5-latest", "claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-5-2025-09-29", "claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20251231", False),
        ("claude-sonnet-4-0", "claude-sonnet-4-20250514", True),
        ("claude-sonnet-4", "claude-sonnet-4-0", True),
        ("claude-4-opus", "claude-opus-4-20250514", True),
        ("claude-opus-4-0", "claude-opus-4-1-20250805", False),
    ],
)
def test_a_price_applies_however_its_model_is_written(
    tmp_path: Path, name: str, served: str, *, applies: bool
) -> None:
    text = f"prices: [{{model: '{name}', since: 2026-01-01, input: '0.01', output: '0.01'}}]"
    prices = PriceList(read_prices(written(tmp_path, text)).prices)
    message = BilledUsage(served, TokenUsage(1_000_000))

    own = prices.quote(message, at=datetime(2026, 11, 22, tzinfo=UTC)).cost_usd == Decimal("0.01")

    assert own == applies
