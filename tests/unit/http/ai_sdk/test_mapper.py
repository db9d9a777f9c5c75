"""Permission requests in parts of the AI SDK."""

from app.events import Step, ToolCallResult, ToolCallStart
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.streams.port import LogEntry
from tests.unit.http.ai_sdk.parts import (
    ARGS,
    a_call,
    a_request,
    a_resolution,
    a_result,
    a_text,
    kinds_of,
    parts_in,
    parts_of,
)
from tests.unit.http.events import DONE, STARTED, entries_of


def test_version_5_gets_permission_requests_as_data_parts() -> None:
    parts = parts_of(
        STARTED, a_call("t"), a_request("t"), a_resolution("t", args={"to": "al"}), a_result("t")
    )

    request = {"requestId": "p-t", "toolCallId": "t", "toolName": "mail", "args": ARGS, "expiresAt": "later"}
    paused, allowed = [part for part in parts if part["type"] == "data-permission"]
    assert paused == {
        "type": "data-permission",
        "id": "p-t",
        "data": {**request, "runId": "r-1", "state": "requested"},
    }
    assert allowed["data"] == {**request, "runId": "r-1", "state": "allowed", "reason": "decided"}
    assert [part["input"] for part in parts if part["type"] == "tool-input-available"] == [ARGS, {"to": "al"}]


def test_version_6_gets_approval_parts_and_the_response_pauses() -> None:
    encoder = AiSdkEncoder("r-1", approvals=True)
    entries = entries_of(STARTED, a_call("t"), a_request("t"), a_resolution("t"), a_result("t"))

    parts = parts_in(encoder.encode(entries[:3]))

    assert parts[-1] == {"type": "tool-approval-request", "approvalId": "p-t", "toolCallId": "t"}
    # Version 6 would not post the approval of what is run elsewhere.
    assert "providerExecuted" not in parts[-2]
    assert encoder.pause_after_s is not None
    assert kinds_of(parts_in(encoder.encode_pause())) == ["finish-step", "finish"]
    assert encoder.encode_pause().endswith(b"data: [DONE]\n\n")
    assert kinds_of(parts_in(encoder.encode(entries[3:]))) == ["tool-output-available t"]
    assert encoder.pause_after_s is None


def test_a_message_has_the_time_at_which_its_run_began() -> None:
    entries = [
        entry._replace(at=1_764_000_000_000 + entry.position)
        for entry in entries_of(STARTED, a_text("m", "Hi"))
    ]
    created = {"runId": "r-1", "createdAt": "2025-11-24T16:00:00.001Z"}

    for after in (0, 1):
        start = parts_in(AiSdkEncoder("r-1", after=after).encode(entries))[0]
        assert start["messageMetadata"] == created


def test_a_denied_call_has_no_other_output() -> None:
    events = (STARTED, a_call("t"), a_request("t"), a_resolution("t", "deny"), a_result("t", is_error=True))

    assert kinds_of(parts_of(*events, approvals=True))[-1] == "tool-output-denied t"


def test_a_client_that_decided_receives_only_later_parts() -> None:
    encoder = AiSdkEncoder("r-1", approvals=True, decided=frozenset({"p-t"}), after=3)

    before = encoder.encode(entries_of(STARTED, a_call("t"), a_request("t")))
    assert encoder.pause_after_s is None
    after = encoder.encode([LogEntry(4, a_resolution("t")), LogEntry(5, a_result("t")), LogEntry(6, DONE)])

    assert before == b""
    assert kinds_of(parts_in(after)) == ["start", "tool-output-available t", "finish-step", "finish"]


def test_parallel_calls_request_approval_one_after_the_other() -> None:
    """Else the step would hold a call without an answer, and the client never post the others."""
    paused = (STARTED, a_call("a"), a_call("b"), Step(step_index=1, step_budget=None), a_request("a"))
    then = (a_resolution("a", "deny"), a_request("b"), a_resolution("b"), a_result("b"), a_text("m", "Done."))

    parts = parts_of(*paused, *then, approvals=True)

    assert [kind for kind in kinds_of(parts)[1:] if kind != "data-step"] == [
        *("start-step", "tool-input-available a", "tool-approval-request a", "tool-output-denied a"),
        *("finish-step", "start-step", "tool-input-available b", "tool-approval-request b"),
        *("tool-output-available b", "finish-step", "start-step", "text-start", "text-delta"),
    ]


def test_a_call_that_needs_approval_beside_a_running_one_has_its_own_step() -> None:
    parts = parts_of(STARTED, a_call("a"), a_call("b"), a_request("b"), a_result("a"), approvals=True)

    assert kinds_of(parts)[1:] == [
        *("start-step", "tool-input-available a", "finish-step"),
        *("start-step", "tool-input-available b", "tool-approval-request b", "tool-output-available a"),
    ]


def test_calls_that_need_approval_together_share_a_step() -> None:
    parts = parts_of(STARTED, a_call("a"), a_call("b"), a_request("a"), a_request("b"), approvals=True)

    assert kinds_of(parts).count("start-step") == 1


def test_a_subagents_call_is_shown_when_it_needs_approval() -> None:
    inner = ToolCallStart(tool_call_id="i", tool_name="mail", args=ARGS, parent_tool_call_id="a")
    result = ToolCallResult(tool_call_id="i", result={}, is_error=False, parent_tool_call_id="a")

    parts = parts_of(
        STARTED, a_call("a"), inner, a_request("i"), a_resolution("i"), result, a_result("a"), approvals=True
    )

    assert kinds_of(parts)[2:] == [
        *("tool-input-available a", "data-subagent", "finish-step", "start-step"),
        *("tool-input-available i", "tool-approval-request i"),
        *("tool-output-available i", "tool-output-available a"),
    ]
