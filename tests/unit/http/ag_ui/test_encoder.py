"""AgUiEncoder: golden output, replays, interrupts, subagents."""

import json
from typing import Any

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from app.events import (
    AssistantFinal,
    ClientEvent,
    Done,
    Interrupted,
    Queued,
    RunError,
    Status,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
    UserMessageDelivered,
)
from app.http.ag_ui.interrupt import InterruptId
from app.http.ag_ui.output.encoder import PAUSE_AFTER_S, PAUSE_IN_STEP_AFTER_S, AgUiEncoder
from app.http.streaming.encoder import Encoder
from app.requests.outcome import FinalUsage
from app.streams.port import LogEntry
from tests.unit.http.events import CALL, DONE, REQUEST, RESOLVED, STARTED, entries_of

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)

A_RUN: list[ClientEvent] = [
    Queued(position=2),
    STARTED,
    Status(phase="thinking", label="Thinking"),
    ThinkingDelta(message_id="msg_1", delta="hm"),
    TextDelta(message_id="msg_1", delta="noon\u2028"),
    TextDelta(message_id="msg_1", delta="?"),
    ToolCallStart(tool_call_id="toolu_1", tool_name="core__clock", args={"timezone": "UTC"}),
    Step(step_index=1, step_budget=8),
    ToolCallResult(tool_call_id="toolu_1", result={"time": "12:00"}, is_error=False),
    UserMessageDelivered(message_id="u-1", content="in Tokyo"),
    TextDelta(message_id="msg_2", delta="\U0001f600"),
    Step(step_index=2, step_budget=8),
    AssistantFinal(content="\U0001f600"),
    DONE,
]

FRAMES = rb"""{"type":"RUN_STARTED","metadata":{"runtally":{"runId":"r-1"}},"threadId":"t-1","runId":"theirs","protocolVersion":"1.0"}
{"type":"CUSTOM","name":"queued","value":{"position":2}}
{"type":"CUSTOM","name":"run_started","value":{"runId":"r-1","graphId":"claude_agents:assistant","model":"sonnet","attempt":1}}
{"type":"CUSTOM","name":"status","value":{"phase":"thinking","label":"Thinking"}}
{"type":"STEP_STARTED","stepName":"step 1"}
{"type":"REASONING_START","messageId":"msg_1:thinking:4"}
{"type":"REASONING_MESSAGE_START","messageId":"msg_1:thinking:4","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"msg_1:thinking:4","delta":"hm"}
{"type":"REASONING_MESSAGE_END","messageId":"msg_1:thinking:4"}
{"type":"REASONING_END","messageId":"msg_1:thinking:4"}
{"type":"TEXT_MESSAGE_START","messageId":"msg_1","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_1","delta":"noon\u2028"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_1","delta":"?"}
{"type":"TEXT_MESSAGE_END","messageId":"msg_1"}
{"type":"TOOL_CALL_START","toolCallId":"toolu_1","toolCallName":"core__clock","parentMessageId":"msg_1"}
{"type":"TOOL_CALL_ARGS","toolCallId":"toolu_1","delta":"{\"timezone\":\"UTC\"}"}
{"type":"TOOL_CALL_END","toolCallId":"toolu_1"}
{"type":"STEP_FINISHED","metadata":{"runtally":{"stepBudget":8}},"stepName":"step 1"}
{"type":"TOOL_CALL_RESULT","messageId":"toolu_1:result","toolCallId":"toolu_1","content":"{\"time\":\"12:00\"}","role":"tool"}
{"type":"TEXT_MESSAGE_START","messageId":"u-1","role":"user"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"u-1","delta":"in Tokyo"}
{"type":"TEXT_MESSAGE_END","messageId":"u-1"}
{"type":"STEP_STARTED","stepName":"step 2"}
{"type":"TEXT_MESSAGE_START","messageId":"msg_2","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_2","delta":"\ud83d\ude00"}
{"type":"TEXT_MESSAGE_END","messageId":"msg_2"}
{"type":"STEP_FINISHED","metadata":{"runtally":{"stepBudget":8}},"stepName":"step 2"}
{"type":"RUN_FINISHED","threadId":"t-1","runId":"theirs","result":{"content":"\ud83d\ude00"},"outcome":{"type":"success"},"usage":[{"inputTokens":10,"outputTokens":5,"totalTokens":15}]}
"""  # noqa: E501 - a frame is one line
GOLDEN = b"".join(b"data: %b\n\n" % frame for frame in FRAMES.splitlines())


def an_encoder(**fields: Any) -> AgUiEncoder:
    return AgUiEncoder(thread_id="t-1", run_id="theirs", our_run_id="r-1", **fields)


def parsed(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream, each in a frame of its own and valid in AG-UI."""
    frames = stream.decode("ascii").split("\n\n")
    assert frames.pop() == ""
    events = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    for event in events:
        EVENTS.validate_python(event)
    return events


def encoded_events(events: list[ClientEvent], **fields: Any) -> list[dict[str, Any]]:
    return parsed(an_encoder(**fields).encode(entries_of(*events)))


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_run_is_encoded_byte_by_byte() -> None:
    encoder: Encoder = an_encoder()

    assert encoder.encode(entries_of(*A_RUN)) == GOLDEN


def test_nothing_follows_the_end() -> None:
    encoder = an_encoder()
    encoder.encode(entries_of(*A_RUN))

    assert encoder.ended
    assert encoder.encode([LogEntry(99, TextDelta(message_id="m", delta="late"))]) == b""


def test_a_failure_has_our_code_and_a_message() -> None:
    sent = encoded_events([STARTED, TextDelta(message_id="m", delta="x"), RunError(error="rate_limit"), DONE])

    assert kinds(sent)[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert sent[-1]["code"] == "rate_limit"
    assert sent[-1]["metadata"] == {"runtally": {"finishReason": "stop"}}
    assert sent[-1]["usage"] == [{"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}]


def test_a_cancelled_run_is_not_an_error() -> None:
    stopped = Interrupted(kind="cancel", state="stopped")

    sent = encoded_events([STARTED, stopped, RunError(error="aborted"), DONE])

    assert sent[-2]["value"] == {"kind": "cancel", "state": "stopped"}
    assert sent[-1]["outcome"] == {"type": "cancelled"}
    assert "result" not in sent[-1]


def test_a_run_of_which_only_the_end_is_left_has_a_start() -> None:
    sent = encoded_events([RunError(error="internal"), Done(usage=FinalUsage(), finish_reason="error")])

    assert kinds(sent) == ["RUN_STARTED", "RUN_ERROR"]
    assert "usage" not in sent[-1]


def test_a_later_attempt_starts_with_nothing_open() -> None:
    text = TextDelta(message_id="m", delta="x")

    sent = encoded_events([STARTED, text, STARTED, text, DONE])
    encoder = an_encoder()
    encoder.encode(entries_of(STARTED, CALL, REQUEST, STARTED))

    assert encoder.pause_after_s is None
    assert kinds(sent).count("TEXT_MESSAGE_START") == kinds(sent).count("TEXT_MESSAGE_END") == 2


def test_a_failed_call_is_marked() -> None:
    result = ToolCallResult(tool_call_id="toolu_1", result={"error": "failed"}, is_error=True)

    sent = encoded_events([STARTED, CALL, result, DONE])

    (result_event,) = [event for event in sent if event["type"] == "TOOL_CALL_RESULT"]
    assert result_event["metadata"] == {"runtally": {"isError": True}}


def test_values_that_json_cannot_represent_are_replaced() -> None:
    half = "\ud83d"

    sent = encoded_events(
        [
            STARTED,
            TextDelta(message_id="m", delta=half),
            ToolCallStart(tool_call_id="toolu_1", tool_name=half, args={half: float("nan")}),
            ToolCallResult(tool_call_id="toolu_1", result=half, is_error=False),
            AssistantFinal(content=half, structured_output={"x": float("inf")}),
            DONE,
        ]
    )

    assert [event["delta"] for event in sent if "delta" in event] == ["\ufffd", '{"\ufffd":null}']
    assert sent[-1]["result"] == {"content": "\ufffd", "structuredOutput": {"x": None}}


class TestConsent:
    def test_a_pending_request_ends_the_run_only_when_paused(self) -> None:
        encoder = an_encoder()
        text = TextDelta(message_id="m", delta="x")
        before = parsed(encoder.encode(entries_of(STARTED, text, CALL, REQUEST)))

        assert encoder.pause_after_s == PAUSE_IN_STEP_AFTER_S
        after = parsed(encoder.encode([LogEntry(5, Step(step_index=1, step_budget=None))]))
        assert encoder.pause_after_s == PAUSE_AFTER_S
        (end,) = parsed(encoder.encode_pause())

        assert kinds(before)[-1] == "TOOL_CALL_END"
        assert kinds(after) == ["STEP_FINISHED"]
        assert end["outcome"]["interrupts"] == [
            {
                "id": "r-1/5/p-1",
                "reason": "tool_call",
                "message": "May office__send_mail be called?",
                "toolCallId": "toolu_1",
                "responseSchema": end["outcome"]["interrupts"][0]["responseSchema"],
                "expiresAt": "2026-11-21T12:00:00Z",
                "metadata": {"runtally": {"toolName": "office__send_mail", "args": {"to": "bob"}}},
            }
        ]
        assert encoder.ended

    def test_a_decided_request_is_not_pending(self) -> None:
        encoder = an_encoder()

        sent = parsed(encoder.encode(entries_of(STARTED, CALL, REQUEST, RESOLVED)))

        assert encoder.pause_after_s is None
        assert sent[-1]["value"] == {"requestId": "p-1", "decision": "allow", "reason": "decided"}

    def test_the_part_after_an_interrupt_is_a_run_of_its_own(self) -> None:
        step = Step(step_index=1, step_budget=None)
        result = ToolCallResult(tool_call_id="toolu_1", result={}, is_error=False)
        answer = TextDelta(message_id="msg_2", delta="Sent.")

        sent = encoded_events([STARTED, CALL, step, REQUEST, RESOLVED, result, answer, DONE], after=4)

        assert kinds(sent) == [
            *("RUN_STARTED", "CUSTOM", "TOOL_CALL_RESULT", "STEP_STARTED"),
            *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED"),
            "RUN_FINISHED",
        ]
        assert sent[3]["stepName"] == "step 2"

    @pytest.mark.parametrize(
        "text", ["", "x", "a/b/c", "a//1", "a/1/", "/1/p", "a/1/p/q", "a/-1/p", "a\n/1/p"]
    )
    def test_a_malformed_interrupt_id_is_none(self, text: str) -> None:
        assert InterruptId.parse(text) is None

    def test_an_interrupt_id_is_parsed_as_it_was_written(self) -> None:
        interrupt = InterruptId("r:1.x", 1_000_002, "p-1")

        assert InterruptId.parse(str(interrupt)) == interrupt


class TestSubagents:
    AGENT = ToolCallStart(
        tool_call_id="toolu_a", tool_name="Agent", args={"subagent_type": "clock-watcher", "prompt": "?"}
    )
    OURS = TextDelta(message_id="msg_1", delta="Let me ask. ")
    THEIRS = TextDelta(message_id="msg_2", delta="noon", parent_tool_call_id="toolu_a")
    ANSWERED = ToolCallResult(tool_call_id="toolu_a", result={}, is_error=False)

    def test_messages_of_subagents_are_tagged(self) -> None:
        sent = encoded_events([STARTED, self.OURS, self.AGENT, self.THEIRS, self.ANSWERED, DONE])

        (started,) = [event for event in sent if event["type"] == "SUBAGENT_STARTED"]
        assert started["name"] == "clock-watcher"
        assert started["parentToolCallId"] == started["subagentRunId"] == "toolu_a"
        tagged = [event["type"] for event in sent if event.get("subagentRunId") == "toolu_a"]
        text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
        assert tagged == ["SUBAGENT_STARTED", *text, "SUBAGENT_FINISHED"]

    def test_a_nested_subagent_has_its_parent(self) -> None:
        inner = self.AGENT.model_copy(update={"tool_call_id": "toolu_b", "parent_tool_call_id": "toolu_a"})
        text = self.THEIRS.model_copy(update={"parent_tool_call_id": "toolu_b"})

        sent = encoded_events([STARTED, self.AGENT, inner, text, DONE])

        started = [event for event in sent if event["type"] == "SUBAGENT_STARTED"]
        assert [event.get("parentSubagentRunId") for event in started] == [None, "toolu_a"]

    def test_a_subagent_with_a_pending_call_is_suspended_and_resumed(self) -> None:
        call = CALL.model_copy(update={"parent_tool_call_id": "toolu_a"})
        events: list[ClientEvent] = [STARTED, self.AGENT, self.THEIRS, call, REQUEST]
        encoder = an_encoder()
        encoder.encode(entries_of(*events))

        *_, suspended, _, end = parsed(encoder.encode_pause())
        on = encoded_events([*events, RESOLVED, self.THEIRS, self.ANSWERED, DONE], after=5)

        assert suspended["outcome"] == {"type": "suspended", "interruptIds": ["r-1/5/p-1"]}
        assert end["outcome"]["interrupts"][0]["subagentRunId"] == "toolu_a"
        assert kinds(on).count("SUBAGENT_STARTED") == kinds(on).count("SUBAGENT_FINISHED") == 1

    def test_an_interrupted_subagent_did_not_finish(self) -> None:
        sent = encoded_events([STARTED, self.AGENT, self.THEIRS, RunError(error="timeout"), DONE])

        assert "SUBAGENT_ERROR" in kinds(sent)
        assert "SUBAGENT_FINISHED" not in kinds(sent)
