"""ChunkEncoder: the chunks of a streamed completion."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.http.openai.answer import NOTHING, AnswerOptions, Citations, Received, RunAnswer, in_chat
from app.http.openai.errors import error_json
from app.http.openai.mapper import Delta
from app.http.streaming.encoder import DONE_FRAME, json_frame
from app.runs.events.failures import failure_of
from app.streams.port import LogEntry


class ChunkEncoder(RunAnswer):
    """Encodes a run as one completion with the run's id."""

    def __init__(self, run_id: str, options: AnswerOptions, received: Received = NOTHING) -> None:
        super().__init__(run_id, options, received)
        self._calls = 0
        self._has_begun = False
        self._length = 0
        self._cited = Citations()

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        return "".join(frame for entry in entries for frame in self._frames(entry)).encode("ascii")

    def encode_pause(self) -> bytes:
        """The last chunks of a response to a run that waits."""
        return "".join(self._paused()).encode("ascii")

    def _paused(self) -> Iterator[str]:
        self._is_over = True
        yield from map(self._chunk, self._at_pause())
        yield from self._finish()

    def _frames(self, entry: LogEntry) -> Iterator[str]:
        if self.ended:
            return
        if self._is_answer(entry):
            yield from self._paused()
            return
        yield from map(self._chunk, self._shown(self._new(entry)))
        if not self.ended:
            return
        if (failure := self._failure) is not None:
            error = failure_of(failure)
            yield json_frame(error_json(error.status, failure.error, error.detail))
            yield DONE_FRAME
        else:
            yield from self._finish()

    def _shown(self, deltas: Sequence[Delta]) -> Iterator[Delta]:
        """These, without citations: their places in the text so far are noted."""
        for delta in deltas:
            for page in (pages := delta.get("annotations", ())):
                self._cited.cite(page, self._length)
            if not pages:
                yield delta

    def _chunk(self, delta: Delta) -> str:
        if (calls := delta.get("tool_calls")) is not None:
            delta = {**delta, "tool_calls": [{"index": self._calls, **calls[0]}]}
            self._calls += 1
        if "content" in delta and not self._length:
            # What separates it from the text of an earlier response.
            delta = {**delta, "content": delta["content"].lstrip("\n")}
        self._length += len(delta.get("content", ""))
        if not self._has_begun:
            self._has_begun = True
            delta = {"role": "assistant", "content": "", **delta}
        return self._frame([{"index": 0, "delta": delta, "finish_reason": None}])

    def _finish(self) -> Iterator[str]:
        if self._cited:
            # Of several lists in a stream official clients keep the last one, or fail.
            yield self._chunk({"annotations": [in_chat(each) for each in self._cited]})
        yield self._frame([{"index": 0, "delta": {}, "finish_reason": self._reason}])
        if self._options.has_usage and self._usage is not None:
            yield self._frame([], usage=self._usage)
        yield DONE_FRAME

    def _frame(self, choices: list[Any], **more: Any) -> str:
        return json_frame({**self._fields("chat.completion.chunk"), "choices": choices, **more})
