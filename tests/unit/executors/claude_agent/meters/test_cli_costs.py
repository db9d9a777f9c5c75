"""The CLI's total beside the list prices: when they differ, when they may, and when nobody can know."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import structlog

from app.executors.claude_agent.meters.cli_costs import CliCosts
from app.gateway.answer_usage import MessageUsage
from app.ids import MessageId
from app.usage.provider import token_usage
from app.usage.records import CostComparison, ProviderCall, TokenUsage
from tests.unit.executors.claude_agent.frames import a_result

SONNET, OPUS = "claude-sonnet-4-6", "claude-opus-4-8"
PLAIN = {"input_tokens": 1000, "output_tokens": 1000}


def a_message(model: str = SONNET, **fields: Any) -> MessageUsage:
    reported = {**PLAIN, **fields.pop("reported", {})}
    defaults = {"complete": True, "reported": reported, "call": ProviderCall(SONNET)}
    return MessageUsage(MessageId("msg_1"), model, token_usage(reported), **{**defaults, **fields})


def totals(dollars: float, **fields: Any) -> dict[str, dict[str, Any]]:
    return {SONNET: {"costUSD": dollars, "costBasis": "list", **fields}}


def compared(*messages: MessageUsage, dollars: float, costs: CliCosts | None = None) -> CostComparison:
    costs = costs or CliCosts()
    costs.observe(a_result(model_usage=totals(dollars)), messages=len(messages))
    return comparison(costs, *messages)


def comparison(costs: CliCosts, *messages: MessageUsage) -> CostComparison:
    for message in messages:
        costs.add(message, requested=message.call.requested_model or SONNET)
    return costs.compare(messages=len(messages))


def test_equal_totals_are_no_drift_although_the_cli_adds_binary_fractions() -> None:
    found = compared(*[a_message()] * 3, dollars=0.018 + 0.018 + 0.018)

    assert repr(0.018 + 0.018 + 0.018) != "0.054"
    assert (found.measured_usd, found.drift_usd, found.notes) == (Decimal("0.054"), Decimal(0), ())


@pytest.mark.parametrize(("dollars", "drift"), [(0.0179999, "0.0000001"), (0.03, "-0.012"), (0, "0.018")])
def test_a_difference_that_nothing_explains_is_drift_and_logged(dollars: float, drift: str) -> None:
    with structlog.testing.capture_logs() as logs:
        found = compared(a_message(), dollars=dollars)

    assert found.drift_usd == Decimal(drift)
    assert [entry["event"] for entry in logs] == ["meters.costs_disagree"]


def test_what_is_explained_does_not_hide_another_difference() -> None:
    found = compared(a_message(reported={"service_tier": "batch"}), dollars=0.019)

    assert (found.explained_usd, found.drift_usd) == (Decimal("-0.009"), Decimal("-0.001"))
    assert found.measured_usd - found.explained_usd - Decimal("-0.001") == found.sdk_usd == Decimal("0.019")


def test_earlier_runs_of_a_conversation_are_not_part_of_it() -> None:
    costs = CliCosts(lambda: totals(5.5))

    assert compared(a_message(), dollars=5.518, costs=costs).drift_usd == 0


def test_a_dated_release_of_the_requested_model_needs_no_explanation() -> None:
    dated = a_message("claude-sonnet-4-5-20250929", call=ProviderCall("claude-sonnet-4-5"))

    assert compared(dated, dollars=0.018).notes == ()


def late_call(costs: CliCosts) -> None:
    costs.observe(a_result(model_usage=totals(0.018)), messages=0)


def interrupted_once(costs: CliCosts) -> None:
    costs.observe(a_result(terminal_reason="aborted_streaming", model_usage=totals(0)), messages=0)
    costs.observe(a_result(model_usage=totals(0.018)), messages=1)


def guessed(costs: CliCosts) -> None:
    costs.observe(a_result(model_usage=totals(0.018, costBasis="unknown")), messages=1)


@pytest.mark.parametrize(
    "totals_of_cli",
    [
        *("x", [], {SONNET: 7}, {SONNET: {"costUSD": "1"}}, {SONNET: {"costUSD": None}}),
        *({SONNET: {"costUSD": value}} for value in (math.nan, math.inf, -1.0, 1e300, 10**400)),
    ],
)
def test_totals_that_are_no_amounts_are_not_compared(totals_of_cli: Any) -> None:
    costs = CliCosts()
    costs.observe(a_result(model_usage=totals_of_cli), messages=1)

    assert comparison(costs, a_message()).notes == ("no result of the CLI",)


def test_notes_are_short_whatever_was_reported() -> None:
    costs = CliCosts()
    costs.observe(a_result(model_usage={"m" * 5_000: {"costUSD": 1, "costBasis": ["x"]}}), messages=1)
    hostile = a_message(reported={"service_tier": {"x": "\x00" * 3_000}, "k" * 3_000: "v"})

    for found in (comparison(costs, a_message()), compared(hostile, dollars=1)):
        (note,) = found.notes
        assert len(note) <= 200
        assert "\x00" not in note


@pytest.mark.parametrize(
    ("observe", "reason"),
    [
        (lambda _costs: None, "no result of the CLI"),
        (lambda costs: costs.observe(a_result(), messages=1), "no result of the CLI"),
        (late_call, "calls after the last result of the CLI"),
        (interrupted_once, "interrupted"),
        (guessed, f"the CLI has no list price of {SONNET}"),
    ],
)
def test_a_total_that_is_not_of_this_run_is_not_compared(
    observe: Callable[[CliCosts], None], reason: str
) -> None:
    costs = CliCosts()
    observe(costs)

    found = comparison(costs, a_message())

    assert found == CostComparison(Decimal("0.018"), notes=(reason,))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (a_message(complete=False), "a message that was cut off is an estimate"),
        (a_message(output_estimated=True), "a message that was cut off is an estimate"),
        (a_message(duplicate_of=MessageId("msg_0")), "the provider used a message id twice"),
        (a_message(reported={"inference_geo": "eu"}), "no list price: inference_geo=eu"),
        (a_message("claude-n-1", call=ProviderCall("claude-n-1")), "no list price: model=claude-n-1"),
    ],
)
def test_a_message_of_which_the_clis_number_is_not_known_is_not_compared(
    message: MessageUsage, reason: str
) -> None:
    found = compared(message, dollars=7)

    assert (found.drift_usd, found.sdk_usd, found.notes) == (None, None, (reason,))


def test_hidden_usage_is_part_of_the_comparison() -> None:
    costs = CliCosts()
    costs.observe(a_result(model_usage=totals(0.021)), messages=1)
    hidden = MessageUsage(MessageId("residual"), SONNET, TokenUsage(input_tokens=1000), complete=True)

    for message in (a_message(), hidden):
        costs.add(message, requested=message.call.requested_model or SONNET)

    assert costs.compare(messages=1).drift_usd == 0
