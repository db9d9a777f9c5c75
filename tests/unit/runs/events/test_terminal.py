from datetime import UTC, datetime

from app.events import AssistantFinal, Done, RunError, TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.clock.event_times import milliseconds
from app.requests.outcome import FinalUsage, GraphFinal
from app.runs.events import terminal
from app.runs.records import AT_END
from app.streams.memory import MemoryEventLog
from app.streams.port import LogEntry

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))
USAGE = FinalUsage(prompt_tokens=1, completion_tokens=2)


def a_final(**fields: object) -> GraphFinal:
    values = {"ok": True, "run_id": "run-1", "request_id": None, "content": "", "finish_reason": "stop"}
    return GraphFinal.model_validate({**values, "usage": USAGE, **fields})


def test_a_successful_run_ends_with_its_answer_and_done() -> None:
    final, done = a_final(content="4", structured_output=4), Done(usage=USAGE, finish_reason="stop")
    assert terminal.terminal_events(final) == [AssistantFinal(content="4", structured_output=4), done]
    assert terminal.terminal_events(final, has_content=False) == [done]


def test_a_failed_run_ends_with_its_error_and_done() -> None:
    final = a_final(ok=False, error="timeout", finish_reason="max_turns")
    assert terminal.terminal_events(final) == [
        RunError(error="timeout"),
        Done(usage=USAGE, finish_reason="max_turns"),
    ]


def test_events_get_the_positions_that_follow() -> None:
    word = TextDelta(message_id="m", delta="x")
    entries = terminal.with_positions([word, word], after=7)
    assert entries == [LogEntry(8, word, AT_END), LogEntry(9, word, AT_END)]
    assert [terminal.last_position(entries, attempt=0), terminal.last_position((), attempt=0)] == [9, 0]
    assert terminal.last_position(entries, attempt=2) == 2 * terminal.POSITIONS_PER_ATTEMPT


async def test_closing_a_log_ends_its_readers_and_frees_it() -> None:
    log = MemoryEventLog()
    await log.append(RUN, TextDelta(message_id="m", delta="x"))
    batches = log.follow(RUN)
    assert len(await anext(batches)) == 1

    ended_at = datetime(2100, 1, 1, tzinfo=UTC)
    await terminal.close_log(
        log, RUN, terminal.with_positions(terminal.terminal_events(a_final()), after=0), ended_at=ended_at
    )

    at = milliseconds(ended_at)
    assert [entry for batch in [batch async for batch in batches] for entry in batch] == [
        LogEntry(2, AssistantFinal(content=""), at),
        LogEntry(3, Done(usage=USAGE, finish_reason="stop"), at),
    ]
    assert len(log) == 0
