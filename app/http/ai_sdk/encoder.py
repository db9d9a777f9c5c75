"""AiSdkEncoder: the UI message stream of the Vercel AI SDK, version 1."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from app.errors import Unauthenticated
from app.events import Done, PermissionRequest
from app.http.ai_sdk.mapper import AiSdkMessageMapper, Part
from app.http.streaming.encoder import EVENT_STREAM
from app.streams.port import LogEntry

PAUSE_AFTER_S: Final = 0.05
"""Long enough to receive all stored events: a replay may contain the decision of a pending request."""

PAUSE_AT_LATEST_S: Final = 1.0
"""The same while other events keep arriving, for example those of a subagent that runs beside the call."""

_DONE = "data: [DONE]\n\n"


class AiSdkEncoder:
    """Encodes a run as one assistant message with the run's id.

    A response ends with the run or, with `approvals`, where a tool call waits for a person. The client then
    posts the message again with the decisions, and receives the parts that follow the decided requests.
    """

    content_type: ClassVar[str] = EVENT_STREAM
    headers: ClassVar[Mapping[str, str]] = {"x-vercel-ai-ui-message-stream": "v1"}
    pause_at_latest_s: ClassVar[float | None] = PAUSE_AT_LATEST_S
    # The SDK's clients do not reconnect automatically.
    preamble: ClassVar[bytes] = b""

    def __init__(
        self, run_id: str, *, approvals: bool = False, decided: frozenset[str] = frozenset()
    ) -> None:
        """`decided` are request ids; nothing is sent up to the last of these requests."""
        self._mapper = AiSdkMessageMapper(run_id, approvals)
        self._decided = decided
        self._requests_to_skip = set(decided)
        self._ended = False
        self._started = False

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries as one chunk."""
        return "".join(frame for entry in entries for frame in self._frames(entry)).encode("ascii")

    @property
    def ended(self) -> bool:
        """Whether the run's end has been encoded."""
        return self._ended

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the pause; None if no request waits for a decision of this client."""
        undecided = self._mapper.pending.keys() - self._decided
        pauses = self._mapper.approvals and not self._requests_to_skip and bool(undecided)
        return PAUSE_AFTER_S if pauses else None

    def encode_pause(self) -> bytes:
        """The last frames of a response to a run that waits for a person."""
        finish = {"type": "finish", "messageMetadata": self._mapper.metadata}
        return "".join([_frame({"type": "finish-step"}), _frame(finish), _DONE]).encode("ascii")

    def encode_revoked(self) -> bytes:
        """End the response of a reader whose credential was revoked; the run continues."""
        error = {"type": "error", "errorText": Unauthenticated.code}
        return (_frame(error) + _DONE).encode("ascii")

    def _frames(self, entry: LogEntry) -> Iterator[str]:
        is_skipped = bool(self._requests_to_skip)
        parts = list(self._mapper.map(entry))
        if isinstance(entry.event, PermissionRequest):
            self._requests_to_skip.discard(entry.event.request_id)
        self._ended = isinstance(entry.event, Done)
        if is_skipped and not self._ended:
            return
        if not self._started:
            self._started = True
            yield _frame(
                {
                    "type": "start",
                    "messageId": self._mapper.run_id,
                    "messageMetadata": self._mapper.metadata,
                }
            )
        yield from map(_frame, parts)
        if self._ended:
            yield _DONE


def _frame(part: Part) -> str:
    return f"data: {json.dumps(part, separators=(',', ':'))}\n\n"
