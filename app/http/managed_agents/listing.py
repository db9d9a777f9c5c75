"""The events of a session so far, page by page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.managed_agents.ids import run_of
from app.http.managed_agents.mapper import Event, SessionMapper
from app.http.managed_agents.usage import FROM_RECEIPTS, usage_events
from app.ids import RunKey
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
    has_usage = chosen.types is None or bool(chosen.types & FROM_RECEIPTS)
    for number, turn in enumerate(turns, 1):
        # `after` may be of receipts: the filter of the page before may have been another.
        needs_usage = has_usage or after is not None
        events = await _events_of(services, session, turn, has_usage=needs_usage, has_cost=has_cost)
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


async def _events_of(
    services: Services, session: ManagedSession, turn: SessionTurn, *, has_usage: bool, has_cost: bool
) -> list[Event]:
    run = RunKey(session.conversation.account_id, turn.run_id)
    try:
        entries = await services.runs.events(run)
    except (RunNotFound, RunDeleted):
        return []
    usage = await usage_events(services, session, turn.run_id, has_cost=has_cost) if has_usage else []
    mapper = SessionMapper(turn.run_id, await services.managed.question(run), usage=usage)
    return await services.offload.run(partial(_mapped, mapper, entries), size=len(entries) * _ENTRY_BYTES)


_ENTRY_BYTES: Final = 100


def _mapped(mapper: SessionMapper, entries: Sequence[LogEntry]) -> list[Any]:
    return [event for entry in entries for event in mapper.map(entry)]
