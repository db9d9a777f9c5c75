"""PostedRun: a request to start a run, before anything about it is stored."""

from dataclasses import dataclass

from app.conversations.branching.records import InPlaceOf
from app.errors import Conflict
from app.ids import RunId, RunKey
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.principal import Principal
from app.requests.runs import GraphRunRequest
from app.runs.deletion.service import with_contents
from app.runs.records import AT_THE_END, MessageOrigin, RunRecord


class RunIdTaken(Conflict):
    """There already is a run with this id and a different request."""

    code = "run_id_taken"


@dataclass(frozen=True, slots=True)
class PostedRun:
    """A request, who has posted it, and the run that it starts or joins."""

    run: RunKey
    caller: Principal
    request: GraphRunRequest
    origin: MessageOrigin = AT_THE_END
    fingerprint: bytes = b""
    """Equal for requests that the same run answers."""
    request_id: str | None = None
    caller_trace: CallerTrace | None = None

    def join(self, existing: RunRecord) -> RunRecord:
        """The run with this id; raises `ScopeMissing`, `RunIdTaken`, `RunDeleted`."""
        # First, because whether the requests are equal reveals something about the existing one.
        self.caller.require_reading(existing.api_key_id)
        if existing.request_hash != self.fingerprint:
            raise RunIdTaken
        return with_contents(existing)


def origin_of(request: GraphRunRequest) -> MessageOrigin:
    """How a client of ours has posted the message: at the end of the conversation, or in place of a run."""
    if request.fork_from is None:
        return AT_THE_END
    return MessageOrigin(place=InPlaceOf(RunId(request.fork_from)))
