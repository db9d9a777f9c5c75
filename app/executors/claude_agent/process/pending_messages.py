"""PendingMessages: which user messages the CLI has not started to process, and whether a turn runs."""

from claude_agent_sdk import Message, ResultMessage, UserMessage


class PendingMessages:
    """Feed it what is sent to the CLI and every message of the CLI.

    The CLI repeats each user message (`--replay-user-messages`) when it starts to process it. A result
    ends the turn of all messages that were started until then.
    """

    def __init__(self) -> None:
        self._pending: list[str] = []
        self.in_turn = False
        """Whether a turn is running."""
        self.any_turn_started = False

    @property
    def any_pending(self) -> bool:
        """Whether there is a message that the CLI has not started to process."""
        return bool(self._pending)

    @property
    def has_next_turn(self) -> bool:
        """Whether there is more than the message that the current turn begins with."""
        return len(self._pending) > (0 if self.in_turn else 1)

    def add(self, message_id: str) -> None:
        self._pending.append(message_id)

    def continue_turn(self) -> None:
        """A turn runs that began before this process."""
        self.in_turn = self.any_turn_started = True

    def feed(self, message: Message) -> None:
        match message:
            case UserMessage(uuid=str(started)) if started in self._pending:
                self._pending.remove(started)
                self.in_turn = self.any_turn_started = True
            case ResultMessage():
                # A turn that fails at once may end without a repeated user message.
                started_by = self._pending[:1] if not self.in_turn else []
                done = {*started_by, *(message.user_message_uuids or ())}
                self._pending = [message_id for message_id in self._pending if message_id not in done]
                self.in_turn = False
                self.any_turn_started = True
            case _:
                pass
