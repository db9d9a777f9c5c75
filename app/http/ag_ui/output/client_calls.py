"""ClientCalls: the calls of client tools in a run that is mapped to AG-UI."""

from typing import NamedTuple

from ag_ui.core import RunFinishedSuccessOutcome

from app.events import ToolCallStart


class BegunCall(NamedTuple):
    """A call that the client has not got yet, and the message of the model that it belongs to."""

    event: ToolCallStart
    message: str | None


class EndedCall(NamedTuple):
    """What the client lacks of a call that has ended."""

    unsent: BegunCall | None
    """The call, if it has not got it."""
    is_known: bool
    """Whether it has posted the result itself."""


class ClientCalls:
    """Which calls the client has, and which of them wait for its results."""

    def __init__(self, answered: frozenset[str], *, names_pending: bool) -> None:
        """`answered` are the calls whose results the client has posted: it has them.

        `names_pending`: the client knows `pendingToolCallIds`, which those before AG-UI 1.0 reject.
        """
        self._names_pending = names_pending
        self._answered = answered
        self._begun: dict[str, BegunCall] = {}
        self._sent: dict[str, None] = {}

    @property
    def waiting(self) -> list[str]:
        """The calls without a result, also those of earlier AG-UI runs, in order."""
        return [call_id for call_id in self._sent if call_id not in self._answered]

    def outcome(self) -> RunFinishedSuccessOutcome | None:
        """How an AG-UI run with waiting calls ends: they do not interrupt it, they complete it.

        None before 1.0: assistant-ui would take `success` for the end of the calls as well.
        """
        if not self._names_pending:
            return None
        return RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=self.waiting)

    def forget(self) -> None:
        """Another attempt of the run begins: no call of the earlier one waits."""
        self._begun.clear()
        self._sent.clear()

    def start(self, event: ToolCallStart, message: str | None) -> None:
        """The model has made a call."""
        self._begun[event.tool_call_id] = BegunCall(event, message)

    def wait(self, call_id: str) -> BegunCall | None:
        """The call waits for the client; returns what to send of it."""
        self._sent[call_id] = None
        return self._begun.pop(call_id, None)

    def end(self, call_id: str) -> EndedCall:
        """The call has a result; also for calls of other tools, of which the client has everything."""
        self._sent.pop(call_id, None)
        return EndedCall(self._begun.pop(call_id, None), call_id in self._answered)
