"""RunAnswer: how far a run has answered, as clients of OpenAI's API see it, and where a response ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.errors import Unauthenticated
from app.events import Done, PermissionResolved, QuestionResolved, RunError, ToolCallResult
from app.http.openai.errors import error_json
from app.http.openai.mapper import CompletionMapper, Delta
from app.http.openai.notice import Notice, notice
from app.http.streaming import encoder
from app.http.streaming.pausing import Waiting, asked_in, what_waits
from app.http.streaming.stopping import ServerStopping
from app.requests.outcome import ErrorCode
from app.streams.port import LogEntry

_REASONS: Final[dict[ErrorCode, str]] = {"length": "length", "context": "length", "refused": "content_filter"}
"""The errors that are reasons to finish here; all others are errors."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What a response depends on besides its run."""

    model: str
    is_object: bool
    """Whether the answer is JSON that matches a schema."""
    has_usage: bool
    """Whether the last chunk of a stream has the usage."""
    page: str
    """The URL where a person answers what waits."""


@dataclass(frozen=True, slots=True)
class Received:
    """What a client has of a run that it continues."""

    position: int = 0
    """Nothing is sent up to there."""
    answered: frozenset[str] = frozenset()
    """What waits no more: requests that need no person, and calls of client tools with posted results."""


NOTHING: Final = Received()


class RunAnswer(encoder.PausingEncoder):
    """Receives the entries of a run in order.

    A response ends with the run, where the client has to execute tools, or where a person has to answer:
    then its text ends with a notice, which the client posts back with the chat. It ends before the first
    answer to what has waited in it: so a replay is the same, whenever a client comes.
    """

    def __init__(self, run_id: str, options: AnswerOptions, received: Received = NOTHING) -> None:
        self._mapper = CompletionMapper(run_id, options.is_object)
        self._options = options
        self._received = received
        self._position = 0
        self._created_s = 0
        self._asked: set[str] = set()
        """What has begun to wait in this response."""
        self._is_over = False
        """Whether it has ended before the run."""

    @property
    def ended(self) -> bool:
        return self._is_over or self._mapper.done is not None

    @property
    def pause_after_s(self) -> float | None:
        """Seconds of idle time before the pause; None if nothing waits for this client."""
        if self._position < self._received.position:
            return None
        if self._for_person:
            return encoder.PAUSE_AFTER_S
        if self._for_client:
            return (
                encoder.PAUSE_BESIDE_CALLS_AFTER_S if self._mapper.has_open_calls else encoder.PAUSE_AFTER_S
            )
        return None

    def encode_revoked(self) -> bytes:
        """End the response of a reader whose credential was revoked; the run continues."""
        error = error_json(Unauthenticated.status, Unauthenticated.code, encoder.REVOKED_MESSAGE)
        return encoder.json_frame(error).encode("ascii")

    def encode_stopping(self) -> bytes:
        """An error: a stream that only ends looks like a complete answer to some clients."""
        error = error_json(ServerStopping.status, ServerStopping.code, encoder.STOPPING_MESSAGE)
        return encoder.json_frame(error).encode("ascii")

    @property
    def _for_person(self) -> list[Waiting]:
        answered = self._received.answered
        return [each for name, each in self._mapper.pending.items() if name not in answered]

    @property
    def _for_client(self) -> set[str]:
        return self._mapper.waiting - self._received.answered

    @property
    def _failure(self) -> RunError | None:
        error = self._mapper.error
        return None if error is None or error.error in _REASONS else error

    @property
    def _reason(self) -> str:
        if self._mapper.done is None:
            return "tool_calls" if self._for_client and not self._for_person else "stop"
        return "stop" if self._mapper.error is None else _REASONS.get(self._mapper.error.error, "stop")

    @property
    def _usage(self) -> dict[str, Any] | None:
        """The tokens of the whole run; None before its end."""
        if (done := self._mapper.done) is None:
            return None
        return token_usage(done, "prompt", "completion")

    def _new(self, entry: LogEntry) -> list[Delta]:
        """What an entry adds to the answer, if the client does not have it."""
        self._created_s = self._created_s or entry.at // 1000
        deltas = list(self._mapper.map(entry))
        self._position = entry.position
        if entry.position <= self._received.position:
            return []
        self._asked.update(asked_in([entry]))
        return deltas

    def _is_answer(self, entry: LogEntry) -> bool:
        """Whether the client has to ask for what follows, which answers what has waited."""
        match entry.event:
            case PermissionResolved(request_id=name, reason="decided"):
                return name in self._asked
            case QuestionResolved(request_id=name, resolved_by="answered" | "declined"):
                return name in self._asked
            case ToolCallResult(tool_call_id=name):
                return name in self._asked and name in self._mapper.waiting
            case _:
                return False

    def _at_pause(self) -> Iterator[Delta]:
        """What the answer ends with where the run waits."""
        yield from self._notice(self._for_person)

    def _notice(self, waiting: Sequence[Waiting]) -> Iterator[Delta]:
        if waiting:
            waits = Notice(self._mapper.run_id, self._position)
            yield {"content": "\n\n" + notice("; ".join(map(what_waits, waiting)), self._options.page, waits)}

    def _fields(self, kind: str) -> dict[str, Any]:
        known = {"id": f"chatcmpl-{self._mapper.run_id}", "object": kind}
        return {**known, "created": self._created_s, "model": self._options.model}


class Citations(list[Delta]):
    """The pages that a text is based on, each with the part of the text before it."""

    def cite(self, page: Delta, length: int) -> Delta | None:
        """A page is cited after so much text; None if it is already for the same part."""
        before = [each for each in self if each["end_index"] < length]
        start = before[-1]["end_index"] if before else 0
        cited = {"type": "url_citation", **page, "start_index": start, "end_index": length}
        if cited in self:
            return None
        self.append(cited)
        return cited


def in_chat(cited: Delta) -> Delta:
    return {"type": cited["type"], "url_citation": {name: cited[name] for name in cited if name != "type"}}


def token_usage(done: Done, of_input: str, of_output: str) -> dict[str, Any]:
    """The tokens of a run; what the provider counts as reasoning is not known."""
    usage, (read, written) = done.usage, done.cached or (0, 0)
    return {
        f"{of_input}_tokens": usage.prompt_tokens,
        f"{of_input}_tokens_details": {
            "cached_tokens": read,
            "cache_write_tokens": written,
        },
        f"{of_output}_tokens": usage.completion_tokens,
        f"{of_output}_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
