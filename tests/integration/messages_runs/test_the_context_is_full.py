"""The provider's summaries: failed, empty, cut off, with calls, and of what a summary cannot shorten."""

import pytest

from app.events import AssistantFinal, TextDelta, ToolCallStart, UsageReport
from app.executors.messages_api.request import COMPACTION_BETA, COMPACTS_AT_TOKENS
from app.ids import AccountId, new_uuid
from app.platform.db import Database
from app.simulator.script import Answer, Block, Compaction, HttpError, Reply, Text, ToolUse
from tests.contracts.messages_executor import a_messages_executor
from tests.factories import a_conversation
from tests.integration.messages_runs.stopped_run import Provider, StoppedRun, Story

FULL = {"input_tokens": COMPACTS_AT_TOKENS, "output_tokens": 1}
LOOK = Reply([ToolUse("demo__look", {"c": "R"})], usage=FULL)
SUMMARY = Reply([Compaction("They look.")], usage=FULL)
TOO_LONG = HttpError(400, "invalid_request_error", message="prompt is too long: 200001 tokens > 200000")
NO_SUMMARIES = HttpError(400, "invalid_request_error", message="context_management: not supported")


async def played(database: Database, *answers: Answer) -> tuple[StoppedRun, StoppedRun, list[str]]:
    """A run over these answers, the next turn of its conversation, and what the API would refuse."""
    provider = Provider()
    first = StoppedRun(Story(answers), "first", a_conversation(AccountId(new_uuid()), "chat"))
    second = StoppedRun(Story([]), "second", first.conversation)
    async with a_messages_executor(provider, database=database) as (executor, _):
        for run in (first, second):
            provider.runs[run.question] = run
            await run.play(executor)
    return first, second, provider.faults


def kinds(run: StoppedRun) -> list[list[str]]:
    """What each request of a run has, by the types of its blocks."""
    return [
        [block["type"] for message in request.body["messages"] for block in message["content"]]
        for request in run.requests
    ]


def allowed(run: StoppedRun) -> list[bool]:
    """Whether each request allowed a summary."""
    return ["context_management" in request.body for request in run.requests]


async def test_a_summary_replaces_the_conversation_and_is_sent_as_the_beta_that_it_is(
    database: Database,
) -> None:
    first, second, faults = await played(database, LOOK, SUMMARY, Reply([Text("Done.")]))

    assert (first.outcome, second.outcome, faults) == (None, None, [])
    assert kinds(first)[2] == ["compaction", "tool_use", "tool_result"]
    assert kinds(second) == [["compaction", "tool_use", "tool_result", "text", "text"]]
    betas = [COMPACTION_BETA in request.headers.get("anthropic-beta", "") for request in first.requests]
    assert betas == [False, True, True]
    assert COMPACTION_BETA in second.requests[0].headers["anthropic-beta"]
    assert [report.fact.origin for report in first.of(UsageReport)] == ["assistant", "hidden", "assistant"]


@pytest.mark.parametrize(
    ("failed", "requests"),
    [
        pytest.param(Reply([Compaction(None)], usage=FULL), 3, id="none"),
        pytest.param(Reply([Compaction("")], usage=FULL), 3, id="empty"),
        pytest.param(Reply([], stop_reason="compaction", usage=FULL), 3, id="no block"),
        pytest.param(Reply([Text("Sum")], stop_reason="compaction", usage=FULL), 3, id="only text"),
        pytest.param(NO_SUMMARIES, 3, id="refused"),
    ],
)
async def test_a_conversation_that_is_not_summarized_goes_on_as_it_is(
    database: Database, failed: Answer, requests: int
) -> None:
    first, second, faults = await played(database, LOOK, failed, LOOK, Reply([Text("Done.")]))

    assert (first.outcome, second.outcome, faults) == (None, None, [])
    # Not again in this run: it would not be better.
    assert allowed(first) == [False, True, False, False]
    assert len(first.requests) == requests + 1
    assert "compaction" not in str(kinds(first) + kinds(second))
    assert kinds(first)[2] == ["text", "tool_use", "tool_result"]


async def test_a_summary_that_broke_off_is_requested_again(database: Database) -> None:
    # In its block, and between the block and its end.
    cuts = [Reply([Compaction("They look.")], usage=FULL, cut_after=after) for after in (3, 5)]
    first, second, faults = await played(database, LOOK, *cuts, SUMMARY, Reply([Text("Done.")]))

    assert (first.outcome, second.outcome, faults) == (None, None, [])
    assert allowed(first) == [False, True, True, True, False]
    assert kinds(first)[3] == ["text", "tool_use", "tool_result"]
    assert len(first.of(UsageReport)) == 5


@pytest.mark.parametrize("cut_after", [None, 9])
async def test_calls_and_texts_in_a_summary_are_no_part_of_the_conversation(
    database: Database, cut_after: int | None
) -> None:
    blocks: list[Block] = [Compaction("They look."), Text("x"), ToolUse("demo__look", {"c": "S"})]
    strange = Reply(blocks, stop_reason="compaction", usage=FULL, cut_after=cut_after)
    again = [] if cut_after is None else [SUMMARY]
    first, second, faults = await played(database, LOOK, strange, *again, Reply([Text("Done.")]))

    assert (first.outcome, second.outcome, faults) == (None, None, [])
    assert kinds(first)[-1] == ["compaction", "tool_use", "tool_result"]
    assert len(first.of(ToolCallStart)) == 1
    assert [event.delta for event in first.of(TextDelta)] == ["Done."]


async def test_a_message_that_no_summary_shortens_ends_the_run(database: Database) -> None:
    first, second, faults = await played(database, TOO_LONG, SUMMARY, TOO_LONG)

    assert (first.outcome, faults) == (("invalid_request", "error"), [])
    assert allowed(first) == [False, True, False]
    assert second.outcome is None


async def test_a_conversation_that_fills_up_again_is_summarized_again(database: Database) -> None:
    answers = [LOOK, SUMMARY, LOOK, SUMMARY, Reply([Text("Done.")])]
    first, second, faults = await played(database, *answers)

    assert (first.outcome, second.outcome, faults) == (None, None, [])
    assert allowed(first) == [False, True, False, True, False]
    assert kinds(first)[-1].count("compaction") == 1
    assert first.of(AssistantFinal)[0].content == "Done."


async def test_a_summary_that_was_not_requested_replaces_nothing(database: Database) -> None:
    quick = Reply([ToolUse("demo__look", {"c": "R"})])
    first, second, faults = await played(database, quick, Reply([Compaction("They look.")]))

    assert (first.outcome, second.outcome, faults) == (("internal", "error"), None, [])
    assert kinds(second) == [["text", "tool_use", "tool_result", "text"]]
