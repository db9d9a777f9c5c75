"""Waits: the port by which calls that wait for an answer are stored with their run."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from app.events import ResolvedBy
from app.platform.clock.clock import host_time

WaitKind = Literal["permission", "question", "client_tool", "budget"]


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call that waits, or has waited, for an answer from outside."""

    call_id: str
    """By which it is answered; unique in its run."""
    kind: WaitKind
    tool_call_id: str | None
    """The tool call that goes on with the answer; None for the question of a tool server."""
    request: dict[str, Any]
    """The event that asks for the answer."""
    expires_at: datetime
    resolved_by: ResolvedBy | None = None
    """None while it waits."""
    answer: Any = None
    """As JSON; only of a call that was decided."""
    is_parked: bool = False
    """Whether an attempt has left it to the next one, which has not begun with it."""


class Waits(Protocol):
    """The stored calls of one run, as the process that executes an attempt of it sees them."""

    def now(self) -> datetime:
        """The time of the clock by which stored calls expire."""
        ...

    async def open(self, call: StoredCall) -> None:
        """Store a call before its request is published; raises `Unavailable`, `WriterFenced`."""
        ...

    async def resolve(
        self, call_id: str, resolved_by: ResolvedBy, answer: object = None
    ) -> tuple[ResolvedBy, Any] | None:
        """Resolve a call unless it is resolved; returns what it is resolved by, and its answer.

        None for a call that is not stored. Raises `Unavailable`, and `WriterFenced` if another attempt, or
        none, executes the run now.
        """
        ...

    async def resume(self) -> None:
        """What the run was parked with is used from now on: if this attempt is lost, it is not repeated.

        To be awaited before the first effect of a call that was parked. Raises `Unavailable`, `WriterFenced`.
        """
        ...


class UnstoredWaits:
    """Calls that only live as long as the attempt: it cannot be parked."""

    def now(self) -> datetime:
        return host_time()

    async def open(self, call: StoredCall) -> None:
        """See the port."""

    async def resolve(
        self,
        call_id: str,  # noqa: ARG002 - the port's signature
        resolved_by: ResolvedBy,
        answer: object = None,
    ) -> tuple[ResolvedBy, Any] | None:
        return resolved_by, answer

    async def resume(self) -> None:
        """See the port."""
