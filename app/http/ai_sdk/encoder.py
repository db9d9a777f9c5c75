"""AiSdkEncoder: the UI message stream of the Vercel AI SDK, version 1."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from app.errors import Unauthenticated
from app.events import Done
from app.http.ai_sdk.mapper import OLDEST_VERSION, AiSdkMessageMapper
from app.http.streaming.encoder import (
    DONE_FRAME,
    PAUSE_AFTER_S,
    PAUSE_BESIDE_CALLS_AFTER_S,
    PausingEncoder,
    json_frame,
)
from app.http.streaming.stopping import ServerStopping
from app.streams.port import LogEntry


class AiSdkEncoder(PausingEncoder):
    """Encodes a run as one assistant message with the run's id.

    A response ends with the run, where the client has to execute a tool or, with `approvals`, where a tool
    call waits for a person. The client then posts the message again with the results or decisions, and
    receives the parts that follow those calls.
    """

    headers: ClassVar[Mapping[str, str]] = {"x-vercel-ai-ui-message-stream": "v1"}

    def __init__(
        self,
        run_id: str,
        *,
        approvals: bool = False,
        decided: frozenset[str] = frozenset(),
        version: int = OLDEST_VERSION,
        answered: frozenset[str] = frozenset(),
        after: int = 0,
    ) -> None:
        """Nothing is sent up to the position `after`: the client has it.

        `decided` are the ids of requests that the client has decided, `answered` the calls of client tools
        whose results it has posted.
        """
        self._mapper = AiSdkMessageMapper(run_id, approvals, version, answered=answered)
        self._decided = decided
        self._answered = answered
        self._after = after
        self._position = 0
        self._ended = False
        self._started = False

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries as one chunk."""
        return "".join(frame for entry in entries for frame in self._frames(entry)).encode("ascii")

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the pause; None if nothing waits for this client."""
        if self._position < self._after:
            return None
        if self._mapper.approvals and self._mapper.pending.keys() - self._decided:
            return PAUSE_AFTER_S
        if self._mapper.waiting - self._answered:
            return PAUSE_BESIDE_CALLS_AFTER_S if self._mapper.has_open_calls else PAUSE_AFTER_S
        return None

    def encode_pause(self) -> bytes:
        """The last frames of a response to a run that waits for a person."""
        finish = self._mapper.finish("tool-calls", self._mapper.metadata)
        frames = [*self._start(), json_frame({"type": "finish-step"}), json_frame(finish), DONE_FRAME]
        return "".join(frames).encode("ascii")

    def encode_revoked(self) -> bytes:
        """End the response of a reader whose credential was revoked; the run continues."""
        error = {"type": "error", "errorText": Unauthenticated.code}
        return (json_frame(error) + DONE_FRAME).encode("ascii")

    def encode_stopping(self) -> bytes:
        """An error: a stream that only ends looks like a complete answer to every release."""
        return json_frame({"type": "error", "errorText": ServerStopping.code}).encode("ascii")

    def _frames(self, entry: LogEntry) -> Iterator[str]:
        parts = list(self._mapper.map(entry))
        self._position = entry.position
        self._ended = isinstance(entry.event, Done)
        if entry.position <= self._after and not self._ended:
            return
        yield from self._start()
        yield from map(json_frame, parts)
        if self._ended:
            yield DONE_FRAME

    def _start(self) -> Iterator[str]:
        """The first frame of the response, once."""
        if not self._started:
            self._started = True
            metadata = self._mapper.metadata
            yield json_frame({"type": "start", "messageId": self._mapper.run_id, "messageMetadata": metadata})
