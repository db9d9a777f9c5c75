"""PostedHistory: the turns of a posted chat, with ids that are made of its contents; pure."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app.http.openai.messages import PostedMessage
from app.http.openai.notice import Notice, split_notice


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user, or all that was answered to one."""

    index: int
    """Of its message, or of its first one."""
    role: Literal["user", "assistant"]
    message: PostedMessage
    """Of an answer, its texts as one."""
    id: str = ""
    """Made of it and of all turns before it."""


@dataclass(slots=True)
class PostedHistory:
    """The turns of a chat, oldest first. System messages are none: each request has its own."""

    turns: list[Turn] = field(default_factory=list)
    waiting: Notice | None = None
    """The run that the last message continues: it waited for a person."""
    results: dict[str, str] = field(default_factory=dict)
    """The results of tools since the last message of the user, by the ids of their calls."""

    @classmethod
    def of(cls, messages: Sequence[PostedMessage]) -> "PostedHistory":
        history = cls()
        for index, message in enumerate(messages):
            history._add(index, message)
        known = ""
        for place, turn in enumerate(history.turns):
            known = _chained(known, turn)
            history.turns[place] = replace(turn, id=known)
        return history

    @property
    def last_answer(self) -> int | None:
        """The place of the last answer in `turns`, if a message of the user is before it."""
        places = range(len(self.turns) - 1, 0, -1)
        return next((place for place in places if self.turns[place].role == "assistant"), None)

    def _add(self, index: int, message: PostedMessage) -> None:
        match message.role:
            case "user" if self._continues():
                # It takes the place of the notice: the model does not get it.
                self.results.clear()
            case "user":
                self.waiting = None
                self.results.clear()
                self.turns.append(Turn(index, "user", message))
            case "tool" if message.tool_call_id is not None:
                self.results[message.tool_call_id] = message.text
            case "assistant":
                self._answer(index, message)
            case _:
                return

    def _continues(self) -> bool:
        return self.waiting is not None and self.turns[-1].role == "assistant"

    def _answer(self, index: int, message: PostedMessage) -> None:
        text, self.waiting = split_notice(message.text.strip())
        text = text.strip()
        if self.turns and self.turns[-1].role == "assistant":
            before = self.turns.pop()
            index, text = before.index, f"{before.message.text}\n\n{text}".strip()
        self.turns.append(Turn(index, "assistant", PostedMessage(role="assistant", content=text)))


def _chained(before: str, turn: Turn) -> str:
    content = turn.message.model_dump_json(include={"content"})
    return hashlib.sha256(json.dumps([before, turn.role, content]).encode()).hexdigest()[:40]
