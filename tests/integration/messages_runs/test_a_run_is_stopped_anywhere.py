"""A run is stopped before every event: receipts equal the wire, and the conversation goes on."""

import asyncio
from typing import Any

import pytest

from app.executors.messages_api.executor import MessagesExecutor
from app.executors.messages_api.request import COMPACTS_AT_TOKENS
from app.ids import AccountId, new_uuid
from app.platform.db import Database
from app.simulator.script import Block, Compaction, Reply, Text, Thinking, ToolUse
from app.simulator.server import Simulator
from tests.contracts.messages_executor import a_messages_executor
from tests.factories import a_conversation
from tests.integration.messages_runs.stopped_run import (
    ANSWER,
    Action,
    Boundary,
    Provider,
    StoppedRun,
    Story,
    boundaries,
    check,
    history_of,
)
from tests.patience import PATIENCE_S

CALLS: list[Block] = [
    Thinking("hm"),
    Text("Look."),
    ToolUse("demo__look", {"c": "R"}),
    ToolUse("demo__look", {"c": "O"}),
    ToolUse("demo__book", {"c": "R"}),
]
OPEN = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}

FULL = {"input_tokens": COMPACTS_AT_TOKENS, "output_tokens": 1}

TOOLS = Story([Reply(CALLS), Reply([Text("Done.")])])
STRUCTURED = Story([Reply([Text("So."), CALLS[2], ANSWER])], OPEN)
CUT = Story([Reply([Text("one two")], cut_after=5), Reply([CALLS[2], Text("x")], cut_after=6)])
COMPACTED = Story(
    [Reply([CALLS[2]], usage=FULL), Reply([Compaction("They look.")], usage=FULL), Reply([Text("Done.")])]
)
STORIES: list[tuple[str, Story, tuple[Action, ...]]] = [
    ("tools", TOOLS, ("cancel", "continue", "urgent", "deadline", "shutdown")),
    ("structured", STRUCTURED, ("cancel", "urgent")),
    ("cut", CUT, ("continue", "deadline")),
    ("compacted", COMPACTED, ("cancel", "urgent")),
]


@pytest.mark.parametrize(
    ("story", "played", "action"),
    [
        pytest.param(name, story, action, id=f"{name}-{action}")
        for name, story, actions in STORIES
        for action in actions
    ],
)
async def test_a_run_that_is_stopped_anywhere_is_billed_and_its_conversation_goes_on(
    database: Database, story: str, played: Story, action: Action
) -> None:
    provider = Provider()
    async with a_messages_executor(provider, database=database) as (executor, simulator):
        dry = a_run(played, f"{story}-dry")
        await attack(dry, executor, provider, simulator)
        runs = [
            a_run(played, f"{story}-{action}-{number}", action=action, boundary=boundary)
            for number, boundary in enumerate(boundaries(played, dry))
        ]
        async with asyncio.timeout(PATIENCE_S):
            found = await asyncio.gather(
                *(attack(run, executor, provider, simulator) for run in runs), return_exceptions=True
            )
    faults = [
        f"{run.boundary}: {type(error).__name__} {error}"
        for run, error in zip(runs, found, strict=True)
        if error is not None
    ]
    assert not faults + provider.faults, "\n".join(faults + provider.faults)


def a_run(story: Story, name: str, *, action: Action | None = None, boundary: Boundary | None = None) -> Any:
    conversation = a_conversation(AccountId(new_uuid()), name)
    return StoppedRun(story, name, conversation, action=action, boundary=boundary)


async def attack(
    run: StoppedRun, executor: MessagesExecutor, provider: Provider, simulator: Simulator
) -> None:
    """Stop it, check it, and let its conversation go on with the history as a client has it."""
    provider.runs[run.question] = run
    await run.play(executor)
    check(run, simulator.sent)
    following = StoppedRun(Story([]), f"{run.name}-then", run.conversation, history=history_of(run))
    provider.runs[following.question] = following
    await following.play(executor)
    assert following.outcome is None, f"the next turn: {following.outcome}"
    check(following, simulator.sent)
