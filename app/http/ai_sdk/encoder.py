"""The Vercel AI SDK's wire: its UI message stream, version 1."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from app.errors import Unauthenticated
from app.events import Done, PermissionRequest
from app.http.ai_sdk.mapper import AiSdkMessageMapper, Part
from app.http.streaming.encoder import EVENT_STREAM
from app.streams.port import LogEntry

_DONE = "data: [DONE]\n\n"


class AiSdkEncoder:
    """A run is one assistant message, whose id is the run's.

    A response ends with the run, or with `approvals` also where `waits`: `pause` is its end then. The
    client posts the message again with what was `answered`, and is told what came after that.
    """

    content_type: ClassVar[str] = EVENT_STREAM
    headers: ClassVar[Mapping[str, str]] = {"x-vercel-ai-ui-message-stream": "v1"}
    # The SDK's clients do not come back by themselves.
    preamble: ClassVar[bytes] = b""

    def __init__(
        self, run_id: str, *, approvals: bool = False, answered: frozenset[str] = frozenset()
    ) -> None:
        """`answered` are requests for consent; nothing is said up to the last one of them."""
        self._message = AiSdkMessageMapper(run_id, approvals)
        self._answered = answered
        self._unheard = set(answered)
        self._started = False

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries, as one chunk."""
        return "".join(frame for entry in entries for frame in self._frames(entry)).encode("ascii")

    @property
    def waits(self) -> bool:
        """Whether a person has to answer before the run goes on, and the client will post that."""
        open_requests = self._message.asked.keys() - self._answered
        return self._message.approvals and not self._unheard and bool(open_requests)

    def pause(self) -> bytes:
        """The end of a response to a run that waits."""
        finish = {"type": "finish", "messageMetadata": self._message.metadata}
        return "".join([_frame({"type": "finish-step"}), _frame(finish), _DONE]).encode("ascii")

    def encode_revoked(self) -> bytes:
        """The end for a reader who may hear no more; the run itself goes on."""
        error = {"type": "error", "errorText": Unauthenticated.code}
        return (_frame(error) + _DONE).encode("ascii")

    def _frames(self, entry: LogEntry) -> Iterator[str]:
        silent = bool(self._unheard)
        parts = list(self._message.feed(entry))
        if isinstance(entry.event, PermissionRequest):
            self._unheard.discard(entry.event.request_id)
        ended = isinstance(entry.event, Done)
        if silent and not ended:
            return
        if not self._started:
            self._started = True
            yield _frame(
                {
                    "type": "start",
                    "messageId": self._message.run_id,
                    "messageMetadata": self._message.metadata,
                }
            )
        yield from map(_frame, parts)
        if ended:
            yield _DONE


def _frame(part: Part) -> str:
    return f"data: {json.dumps(part, separators=(',', ':'))}\n\n"
