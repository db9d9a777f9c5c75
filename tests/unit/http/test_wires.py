"""Every wire handles every event of a run."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import pytest

from app.events import (
    AssistantFinal,
    BudgetReached,
    Citation,
    ClientEvent,
    ClientToolCall,
    Done,
    FilesChanged,
    Interrupted,
    MessageDiscarded,
    PermissionRequest,
    PermissionResolved,
    QuestionAsked,
    QuestionResolved,
    Queued,
    RunError,
    RunStarted,
    RunWarning,
    Status,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
    UserMessageDelivered,
)
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

RUNS: dict[type[Any], list[ClientEvent]] = {
    Queued: [STARTED, Queued(position=1)],
    RunStarted: [STARTED, TextDelta(message_id="m", delta="x"), STARTED],
    TextDelta: [STARTED, TextDelta(message_id="m", delta="x")],
    ThinkingDelta: [STARTED, ThinkingDelta(message_id="m", delta="x")],
    MessageDiscarded: [STARTED, TextDelta(message_id="m", delta="x"), MessageDiscarded(message_id="m")],
    Status: [STARTED, Status(phase="thinking", label="Thinking")],
    Step: [STARTED, STEP],
    ToolCallStart: [STARTED, CALL],
    ToolCallResult: [STARTED, CALL, RESULT],
    Citation: [STARTED, Citation(message_id="m", url="https://a.example/", cited_text="x")],
    PermissionRequest: [STARTED, CALL, REQUEST],
    BudgetReached: [STARTED, BUDGET],
    PermissionResolved: [STARTED, CALL, REQUEST, RESOLVED.model_copy(update={"decision": "deny"})],
    QuestionAsked: [STARTED, QUESTION],
    QuestionResolved: [STARTED, QUESTION, ANSWERED],
    ClientToolCall: [STARTED, client_call_start("a"), client_call("a")],
    RunWarning: [STARTED, RunWarning(code="client_tools_ignored", message="x", names=["x"])],
    Interrupted: [STARTED, Interrupted(kind="cancel", state="requested")],
    UserMessageDelivered: [STARTED, UserMessageDelivered(message_id="u", content="x")],
    FilesChanged: [STARTED, FilesChanged(files=(FileChange(path="a", change="created"),))],
    AssistantFinal: [STARTED, AssistantFinal(content="x", structured_output={})],
    RunError: [STARTED, RunError(error="internal")],
    Done: [STARTED, DONE],
}
"""For each event, a run that ends with it."""


class UnknownEvent(WireModel):
    """An event that no wire handles."""

    type: Literal["unknown"] = "unknown"
    parent_tool_call_id: str | None = None


def encoded(wire: str, events: Sequence[ClientEvent]) -> bytes:
    encoder = WIRES[wire]()
    chunk = encoder.encode(entries_of(*events))
    if isinstance(encoder, AgUiEncoder | AiSdkEncoder) and encoder.pause_after_s is not None:
        chunk += encoder.encode_pause()
    return chunk


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("event_type", get_args(ClientEvent), ids=lambda event_type: event_type.__name__)
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
    answer = AssistantFinal(content="x")

    with_context = encoded(wire, [STARTED, answer, known])

    assert b'"contextUsed":4711' in with_context
    assert b'"contextWindow":200000' in with_context
    assert b"context" not in encoded(wire, [STARTED, answer, DONE])


def test_texts_that_are_read_at_once_are_the_same_events_of_a_session_and_result_of_a_call() -> None:
    thought = [ThinkingDelta(message_id="m", delta=delta) for delta in ("H", "m", ".")]
    said = [TextDelta(message_id="m", delta=delta) for delta in ("It ", "is ", "noon.")]
    others = [TextDelta(message_id="n", delta=delta) for delta in ("And ", "it ", "rains.")]
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
