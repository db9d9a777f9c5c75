"""A process that stops: what becomes of its runs."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import text

from app.events import AiEvent, AssistantFinal, Done, RunStarted, TextDelta
from app.executors.inbox import RunEnded
from app.executors.port import ABORTED, ExecutionFailed, RunContext
from app.graphs.spec import GraphSpec
from app.ids import MessageId
from app.platform.db import Database
from app.requests.messages import SentMessage
from app.requests.run_request import GraphRunRequest
from app.runs.commands.answers import NotApplied
from app.runs.commands.application import apply
from app.runs.commands.records import ChangeMode, Send
from app.runs.records import RunRecord
from app.runs.recovery.handover import RunHandover
from tests.contracts.event_logs import a_relay, a_relayed_log
from tests.e2e.stories import until
from tests.integration.run_service import ONCE, RETRIED, Core, OpenCore
from tests.integration.statements import rows
from tests.integration.test_run_dispatcher import followed, until_blocked
from tests.integration.test_run_recovery import without_heartbeat
from tests.scripted import WriteMessage

MESSAGE = Send(message_id="m1", content="And in Rome?", priority="next")


@dataclass(slots=True)
class Agent:
    """Speaks, then works until it is stopped, or answers at once."""

    answers: bool = False
    contexts: list[RunContext] = field(default_factory=list)
    messages: list[SentMessage] = field(default_factory=list)
    is_stubborn: bool = False
    may_stop: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event | None = None

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        """See the port."""
        events: list[AiEvent] = [TextDelta(delta="Well ", message_id=MessageId("msg_1"))]
        for event in events:
            await context.events.publish(event)
        self.contexts.append(context)
        with context.control.inbox.forwarding_to(self.messages.append):
            if self.may_answer is not None:
                await self.may_answer.wait()
            if self.answers:
                await context.events.publish(AssistantFinal(content="Good morning."))
                return
            await context.control.stop.wait()
            # It is stopping, and no reader may see it.
            await context.events.publish(events[0])
            if self.is_stubborn:
                await self.may_stop.wait()
            raise ExecutionFailed(*ABORTED)


async def started(core: Core, agent: Agent, graph: GraphSpec = RETRIED) -> RunRecord:
    """A run that this process executes."""
    record = await core.start(graph, state_key="chat" if graph is RETRIED else None)
    await until(lambda: len(agent.contexts) == 1)
    return record


async def test_what_a_drain_could_not_stop_is_not_waited_for_again(open_core: OpenCore) -> None:
    agent = Agent(is_stubborn=True)
    async with open_core(executor=agent) as core:
        run = (await started(core, agent, ONCE)).key
        drain = replace(core.drain, stop_s=0)
        await drain.drain(within_s=0)
        is_left = drain.supervisor.is_active(run)
        again = asyncio.create_task(drain.drain(within_s=600))
        await asyncio.sleep(0)
        is_over = again.done()
        agent.may_stop.set()
        await again

    assert (is_left, is_over) == (True, True)


async def test_a_run_is_handed_over_and_its_readers_see_one_end(
    open_core: OpenCore, database: Database, redis_url: str
) -> None:
    agents = [Agent(), Agent(answers=True)]
    async with (
        a_relayed_log(redis_url) as first,
        a_relayed_log(redis_url) as second,
        open_core(log=first, executor=agents[0]) as old,
        open_core(log=second, executor=agents[1]) as new,
    ):
        run = (await started(old, agents[0])).key
        readers = [asyncio.create_task(followed(core, run)) for core in (old, new)]
        waiting = asyncio.create_task(old.service.wait(run))
        await old.drain.drain(within_s=0)
        seen = [[entry.event for entry in await reader] for reader in readers]
        final, record = await waiting, await new.service.get(run)
        states = await rows(database, "SELECT draining, handed_over FROM workers, run_takeovers")

    assert sorted(map(tuple, states)) == [(False, True), (True, True)]
    assert (final.ok, final.content) == (True, "Good morning.")
    assert (record.status, record.attempt) == ("succeeded", 1)
    for events in seen:
        assert [event.attempt for event in events if isinstance(event, RunStarted)] == [0, 1]
        assert sum(isinstance(event, TextDelta) for event in events) == 2
        assert [event.finish_reason for event in events if isinstance(event, Done)] == ["stop"]


async def test_messages_that_have_not_taken_effect_and_the_mode_go_with_the_run(
    open_core: OpenCore, redis_url: str
) -> None:
    agents = [Agent(), Agent()]
    async with (
        a_relay(redis_url) as first,
        a_relay(redis_url) as second,
        open_core(relay=first, executor=agents[0]) as old,
        open_core(relay=second, executor=agents[1]) as new,
    ):
        run = (await started(old, agents[0])).key
        commands = (MESSAGE, MESSAGE.model_copy(update={"message_id": "m2"}))
        await asyncio.gather(*(old.process.commands.submit(run, command) for command in commands))
        agents[0].contexts[0].control.inbox.mark_delivered("m2", 5)
        agents[0].contexts[0].control.approvals.mode = "plan"
        await old.drain.drain(within_s=0)
        await until(lambda: len(agents[1].contexts) == 1)

        assert [sent.message_id for sent in agents[1].messages] == ["m1"]
        assert agents[1].contexts[0].control.approvals.mode == "plan"
        await new.process.commands.stop(run, "cancel")
        assert (await new.service.wait(run)).error == "aborted"


async def test_a_message_during_the_handover_is_for_the_next_attempt(open_core: OpenCore) -> None:
    agent = Agent(is_stubborn=True)
    async with open_core(executor=agent) as core:
        run = (await started(core, agent)).key
        active = core.process.supervisor.find(run)
        assert active is not None
        draining = asyncio.create_task(core.drain.drain(within_s=0))
        await until(lambda: active.is_lost)
        # It came to this process before, so it is answered that the run is not here.
        with pytest.raises(NotApplied):
            await apply(active, ChangeMode(mode="plan"))
        with pytest.raises((NotApplied, RunEnded)):
            await apply(active, MESSAGE)
        assert (await core.service.get(run)).status == "running"
        agent.may_stop.set()
        await draining
        record = await core.service.get(run)

    assert (record.status, record.attempt, record.finished) == ("queued", 1, False)


async def test_a_run_that_may_not_be_resumed_ends(open_core: OpenCore) -> None:
    agent = Agent()
    async with open_core(executor=agent) as core:
        run = (await started(core, agent, ONCE)).key
        await core.drain.drain(within_s=0)
        record = await core.service.get(run)

    assert (record.status, record.attempt) == ("cancelled", 0)


async def test_a_process_that_is_in_a_hurry_waits_for_no_run(open_core: OpenCore) -> None:
    agent = Agent()
    async with open_core(executor=agent) as core:
        resumed = (await started(core, agent)).key
        draining = asyncio.create_task(core.drain.drain(within_s=600))
        await until(lambda: core.dispatcher.is_draining)
        core.drain.hurry()
        await draining
        record = await core.service.get(resumed)

    assert (record.status, record.attempt) == ("queued", 1)


@pytest.mark.parametrize("answers_first", [True, False])
async def test_an_answer_is_given_once(
    open_core: OpenCore, database: Database, *, answers_first: bool
) -> None:
    """In the moment in which the run is handed over."""
    agent = Agent(answers=True, may_answer=asyncio.Event())
    assert agent.may_answer is not None
    async with open_core(executor=agent) as core:
        run = (await started(core, agent)).key
        reading = asyncio.create_task(followed(core, run))
        async with database.transaction() as tx:
            await tx.execute(text("SELECT FROM runs FOR UPDATE"))
            if answers_first:
                agent.may_answer.set()
                await until(lambda: agent.contexts[0].control.has_ended)
            draining = asyncio.create_task(core.drain.drain(within_s=0))
            if answers_first:
                await until(lambda: core.process.supervisor._is_stopping)
            else:
                await until_blocked(database)
                agent.may_answer.set()
        await draining
        answers = [entry for entry in await reading if isinstance(entry.event, AssistantFinal)]
        record = await core.service.get(run)

    assert (len(answers), record.status) == ((1, "succeeded") if answers_first else (0, "queued"))


async def test_a_process_that_dies_during_a_handover_leaves_the_run_to_recovery(
    open_core: OpenCore, database: Database
) -> None:
    agents = [Agent(is_stubborn=True), Agent(answers=True)]
    async with (
        open_core(executor=agents[0], is_dispatching=False) as old,
        open_core(executor=agents[1], peers=None) as new,
    ):
        run = (await started(old, agents[0])).key
        await _handover_of(old, database)._begin()
        await without_heartbeat(database)
        assert await new.recovery.recover() == 1
        assert (await new.service.wait(run)).ok
        assert (await new.service.get(run)).attempt == 2
        # What the first process stores now is refused.
        agents[0].may_stop.set()
        await old.process.supervisor.wait_ended(run)
        assert (await new.service.get(run)).status == "succeeded"


async def test_a_claimed_run_that_has_not_started_is_left_to_others(open_core: OpenCore) -> None:
    script = [WriteMessage("Hi.")]
    async with open_core(lambda _: script, is_dispatching=False) as core:
        core.process.places.may_have_backlog = True
        run = (await core.start()).key
        claimed = (await core.process.queue.claim(1, graphs=[ONCE.id])).runs
        core.process.places.take()
        core.dispatcher.drain()
        core.starter.start(claimed[0])
        await until(lambda: not core.starter.attempts())
        record = await core.service.get(run)

    assert (record.status, record.attempt, record.started_at) == ("queued", 0, None)
    assert core.process.places.taken == 0


def _handover_of(core: Core, database: Database) -> RunHandover:
    return RunHandover(
        database,
        core.process.log,
        process_id=core.process.process_id,
        supervisor=core.process.supervisor,
        graphs=core.planner.graphs,
    )
