from datetime import UTC, datetime, timedelta

import pytest

from app.platform.metrics.families import KnownNames
from app.platform.metrics.rate_limits import RateLimits

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
MODEL = "claude-sonnet-5-5"


def headers(kind: str = "requests", **changed: str) -> dict[str, str]:
    reset = (NOW + timedelta(seconds=30)).isoformat()
    values = {"limit": "50", "remaining": "5", "reset": reset, **changed}
    return {f"anthropic-ratelimit-{kind}-{name}": value for name, value in values.items()}


def found(limits: RateLimits) -> dict[tuple[str, str, str], float]:
    return {
        (family.name.rpartition("_")[2], sample.labels["kind"], sample.labels["model"]): sample.value
        for family in limits.families()
        for sample in family.samples
    }


def test_what_is_left_is_that_of_the_latest_answer_until_the_limit_is_reset() -> None:
    now = [NOW]
    limits = RateLimits(KnownNames(frozenset({MODEL})), now=lambda: now[0])

    limits.update(headers(remaining="40"), model=MODEL)
    limits.update({**headers(), **headers("output-tokens", limit="9", remaining="0")}, model=MODEL)
    limits.update({}, model=MODEL)
    before = found(limits)
    now[0] += timedelta(seconds=30)

    assert before == {
        ("limit", "requests", MODEL): 50,
        ("limit", "output_tokens", MODEL): 9,
        ("remaining", "requests", MODEL): 5,
        ("remaining", "output_tokens", MODEL): 0,
    }
    assert found(limits)["remaining", "output_tokens", MODEL] == 9


@pytest.mark.parametrize(
    "hostile",
    [
        headers(limit="nan"),
        headers(limit="-1"),
        headers(remaining="9" * 400),
        headers(remaining="٣"),
        headers(reset="soon"),
        headers(reset="9999-12-31T23:59:59-23:59"),
        headers(reset="2026" * 10_000),
        {name: value for name, value in headers().items() if "reset" not in name},
    ],
    ids=range(8),
)
def test_headers_that_cannot_be_read_are_none(hostile: dict[str, str]) -> None:
    limits = RateLimits(KnownNames(frozenset({MODEL})))

    limits.update(hostile, model=MODEL)

    assert found(limits) == {}


def test_ten_thousand_models_are_one_series() -> None:
    limits = RateLimits(KnownNames(frozenset({MODEL})))

    for number in range(10_000):
        limits.update(headers(), model=f'claude-{number}"}} 1\nevil')

    assert {model for _, _, model in found(limits)} == {"other"}
