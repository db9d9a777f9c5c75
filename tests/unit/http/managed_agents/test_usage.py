"""What a session had used at the end of each of its runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import RunTotals
from app.conversations.records import Conversation
from app.http.managed_agents.usage import request_events, usage_event
from app.ids import AccountId, ApiKeyId, RunId
from app.runs.managed.records import ManagedSession, SessionSettings, SessionTurn
from app.usage.records import TokenUsage
from tests.unit.billing.exports.charged import EVERY_KIND, charged, corrected

START = datetime(2026, 11, 28, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def a_turn(number: int, *, has_ended: bool = True, messages: int = 1) -> SessionTurn:
    """It takes a minute."""
    began = START + number * MINUTE
    return SessionTurn(
        *("chat", RunId(f"r-{number}"), number, "succeeded" if has_ended else "running", began),
        *(began + MINUTE if has_ended else None, 0.0),
        is_asking=False,
        messages=messages if has_ended else None,
    )


def totals_of(receipts: int = 1) -> RunTotals:
    return RunTotals(receipts, Decimal("0.015"), 1, 0, TokenUsage(input_tokens=10, output_tokens=20))


def a_session(*turns: SessionTurn) -> ManagedSession:
    key = ApiKeyId(UUID(int=2))
    return ManagedSession(
        Conversation.without_runs(AccountId(UUID(int=1)), "sesn_"),
        SessionSettings(graph_id="messages:assistant", api_key_id=key),
        turns,
        {each.run_id: totals_of() for each in turns},
    )


def test_each_run_adds_to_what_was_used_before() -> None:
    session = a_session(a_turn(1), a_turn(2), a_turn(3, has_ended=False))

    first, second = (usage_event(session, f"r-{number}", has_cost=True) for number in (1, 2))

    assert first is not None
    assert second is not None
    assert (first["id"], second["id"]) == ("sevt_r-1~usage", "sevt_r-2~usage")
    assert [each["usage"]["output_tokens"] for each in (first, second)] == [20, 40]
    assert [each["usage"]["active_seconds"] for each in (first, second)] == [60, 120]
    assert [each["usage"]["list_cost"]["amount"] for each in (first, second)] == ["2", "3"]
    assert second["usage"]["server_tool_use"]["web_search_requests"] == 2


def test_nothing_is_said_before_all_of_it_is_known() -> None:
    session = a_session(a_turn(1), a_turn(2, messages=2))
    late = replace(session, charges={**session.charges, RunId("r-2"): totals_of(2)})
    running = a_session(a_turn(1, has_ended=False), a_turn(2))

    assert usage_event(session, "r-1", has_cost=True) is not None
    assert usage_event(session, "r-2", has_cost=True) is None
    assert usage_event(late, "r-2", has_cost=True) is not None
    assert usage_event(running, "r-2", has_cost=True) is None
    assert usage_event(session, "r-3", has_cost=True) is None


def test_the_cost_is_for_keys_that_read_receipts() -> None:
    found = usage_event(a_session(a_turn(1)), "r-1", has_cost=False)

    assert found is not None
    assert (found["usage"]["list_cost"], found["usage"]["input_tokens"]) == (None, 10)


def test_each_message_is_a_request_and_its_adjustment_is_none() -> None:
    first = charged(EVERY_KIND, attempt=1, run_id="r-1", usage_unit_id="msg_1")
    again = replace(first, attempt=2)

    start, end, other, _ = request_events([first, corrected(first, PriceList()), again])

    assert (start["id"], other["id"]) == ("sevt_r-1~request.1.msg_1", "sevt_r-1~request.2.msg_1")
    assert (end["id"], end["model_request_start_id"]) == (f"{start['id']}.end", start["id"])
    assert end["model_usage"] == {
        "input_tokens": first.input_tokens,
        "output_tokens": first.output_tokens,
        "cache_read_input_tokens": first.cache_read_tokens,
        "cache_creation_input_tokens": first.cache_write_5m_tokens + first.cache_write_1h_tokens,
        "speed": None,
    }
    assert all(number for name, number in end["model_usage"].items() if name != "speed")


def test_a_request_that_compacts_the_conversation_is_one_more_event() -> None:
    receipt = charged(EVERY_KIND, attempt=1, run_id="r-1", usage_unit_id="msg_1", stop_reason="compaction")

    *_, end, compacted = request_events([receipt])

    assert compacted["type"] == "agent.thread_context_compacted"
    assert (end["id"], compacted["id"]) == tuple(
        f"sevt_r-1~request.1.msg_1.{n}" for n in ("end", "compacted")
    )
