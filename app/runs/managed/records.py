"""The data of sessions of Managed Agents."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, Final, Literal, TypeAlias

from app.billing.receipts.records import NO_CHARGES, RunTotals
from app.conversations.records import Conversation
from app.ids import ApiKeyId, RunId
from app.requests.client_tools import ClientTool
from app.requests.outcome import RunStatus
from app.requests.wire_models import WireModel
from app.runs.records import UNFINISHED

SessionStatus = Literal["running", "idle"]
PREFIX: Final = "sesn_"
"""How the ids of sessions begin."""

Comparison: TypeAlias = Literal["gt", "gte", "lt", "lte"]
COMPARISONS: Final[Mapping[Comparison, Callable[[Any, Any], Any]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
"""How times are compared, by the names that clients have for it."""


class SessionSettings(WireModel):
    """What each run of a session has, as its conversation's row keeps it."""

    graph_id: str
    api_key_id: ApiKeyId
    """The key that has created it."""
    end_user: str | None = None
    """Of one that was created without a run."""
    model: str | None = None
    """None: the graph's."""
    tools: tuple[ClientTool, ...] = ()
    metadata: Mapping[str, str] = {}
    budget_usd: Decimal | None = None
    """The most that all of its runs may cost."""
    archived_at: datetime | None = None

    def stored(self) -> dict[str, object]:
        """As its conversation's row keeps it."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A run of a session."""

    state_key: str
    run_id: RunId
    turn: int
    status: RunStatus
    started_at: datetime | None
    ended_at: datetime | None
    parked_s: float
    is_asking: bool
    """Whether one of its calls waits for an answer from outside."""
    messages: int | None = None
    """How many messages it had; None of one that has not ended, or whose process was lost."""


@dataclass(frozen=True, slots=True)
class ManagedSession:
    """A session with its runs, oldest first."""

    conversation: Conversation
    settings: SessionSettings
    turns: Sequence[SessionTurn] = ()
    charges: Mapping[str, RunTotals] = field(default_factory=dict)
    """Those of each run so far."""

    @property
    def id(self) -> str:
        """Its id, which is the conversation's key."""
        return self.conversation.state_key

    @property
    def totals(self) -> RunTotals:
        """What its runs have cost."""
        return reduce(RunTotals.plus, (self.charges[each.run_id] for each in self.turns), NO_CHARGES)

    @property
    def unsettled_since(self) -> datetime | None:
        """When a run has ended of which receipts are still being written."""
        unsettled = [
            each.ended_at
            for each in self.turns
            if each.ended_at is not None and self.charges[each.run_id].receipts < (each.messages or 0)
        ]
        return max(unsettled, default=None)

    def until(self, run_id: str) -> "ManagedSession | None":
        """The session at the end of a run; None until it has ended and all receipts are there."""
        ids = [each.run_id for each in self.turns]
        then = replace(self, turns=self.turns[: ids.index(RunId(run_id)) + 1] if run_id in ids else ())
        has_ended = bool(then.turns) and all(each.ended_at is not None for each in then.turns)
        return then if has_ended and then.unsettled_since is None else None

    @property
    def status(self) -> SessionStatus:
        """Whether a run is at work; one that waits for an answer is not."""
        active = (each for each in self.turns if each.status in UNFINISHED)
        return "running" if any(not each.is_asking for each in active) else "idle"

    @property
    def last_turn(self) -> int:
        """The number of its newest run; 0 without one."""
        return self.turns[-1].turn if self.turns else 0

    @property
    def left_usd(self) -> Decimal | None:
        """What is left of its budget; None without one."""
        budget = self.settings.budget_usd
        return None if budget is None else budget - self.totals.cost_usd

    def active_s(self, now: datetime) -> float:
        """For how many seconds its runs have been executed."""
        spans = [
            (each.ended_at or now) - each.started_at - timedelta(seconds=each.parked_s)
            for each in self.turns
            if each.started_at is not None
        ]
        return max(sum(spans, timedelta()), timedelta()).total_seconds()


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions of an account are listed, and in which order; None means all."""

    graph_id: str | None = None
    deployment_id: str | None = None
    created: Sequence[tuple[Comparison, datetime]] = ()
    has_archived: bool = False
    is_ascending: bool = False
    after: tuple[datetime, str] | None = None
    """The last one of the page before: when it was created, and its id."""
