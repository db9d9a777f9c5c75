"""Which tool calls of a run wait for a person's decision; pure."""

from collections.abc import Sequence

from app.events import PermissionRequest, PermissionResolved, RunStarted
from app.streams.port import LogEntry


def undecided_requests(log: Sequence[LogEntry]) -> set[str]:
    """The ids of the permission requests in a run's log that have no decision."""
    undecided = set[str]()
    for _, event, _ in log:
        match event:
            case RunStarted():
                # Requests of an earlier attempt are void.
                undecided.clear()
            case PermissionRequest(request_id=request_id):
                undecided.add(request_id)
            case PermissionResolved(request_id=request_id):
                undecided.discard(request_id)
            case _:
                pass
    return undecided
