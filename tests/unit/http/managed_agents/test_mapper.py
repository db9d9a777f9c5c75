"""A run as events of its session."""

import json
from typing import Any

import pytest

from app.events import (
    AssistantFinal,
    ClientEvent,
    MessageDiscarded,
    PermissionRequest,
    RunError,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
)
from app.http.managed_agents.encoder import SessionEncoder
from app.requests.outcome import ErrorCode, FinishReason
from tests.unit.http.events import (
    ANSWERED,
    BUDGET,
    CALL,
    DONE,
    QUESTION,
    REQUEST,
    RESOLVED,
    RESULT,
    STARTED,
    client_call,
    client_call_start,
    entries_of,
)

ID = "sevt_r-1~"


def encoder(*previews: str) -> SessionEncoder:
    found = SessionEncoder(previews)
    found.turn_to("r-1", "Hello")
    return found


def events(*of_run: ClientEvent, previews: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """After the message and the start."""
    chunk = encoder(*previews).encode(entries_of(STARTED, *of_run)).decode()
    blocks = [block.split("\n") for block in chunk.split("\n\n") if block]
    found = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [kind.removeprefix("event: ") for kind, _ in blocks] == [each["type"] for each in found]
    assert [each["type"] for each in found[:2]] == ["user.message", "session.status_running"]
    return found[2:]


def kinds(*of_run: ClientEvent) -> list[str]:
    return [each["type"] for each in events(*of_run)]


def text(delta: str, message_id: str = "m", **fields: Any) -> TextDelta:
    return TextDelta(message_id=message_id, delta=delta, **fields)


def test_a_replay_in_parts_is_the_same() -> None:
    run: list[ClientEvent] = [
        STARTED,
        text("a"),
        text("b"),
        CALL,
        REQUEST,
        RESOLVED,
        RESULT,
        text("c", "n"),
        DONE,
    ]
    entries = entries_of(*run)
    whole, parts = encoder("agent.message"), encoder("agent.message")

    assert whole.encode(entries) == b"".join(parts.encode([each]) for each in entries)


def test_a_message_is_whole_and_what_was_discarded_is_not_shown() -> None:
    told: list[ClientEvent] = [text("no"), MessageDiscarded(message_id="m"), text("yes"), text(" sir")]
    inside = text("sub", "s", parent_tool_call_id="c")
    shown = events(
        *told, inside, ThinkingDelta(message_id="n", delta="hm"), AssistantFinal(content="yes sir"), DONE
    )

    assert [(each["type"], each["id"]) for each in shown] == [
        ("agent.message", f"{ID}4"),
        ("agent.thinking", f"{ID}7"),
        ("session.status_idle", f"{ID}9.idle"),
    ]
    assert shown[0]["content"] == [{"type": "text", "text": "yes sir"}]


def test_an_answer_that_was_not_streamed_is_a_message() -> None:
    assert kinds(text("Wait."), AssistantFinal(content="Done."), DONE) == [
        *("agent.message", "agent.message", "session.status_idle")
    ]


def test_previews_have_the_id_of_the_event() -> None:
    shown = events(text("a"), text("b"), DONE, previews=("agent.message",))

    assert [each["type"] for each in shown[:4]] == ["event_start", *["event_delta"] * 2, "agent.message"]
    assert {shown[0]["event"]["id"], shown[1]["event_id"], shown[3]["id"]} == {f"{ID}2"}
    assert "processed_at" not in shown[1]


def test_what_waits_is_named_until_it_has_an_answer() -> None:
    calls: list[ClientEvent] = [
        client_call_start("a"),
        client_call_start("b"),
        client_call("a"),
        client_call("b"),
    ]
    results = [ToolCallResult(tool_call_id=each, result="x", is_error=False) for each in ("a", "b")]
    shown = events(*calls, *results)
    idle = [each for each in shown if each["type"] == "session.status_idle"]

    assert [each["stop_reason"]["event_ids"] for each in idle] == [
        [f"{ID}4"],
        [f"{ID}4", f"{ID}5"],
        [f"{ID}5"],
    ]
    assert [each["type"] for each in shown[-2:]] == ["user.custom_tool_result", "session.status_running"]


def test_questions_and_budgets_wait_too() -> None:
    asked = events(QUESTION, ANSWERED)
    limited = events(BUDGET, RESOLVED.model_copy(update={"request_id": "b-1"}))

    assert [each["type"] for each in asked] == [
        *("agent.custom_tool_use", "session.status_idle"),
        *("user.custom_tool_result", "session.status_running"),
    ]
    assert (asked[0]["name"], json.loads(asked[2]["content"][0]["text"])) == ("ask_user", [["Red"]])
    assert limited[0]["stop_reason"] == {"type": "budget_reached"}
    assert limited[1]["type"] == "session.status_running"


def test_a_subagent_shows_only_what_it_asks() -> None:
    inside = {"parent_tool_call_id": "c"}
    asks: PermissionRequest = REQUEST.model_copy(update=inside)
    shown = events(CALL.model_copy(update=inside), asks, RESOLVED, RESULT.model_copy(update=inside))

    assert [each["type"] for each in shown] == [
        *("agent.mcp_tool_use", "session.status_idle", "user.tool_confirmation", "session.status_running"),
        "agent.mcp_tool_result",
    ]
    assert shown[1]["stop_reason"]["event_ids"] == [shown[0]["id"]] == [shown[2]["tool_use_id"]]


def test_a_later_attempt_is_rescheduled_and_one_that_was_parked_is_not() -> None:
    assert kinds(text("a"), STARTED)[1:] == ["session.status_rescheduled", "session.status_running"]
    assert "session.status_rescheduled" not in kinds(CALL, REQUEST, STARTED)


@pytest.mark.parametrize(
    ("error", "finish", "reason", "kind"),
    [
        ("aborted", "aborted", "end_turn", None),
        ("refused", "refused", "refusal", None),
        ("rate_limit", "budget", "budget_reached", None),
        ("budget_reached", "budget", "budget_reached", "billing_error"),
        ("insufficient_credits", "budget", "retries_exhausted", "billing_error"),
        ("rate_limit", "error", "retries_exhausted", "model_rate_limited_error"),
        ("provider_unavailable", "error", "retries_exhausted", "model_overloaded_error"),
        ("internal", "error", "retries_exhausted", "unknown_error"),
    ],
)
def test_how_a_run_ends(error: ErrorCode, finish: FinishReason, reason: str, kind: str | None) -> None:
    shown = events(RunError(error=error), DONE.model_copy(update={"finish_reason": finish}))

    assert shown[-1]["stop_reason"] == {"type": reason}
    assert [each["error"]["type"] for each in shown[:-1]] == ([kind] if kind else [])


def test_what_the_session_has_used_is_said_before_it_is_idle() -> None:
    found = encoder()
    found.encode(entries_of(STARTED))
    found.add_usage([{"type": "session.usage", "id": f"{ID}usage", "usage": {"input_tokens": 7}}])
    chunk = found.encode(entries_of(STARTED, DONE)[1:]).decode()

    blocks = [block.split("\n")[1] for block in chunk.split("\n\n") if block]
    usage, idle = [json.loads(data.removeprefix("data: ")) for data in blocks]
    assert (usage["type"], usage["usage"], idle["type"]) == (
        *("session.usage", {"input_tokens": 7}),
        "session.status_idle",
    )
    assert usage["processed_at"] == idle["processed_at"]
