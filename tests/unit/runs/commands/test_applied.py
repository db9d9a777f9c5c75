"""A command that arrives again is not applied again."""

import asyncio
from uuid import UUID

import pytest

from app.executors.inbox import MessageQueueFull
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.runs.commands.answers import Answer
from app.runs.commands.applied import AppliedCommands
from tests.patience import PATIENCE_S

RUN = RunKey(AccountId(new_uuid()), RunId("run"))
OTHER = RunKey(AccountId(new_uuid()), RunId("run"))


class Command:
    """Counts how often it is applied; its answer names the number."""

    def __init__(self, *, not_applied: bool = False) -> None:
        self.applied = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.not_applied = not_applied

    async def apply(self) -> Answer:
        self.applied += 1
        number = self.applied
        await self.may_end.wait()
        return Answer(not_applied="overloaded") if self.not_applied else Answer(result={"number": number})


async def begun(commands: AppliedCommands, command_id: UUID, command: Command) -> Answer:
    """The answer while a command is being applied."""
    async with asyncio.timeout(PATIENCE_S):
        return await commands.answer(RUN, command_id, command.apply, within_s=0)


async def test_a_repeated_command_has_the_same_answer() -> None:
    commands, command, command_id = AppliedCommands(), Command(), new_uuid()
    answers = [
        await commands.answer(RUN, command_id, command.apply, within_s=PATIENCE_S),
        await commands.answer(RUN, command_id, command.apply, within_s=PATIENCE_S),
        await commands.answer(RUN, new_uuid(), command.apply, within_s=PATIENCE_S),
        await commands.answer(OTHER, command_id, command.apply, within_s=PATIENCE_S),
    ]

    assert [answer.result for answer in answers] == [{"number": n} for n in (1, 1, 2, 3)]


async def test_duplicates_join_a_command_that_is_being_applied() -> None:
    commands, command, command_id = AppliedCommands(), Command(), new_uuid()
    command.may_end.clear()
    early = await begun(commands, command_id, command)
    joined = [
        asyncio.create_task(commands.answer(RUN, command_id, command.apply, within_s=PATIENCE_S))
        for _ in range(3)
    ]
    # A sender that is gone ends nothing.
    joined[0].cancel()
    await asyncio.wait({joined[0]})
    command.may_end.set()

    assert early.not_applied == "pending"
    assert [(await task).result for task in joined[1:]] == [{"number": 1}] * 2
    assert command.applied == 1


async def test_a_command_that_was_not_applied_is_applied_when_it_comes_again() -> None:
    commands, command, command_id = AppliedCommands(), Command(not_applied=True), new_uuid()
    first = await commands.answer(RUN, command_id, command.apply, within_s=PATIENCE_S)
    command.not_applied = False
    second = await commands.answer(RUN, command_id, command.apply, within_s=PATIENCE_S)

    assert (first.not_applied, second.result) == ("overloaded", {"number": 2})
    assert len(commands) == 1


async def test_answers_are_forgotten_after_a_time_and_unfinished_commands_are_not() -> None:
    now = 0.0
    commands = AppliedCommands(kept_s=15, elapsed_s=lambda: now)
    quick, slow = Command(), Command()
    slow.may_end.clear()
    quick_id, slow_id = new_uuid(), new_uuid()
    await commands.answer(RUN, quick_id, quick.apply, within_s=PATIENCE_S)
    await begun(commands, slow_id, slow)
    now = 14.9
    await commands.answer(RUN, quick_id, quick.apply, within_s=PATIENCE_S)
    kept = len(commands)
    now = 15
    await commands.answer(OTHER, new_uuid(), quick.apply, within_s=PATIENCE_S)
    left = len(commands)
    now = 31
    slow.may_end.set()
    answer = await commands.answer(RUN, slow_id, slow.apply, within_s=PATIENCE_S)
    now = 100
    await commands.answer(OTHER, new_uuid(), quick.apply, within_s=PATIENCE_S)

    assert (kept, left, len(commands)) == (2, 2, 1)
    assert (answer.result, slow.applied, quick.applied) == ({"number": 1}, 1, 3)


async def test_one_run_has_a_limited_number_of_commands() -> None:
    now = 0.0
    commands, command = AppliedCommands(most_per_run=2, kept_s=15, elapsed_s=lambda: now), Command()
    known = new_uuid()
    await commands.answer(RUN, known, command.apply, within_s=PATIENCE_S)
    await commands.answer(RUN, new_uuid(), command.apply, within_s=PATIENCE_S)
    with pytest.raises(MessageQueueFull) as refused:
        await commands.answer(RUN, new_uuid(), command.apply, within_s=PATIENCE_S)
    await commands.answer(RUN, known, command.apply, within_s=PATIENCE_S)
    await commands.answer(OTHER, new_uuid(), command.apply, within_s=PATIENCE_S)
    now = 16
    await commands.answer(RUN, new_uuid(), command.apply, within_s=PATIENCE_S)

    assert refused.value.retry_after_s is not None
    assert command.applied == 4


async def test_closing_ends_what_is_being_applied() -> None:
    commands, command = AppliedCommands(), Command()
    command.may_end.clear()
    await begun(commands, new_uuid(), command)
    await commands.aclose()

    assert all(task.cancelled() for task in commands._tasks.values())
