"""What commands do to a run of this process, and what they do not do to one that it has lost."""

import asyncio

import pytest

from app.errors import Invalid
from app.events import ControlEvent
from app.executors.control import RunControl
from app.executors.inbox import RunEnded
from app.graphs.spec import GraphSpec
from app.platform.clock.lease import Lease
from app.requests.principal import ScopeMissing
from app.runs.commands.answers import NotApplied
from app.runs.commands.application import apply
from app.runs.commands.records import COMMANDS, ChangeMode, Command, Send, Stop
from app.runs.events.publisher import RunEventPublisher
from app.runs.evidence.recorder import EvidenceRecorder
from app.runs.supervisor import ActiveRun
from app.streams.memory import MemoryEventLog
from tests.factories import a_plan, an_unused_database, unpublished
from tests.media import PIXEL, b64

SPEC = GraphSpec(name="p", description="d", system_prompt="p", permission_modes=("plan", "bypassPermissions"))
MESSAGE = Send(message_id="m1", content="hello", priority="next")


def a_run(control: RunControl | None = None) -> ActiveRun:
    plan = a_plan(spec=SPEC)
    database = an_unused_database()
    publisher = RunEventPublisher(database, MemoryEventLog(), plan.run, attempt=0, lease=Lease())
    evidence = EvidenceRecorder(database, plan.run, attempt=0, max_bytes=0)
    return ActiveRun(plan, control or RunControl(unpublished), publisher, evidence)


async def test_a_mode_is_one_of_the_graph_and_not_less_strict_without_the_scope() -> None:
    run = a_run()
    await apply(run, ChangeMode(mode="plan"))
    with pytest.raises(ScopeMissing):
        await apply(run, ChangeMode(mode="default"))
    with pytest.raises(Invalid):
        await apply(run, ChangeMode(mode="acceptEdits", may_loosen=True))
    before = run.control.approvals.mode
    await apply(run, ChangeMode(mode="bypassPermissions", may_loosen=True))

    assert (before, run.control.approvals.mode) == ("plan", "bypassPermissions")


async def test_a_stored_cancellation_does_not_wait_for_its_readers() -> None:
    may_publish, published = asyncio.Event(), list[ControlEvent]()

    async def publish(event: ControlEvent) -> None:
        await may_publish.wait()
        published.append(event)

    run = a_run(RunControl(publish))
    await apply(run, Stop(kind="cancel", is_stored=True))
    is_stopped, seen_before = run.control.stop.is_set(), list(published)
    cancelling = asyncio.create_task(apply(run, Stop(kind="cancel")))
    may_publish.set()
    await cancelling
    await run.control.end()

    assert (is_stopped, seen_before) == (True, [])
    assert [event.type for event in published] == ["interrupted"] * 3


@pytest.mark.parametrize("command", [MESSAGE, ChangeMode(mode="plan"), Stop(kind="interrupt")])
async def test_what_is_applied_to_a_lost_run_is_not_applied(command: Command) -> None:
    run = a_run()
    run.is_lost = True
    # As the supervisor does: it would refuse messages, although the run goes on elsewhere.
    run.control.stop.set()
    with pytest.raises(NotApplied):
        await apply(run, command)


async def test_a_run_that_ended_here_refuses_messages() -> None:
    run = a_run()
    run.control.stop.set()
    with pytest.raises(RunEnded):
        await apply(run, MESSAGE)


def test_a_message_is_the_same_in_another_process() -> None:
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "mediaType": "image/png", "data": b64(PIXEL)},
    ]
    sent = COMMANDS.validate_python(
        {"type": "send", "messageId": "m1", "content": content, "priority": "now"}
    )
    received = COMMANDS.validate_python(sent.model_dump(mode="json", by_alias=True))

    assert received == sent
    assert isinstance(received, Send)
    assert received.message.text == "What is this?"
    assert received.message.model_dump(by_alias=True, exclude_none=True)["content"] == content
