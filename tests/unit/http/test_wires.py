"""Every wire handles every event of a run."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import pytest

from app.events import (
    AssistantFinal,
    ClientEvent,
    ClientToolCall,
    Done,
    Interrupted,
    MessageDiscarded,
    PermissionRequest,
    PermissionResolved,
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
from app.http.native.encoder import NativeEncoder
from app.http.streaming.encoder import Encoder
from app.requests.outcome import FinalUsage
from app.requests.wire_models import WireModel
from app.streams.port import LogEntry

WIRES: dict[str, Callable[[], Encoder]] = {
    "native": NativeEncoder,
    "ag_ui": lambda: AgUiEncoder(thread_id="t-1", run_id="theirs", our_run_id="r-1"),
    "ai_sdk 5": lambda: AiSdkEncoder("r-1"),
    "ai_sdk 6": lambda: AiSdkEncoder("r-1", approvals=True),
}
STARTED = RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=1)
CALL = ToolCallStart(tool_call_id="t", tool_name="mail", args={})
REQUEST = PermissionRequest(request_id="p", tool_call_id="t", tool_name="mail", args={}, expires_at="later")
DONE = Done(usage=FinalUsage(), finish_reason="stop")

RUNS: dict[type[Any], list[ClientEvent]] = {
    Queued: [STARTED, Queued(position=1)],
    RunStarted: [STARTED, TextDelta(message_id="m", delta="x"), STARTED],
    TextDelta: [STARTED, TextDelta(message_id="m", delta="x")],
    ThinkingDelta: [STARTED, ThinkingDelta(message_id="m", delta="x")],
    MessageDiscarded: [STARTED, TextDelta(message_id="m", delta="x"), MessageDiscarded(message_id="m")],
    Status: [STARTED, Status(phase="thinking", label="Thinking")],
    Step: [STARTED, Step(step_index=1, step_budget=None)],
    ToolCallStart: [STARTED, CALL],
    ToolCallResult: [STARTED, CALL, ToolCallResult(tool_call_id="t", result="x", is_error=False)],
    PermissionRequest: [STARTED, CALL, REQUEST],
    PermissionResolved: [
        *(STARTED, CALL, REQUEST),
        PermissionResolved(request_id="p", decision="deny", reason="decided"),
    ],
    ClientToolCall: [
        *(STARTED, CALL.model_copy(update={"is_client_tool": True})),
        ClientToolCall(tool_call_id="t", tool_name="mail", args={}, expires_at="later"),
    ],
    RunWarning: [STARTED, RunWarning(code="client_tools_ignored", message="x", names=["x"])],
    Interrupted: [STARTED, Interrupted(kind="cancel", state="requested")],
    UserMessageDelivered: [STARTED, UserMessageDelivered(message_id="u", content="x")],
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
    chunk = encoder.encode([LogEntry(position, event) for position, event in enumerate(events, start=1)])
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
    ],
    ids=["ag_ui", "ai_sdk"],
)
def test_an_event_that_a_wire_does_not_handle_is_not_dropped_silently(
    mapper: AgUiEventMapper | AiSdkMessageMapper,
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
