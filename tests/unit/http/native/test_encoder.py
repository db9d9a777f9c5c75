"""The native wire, byte by byte."""

import json

import httpx
from httpx_sse import EventSource, ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st

from app.events import (
    AssistantFinal,
    ClientEvent,
    Done,
    RunError,
    RunStarted,
    Status,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
)
from app.http.native.encoder import NativeEncoder
from app.http.streaming.encoder import EVENT_STREAM, RETRY_LINE
from app.platform.clock.event_times import rfc3339
from app.requests.outcome import FinalUsage
from app.streams.port import LogEntry

HEARTBEAT = b":\n"
texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\r\n\0\x7f\x85\u2028\u2029\ufeff: ")
)

A_RUN: list[ClientEvent] = [
    RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=1),
    Status(phase="thinking", label="Thinking"),
    ThinkingDelta(message_id="msg_1", delta="hm"),
    TextDelta(message_id="msg_1", delta="It is "),
    ToolCallStart(tool_call_id="toolu_1", tool_name="core__clock", args={"timezone": "UTC"}),
    ToolCallResult(tool_call_id="toolu_1", result={"time": "12:00"}, is_error=False),
    TextDelta(message_id="msg_2", delta="noon\u2028", parent_tool_call_id="toolu_1"),
    Step(step_index=1, step_budget=None),
    AssistantFinal(content="It is noon."),
    RunError(error="aborted"),
    # What clients are not told.
    Done(usage=FinalUsage(prompt_tokens=10, completion_tokens=5), finish_reason="stop", cached=(4, 3)),
]

AT = 1_764_000_000_000 - 1000

FRAMES = rb"""run_started {"type":"run_started","runId":"r-1","graphId":"claude_agents:assistant","model":"sonnet","attempt":1,"at":"2025-11-24T16:00:00.001Z"}
status {"type":"status","phase":"thinking","label":"Thinking","at":"2025-11-24T16:00:01.002Z"}
thinking_delta {"type":"thinking_delta","messageId":"msg_1","delta":"hm","at":"2025-11-24T16:00:02.003Z"}
text_delta {"type":"text_delta","messageId":"msg_1","delta":"It is ","at":"2025-11-24T16:00:03.004Z"}
tool_call_start {"type":"tool_call_start","toolCallId":"toolu_1","toolName":"core__clock","args":{"timezone":"UTC"},"at":"2025-11-24T16:00:04.005Z"}
tool_call_result {"type":"tool_call_result","toolCallId":"toolu_1","result":{"time":"12:00"},"isError":false,"at":"2025-11-24T16:00:05.006Z"}
text_delta {"type":"text_delta","parentToolCallId":"toolu_1","messageId":"msg_2","delta":"noon\u2028","at":"2025-11-24T16:00:06.007Z"}
step {"type":"step","stepIndex":1,"stepBudget":null,"at":"2025-11-24T16:00:07.008Z"}
assistant_final {"type":"assistant_final","content":"It is noon.","structuredOutput":null,"at":"2025-11-24T16:00:08.009Z"}
error {"type":"error","error":"aborted","at":"2025-11-24T16:00:09.010Z"}
done {"type":"done","usage":{"promptTokens":10,"completionTokens":5},"finishReason":"stop","at":"2025-11-24T16:00:10.011Z"}
"""  # noqa: E501 - a frame is one line
GOLDEN = b"".join(
    b"id: %d\nevent: %b\ndata: %b\n\n" % (position, kind, data)
    for position, (kind, _, data) in enumerate((line.partition(b" ") for line in FRAMES.splitlines()), 1)
)


def entries_of(events: list[ClientEvent]) -> list[LogEntry]:
    return [LogEntry(position, event, AT + 1001 * position) for position, event in enumerate(events, start=1)]


def parsed(stream: bytes) -> list[ServerSentEvent]:
    """The events of a stream, read by a client's parser."""
    headers = {"content-type": EVENT_STREAM}
    return list(EventSource(httpx.Response(200, headers=headers, content=stream)).iter_sse())


def test_every_event_is_encoded_byte_by_byte() -> None:
    assert NativeEncoder().encode(entries_of(A_RUN)) == GOLDEN


@given(st.integers(0, len(A_RUN)))
def test_a_resumed_stream_is_byte_identical(received: int) -> None:
    entries = entries_of(A_RUN)
    assert NativeEncoder().encode(entries[:received]) + NativeEncoder().encode(entries[received:]) == GOLDEN


@given(st.lists(texts, min_size=1, max_size=5))
def test_any_text_survives_a_clients_parser(deltas: list[str]) -> None:
    entries = entries_of([TextDelta(message_id="m", delta=delta) for delta in deltas])
    stream = NativeEncoder().encode(entries)
    assert stream.isascii()
    assert b"\r" not in stream
    assert stream.count(b"\n") == 4 * len(deltas)
    received = parsed(stream)
    assert [int(sse.id) for sse in received] == list(range(1, len(deltas) + 1))
    assert {sse.event for sse in received} == {"text_delta"}
    assert [json.loads(sse.data) for sse in received] == [
        {"type": "text_delta", "messageId": "m", "delta": delta, "at": rfc3339(entry.at)}
        for delta, entry in zip(deltas, entries, strict=True)
    ]


def test_heartbeats_and_the_retry_hint_are_not_events() -> None:
    stream = RETRY_LINE + HEARTBEAT + NativeEncoder().encode(entries_of(A_RUN[:2])) + HEARTBEAT
    received = parsed(stream)
    assert [sse.id for sse in received] == ["1", "2"]
    assert received[0].retry == 2000
