"""Permission requests that nobody has decided."""

import pytest

from app.events import ClientEvent, PermissionRequest, PermissionResolved, RunStarted, TextDelta
from app.runs.events.undecided import undecided_requests
from app.streams.port import LogEntry


def started(attempt: int = 0) -> RunStarted:
    return RunStarted(run_id="r", graph_id="messages:mailer", model="sonnet", attempt=attempt)


def request(name: str, parent: str | None = None) -> PermissionRequest:
    return PermissionRequest(
        request_id=name,
        tool_call_id=name,
        tool_name="mail",
        args={},
        expires_at="later",
        parent_tool_call_id=parent,
    )


def resolved(name: str) -> PermissionResolved:
    return PermissionResolved(request_id=name, decision="deny", reason="expired")


TEXT = TextDelta(message_id="m", delta="x")


@pytest.mark.parametrize(
    ("events", "undecided"),
    [
        ([], set()),
        ([started(), TEXT], set()),
        ([started(), request("a"), TEXT], {"a"}),
        ([started(), request("a"), request("b", "subagent"), resolved("a")], {"b"}),
        ([started(), request("a"), resolved("a")], set()),
        ([started(), request("a"), started(1)], set()),
        ([started(), request("a"), started(1), request("c")], {"c"}),
    ],
)
def test_a_request_waits_until_it_is_resolved_or_its_attempt_is_over(
    events: list[ClientEvent], undecided: set[str]
) -> None:
    assert undecided_requests([LogEntry(n, event) for n, event in enumerate(events, start=1)]) == undecided
