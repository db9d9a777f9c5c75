"""Events made of receipts: what a run has requested of models, and what its session had used by its end."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from app.billing.receipts.records import Receipt
from app.http.managed_agents.ids import event_id
from app.http.managed_agents.mapper import Event
from app.http.managed_agents.schemas import SessionUsage
from app.ids import RunId
from app.runs.managed.records import ManagedSession

FROM_RECEIPTS: Final = frozenset(
    {
        *("session.usage", "span.model_request_start", "span.model_request_end"),
        "agent.thread_context_compacted",
    }
)
"""The types of these events."""


def usage_events(
    session: ManagedSession, run_id: RunId, receipts: Sequence[Receipt], *, has_cost: bool
) -> list[Event]:
    """Both of a run with these receipts; none while receipts are missing."""
    usage = usage_event(session, run_id, has_cost=has_cost)
    return [] if usage is None else [*request_events(receipts), usage]


def usage_event(session: ManagedSession, run_id: str, *, has_cost: bool) -> Event | None:
    """What a session had used at the end of a run; None while receipts are missing."""
    if (then := session.until(run_id)) is None:
        return None
    at = then.turns[-1].ended_at or datetime.now(UTC)
    usage = SessionUsage.of(then, active_s=then.active_s(at), has_cost=has_cost)
    return {
        "type": "session.usage",
        "id": event_id(run_id, "usage"),
        "usage": usage.model_dump(mode="json"),
    }


def request_events(receipts: Sequence[Receipt]) -> Iterator[Event]:
    """The requests of a run to models: one for each message that was charged, in the order of receipts."""
    for each in receipts:
        # The message has a receipt of its own.
        if each.basis == "adjustment":
            continue
        start = event_id(each.run_id, f"request.{each.attempt}.{each.usage_unit_id}")
        yield {"type": "span.model_request_start", "id": start}
        usage = {
            "input_tokens": each.input_tokens,
            "output_tokens": each.output_tokens,
            "cache_read_input_tokens": each.cache_read_tokens,
            "cache_creation_input_tokens": each.cache_write_5m_tokens + each.cache_write_1h_tokens,
            "speed": each.speed,
        }
        known = {"id": f"{start}.end", "model_request_start_id": start, "model_usage": usage}
        yield {"type": "span.model_request_end", **known, "is_error": None}
        if each.stop_reason == "compaction":
            yield {"type": "agent.thread_context_compacted", "id": f"{start}.compacted"}
