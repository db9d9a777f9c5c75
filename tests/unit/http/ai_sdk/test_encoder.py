"""AiSdkEncoder: golden output, and properties of any run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import (
    AssistantFinal,
    ClientEvent,
    Done,
    Interrupted,
    MessageDiscarded,
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
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.requests.outcome import ErrorCode, FinalUsage, FinishReason
from tests.unit.http.ai_sdk.parts import (
    a_call,
    a_request,
    a_resolution,
    a_result,
    a_text,
    a_thought,
    kinds_of,
    parts_in,
    parts_of,
)
from tests.unit.http.events import DONE, STARTED, entries_of

A_RUN: list[ClientEvent] = [
    Queued(position=2),
    STARTED,
    Status(phase="thinking", label="Thinking"),
    ThinkingDelta(message_id="msg_1", delta="hm"),
    TextDelta(message_id="msg_1", delta="Let me "),
    TextDelta(message_id="msg_1", delta="see."),
    ToolCallStart(tool_call_id="t1", tool_name="core__clock", args={"timezone": "UTC"}),
    Step(step_index=1, step_budget=None),
    ToolCallResult(tool_call_id="t1", result={"time": "12:00"}, is_error=False),
    TextDelta(message_id="msg_s", delta="inside", parent_tool_call_id="t1"),
    UserMessageDelivered(message_id="u1", content="Hurry."),
    ToolCallStart(tool_call_id="t2", tool_name="core__clock", args={}),
    ToolCallResult(tool_call_id="t2", result={"error": "invalid_args"}, is_error=True),
    TextDelta(message_id="msg_3", delta="noon\u2028\U0001f600"),
    Step(step_index=3, step_budget=8),
    AssistantFinal(content="noon", structured_output={"hour": 12}),
    DONE,
]

FRAMES = rb"""{"type":"start","messageId":"r-1","messageMetadata":{"runId":"r-1"}}
{"type":"data-queued","data":{"position":2},"transient":true}
{"type":"data-status","data":{"phase":"thinking","label":"Thinking"},"transient":true}
{"type":"start-step"}
{"type":"reasoning-start","id":"reasoning-4"}
{"type":"reasoning-delta","id":"reasoning-4","delta":"hm"}
{"type":"reasoning-end","id":"reasoning-4"}
{"type":"text-start","id":"text-5"}
{"type":"text-delta","id":"text-5","delta":"Let me "}
{"type":"text-delta","id":"text-5","delta":"see."}
{"type":"text-end","id":"text-5"}
{"type":"tool-input-available","toolCallId":"t1","toolName":"core__clock","input":{"timezone":"UTC"},"providerExecuted":true}
{"type":"data-step","data":{"stepIndex":1,"stepBudget":null},"transient":true}
{"type":"tool-output-available","toolCallId":"t1","output":{"time":"12:00"}}
{"type":"data-subagent","data":{"type":"text_delta","parentToolCallId":"t1","messageId":"msg_s","delta":"inside"},"transient":true}
{"type":"data-user-message","data":{"messageId":"u1","content":"Hurry."},"id":"u1"}
{"type":"finish-step"}
{"type":"start-step"}
{"type":"tool-input-available","toolCallId":"t2","toolName":"core__clock","input":{},"providerExecuted":true}
{"type":"tool-output-error","toolCallId":"t2","errorText":"The tool call failed: invalid_args."}
{"type":"text-start","id":"text-14"}
{"type":"text-delta","id":"text-14","delta":"noon\u2028\ud83d\ude00"}
{"type":"data-step","data":{"stepIndex":3,"stepBudget":8},"transient":true}
{"type":"text-end","id":"text-14"}
{"type":"data-structured-output","data":{"hour":12}}
{"type":"finish-step"}
{"type":"finish","messageMetadata":{"runId":"r-1","usage":{"promptTokens":10,"completionTokens":5},"finishReason":"stop"}}
[DONE]
"""
GOLDEN = b"".join(b"data: %b\n\n" % frame for frame in FRAMES.splitlines())

V5_FIELDS = {
    "start": {"messageId", "messageMetadata"},
    "start-step": set(),
    "finish-step": set(),
    "text-start": {"id"},
    "text-delta": {"id", "delta"},
    "text-end": {"id", "providerMetadata"},
    "reasoning-start": {"id"},
    "reasoning-delta": {"id", "delta"},
    "reasoning-end": {"id", "providerMetadata"},
    "tool-input-available": {"toolCallId", "toolName", "input", "providerExecuted"},
    "tool-output-available": {"toolCallId", "output"},
    "tool-output-error": {"toolCallId", "errorText"},
    "message-metadata": {"messageMetadata"},
    "error": {"errorText"},
    "abort": set(),
    "finish": {"messageMetadata"},
}
"""The parts and fields that `uiMessageChunkSchema` of 5.0.0 accepts, besides `data-…`."""


def known_to_version_5(kind: str) -> set[str]:
    return {"id", "data", "transient"} if kind.startswith("data-") else V5_FIELDS[kind]


def test_every_event_is_encoded_as_parts_of_version_5() -> None:
    assert AiSdkEncoder("r-1").encode(entries_of(*A_RUN)) == GOLDEN


@pytest.mark.parametrize("error", ["internal", "provider_unavailable"])
def test_the_error_comes_after_its_metadata(error: ErrorCode) -> None:
    done = Done(usage=FinalUsage(), finish_reason="error")
    parts = parts_of(STARTED, TextDelta(message_id="m", delta="It"), RunError(error=error), done)

    metadata = {
        "runId": "r-1",
        "usage": {"promptTokens": 0, "completionTokens": 0},
        "finishReason": "error",
        "error": error,
    }
    assert parts[-5:] == [
        {"type": "text-end", "id": "text-2"},
        {"type": "finish-step"},
        {"type": "message-metadata", "messageMetadata": metadata},
        {"type": "error", "errorText": f"The run did not succeed: {error}."},
        {"type": "finish", "messageMetadata": metadata},
    ]


def test_a_cancelled_run_is_aborted_and_its_calls_have_an_output() -> None:
    done = Done(usage=FinalUsage(), finish_reason="aborted")
    call = ToolCallStart(tool_call_id="t", tool_name="x", args={})
    stop = Interrupted(kind="cancel", state="requested")

    parts = parts_of(STARTED, call, stop, RunError(error="aborted"), done)

    assert kinds_of(parts)[3:] == [
        *("data-interrupted", "tool-output-error t", "finish-step", "abort", "finish"),
    ]
    assert parts[4]["errorText"] == "The tool call failed: interrupted."
    assert parts[-1]["messageMetadata"]["finishReason"] == "aborted"


def test_a_run_of_which_only_the_end_is_left_is_still_a_message() -> None:
    parts = parts_of(RunError(error="internal"), Done(usage=FinalUsage(), finish_reason="error"))

    assert kinds_of(parts) == ["start", "message-metadata", "error", "finish"]


def test_a_later_attempt_continues_the_same_message() -> None:
    call = ToolCallStart(tool_call_id="t", tool_name="x", args={})
    late = ToolCallResult(tool_call_id="t", result={}, is_error=False)

    parts = parts_of(STARTED, call, STARTED, late, TextDelta(message_id="m", delta="On."))

    assert kinds_of(parts)[3:] == [
        *("tool-output-error t", "finish-step", "start-step", "text-start", "text-delta"),
    ]
    assert kinds_of(parts).count("start") == 1


CALL_IDS = st.sampled_from(["a", "b", "c"])
EVENTS: st.SearchStrategy[ClientEvent] = st.one_of(
    st.builds(a_text, st.sampled_from("mn"), st.text(max_size=5)),
    st.builds(a_thought, st.sampled_from("mn"), st.text(max_size=5)),
    st.builds(a_text, st.just("s"), st.just("x"), CALL_IDS),
    st.builds(a_call, CALL_IDS),
    st.builds(a_request, CALL_IDS),
    st.builds(a_resolution, CALL_IDS, st.sampled_from(["allow", "deny"])),
    st.builds(a_result, CALL_IDS, is_error=st.booleans()),
    st.just(Step(step_index=1, step_budget=None)),
    st.just(Status(phase="compacting", label="Compacting")),
    st.just(UserMessageDelivered(message_id="u", content="x")),
    st.sampled_from("mn").map(lambda name: MessageDiscarded(message_id=name)),
    st.just(STARTED),
)
"""In any order, including impossible ones."""

ENDINGS: st.SearchStrategy[list[ClientEvent]] = st.sampled_from(
    [
        [AssistantFinal(content="x"), DONE],
        [RunError(error="internal"), Done(usage=FinalUsage(), finish_reason="error")],
        [RunError(error="aborted"), Done(usage=FinalUsage(), finish_reason="aborted")],
    ]
)


@given(st.lists(EVENTS, max_size=25), ENDINGS, st.booleans(), st.data())
def test_a_replay_is_byte_identical_in_any_batches(
    events: list[ClientEvent],
    ending: list[ClientEvent],
    approvals: bool,  # noqa: FBT001
    data: st.DataObject,
) -> None:
    entries = entries_of(*events, *ending)
    cut = data.draw(st.integers(0, len(entries)))
    encoder = AiSdkEncoder("r-1", approvals=approvals)

    whole = AiSdkEncoder("r-1", approvals=approvals).encode(entries)

    assert encoder.encode(entries[:cut]) + encoder.encode(entries[cut:]) == whole
    assert whole.isascii()
    assert b"\r" not in whole
    assert whole.endswith(b"data: [DONE]\n\n")
    assert whole.count(b"[DONE]") == 1


@given(st.lists(EVENTS, max_size=25), ENDINGS, st.booleans())
def test_parts_are_opened_before_use_and_closed_and_version_5_knows_all_of_theirs(
    events: list[ClientEvent],
    ending: list[ClientEvent],
    approvals: bool,  # noqa: FBT001
) -> None:
    parts = parts_of(*events, *ending, approvals=approvals)
    blocks: set[str] = set()
    tools: set[str] = set()
    stepping = False

    assert [index for index, part in enumerate(parts) if part["type"] == "start"] == [0]
    for part in parts:
        assert approvals or part.keys() - {"type"} <= known_to_version_5(part["type"])
        kind, _, verb = part["type"].partition("-")
        match kind, verb:
            case (("text" | "reasoning"), "start"):
                assert stepping
                blocks.add(part["id"])
            case (("text" | "reasoning"), _):
                assert part["id"] in blocks
                blocks -= {part["id"]} if verb == "end" else set()
            case "tool", "input-available":
                assert stepping
                tools.add(part["toolCallId"])
            case "tool", _:
                assert part["toolCallId"] in tools
                tools -= {part["toolCallId"]} if verb.startswith("output") else set()
            case (("start" | "finish"), "step"):
                assert stepping == (kind == "finish")
                assert not blocks
                stepping = not stepping
    assert (stepping, blocks, tools) == (False, set(), set())
    assert parts[-1]["type"] == "finish"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("error", "error"), ("max_turns", "other"), ("aborted", "other")],
)
def test_clients_of_version_6_receive_the_finish_reason(reason: FinishReason, expected: str) -> None:
    done = Done(usage=FinalUsage(), finish_reason=reason)

    later, oldest = (
        parts_in(AiSdkEncoder("r-1", version=version).encode(entries_of(STARTED, done)))[-1]
        for version in (6, 5)
    )

    assert (later["type"], later["finishReason"]) == ("finish", expected)
    assert {**oldest, "finishReason": expected} == later
