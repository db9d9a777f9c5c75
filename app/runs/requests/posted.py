"""PostedRun: a request to start a run, before anything about it is stored."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from app.conversations.branching.records import InPlaceOf, Place
from app.conversations.cuts.answer_cuts import ShownAnswer
from app.errors import Conflict
from app.executors.port import NO_SCHEMAS, RunSchemas
from app.ids import RunId, RunKey
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.deletion.service import with_contents
from app.runs.records import RunRecord

_HALF: Final = 16
"""How many bytes of a fingerprint are those of the key."""


class RunIdTaken(Conflict):
    """There already is a run with this id or Idempotency-Key and a different request."""

    code = "run_id_taken"


class BegunSession(NamedTuple):
    """What makes a session of Managed Agents of the conversation that a run begins."""

    managed: Mapping[str, Any]
    """What its later runs have."""
    deployment_id: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """How a client posted the message that a run answers."""

    place: Place | None = None
    """None: at the end of the conversation's current branch."""
    message_id: str | None = None
    """The client's id of the message."""
    fingerprint: bytes | None = None
    """Equal for posts that the same run answers, whatever else they contain; None: that of the request."""
    shown_answer: ShownAnswer | None = None
    """What the client shows of the answer before the message, if that may not be all."""
    cancels_earlier: bool = False
    """Whether the user has left the active runs of the conversation."""
    schemas: RunSchemas = NO_SCHEMAS
    """Those of the request that are prepared already."""
    begins: BegunSession | None = None


AT_THE_END = MessageOrigin()


class Posting(TypedDict):
    """What every wire knows of the request that posts a run, besides its body."""

    request_id: str | None
    idempotency_key: NotRequired[str | None]
    fingerprint: NotRequired[bytes | None]
    """Of the key, the path and the body: where a request has no form of its own to compare."""
    caller_trace: NotRequired[CallerTrace | None]
    """The span that the request's `traceparent` names."""


def part_of(posting: Posting, index: int) -> Posting:
    """The same for one of the messages of a request; each has its own key."""
    key = posting.get("idempotency_key")
    return posting if key is None else Posting(**{**posting, "idempotency_key": f"{key}#{index}"})


def fingerprint_of(key: str, path: str, body: bytes) -> bytes:
    """Of the key, the path and the body of a request."""
    digests = [hashlib.sha256(each).digest() for each in (key.encode(), path.encode() + b"\0" + body)]
    return b"".join(each[:_HALF] for each in digests)


def has_same_key(fingerprint: bytes, other: bytes) -> bool:
    """Whether the requests with these fingerprints had the same key."""
    return fingerprint[:_HALF] == other[:_HALF]


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
        return joined(self.caller, existing, self.fingerprint)


def joined(caller: Principal, existing: RunRecord, fingerprint: bytes) -> RunRecord:
    """The run that an equal request has started; raises `ScopeMissing`, `RunIdTaken`, `RunDeleted`."""
    # First, because whether the requests are equal reveals something about the existing one.
    caller.require_reading(existing.api_key_id, existing.labels.end_user)
    if existing.request_hash != fingerprint:
        raise RunIdTaken
    return with_contents(existing)


def origin_of(request: GraphRunRequest) -> MessageOrigin:
    """How a client of ours has posted the message: at the end of the conversation, or in place of a run."""
    if request.fork_from is None:
        return AT_THE_END
    return MessageOrigin(place=InPlaceOf(RunId(request.fork_from)))
