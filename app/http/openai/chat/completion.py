"""WholeCompletion: the whole completion as one object."""

from collections.abc import Sequence
from typing import Any

from app.http.openai.answer import NOTHING, AnswerOptions, Citations, Received, RunAnswer, in_chat
from app.http.openai.mapper import CompletionMapper, Delta
from app.http.streaming.discarded_entries import discarded_in, not_discarded
from app.runs.events.failures import failure_of
from app.streams.port import LogEntry


class WholeCompletion(RunAnswer):
    """Keeps what a run answers; nothing is encoded before it is complete."""

    def __init__(self, run_id: str, options: AnswerOptions, received: Received = NOTHING) -> None:
        super().__init__(run_id, options, received)
        self._entries: list[LogEntry] = []
        self._ending: list[Delta] = []

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        for entry in entries:
            if self.ended:
                break
            if self._is_answer(entry):
                return self.encode_pause()
            self._new(entry)
            self._entries.append(entry)
        return b""

    def encode_pause(self) -> bytes:
        self._is_over = True
        self._ending = list(self._at_pause())
        return b""

    @property
    def content(self) -> dict[str, Any]:
        """The completion; raises what `failure_of` the run is."""
        if (failure := self._failure) is not None:
            raise failure_of(failure, run_id=self._mapper.run_id)
        choice = {"index": 0, "message": self._message(), "finish_reason": self._reason, "logprobs": None}
        completion = {**self._fields("chat.completion"), "choices": [choice]}
        return completion if self._usage is None else {**completion, "usage": self._usage}

    def _message(self) -> dict[str, Any]:
        """What clients put together from the chunks, without the messages that were discarded."""
        mapper = CompletionMapper(self._mapper.run_id, self._options.is_object)
        kept = not_discarded(self._entries, discarded_in(self._entries))
        added = [(entry.position, delta) for entry in kept for delta in mapper.map(entry)]
        deltas = [delta for position, delta in added if position > self._received.position] + self._ending
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        reasoning = "".join(delta.get("reasoning_content", "") for delta in deltas)
        texts: list[str] = []
        cited = Citations()
        for delta in deltas:
            text = delta.get("content", "")
            if text := text if texts else text.lstrip():
                texts.append(text)
            for page in delta.get("annotations", ()):
                cited.cite(page, sum(map(len, texts)))
        content = "".join(texts).strip()
        # After blanks that are left out.
        for each in cited:
            each["end_index"] = min(each["end_index"], len(content))
        return {
            "role": "assistant",
            "content": content or None,
            "refusal": None,
            **({"annotations": [in_chat(each) for each in cited]} if cited else {}),
            **({"reasoning_content": reasoning} if reasoning else {}),
            **({"tool_calls": calls} if calls else {}),
        }
