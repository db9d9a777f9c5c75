import asyncio

from app.conversations.sdk_transcript import PAUSED_PROMPT
from app.executors.api_format.web import MOST_PAUSES
from app.executors.claude_agent.process.cli_run import CliRun
from tests.unit.executors.claude_agent.frames import a_result
from tests.unit.waiting import turns


async def test_messages_after_the_first_wait_for_its_turn() -> None:
    run = CliRun({})
    for name in ("m1", "m2"):
        run.put(name, name, None)
    assert (await run.next_prompt())["uuid"] == "m1"
    run.prompted.set()
    following = asyncio.create_task(run.next_prompt())
    await turns(3)
    assert not following.done()
    run.turn_started.set()

    assert (await following)["uuid"] == "m2"
    run.finish()
    run.finish()
    assert [message async for message in run.messages()] == []


async def test_a_paused_turn_goes_on_so_many_times() -> None:
    run = CliRun({})
    for _ in range(MOST_PAUSES):
        run.receive(a_result(stop_reason="pause_turn"))
        assert (await run.next_prompt())["message"]["content"] == PAUSED_PROMPT
        assert run.pending.any_pending

    run.receive(a_result(stop_reason="pause_turn"))
    assert not run.pending.any_pending
