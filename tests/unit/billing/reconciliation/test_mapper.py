"""Rows of the provider's reports: what is read, and what is refused."""

from decimal import Decimal
from typing import Any

import pytest

from app.billing.reconciliation.provider import mapper
from app.billing.reconciliation.records import Dimensions

ROW = {
    "uncached_input_tokens": 1,
    "cache_read_input_tokens": 3,
    "output_tokens": 2,
    "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5},
    "server_tool_use": {"web_search_requests": 6},
    "api_key_id": "apikey_1",
    "model": "claude-sonnet-4-5-20250929",
    "inference_geo": "us",
    "service_tier": "batch",
    "context_window": "200k-1M",
    "workspace_id": None,
    "a_new_field": {"any": "thing"},
}
TIME = "2026-11-20T12:00:00Z"


def usage(row: dict[str, Any]) -> Any:
    (found,) = mapper.usage_rows({"starting_at": TIME, "results": [{**ROW, **row}]})
    return found


def test_a_row_of_usage_is_read() -> None:
    found = usage({})

    assert found.counts == (1, 2, 3, 4, 5, 6)
    assert found.dimensions == Dimensions("claude-sonnet-4-5", "us", "batch", "standard", "200k-1M")
    assert (found.api_key_id, found.at.isoformat()) == ("apikey_1", "2026-11-20T12:00:00+00:00")


def test_what_a_row_does_not_have_is_the_usual() -> None:
    nothing = dict.fromkeys(("api_key_id", "inference_geo", "service_tier", "context_window", "model"))
    found = usage({**nothing, "cache_creation": None, "server_tool_use": None})

    assert found.counts == (1, 2, 3, 0, 0, 0)
    assert found.dimensions == Dimensions("none")
    assert found.api_key_id is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("output_tokens", -1),
        ("output_tokens", 1.0),
        ("output_tokens", "1"),
        ("output_tokens", True),
        ("output_tokens", 10**16),
        ("output_tokens", None),
        ("cache_creation", 7),
        ("server_tool_use", []),
        ("model", 5),
        ("api_key_id", {}),
    ],
)
def test_a_row_that_is_not_understood_is_refused(name: str, value: object) -> None:
    with pytest.raises(mapper.ReportUnreadable):
        usage({name: value})


@pytest.mark.parametrize(
    "at",
    [None, "yesterday", "2026-11-20T12:00:00", 5, "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-12:00"],
)
def test_a_bucket_without_a_time_is_refused(at: object) -> None:
    with pytest.raises(mapper.ReportUnreadable):
        list(mapper.usage_rows({"starting_at": at, "results": [ROW]}))


@pytest.mark.parametrize("results", [None, {}, ["row"], 5])
def test_results_of_another_form_are_refused(results: object) -> None:
    with pytest.raises(mapper.ReportUnreadable):
        list(mapper.usage_rows({"starting_at": TIME, "results": results}))


def a_cost(amount: object, *, of: object = "output_tokens", cost_type: str = "tokens") -> Any:
    row = {
        "starting_at": TIME,
        "ending_at": "2026-11-20T13:00:00Z",
        "group": {"model": "claude-opus-4-8", "cost_type": cost_type, "token_type": of},
        "cost": {"currency": "USD", "amount": "1", "list_amount": amount},
    }
    return mapper.analytics_cost(row)


def test_a_list_amount_is_in_cents_and_as_precise_as_its_last_digit() -> None:
    found = a_cost("12.340")

    assert (found.cost_usd, found.step_usd, found.kind) == (Decimal("0.1234"), Decimal("0.00001"), "output")


def test_costs_of_other_things_are_left_out() -> None:
    assert a_cost("5", cost_type="code_execution", of=None) is None
    assert a_cost("5", cost_type="web_search", of=None).kind == "web_search_requests"


@pytest.mark.parametrize(
    "amount",
    [
        None,
        5,
        "NaN",
        "Infinity",
        "1e400",
        "five",
        "1" * 50,
        "0E+999999999999",
        "1E-9999",
        "1_000",
        " 5",
        "\u0665",
    ],
)
def test_an_amount_that_is_no_number_is_refused(amount: object) -> None:
    with pytest.raises(mapper.ReportUnreadable):
        a_cost(amount)


@pytest.mark.parametrize("currency", ["EUR", "usd", None, 5])
def test_an_amount_in_another_currency_is_refused(currency: object) -> None:
    bucket = {"starting_at": TIME, "ending_at": TIME}
    row = {"cost_type": "tokens", "token_type": "output_tokens", "amount": "5", "currency": currency}

    with pytest.raises(mapper.ReportUnreadable, match="currency"):
        list(mapper.cost_report_rows({**bucket, "results": [row]}))


def test_a_new_kind_of_token_is_refused() -> None:
    with pytest.raises(mapper.ReportUnreadable, match="token_type"):
        a_cost("5", of="thinking_tokens")


def test_a_day_of_the_cost_report_is_read() -> None:
    rows = [
        {"currency": "USD", "amount": "150", "cost_type": "tokens", "token_type": "uncached_input_tokens"},
        {"currency": "USD", "amount": "9", "cost_type": "session_usage", "token_type": None},
    ]
    (found,) = mapper.cost_report_rows({"starting_at": TIME, "ending_at": TIME, "results": rows})

    assert (found.kind, found.cost_usd) == ("input", Decimal("1.5"))


def test_requests_are_read_with_their_profile() -> None:
    group = {"model": "claude-opus-4-8", "api_key_id": "apikey_1", "user_profile_id": "uprof_1"}
    metrics = {name: value for name, value in ROW.items() if name.endswith("_tokens")}
    found = mapper.request_row({"starting_at": TIME, "group": group, "usage": {**metrics, "requests": 4}})

    assert (found.requests, found.profile_id, found.model) == (4, "uprof_1", "claude-opus-4-8")
