"""Calls of client tools on the wire of the AI SDK."""

from typing import Any

import pytest

from app.events import ClientEvent, RunStarted
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.input import ChatRequest
from app.http.streaming.encoder import PAUSE_AFTER_S, PAUSE_BESIDE_CALLS_AFTER_S
from tests.unit.http.ai_sdk.parts import a_call, a_result, a_text, kinds_of, parts_in, parts_of
from tests.unit.http.events import DONE, STARTED, STEP, entries_of
from tests.unit.http.events import client_call as call
from tests.unit.http.events import client_call_start as start
from tests.unit.http.events import client_result as result

CALLS: list[ClientEvent] = [
    *(STARTED, a_text("m", "Look."), start("a"), a_call("ours"), start("b"), STEP),
    *(call("a"), a_result("ours"), call("b")),
]
ANSWERS: list[ClientEvent] = [result("b"), result("a", "offline", is_error=True), a_text("n", "So."), DONE]


def test_the_calls_are_in_a_step_of_their_own_beside_one_of_ours() -> None:
    assert kinds_of(parts_of(*CALLS)) == [
        *("start", "start-step", "text-start", "text-delta", "text-end"),
        *("tool-input-available ours", "data-step", "finish-step"),
        *("start-step", "tool-input-available a", "tool-output-available ours", "tool-input-available b"),
    ]
    ours, theirs, _ = [part for part in parts_of(*CALLS) if part["type"] == "tool-input-available"]
    assert ours["providerExecuted"]
    assert theirs == {
        "type": "tool-input-available",
        "toolCallId": "a",
        "toolName": "pick",
        "input": {"n": 1},
    }


def test_the_response_ends_once_no_call_of_ours_is_open_and_the_client_has_its_own() -> None:
    encoder = AiSdkEncoder("r-1")
    waits = []
    for entry in entries_of(*CALLS, result("a"), result("b")):
        encoder.encode([entry])
        waits.append(encoder.pause_after_s)

    assert waits[6:] == [*[PAUSE_BESIDE_CALLS_AFTER_S] * 2, PAUSE_AFTER_S, PAUSE_AFTER_S, None]
    assert waits[:6] == [None] * 6


def test_the_client_gets_what_follows_the_calls_that_it_has_answered() -> None:
    encoder = AiSdkEncoder("r-1", answered=frozenset("ab"), after=len(CALLS))

    skipped = encoder.encode(entries_of(*CALLS))
    assert encoder.pause_after_s is None
    rest = encoder.encode(entries_of(*CALLS, *ANSWERS)[len(CALLS) :])

    assert skipped == b""
    assert kinds_of(parts_in(rest)) == [
        *("start", "finish-step", "start-step", "text-start", "text-delta", "text-end", "finish-step"),
        "finish",
    ]


def test_a_replay_has_the_clients_results() -> None:
    outputs = [part for part in parts_of(*CALLS, *ANSWERS) if part["type"].startswith("tool-output")]

    assert outputs[1:] == [
        {"type": "tool-output-available", "toolCallId": "b", "output": "blue"},
        {"type": "tool-output-error", "toolCallId": "a", "errorText": "offline"},
    ]


def test_a_call_that_fails_before_the_client_has_it_is_not_its_own() -> None:
    parts = parts_of(STARTED, start("a"), STEP, result("a", {"error": "invalid_args"}, is_error=True), DONE)

    called = next(part for part in parts if part["type"] == "tool-input-available")
    assert called["providerExecuted"]
    assert "tool-output-error a" in kinds_of(parts)


def test_calls_of_an_earlier_attempt_do_not_wait() -> None:
    encoder = AiSdkEncoder("r-1")
    again = RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=1)

    parts = parts_in(encoder.encode(entries_of(STARTED, start("a"), STEP, call("a"), again)))

    assert kinds_of(parts)[-2:] == ["tool-output-error a", "finish-step"]
    assert encoder.pause_after_s is None


@pytest.mark.parametrize(
    "tools",
    [
        {"pick": {"description": "Pick.", "parameters": {"type": "object"}}},
        {"pick": {"description": "Pick.", "inputSchema": {"type": "object"}, "other": 1}},
        [{"name": "pick", "description": "Pick.", "inputSchema": {"type": "object"}}],
    ],
)
def test_tools_are_read_in_each_form(tools: Any) -> None:
    assert chat(tools=tools).described_tools == [
        {"name": "pick", "description": "Pick.", "inputSchema": {"type": "object"}}
    ]


@pytest.mark.parametrize("tools", ["web", True, 5, None, {}, []])
def test_what_is_no_form_of_tools_is_none(tools: Any) -> None:
    assert chat(tools=tools).described_tools == []


def test_only_results_of_the_client_are_results() -> None:
    parts = [
        {"type": "tool-pick", "toolCallId": "a", "state": "output-available", "output": {"n": 1}},
        {"type": "dynamic-tool", "toolCallId": "b", "state": "output-error", "errorText": "no"},
        {"type": "tool-core", "toolCallId": "c", "state": "output-available", "providerExecuted": True},
        {"type": "tool-pick", "toolCallId": "d", "state": "input-available"},
        {"type": "text", "text": "x", "state": "done"},
    ]
    message = {"id": "r", "role": "assistant", "parts": parts}
    asked = {"id": "q", "role": "user", "parts": [{"type": "text", "text": "x"}]}

    answered = chat(messages=[asked, message]).answered_message

    assert answered is not None
    assert {call_id: (each.result, each.is_error) for call_id, each in answered.tool_results.items()} == {
        "a": ({"n": 1}, False),
        "b": ("no", True),
    }
    assert chat(messages=[message, asked]).answered_message is None


def chat(**fields: Any) -> ChatRequest:
    asked = {"id": "q", "role": "user", "parts": [{"type": "text", "text": "x"}]}
    return ChatRequest.model_validate({"id": "c", "messages": [asked], **fields})
