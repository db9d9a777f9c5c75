"""One process over a CLI of ours: who is sent what, and how it is stopped."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, Message, ResultMessage, UserMessage

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.failures import CliFailed, StderrTail
from app.executors.inbox import RunEnded
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.fake_cli import FakeCli, answer, write_pid
from tests.unit.waiting import turns, until

RETRY_S = 0.003


@asynccontextmanager
async def a_process(tmp_path: Path, cli: FakeCli, **fields: Any) -> AsyncIterator[CliProcess]:
    directory = RunDirectory(tmp_path)
    process = CliProcess(cli.client(ClaudeAgentOptions()), directory, interrupt_retry_s=RETRY_S, **fields)
    owner = process.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield process
    finally:
        process.kill()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({owner})


@pytest.fixture
def never_killed() -> Iterator[int]:
    """The pid of a process that the test must not kill."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process.pid
        process.terminate()
    assert process.returncode == -signal.SIGTERM


async def loses_a_line(cli: FakeCli, message: dict[str, Any]) -> None:
    """The SDK could not store a line of the transcript."""
    cli.emit(type="system", subtype="mirror_error", error="away", key={"session_id": "s"})
    await answer(cli, message)


async def all_of(process: CliProcess) -> list[Message]:
    return [message async for message in process.messages()]


async def test_a_question_is_answered_and_nothing_is_left(tmp_path: Path) -> None:
    cli = FakeCli()
    async with a_process(tmp_path, cli) as process:
        process.send("m1", "hello there")
        messages = await all_of(process)
        await process.exited.wait()

    assert isinstance(messages[-1], ResultMessage)
    assert cli.prompts[0]["message"] == {"role": "user", "content": "hello there"}
    assert (cli.closed, process.killed, os.listdir(tmp_path)) == (True, False, [])  # noqa: PTH208
    with pytest.raises(RunEnded):
        process.send("m2", "too late")


async def test_a_cli_that_dies_fails_what_reads_it(tmp_path: Path) -> None:
    async def die(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        cli.emit(type="stream_event")

    async with a_process(tmp_path, FakeCli(die)) as process:
        process.send("m1", "hello")
        with pytest.raises(CliFailed):
            await all_of(process)


async def test_a_late_interrupt_does_not_reach_the_turn_of_the_next_message(tmp_path: Path) -> None:
    """It was repeated until the turn's end was heard; the next turn had begun by then."""
    ended = asyncio.Event()

    async def slow_to_stop(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        if message["uuid"] == "m1":
            await cli.interrupted.wait()
            # Longer than an interrupt takes to be repeated.
            await asyncio.sleep(10 * RETRY_S)
            cli.result(subtype="error_during_execution", terminal_reason="aborted_streaming")
            ended.set()

    cli = FakeCli(slow_to_stop)
    async with a_process(tmp_path, cli) as process:
        process.send("m1", "one")
        reading = process.messages()
        while not isinstance(await anext(reading), UserMessage):
            pass
        process.send("m2", "two")
        await process.interrupt()
        await ended.wait()

    assert cli.interrupts == 1


async def test_an_interrupt_that_overtakes_the_question_is_repeated_until_its_turn_begins(
    tmp_path: Path,
) -> None:
    async def begins_late(cli: FakeCli, message: dict[str, Any]) -> None:
        await until(lambda: cli.interrupts >= 3)
        cli.begin(message)
        before = cli.interrupts
        await until(lambda: cli.interrupts != before)
        cli.result(subtype="error_during_execution", terminal_reason="aborted_streaming")

    cli = FakeCli(begins_late)
    async with a_process(tmp_path, cli) as process:
        process.send("m1", "one")
        await cli.prompted.wait()
        await process.stop()
        await process.exited.wait()

    assert cli.interrupts >= 4
    assert not process.killed


async def test_a_cli_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    async def deaf(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)

    cli = FakeCli(deaf)
    program = await asyncio.create_subprocess_exec("/bin/sleep", "60")
    async with a_process(tmp_path, cli, interrupt_grace_s=0.05) as process:
        write_pid(tmp_path, program.pid)
        process.send("m1", "one")
        await cli.prompted.wait()
        stopping = asyncio.create_task(process.stop())
        await program.wait()
        cli.die()
        await stopping

    assert (process.killed, program.returncode) == (True, -9)


async def test_a_process_nobody_asked_is_discarded(tmp_path: Path) -> None:
    cli = FakeCli()
    async with a_process(tmp_path, cli) as process:
        await cli.connected.wait()
        assert process.alive
        process.discard()
        await process.exited.wait()

    assert (process.alive, cli.prompts, os.listdir(tmp_path)) == (False, [], [])  # noqa: PTH208


async def test_a_process_that_is_discarded_before_it_is_started_leaves_nothing(tmp_path: Path) -> None:
    cli = FakeCli()
    async with a_process(tmp_path, cli) as process:
        process.discard()
        await process.exited.wait()

    assert (cli.connected.is_set(), os.listdir(tmp_path)) == (False, [])  # noqa: PTH208
    with pytest.raises(RunEnded):
        process.send("m1", "too late")


async def test_a_message_waits_until_the_first_turn_has_begun(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def waits(cli: FakeCli, message: dict[str, Any]) -> None:
        begun.set()
        await go.wait()
        await answer(cli, message)

    cli = FakeCli(waits)
    async with a_process(tmp_path, cli) as process:
        process.send("m1", "one")
        process.send("m2", "two", priority="now")
        await begun.wait()
        assert process.run.pending.has_next_turn
        assert [prompt["uuid"] for prompt in cli.prompts] == ["m1"]
        go.set()
        await all_of(process)

    assert [(prompt["uuid"], prompt.get("priority")) for prompt in cli.prompts] == [
        ("m1", None),
        ("m2", "now"),
    ]


async def test_what_the_cli_counted_before_is_read_before_it_is_asked(tmp_path: Path) -> None:
    async with a_process(tmp_path, FakeCli(), reads_usage_baseline=True) as process:
        process.send("m1", "one")
        await all_of(process)
        assert process.usage_baseline == {}


async def test_what_the_sdk_could_not_store_is_stored_before_the_folder_goes(tmp_path: Path) -> None:
    stored: list[Path] = []

    async def store(directory: RunDirectory) -> None:
        assert directory.path.exists()
        stored.append(directory.path)

    async with a_process(tmp_path, FakeCli(loses_a_line), before_cleanup=store) as process:
        process.send("m1", "one")
        await all_of(process)
        await process.exited.wait()

    assert len(stored) == 1
    assert not stored[0].exists()


async def test_one_that_stays_serves_one_run_after_the_other(tmp_path: Path, never_killed: int) -> None:
    counted = iter([{"m": {"inputTokens": 1}}, {"m": {"inputTokens": 3}}])

    async def counts(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        cli.result(modelUsage=next(counted))

    cli = FakeCli(counts)
    async with a_process(tmp_path, cli, stays=True) as process:
        write_pid(tmp_path, never_killed)
        for text, before in (("one", {}), ("two", {"m": {"inputTokens": 1}})):
            process.begin_run()
            assert (process.usage_baseline, process.reusable) == (before, False)
            process.send(text, text)
            messages = await all_of(process)
            assert process.reusable
            assert process.usage_baseline == before
            assert [type(message).__name__ for message in messages] == [
                *("SystemMessage", "UserMessage", "ResultMessage")
            ]
            with pytest.raises(RunEnded):
                process.send("late", "too late")
            # It has finished: there is nothing to kill.
            process.kill()
        process.discard()
        process.discard()
        await process.exited.wait()

    assert [prompt["message"]["content"] for prompt in cli.prompts] == ["one", "two"]
    assert (cli.closed, process.killed, os.listdir(tmp_path)) == (True, False, [])  # noqa: PTH208


async def test_it_may_be_discarded_while_it_ends_by_itself(tmp_path: Path) -> None:
    """The second end must not cut off the cleanup of the first."""
    stored = asyncio.Event()

    async def store(_directory: RunDirectory) -> None:
        process.discard()
        await asyncio.sleep(0)
        stored.set()

    async with a_process(tmp_path, FakeCli(loses_a_line), stays=True, before_cleanup=store) as process:
        process.send("m1", "one")
        await all_of(process)
        assert not process.reusable
        process.discard()
        await process.exited.wait()

    assert stored.is_set()
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_one_that_was_interrupted_or_says_something_unasked_is_not_used_again(
    tmp_path: Path, never_killed: int
) -> None:
    async def stops(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        await cli.interrupted.wait()
        cli.result(subtype="error_during_execution", terminal_reason="aborted_streaming")

    cli = FakeCli(stops)
    async with a_process(tmp_path, cli, stays=True) as process:
        write_pid(tmp_path, never_killed)
        process.send("m1", "one")
        await cli.prompted.wait()
        await process.interrupt()
        await all_of(process)
        assert not process.reusable
        process.discard()
    cli = FakeCli()
    async with a_process(tmp_path, cli, stays=True) as process:
        write_pid(tmp_path, never_killed)
        process.send("m1", "one")
        await all_of(process)
        cli.reply("by the way")
        await until(lambda: not process.reusable)
        process.discard()


async def test_what_cannot_be_sent_ends_the_run(tmp_path: Path) -> None:
    unsendable: Any = {1, 2}
    async with a_process(tmp_path, FakeCli()) as process:
        process.send("m1", [{"type": "text", "text": "x", "more": unsendable}])
        with pytest.raises(CliFailed):
            await all_of(process)


def test_of_the_error_output_the_end_is_kept() -> None:
    tail = StderrTail()
    for number in range(100):
        tail.append(f"{number} " + "x" * 5_000)

    assert [line.split()[0] for line in tail.lines] == [str(number) for number in range(80, 100)]
    assert max(map(len, tail.lines)) == 1_000


class WarmUp:
    """What is entered while a process warms up."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.log.append("entered")
        try:
            yield
        finally:
            self.log.append("left")


async def test_one_that_has_no_run_yet_warms_up_and_its_first_prompt_waits_for_that(tmp_path: Path) -> None:
    cli, warm_up = FakeCli(may_answer=asyncio.Event()), WarmUp()
    async with a_process(tmp_path, cli, warm_up=warm_up.entered()) as process:
        await until(lambda: cli.warm_ups)
        process.begin_run()
        process.send("m1", "hello")
        await turns(10)
        assert (warm_up.log, cli.prompts) == (["entered"], [])
        assert cli.may_answer is not None
        cli.may_answer.set()
        messages = await all_of(process)

    assert isinstance(messages[-1], ResultMessage)
    assert (warm_up.log, cli.warm_ups, len(cli.prompts)) == (["entered", "left"], 1, 1)


async def test_one_that_a_run_waits_for_does_not_warm_up(tmp_path: Path) -> None:
    cli, warm_up = FakeCli(), WarmUp()
    async with a_process(tmp_path, cli, warm_up=warm_up.entered()) as process:
        process.begin_run()
        process.send("m1", "hello")
        await all_of(process)

    assert (warm_up.log, cli.warm_ups) == ([], 0)


async def test_one_that_cannot_warm_up_ends(tmp_path: Path) -> None:
    """A call that it makes later would be one of its run."""
    cli, warm_up = FakeCli(may_answer=asyncio.Event()), WarmUp()
    async with a_process(tmp_path, cli, warm_up=warm_up.entered(), warm_up_s=0) as process:
        await process.exited.wait()
        assert not process.alive

    assert (warm_up.log, cli.closed) == (["entered", "left"], True)


async def test_one_starts_when_it_has_a_slot(tmp_path: Path) -> None:
    cli, slots = FakeCli(), asyncio.Semaphore(0)
    async with a_process(tmp_path, cli, start_slot=slots) as process:
        process.send("m1", "hello")
        await turns(10)
        assert not cli.connected.is_set()
        slots.release()
        await all_of(process)
        assert not slots.locked()


async def test_one_that_is_not_needed_any_more_waits_for_no_slot(tmp_path: Path) -> None:
    cli = FakeCli()
    async with a_process(tmp_path, cli, start_slot=asyncio.Semaphore(0)) as process:
        process.send("m1", "hello")
        await asyncio.sleep(0)
        process.kill()
        await process.exited.wait()

    assert not cli.connected.is_set()
