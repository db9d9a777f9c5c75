from typing import Any

import pytest

from app.events import AssistantFinal
from app.executors.claude_agent.result import answer, failure, stop_of
from app.executors.port import RunOutcome
from tests.unit.executors.claude_agent.frames import a_result


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({}, "natural"),
        ({"stop_reason": None}, "natural"),
        ({"stop_reason": "tool_use"}, "natural"),
        ({"is_error": True}, "error"),
        ({"terminal_reason": "api_error"}, "error"),
        ({"terminal_reason": "aborted_streaming"}, "error"),
        ({"terminal_reason": None}, "error"),
        ({"subtype": "error_during_execution"}, "error"),
        ({"stop_reason": "pause_turn"}, "error"),
        ({"stop_reason": "refusal"}, "error"),
        ({"stop_reason": "max_tokens"}, "error"),
        # A limit counts whichever of the three names it.
        ({"subtype": "error_max_turns", "terminal_reason": None}, "turns"),
        ({"terminal_reason": "max_turns"}, "turns"),
        ({"terminal_reason": None, "stop_reason": "max_turns"}, "turns"),
        ({"subtype": "error_during_execution", "terminal_reason": "max_turns"}, "turns"),
        ({"subtype": "error_max_budget_usd"}, "budget"),
        ({"terminal_reason": "budget_exhausted"}, "budget"),
    ],
)
def test_three_signals_say_why_it_stopped(fields: dict[str, Any], stop: str) -> None:
    assert stop_of(a_result(**fields)) == stop


@pytest.mark.parametrize(
    ("fields", "last_error", "ending"),
    [
        ({"subtype": "error_max_turns"}, None, ("timeout", "max_turns")),
        ({"subtype": "error_max_budget_usd"}, None, ("rate_limit", "budget")),
        ({"api_error_status": 401}, "authentication_failed", ("provider_unavailable", "error")),
        ({"api_error_status": 402}, "billing_error", ("provider_unavailable", "error")),
        ({"api_error_status": 403}, "authentication_failed", ("provider_unavailable", "error")),
        ({"api_error_status": 404}, "invalid_request", ("invalid_request", "error")),
        ({"api_error_status": 413}, "invalid_request", ("invalid_request", "error")),
        ({"api_error_status": 500}, "server_error", ("provider_unavailable", "error")),
        ({"api_error_status": 429}, "rate_limit", ("rate_limit", "error")),
        ({"api_error_status": 529}, "server_error", ("provider_unavailable", "error")),
        ({"api_error_status": 400}, "invalid_request", ("invalid_request", "error")),
        ({"api_error_status": 418}, "unknown", ("internal", "error")),
        ({"api_error_status": None}, "server_error", ("provider_unavailable", "error")),
        ({"api_error_status": None}, "unknown", ("provider_unavailable", "error")),
        ({"api_error_status": None}, "invalid_request", ("internal", "error")),
        ({"stop_reason": "refusal"}, "invalid_request", ("refused", "refused")),
        ({"terminal_reason": "blocking_limit"}, None, ("invalid_request", "error")),
        ({"subtype": "error_during_execution"}, None, ("internal", "error")),
    ],
)
def test_every_failure_has_a_name(fields: dict[str, Any], last_error: str | None, ending: RunOutcome) -> None:
    result = a_result(**{"is_error": True, "terminal_reason": "api_error", **fields})

    assert failure(result, stop_of(result), last_error=last_error, last_stop=None) == ending


@pytest.mark.parametrize(
    ("last_error", "last_stop", "ending"),
    [
        ("max_output_tokens", "max_tokens", "length"),
        ("max_output_tokens", "model_context_window_exceeded", "context"),
        ("max_output_tokens", "new", "internal"),
        # The message that continues the one before was lost.
        ("server_error", "max_tokens", "provider_unavailable"),
    ],
)
def test_a_message_without_an_end_is_told_by_its_stop_reason(
    last_error: str, last_stop: str, ending: str
) -> None:
    result = a_result(is_error=True, terminal_reason="api_error")

    assert failure(result, stop_of(result), last_error=last_error, last_stop=last_stop).error == ending


def test_a_structured_answer_is_given_as_it_is() -> None:
    final = answer(a_result(stop_reason="tool_use", structured_output={"n": 1}), "Here it is.")

    assert final == AssistantFinal(content=a_result().result or "", structured_output={"n": 1})


@pytest.mark.parametrize(
    ("last_text", "content"),
    [
        ("First. Last.", "First. Last."),
        ("Last.", "Last."),
        ("of a message that broke off", "Last."),
        ("", "Last."),
    ],
)
def test_an_answer_has_all_texts_of_its_message(last_text: str, content: str) -> None:
    assert answer(a_result(result="Last."), last_text).content == content
