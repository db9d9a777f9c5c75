"""Every wire handles every event of a run."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import pytest

from app import events
from app.http.ag_ui.output.encoder import AgUiEncoder
from app.http.ag_ui.output.mapper import AgUiEventMapper
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.mapper import AiSdkMessageMapper
from app.http.managed_agents.mapper import SessionMapper
from app.http.mcp.mapper import CallMapper
from app.http.native.encoder import NativeEncoder
from app.http.openai.mapper import CompletionMapper
from app.http.streaming.encoder import Encoder
from app.requests.outcome import FileChange
from app.requests.wire_models import WireModel
from app.runs.events.codec import joined
from app.streams.port import LogEntry
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
    STEP,
    client_call,
    client_call_start,
    entries_of,
)

WIRES: dict[str, Callable[[], Encoder]] = {
    "native": NativeEncoder,
    "ag_ui": lambda: AgUiEncoder(thread_id="t-1", run_id="theirs", our_run_id="r-1"),
    "ai_sdk 5": lambda: AiSdkEncoder("r-1"),
    "ai_sdk 6": lambda: AiSdkEncoder("r-1", approvals=True),
}

RUNS: dict[type[Any], list[events.ClientEvent]] = {
    events.Queued: [STARTED, events.Queued(position=1)],
    events.RunStarted: [STARTED, events.TextDelta(message_id="m", delta="x"), STARTED],
    events.TextDelta: [STARTED, events.TextDelta(message_id="m", delta="x")],
    events.ThinkingDelta: [STARTED, events.ThinkingDelta(message_id="m", delta="x")],
    events.MessageDiscarded: [
        STARTED,
        events.TextDelta(message_id="m", delta="x"),
        events.MessageDiscarded(message_id="m"),
    ],
    events.Status: [STARTED, events.Status(phase="thinking", label="Thinking")],
    events.Step: [STARTED, STEP],
    events.ToolCallStart: [STARTED, CALL],
    events.ToolCallResult: [STARTED, CALL, RESULT],
    events.Citation: [STARTED, events.Citation(message_id="m", url="https://a.example/", cited_text="x")],
    events.PermissionRequest: [STARTED, CALL, REQUEST],
    events.BudgetReached: [STARTED, BUDGET],
    events.PermissionResolved: [STARTED, CALL, REQUEST, RESOLVED.model_copy(update={"decision": "deny"})],
    events.QuestionAsked: [STARTED, QUESTION],
    events.QuestionResolved: [STARTED, QUESTION, ANSWERED],
    events.ClientToolCall: [STARTED, client_call_start("a"), client_call("a")],
    events.RunWarning: [STARTED, events.RunWarning(code="client_tools_ignored", message="x", names=["x"])],
    events.Interrupted: [STARTED, events.Interrupted(kind="cancel", state="requested")],
    events.UserMessageDelivered: [STARTED, events.UserMessageDelivered(message_id="u", content="x")],
    events.FilesChanged: [STARTED, events.FilesChanged(files=(FileChange(path="a", change="created"),))],
    events.AssistantFinal: [STARTED, events.AssistantFinal(content="x", structured_output={})],
    events.RunError: [STARTED, events.RunError(error="internal")],
    events.Done: [STARTED, DONE],
}
"""For each event, a run that ends with it."""


class UnknownEvent(WireModel):
    """An event that no wire handles."""

    type: Literal["unknown"] = "unknown"
    parent_tool_call_id: str | None = None


def encoded(wire: str, given: Sequence[events.ClientEvent]) -> bytes:
    encoder = WIRES[wire]()
    chunk = encoder.encode(entries_of(*given))
    if isinstance(encoder, AgUiEncoder | AiSdkEncoder) and encoder.pause_after_s is not None:
        chunk += encoder.encode_pause()
    return chunk


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "event_type", get_args(events.ClientEvent), ids=lambda event_type: event_type.__name__
)
def test_every_event_changes_what_every_wire_sends(wire: str, event_type: type[Any]) -> None:
    run = RUNS[event_type]
    without = run[:-1]

    assert isinstance(run[-1], event_type)
    assert encoded(wire, run) != encoded(wire, without) or (
        # Some events only change the end of the run.
        encoded(wire, [*run, DONE]) != encoded(wire, [*without, DONE])
    )


@pytest.mark.parametrize(
    "mapper",
    [
        AgUiEventMapper(thread_id="t-1", run_id="theirs", our_run_id="r-1"),
        AiSdkMessageMapper("r-1", approvals=True),
        CompletionMapper("r-1", is_object=False),
        CallMapper(),
        SessionMapper("r-1", ""),
    ],
    ids=["ag_ui", "ai_sdk", "openai", "mcp", "managed_agents"],
)
def test_an_event_that_a_wire_does_not_handle_is_not_dropped_silently(
    mapper: AgUiEventMapper | AiSdkMessageMapper | CompletionMapper | CallMapper | SessionMapper,
) -> None:
    unknown: Any = UnknownEvent()

    with pytest.raises(AssertionError, match="unreachable"):
        list(mapper.map(LogEntry(1, unknown)))


@pytest.mark.parametrize("wire", WIRES)
def test_every_wire_has_the_use_of_the_context_where_it_is_known(wire: str) -> None:
    known = DONE.model_copy(update={"context_used": 4_711, "context_window": 200_000})
    answer = events.AssistantFinal(content="x")

    with_context = encoded(wire, [STARTED, answer, known])

    assert b'"contextUsed":4711' in with_context
    assert b'"contextWindow":200000' in with_context
    assert b"context" not in encoded(wire, [STARTED, answer, DONE])


def test_texts_that_are_read_at_once_are_the_same_events_of_a_session_and_result_of_a_call() -> None:
    thought = [events.ThinkingDelta(message_id="m", delta=delta) for delta in ("H", "m", ".")]
    said = [events.TextDelta(message_id="m", delta=delta) for delta in ("It ", "is ", "noon.")]
    others = [events.TextDelta(message_id="n", delta=delta) for delta in ("And ", "it ", "rains.")]
    entries = [
        each._replace(at=each.position * 1000)
        for each in entries_of(STARTED, *thought, *said, CALL, RESULT, *others, DONE)
    ]
    for whole in (entries, entries[:-1], entries[:-2]):
        read = joined(whole, apart=6)

        assert len(read) < len(whole)
        assert of_session(read) == of_session(whole)
        assert of_call(read) == of_call(whole)


def of_session(entries: Sequence[LogEntry]) -> list[Any]:
    mapper = SessionMapper("r-1", "What?")
    return [event for entry in entries for event in mapper.map(entry)]


def of_call(entries: Sequence[LogEntry]) -> tuple[str, str, Any]:
    mapper = CallMapper()
    for entry in entries:
        list(mapper.map(entry))
    return mapper.text, mapper.shown, mapper.done
