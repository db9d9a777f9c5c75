"""Properties of the AG-UI output of any run: order, replays, and no loss at interrupts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.events import (
    ClientEvent,
    MessageDiscarded,
    Queued,
    RunError,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
)
from tests.unit.http.ag_ui.test_encoder import an_encoder, parsed
from tests.unit.http.events import DONE, REQUEST, RESOLVED, STARTED, entries_of

OPENS = {
    "TEXT_MESSAGE_START": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "REASONING_START": "messageId",
    "REASONING_MESSAGE_START": "messageId",
    "STEP_STARTED": "stepName",
    "SUBAGENT_STARTED": "subagentRunId",
}
CLOSES = {
    "TEXT_MESSAGE_END": "TEXT_MESSAGE_START",
    "TOOL_CALL_END": "TOOL_CALL_START",
    "REASONING_END": "REASONING_START",
    "REASONING_MESSAGE_END": "REASONING_MESSAGE_START",
    "STEP_FINISHED": "STEP_STARTED",
    "SUBAGENT_FINISHED": "SUBAGENT_STARTED",
    "SUBAGENT_ERROR": "SUBAGENT_STARTED",
}
CONTINUES = {
    "TEXT_MESSAGE_CONTENT": "TEXT_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT": "REASONING_MESSAGE_START",
    "TOOL_CALL_ARGS": "TOOL_CALL_START",
}
PARENT_OF = {"m1": None, "m2": None, "m3": "toolu_1", "m4": "toolu_2"}
"""The subagent of each message; the last one is of a nested subagent."""


def a_text(message_id: str, delta: str) -> ClientEvent:
    return TextDelta(message_id=message_id, delta=delta, parent_tool_call_id=PARENT_OF[message_id])


def a_thought(message_id: str, delta: str) -> ClientEvent:
    return ThinkingDelta(message_id=message_id, delta=delta, parent_tool_call_id=PARENT_OF[message_id])


def a_call(call_id: str) -> ClientEvent:
    parent = "toolu_1" if call_id == "toolu_2" else None
    return ToolCallStart(tool_call_id=call_id, tool_name="Agent", args={}, parent_tool_call_id=parent)


def a_result(call_id: str, failed: bool) -> ClientEvent:  # noqa: FBT001 - hypothesis draws them in order
    return ToolCallResult(tool_call_id=call_id, result={}, is_error=failed)


def a_request(request_id: str, call_id: str) -> ClientEvent:
    return REQUEST.model_copy(update={"request_id": request_id, "tool_call_id": call_id})


def a_resolution(request_id: str) -> ClientEvent:
    return RESOLVED.model_copy(update={"request_id": request_id})


messages = st.sampled_from(sorted(PARENT_OF))
calls = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
requests = st.sampled_from(["p-1", "p-2"])
entries = st.one_of(
    st.builds(a_text, messages, st.text()),
    st.builds(a_thought, messages, st.text()),
    st.builds(a_call, calls),
    st.builds(a_result, calls, st.booleans()),
    st.builds(a_request, requests, calls),
    st.builds(a_resolution, requests),
    st.integers(1, 9).map(lambda index: Step(step_index=index, step_budget=None)),
    messages.map(lambda name: MessageDiscarded(message_id=name)),
    st.just(STARTED),
    st.just(Queued(position=1)),
)
runs: st.SearchStrategy[list[ClientEvent]] = st.builds(
    lambda sent, failed: [*sent, *([RunError(error="timeout")] if failed else []), DONE],
    st.lists(entries),
    st.booleans(),
)


def require_order(events: list[dict[str, Any]]) -> None:
    """What is continued or closed is open, nothing is opened twice, and nothing is open at the end."""
    assert [index for index, event in enumerate(events) if event["type"] == "RUN_STARTED"] == [0]
    is_open: set[tuple[str, str]] = set()
    for event in events:
        kind = event["type"]
        if kind in OPENS:
            opened = (kind, event[OPENS[kind]])
            assert opened not in is_open
            is_open.add(opened)
        elif (opener := CLOSES.get(kind) or CONTINUES.get(kind)) is not None:
            named = (opener, event[OPENS[opener]])
            assert named in is_open
            if kind in CLOSES:
                is_open.remove(named)
    assert is_open == set()
    assert events[-1]["type"] in {"RUN_FINISHED", "RUN_ERROR"}


@given(runs, st.data())
def test_a_run_is_encoded_in_order_and_byte_identical_in_any_batches(
    events: list[ClientEvent], data: st.DataObject
) -> None:
    log = entries_of(*events)
    whole = an_encoder().encode(log)
    cut = data.draw(st.integers(0, len(log)))
    encoder = an_encoder()

    assert encoder.encode(log[:cut]) + encoder.encode(log[cut:]) == whole
    require_order(parsed(whole))


@given(runs)
def test_a_run_interrupted_and_resumed_loses_nothing(events: list[ClientEvent]) -> None:
    log = entries_of(*events)
    whole = texts_of(parsed(an_encoder().encode(log)))
    for cut in range(1, len(log)):
        encoder = an_encoder()
        head = encoder.encode(log[:cut])
        if encoder.pause_after_s is None:
            continue
        first = parsed(head + encoder.encode_pause())
        second = parsed(an_encoder(after=cut).encode(log))

        require_order(first)
        require_order(second)
        assert [*texts_of(first), *texts_of(second)] == whole


def texts_of(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Texts, thoughts and arguments in order; a thought that goes on in another run has another id."""
    return [(event["type"], event["delta"]) for event in events if "delta" in event]
