"""The data of calls that wait, as their account sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.executors.waiting.port import WaitKind
from app.ids import RunId


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls to list; None: all."""

    kind: WaitKind | None = None
    graph_id: str | None = None
    run_ids: Sequence[str] | None = None
    state_key: str | None = None
    end_user: str | None = None


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that waits for an answer."""

    run_id: RunId
    call_id: str
    kind: WaitKind
    graph_id: str
    state_key: str | None
    request: dict[str, Any]
    """The event that asks for the answer."""
    requested_at: datetime
    expires_at: datetime

    @property
    def place(self) -> str:
        return f"{self.run_id}/{self.call_id}"
