"""The events of a session so far, page by page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any, Final

from app.billing.receipts.records import Receipt
from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.managed_agents.ids import run_of
from app.http.managed_agents.mapper import Event, SessionMapper
from app.http.managed_agents.usage import FROM_RECEIPTS, usage_events
from app.ids import RunId, RunKey
from app.runs.commands.service import RunNotFound
from app.runs.deletion.service import RunDeleted
from app.runs.managed.records import COMPARISONS, Comparison, ManagedSession, SessionTurn
from app.streams.port import LogEntry

_MOST_RUNS: Final = 20
"""How many runs a page examines: it may have few events, or none, before the last one."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events of a session are listed."""

    limit: int
    is_ascending: bool = True
    after: str | None = None
    """The last event of the page before."""
    types: frozenset[str] | None = None
    processed: Mapping[Comparison, datetime] = field(default_factory=dict)
    """When, by the names of the comparisons."""

    def chooses(self, event: Event) -> bool:
        """Whether an event is listed."""
        if self.types is not None and event["type"] not in self.types:
            return False
        at = datetime.fromisoformat(event["processed_at"])
        return all(COMPARISONS[name](at, moment) for name, moment in self.processed.items())


async def page_of_events(
    services: Services, session: ManagedSession, chosen: EventFilter, *, has_cost: bool
) -> tuple[list[Event], str | None]:
    """The chosen events, and the id of the last one if there may be more; raises `Invalid` for `after`."""
    turns = list(session.turns if chosen.is_ascending else reversed(session.turns))
    after = chosen.after
    if after is not None:
        turns = turns[_index_of(turns, after) :]
    found: list[Event] = []
    # `after` may be of receipts: the filter of the page before may have been another.
    has_usage = after is not None or chosen.types is None or bool(chosen.types & FROM_RECEIPTS)
    reading = _Reading(services, session, has_usage=has_usage, has_cost=has_cost)
    for number, turn in enumerate(turns, 1):
        if turn.run_id not in reading.questions:
            await reading.look_up(turns[number - 1 :], most=chosen.limit)
        events = await reading.events_of(turn.run_id)
        for event in _rest(events if chosen.is_ascending else events[::-1], after):
            if chosen.chooses(event):
                found.append(event)
            if len(found) == chosen.limit:
                return found, event["id"]
        if number == _MOST_RUNS and events and number < len(turns):
            return found, events[-1 if chosen.is_ascending else 0]["id"]
        after = None
    return found, None


def _index_of(turns: Sequence[SessionTurn], after: str) -> int:
    run_id = run_of(after)
    for index, turn in enumerate(turns):
        if turn.run_id == run_id:
            return index
    raise Invalid.field("page", "is not a page of this list")


def _rest(events: Sequence[Event], after: str | None) -> Iterator[Event]:
    """The events after this one."""
    ids = [event["id"] for event in events]
    start = ids.index(after) + 1 if after in ids else 0
    yield from events[start:]


@dataclass(slots=True)
class _Reading:
    """The reading of a page, with what was looked up for several of its runs together."""

    services: Services
    session: ManagedSession
    has_usage: bool
    has_cost: bool
    questions: dict[str, str] = field(default_factory=dict)
    receipts: dict[RunId, list[Receipt]] = field(default_factory=dict)

    async def look_up(self, turns: Sequence[SessionTurn], *, most: int) -> None:
        """Read what is needed of the next runs: as far as they have `most` receipts, but of one at least."""
        counts = accumulate(self.session.charges[each.run_id].receipts for each in turns[:_MOST_RUNS])
        number = max(1, sum(count <= most for count in counts))
        account_id, run_ids = self.session.conversation.account_id, [each.run_id for each in turns[:number]]
        known = await self.services.managed.questions(account_id, run_ids)
        self.questions |= {run_id: known.get(run_id, "") for run_id in run_ids}
        if self.has_usage:
            self.receipts |= await self.services.billing.of_runs(account_id, run_ids)

    async def events_of(self, run_id: RunId) -> list[Event]:
        """Those of a run that was looked up; none of one that is deleted."""
        try:
            entries = await self.services.runs.events(RunKey(self.session.conversation.account_id, run_id))
        except (RunNotFound, RunDeleted):
            return []
        usage: list[Event] = []
        if (receipts := self.receipts.get(run_id)) is not None:
            usage = usage_events(self.session, run_id, receipts, has_cost=self.has_cost)
        mapper = SessionMapper(run_id, self.questions[run_id], usage=usage)
        mapped = partial(_mapped, mapper, entries)
        return await self.services.offload.run(mapped, size=len(entries) * _ENTRY_BYTES)


_ENTRY_BYTES: Final = 100


def _mapped(mapper: SessionMapper, entries: Sequence[LogEntry]) -> list[Any]:
    return [event for entry in entries for event in mapper.map(entry)]
