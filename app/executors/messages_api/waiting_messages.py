"""WaitingMessages: what clients send to a running agent, until the agent takes it; pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.executors.inbox import RunEnded
from app.requests.messages import SentMessage


@dataclass(slots=True)
class WaitingMessages:
    """The messages that the agent has not got."""

    interrupt: Callable[[], None]
    """Ends the current turn, for a message with the priority `now`."""
    _waiting: list[SentMessage] = field(default_factory=list)
    _closed: bool = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, sent: SentMessage) -> None:
        """Keep a message; raises `RunEnded` if the agent takes no more."""
        if self._closed:
            raise RunEnded
        self._waiting.append(sent)
        if sent.priority == "now":
            self.interrupt()

    def take_urgent(self) -> Sequence[SentMessage]:
        """Those that are for the current turn."""
        taken = [sent for sent in self._waiting if sent.priority != "later"]
        self._waiting = [sent for sent in self._waiting if sent.priority == "later"]
        return taken

    def take_next(self) -> Sequence[SentMessage]:
        """Those that are for the next turn: the urgent ones together, or else the first; empty if none."""
        if urgent := self.take_urgent():
            return urgent
        taken, self._waiting = self._waiting[:1], self._waiting[1:]
        return taken

    def close(self) -> None:
        """The agent takes no more."""
        self._closed = True
